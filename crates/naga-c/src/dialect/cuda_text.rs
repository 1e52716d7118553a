//! Definitions that open a CUDA source.

/// 16-bit floats without `cuda_fp16.h`, which NVRTC only finds with an include path. Instructions with `.rn` are never
/// fused; quotients, comparisons and other functions go through `f32`, which has more than twice the digits plus two, so that
/// rounding twice gives what rounding once would.
pub(super) const HALF: &str = "\
struct __align__(2) f16 {
    unsigned short bits;
    __device__ __forceinline__ explicit operator float() const {
        float value;
        asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(value) : \"h\"(bits));
        return value;
    }
};
__device__ __forceinline__ f16 nc_f16(float x) {
    f16 r;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r.bits) : \"f\"(x));
    return r;
}
__device__ __forceinline__ f16 nc_f16(double x) {
    f16 r;
    asm(\"cvt.rn.f16.f64 %0, %1;\" : \"=h\"(r.bits) : \"d\"(x));
    return r;
}
__device__ __forceinline__ f16 operator+(f16 a, f16 b) {
    f16 r;
    asm(\"add.rn.f16 %0, %1, %2;\" : \"=h\"(r.bits) : \"h\"(a.bits), \"h\"(b.bits));
    return r;
}
__device__ __forceinline__ f16 operator-(f16 a, f16 b) {
    f16 r;
    asm(\"sub.rn.f16 %0, %1, %2;\" : \"=h\"(r.bits) : \"h\"(a.bits), \"h\"(b.bits));
    return r;
}
__device__ __forceinline__ f16 operator*(f16 a, f16 b) {
    f16 r;
    asm(\"mul.rn.f16 %0, %1, %2;\" : \"=h\"(r.bits) : \"h\"(a.bits), \"h\"(b.bits));
    return r;
}
__device__ __forceinline__ f16 nc_fma_f16(f16 a, f16 b, f16 c) {
    f16 r;
    asm(\"fma.rn.f16 %0, %1, %2, %3;\" : \"=h\"(r.bits) : \"h\"(a.bits), \"h\"(b.bits), \"h\"(c.bits));
    return r;
}
__device__ __forceinline__ f16 operator/(f16 a, f16 b) { return nc_f16((float)a / (float)b); }
__device__ __forceinline__ f16 operator-(f16 a) { return f16{(unsigned short)(a.bits ^ 0x8000)}; }
__device__ __forceinline__ bool operator==(f16 a, f16 b) { return (float)a == (float)b; }
__device__ __forceinline__ bool operator!=(f16 a, f16 b) { return (float)a != (float)b; }
__device__ __forceinline__ bool operator<(f16 a, f16 b) { return (float)a < (float)b; }
__device__ __forceinline__ bool operator<=(f16 a, f16 b) { return (float)a <= (float)b; }
__device__ __forceinline__ bool operator>(f16 a, f16 b) { return (float)a > (float)b; }
__device__ __forceinline__ bool operator>=(f16 a, f16 b) { return (float)a >= (float)b; }
";

/// The lanes of this warp that exist: the last warp of a workgroup may be partial.
pub(super) const LANES: &str = "\
__device__ __forceinline__ unsigned int nc_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u;
}
__device__ __forceinline__ unsigned int nc_lanes() {
    unsigned int before = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & ~31u;
    unsigned int left = blockDim.x * blockDim.y * blockDim.z - before;
    return left >= 32u ? 0xffffffffu : (1u << left) - 1u;
}
";
