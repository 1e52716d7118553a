#pragma OPENCL FP_CONTRACT OFF

typedef int i32;
typedef uint u32;
typedef float f32;
typedef int2 boolx2;
typedef uint3 u32x3;
typedef uint4 u32x4;
typedef float2 f32x2;
typedef float3 f32x3;
typedef struct u32x3_packed { u32 x, y, z; } u32x3_packed;
typedef struct f32x3_packed { f32 x, y, z; } f32x3_packed;
typedef struct Inner {
    f32x3_packed v;
    f32 w;
    u32x3_packed x;
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
typedef struct f32x3_packed_strided {
    f32x3_packed value;
    unsigned char pad[4];
} f32x3_packed_strided;

static inline f32x3 nc_unpack_f32x3(f32x3_packed v) {
    return (f32x3)(v.x, v.y, v.z);
}
static inline f32x3_packed nc_pack_f32x3(f32x3 v) {
    f32x3_packed r = {v.x, v.y, v.z};
    return r;
}
static inline i32 nc_rem_i32(i32 a, i32 b) {
    return (i32)(a % (b == 0 || (a == (-2147483647 - 1) && b == -1) ? 1 : b));
}
static inline u32x3_packed nc_pack_u32x3(u32x3 v) {
    u32x3_packed r = {v.x, v.y, v.z};
    return r;
}
static inline boolx2 nc_lt_f32x2(f32x2 a, f32x2 b) {
    return (boolx2)((a.x < b.x), (a.y < b.y));
}
static inline f32x2 nc_select_boolx2_f32x2(boolx2 a, f32x2 b, f32x2 c) {
    return (f32x2)((a.x ? b.x : c.x), (a.y ? b.y : c.y));
}

__constant i32_4_array PRIMES = {{2, 3, 5, 7}};

static f32x3 pick(i32 i_1, __global Outer* data, __private i32* calls) {
    const i32 _e2 = *calls;
    *calls = (i32)((u32)_e2 + (u32)1);
    const f32x3 _e11 = nc_unpack_f32x3(data->inner.inner[i_1 & 1].v);
    return _e11 * (f32x3)(0x1.99999ap-4f);
}

static void add(__private f32x3_packed* to, f32x3 what) {
    const f32x3 _e2 = nc_unpack_f32x3((*to));
    *to = nc_pack_f32x3((_e2 + what));
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void walk(
    __global Outer* restrict data,
    const __global u32x4* restrict key,
    const u32x4_3_array table,
    const u32 data_bytes
) {
    i32 calls = 3;
    const u32x3 id = (u32x3)((u32)get_global_id(0), (u32)get_global_id(1), (u32)get_global_id(2));
    f32x3_packed sum = nc_pack_f32x3((f32x3)(0.0f));
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
            ((__private f32*)&sum)[id.x % 3u] = 1.0f;
            break;
        }
        default: {
            const f32x3 _e55 = nc_unpack_f32x3(sum);
            ((__global f32x3_packed_strided*)((__global unsigned char*)data + 96))[id.x].value = nc_pack_f32x3(_e55.zyx);
            break;
        }
    }
    const u32x4 _e64 = key[id.x];
    data->inner.inner[0].x = nc_pack_u32x3((_e64.xyz + id));
    const f32x3 _e69 = nc_unpack_f32x3(sum);
    const f32x3 _e76 = nc_unpack_f32x3(sum);
    const f32x2 _e81 = nc_select_boolx2_f32x2(nc_lt_f32x2(_e76.xy, (f32x2)(1.0f)), (f32x2)((f32)((data_bytes - 96u) / 16u)), _e69.xy);
    data->b = _e81;
}
