typedef unsigned int u32;
typedef float f32;
struct __align__(4) u32x3 { u32 x, y, z; };
typedef struct Shape {
    u32 m;
    u32 n;
    u32 k;
    f32 scale;
} Shape;
typedef struct f32_8_array {
    f32 inner[8];
} f32_8_array;
typedef struct f32_8_array_8_array {
    f32_8_array inner[8];
} f32_8_array_8_array;

static __device__ u32 at(u32 row, u32 column, u32 width) {
    return (row * width) + column;
}

extern "C" __global__ void __launch_bounds__(64)
matmul(
    const f32* __restrict__ a,
    const f32* __restrict__ b,
    f32* __restrict__ c,
    const __grid_constant__ Shape shape
) {
    __shared__ f32_8_array_8_array tile_a;
    __shared__ f32_8_array_8_array tile_b;
    for (u32 nc_i = threadIdx.x + threadIdx.y * 8u; nc_i < 64u; nc_i += 64u) {
        tile_a.inner[nc_i / 8u].inner[nc_i % 8u] = 0.0f;
    }
    for (u32 nc_i = threadIdx.x + threadIdx.y * 8u; nc_i < 64u; nc_i += 64u) {
        tile_b.inner[nc_i / 8u].inner[nc_i % 8u] = 0.0f;
    }
    __syncthreads();
    const u32x3 id = u32x3{blockIdx.x * 8u + threadIdx.x, blockIdx.y * 8u + threadIdx.y, blockIdx.z};
    const u32x3 lid = u32x3{threadIdx.x, threadIdx.y, threadIdx.z};
    f32 sum = 0.0f;
    u32 start = 0u;
    u32 i = 0u;
    bool local_ = false;
    for (;;) {
        const u32 _e6 = start;
        const u32 _e9 = shape.k;
        if (!(_e6 < _e9)) {
            break;
        }
        {
            const u32 _e18 = start;
            const u32 _e23 = shape.k;
            const u32 _e24 = at(id.y, _e18 + lid.x, _e23);
            const f32 _e26 = a[_e24];
            tile_a.inner[lid.y].inner[lid.x] = _e26;
            const u32 _e33 = start;
            const u32 _e39 = shape.n;
            const u32 _e40 = at(_e33 + lid.y, id.x, _e39);
            const f32 _e42 = b[_e40];
            tile_b.inner[lid.y].inner[lid.x] = _e42;
            __syncthreads();
            i = 0u;
            for (;;) {
                const u32 _e45 = i;
                if (!(_e45 < 8u)) {
                    break;
                }
                {
                    const u32 _e51 = i;
                    const f32 _e53 = tile_a.inner[lid.y].inner[_e51];
                    const u32 _e55 = i;
                    const f32 _e59 = tile_b.inner[_e55].inner[lid.x];
                    const f32 _e60 = sum;
                    sum = fmaf(_e53, _e59, _e60);
                }
                const u32 _e63 = i;
                i = _e63 + 1u;
            }
            __syncthreads();
        }
        const u32 _e65 = start;
        start = _e65 + 8u;
    }
    const u32 _e71 = shape.n;
    if (!(id.x >= _e71)) {
        const u32 _e79 = shape.m;
        local_ = id.y >= _e79;
    } else {
        local_ = true;
    }
    const bool _e82 = local_;
    if (_e82) {
        return;
    }
    const u32 _e88 = shape.n;
    const u32 _e89 = at(id.y, id.x, _e88);
    const f32 _e91 = sum;
    const f32 _e94 = shape.scale;
    c[_e89] = _e91 * _e94;
}
