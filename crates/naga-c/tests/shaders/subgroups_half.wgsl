enable f16;
@group(0) @binding(0) var<storage, read_write> out: array<vec2<f16>>;
@group(0) @binding(1) var<storage, read_write> long: array<i64>;
@compute @workgroup_size(64)
fn subgroups_half(@builtin(subgroup_invocation_id) lane: u32) {
    let v = vec2(f16(lane), 1.0h);
    out[0] = subgroupAdd(v) + subgroupMax(v) + subgroupExclusiveAdd(v) + subgroupShuffleXor(v, 1u) + subgroupBroadcastFirst(v);
    out[1] = subgroupInclusiveMul(v) * vec2(subgroupMin(v.x));
    long[0] = subgroupAdd(i64(lane)) + subgroupMin(i64(lane)) + subgroupShuffle(i64(lane), 3u) + subgroupExclusiveMul(i64(lane));
}
