#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_subgroup_shuffle
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#endif
#ifdef cl_khr_subgroup_shuffle_relative
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle_relative : enable
#endif
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif

typedef uint u32;
typedef float f32;
typedef uint3 u32x3;
typedef struct f32_64_array {
    f32 inner[64];
} f32_64_array;

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void sum(
    const __global f32* restrict x,
    __global f32* restrict y
) {
    __local f32_64_array partial;
    for (u32 nc_i = (u32)get_local_id(0); nc_i < 64u; nc_i += 64u) {
        partial.inner[nc_i] = 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const u32x3 id = (u32x3)((u32)get_global_id(0), (u32)get_global_id(1), (u32)get_global_id(2));
    const u32 lane = (u32)get_sub_group_local_id();
    const u32 group = (u32)get_sub_group_id();
    const u32 groups = (u32)get_num_sub_groups();
    f32 sum_1 = 0.0f;
    u32 d = 1u;
    u32 k = 1u;
    const u32 size = sub_group_reduce_add(1u);
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
            const f32 other = sub_group_shuffle_down(_e16, _e17);
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
    barrier(CLK_LOCAL_MEM_FENCE);
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
    const f32 _e54 = sub_group_shuffle_xor(_e52, 1u);
    const f32 _e56 = sum_1;
    const f32 _e57 = sub_group_reduce_max(_e56);
    const f32 _e59 = sum_1;
    const f32 _e60 = sub_group_scan_exclusive_add(_e59);
    y[id.x] = ((_e51 + _e54) + _e57) + _e60;
    const f32 _e62 = sum_1;
    const bool _e65 = sub_group_all((_e62 > 0.0f)) != 0;
    if (_e65) {
        const f32 _e68 = sum_1;
        const f32 _e69 = sub_group_broadcast(_e68, 0u);
        y[0] = _e69;
        return;
    } else {
        return;
    }
}
