@group(0) @binding(0) var<storage, read_write> out: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> floats: array<vec3<f32>>;
@compute @workgroup_size(120)
fn subgroups(
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(num_subgroups) count: u32,
    @builtin(subgroup_id) group: u32,
) {
    let i = i32(lane) - 5;
    let v = vec3(f32(lane), f32(group), 1.0);
    out[0] = subgroupBallot(lane > 3u) + subgroupBallot();
    out[1] = vec4(subgroupAdd(lane), subgroupMul(lane), subgroupMin(lane), subgroupMax(lane));
    out[2] = vec4(subgroupAnd(lane), subgroupOr(lane), subgroupXor(lane), u32(subgroupAll(lane > 2u)) + u32(subgroupAny(lane < 2u)));
    out[3] = vec4(subgroupInclusiveAdd(lane), subgroupExclusiveAdd(lane), subgroupInclusiveMul(lane), subgroupExclusiveMul(lane));
    let s = subgroupAdd(i) + subgroupMin(i) + subgroupMax(i) + subgroupAnd(i) + subgroupOr(i) + subgroupXor(i) + subgroupMul(i);
    out[4] = vec4(u32(s), size, count, lid);
    floats[0] = subgroupAdd(v) + subgroupMul(v) + subgroupMin(v) + subgroupMax(v);
    floats[1] = subgroupInclusiveAdd(v) + subgroupExclusiveAdd(v) + subgroupExclusiveMul(v);
    floats[2] = subgroupBroadcastFirst(v) + subgroupBroadcast(v, 4u) + subgroupShuffle(v, lane ^ 1u) + subgroupShuffleXor(v, 2u)
        + subgroupShuffleUp(v, 1u) + subgroupShuffleDown(v, 1u);
    floats[3] = quadBroadcast(v, 2u) + quadSwapX(v) + quadSwapY(v) + quadSwapDiagonal(v);
    out[5] = subgroupShuffleXor(out[4], 1u);
    subgroupBarrier();
}
