__device__ __forceinline__ unsigned int nc_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u;
}
__device__ __forceinline__ unsigned int nc_lanes() {
    unsigned int before = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & ~31u;
    unsigned int left = blockDim.x * blockDim.y * blockDim.z - before;
    return left >= 32u ? 0xffffffffu : (1u << left) - 1u;
}

typedef unsigned int u32;
typedef float f32;
struct __align__(4) u32x3 { u32 x, y, z; };
typedef struct f32_64_array {
    f32 inner[64];
} f32_64_array;

__device__ __forceinline__ u32 nc_subgroup_reduce_add_u32(u32 a) {
    #if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(nc_lanes(), a);
#else
    for (unsigned int d = 16u; d > 0u; d >>= 1) {
        u32 b = __shfl_down_sync(nc_lanes(), a, d);
        if (nc_lane() + d < 32u && ((nc_lanes() >> (nc_lane() + d)) & 1u)) a = (a + b);
    }
    return __shfl_sync(nc_lanes(), a, 0);
#endif
}
__device__ __forceinline__ f32 nc_subgroup_reduce_max_f32(f32 a) {
    for (unsigned int d = 16u; d > 0u; d >>= 1) {
        f32 b = __shfl_down_sync(nc_lanes(), a, d);
        if (nc_lane() + d < 32u && ((nc_lanes() >> (nc_lane() + d)) & 1u)) a = fmaxf(a, b);
    }
    return __shfl_sync(nc_lanes(), a, 0);
}
__device__ __forceinline__ f32 nc_subgroup_exclusive_add_f32(f32 a) {
    for (unsigned int d = 1u; d < 32u; d <<= 1) {
        f32 b = __shfl_up_sync(nc_lanes(), a, d);
        if (nc_lane() >= d) a = (a + b);
    }
    f32 before = __shfl_up_sync(nc_lanes(), a, 1u);
    return nc_lane() == 0u ? 0.0f : before;
}

extern "C" __global__ void __launch_bounds__(64)
sum(
    const f32* __restrict__ x,
    f32* __restrict__ y
) {
    __shared__ f32_64_array partial;
    for (u32 nc_i = threadIdx.x; nc_i < 64u; nc_i += 64u) {
        partial.inner[nc_i] = 0.0f;
    }
    __syncthreads();
    const u32x3 id = u32x3{blockIdx.x * 64u + threadIdx.x, blockIdx.y, blockIdx.z};
    const u32 lane = nc_lane();
    const u32 group = (threadIdx.x) >> 5;
    const u32 groups = 2u;
    f32 sum_1 = 0.0f;
    u32 d = 1u;
    u32 k = 1u;
    const u32 size = nc_subgroup_reduce_add_u32(1u);
    const f32 _e9 = x[id.x];
    sum_1 = _e9;
    for (;;) {
        const u32 _e13 = d;
        if (!(_e13 < 64u)) {
            break;
        }
        {
            const f32 _e16 = sum_1;
            const u32 _e17 = d;
            const f32 other = __shfl_down_sync(nc_lanes(), _e16, _e17);
            const u32 _e19 = d;
            if ((lane + _e19) < size) {
                const f32 _e22 = sum_1;
                sum_1 = _e22 + other;
            }
        }
        const u32 _e24 = d;
        d = _e24 << 1u;
    }
    if (lane == 0u) {
        const f32 _e31 = sum_1;
        partial.inner[group] = _e31;
    }
    __syncthreads();
    const f32 _e34 = partial.inner[0];
    sum_1 = _e34;
    for (;;) {
        const u32 _e37 = k;
        if (!(_e37 < groups)) {
            break;
        }
        {
            const f32 _e39 = sum_1;
            const u32 _e41 = k;
            const f32 _e43 = partial.inner[_e41];
            sum_1 = _e39 + _e43;
        }
        const u32 _e46 = k;
        k = _e46 + 1u;
    }
    const f32 _e51 = sum_1;
    const f32 _e52 = sum_1;
    const f32 _e54 = __shfl_xor_sync(nc_lanes(), _e52, (int)1u);
    const f32 _e56 = sum_1;
    const f32 _e57 = nc_subgroup_reduce_max_f32(_e56);
    const f32 _e59 = sum_1;
    const f32 _e60 = nc_subgroup_exclusive_add_f32(_e59);
    y[id.x] = ((_e51 + _e54) + _e57) + _e60;
    const f32 _e62 = sum_1;
    const bool _e65 = __all_sync(nc_lanes(), (_e62 > 0.0f)) != 0;
    if (_e65) {
        const f32 _e68 = sum_1;
        const f32 _e69 = __shfl_sync(nc_lanes(), _e68, 0);
        y[0] = _e69;
        return;
    } else {
        return;
    }
}
