typedef int i32;
typedef unsigned int u32;
typedef float f32;
struct __align__(2) boolx2 { bool x, y; };
struct __align__(4) u32x3 { u32 x, y, z; };
struct __align__(16) u32x4 { u32 x, y, z, w; };
struct __align__(8) f32x2 { f32 x, y; };
struct __align__(4) f32x3 { f32 x, y, z; };
typedef struct Inner {
    f32x3 v;
    f32 w;
    u32x3 x;
    unsigned char nc_pad3[4];
} Inner;
typedef struct Inner_2_array {
    Inner inner[2];
} Inner_2_array;
typedef struct Outer {
    u32 a;
    unsigned char nc_pad1[12];
    Inner_2_array inner;
    f32x2 b;
    unsigned char nc_pad4[24];
} Outer;
typedef struct u32x4_3_array {
    u32x4 inner[3];
} u32x4_3_array;
typedef struct i32_4_array {
    i32 inner[4];
} i32_4_array;
typedef struct f32x3_strided {
    f32x3 value;
    unsigned char pad[4];
} f32x3_strided;

__device__ __forceinline__ f32x3 nc_splat_f32x3(f32 x) {
    return f32x3{x, x, x};
}
__device__ __forceinline__ f32x3 operator*(f32x3 a, f32x3 b) {
    return f32x3{a.x * b.x, a.y * b.y, a.z * b.z};
}
__device__ __forceinline__ f32x3 operator+(f32x3 a, f32x3 b) {
    return f32x3{a.x + b.x, a.y + b.y, a.z + b.z};
}
__device__ __forceinline__ i32 nc_rem_i32(i32 a, i32 b) {
    return (i32)(a % (b == 0 || (a == (-2147483647 - 1) && b == -1) ? 1 : b));
}
__device__ __forceinline__ u32x3 operator+(u32x3 a, u32x3 b) {
    return u32x3{a.x + b.x, a.y + b.y, a.z + b.z};
}
__device__ __forceinline__ f32x2 nc_splat_f32x2(f32 x) {
    return f32x2{x, x};
}
__device__ __forceinline__ boolx2 nc_lt_f32x2(f32x2 a, f32x2 b) {
    return boolx2{(a.x < b.x), (a.y < b.y)};
}
__device__ __forceinline__ f32x2 nc_select_boolx2_f32x2(boolx2 a, f32x2 b, f32x2 c) {
    return f32x2{(a.x ? b.x : c.x), (a.y ? b.y : c.y)};
}

static __device__ const i32_4_array PRIMES = {{2, 3, 5, 7}};

static __device__ f32x3 pick(i32 i_1, Outer* data, i32* calls) {
    const i32 _e2 = *calls;
    *calls = (i32)((u32)_e2 + (u32)1);
    const f32x3 _e11 = data->inner.inner[i_1 & 1].v;
    return _e11 * nc_splat_f32x3(0x1.99999ap-4f);
}

static __device__ void add(f32x3* to, f32x3 what) {
    const f32x3 _e2 = *to;
    *to = _e2 + what;
}

extern "C" __global__ void __launch_bounds__(32)
walk(
    Outer* __restrict__ data,
    const u32x4* __restrict__ key,
    const __grid_constant__ u32x4_3_array table,
    const u32 data_bytes
) {
    i32 calls = 3;
    const u32x3 id = u32x3{blockIdx.x * 32u + threadIdx.x, blockIdx.y, blockIdx.z};
    f32x3 sum = f32x3{0.0f, 0.0f, 0.0f};
    i32 i = 0;
    bool local_ = false;
    for (;;) {
        {
            const i32 _e5 = i;
            if (_e5 == 2) {
                i = 3;
                goto nc_continue_1;
            }
            const i32 _e9 = i;
            const i32 _e11 = i;
            const f32x3 _e16 = pick(nc_rem_i32(_e9, PRIMES.inner[_e11 & 3]), data, &calls);
            add(&sum, _e16);
            const i32 _e17 = i;
            const i32 _e19 = calls;
        }
        nc_continue_1:;
        const i32 _e21 = i;
        i = (i32)((u32)_e21 + (u32)1);
        const i32 _e24 = i;
        if (!(_e24 > 6)) {
            const i32 _e31 = calls;
            local_ = _e31 > 100;
        } else {
            local_ = true;
        }
        const bool _e35 = local_;
        if (_e35) {
            break;
        }
    }
    const u32 _e42 = table.inner[id.x & 1u].y;
    switch (_e42) {
        case 1u:
        case 2u: {
            const f32 _e45 = sum.x;
            sum.y = _e45;
            break;
        }
        case 3u: {
            ((f32*)&sum)[id.x % 3u] = 1.0f;
            break;
        }
        default: {
            const f32x3 _e55 = sum;
            ((f32x3_strided*)((unsigned char*)data + 96))[id.x].value = f32x3{_e55.z, _e55.y, _e55.x};
            break;
        }
    }
    const u32x4 _e64 = key[id.x];
    data->inner.inner[0].x = u32x3{_e64.x, _e64.y, _e64.z} + id;
    const f32x3 _e69 = sum;
    const f32x3 _e76 = sum;
    const f32x2 _e81 = nc_select_boolx2_f32x2(nc_lt_f32x2(f32x2{_e76.x, _e76.y}, nc_splat_f32x2(1.0f)), nc_splat_f32x2((f32)((data_bytes - 96u) / 16u)), f32x2{_e69.x, _e69.y});
    data->b = _e81;
}
