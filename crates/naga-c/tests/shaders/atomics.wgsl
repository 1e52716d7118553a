struct Counters { i: atomic<i32>, u: atomic<u32>, each: array<atomic<u32>> }
@group(0) @binding(0) var<storage, read_write> counters: Counters;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
var<workgroup> local_counter: atomic<i32>;
var<workgroup> bins: array<atomic<u32>, 16>;
var<workgroup> shared_value: vec3<f32>;

fn bump(by: i32) -> i32 {
    return atomicAdd(&local_counter, by);
}

@compute @workgroup_size(64)
fn atomics(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = i32(id.x);
    atomicStore(&local_counter, 3);
    workgroupBarrier();
    out[0] = u32(bump(i));
    out[1] = u32(atomicSub(&local_counter, i)) + u32(atomicLoad(&local_counter));
    out[2] = u32(atomicAdd(&counters.i, 1) + atomicSub(&counters.i, 1) + atomicMin(&counters.i, i) + atomicMax(&counters.i, i));
    out[3] = u32(atomicAnd(&counters.i, i) + atomicOr(&counters.i, i) + atomicXor(&counters.i, i) + atomicExchange(&counters.i, i));
    out[4] = atomicAdd(&counters.u, 1u) + atomicSub(&counters.u, 1u) + atomicMin(&counters.u, lid) + atomicMax(&counters.u, lid);
    out[5] = atomicAnd(&counters.u, lid) + atomicOr(&counters.u, lid) + atomicXor(&counters.u, lid) + atomicExchange(&counters.u, lid);
    let swapped = atomicCompareExchangeWeak(&counters.each[lid], 1u, 2u);
    let swapped_i = atomicCompareExchangeWeak(&local_counter, 1, 2);
    out[6] = select(swapped.old_value, u32(swapped_i.old_value), swapped.exchanged && swapped_i.exchanged);
    atomicStore(&counters.each[lid], atomicLoad(&bins[lid & 15u]));
    atomicMax(&bins[lid & 15u], arrayLength(&counters.each));
    if lid == 0u { shared_value = vec3(1.0, 2.0, 3.0); }
    let uniform_value = workgroupUniformLoad(&shared_value);
    storageBarrier();
    out[7] = u32(uniform_value.z);
}
