// A sum over a workgroup: within subgroups by exchange, then by way of workgroup memory; and what else exchanges values.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> partial: array<f32, 64>;
@compute @workgroup_size(64)
fn sum(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_id) group: u32,
    @builtin(num_subgroups) groups: u32,
) {
    let size = subgroupAdd(1u);
    var sum = x[id.x];
    for (var d = 1u; d < 64u; d = d << 1u) {
        let other = subgroupShuffleDown(sum, d);
        if lane + d < size { sum += other; }
    }
    if lane == 0u { partial[group] = sum; }
    workgroupBarrier();
    sum = partial[0];
    for (var k = 1u; k < groups; k++) { sum += partial[k]; }
    y[id.x] = sum + subgroupShuffleXor(sum, 1u) + subgroupMax(sum) + subgroupExclusiveAdd(sum);
    if subgroupAll(sum > 0.0) { y[0] = subgroupBroadcastFirst(sum); }
}
