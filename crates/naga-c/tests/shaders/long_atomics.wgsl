@group(0) @binding(0) var<storage, read_write> u: atomic<u64>;
@group(0) @binding(1) var<storage, read_write> i: atomic<i64>;
@compute @workgroup_size(64)
fn long_atomics(@builtin(global_invocation_id) id: vec3<u32>) {
    let x = u64(id.x);
    let y = i64(id.y);
    let a = atomicAdd(&u, x) + atomicSub(&u, x) + atomicMin(&u, x) + atomicMax(&u, x) + atomicAnd(&u, x) + atomicOr(&u, x)
        + atomicXor(&u, x) + atomicExchange(&u, x);
    let b = atomicAdd(&i, y) + atomicSub(&i, y) + atomicMin(&i, y) + atomicMax(&i, y) + atomicAnd(&i, y) + atomicOr(&i, y)
        + atomicXor(&i, y) + atomicExchange(&i, y);
    let c = atomicCompareExchangeWeak(&u, a, 2lu);
    let d = atomicCompareExchangeWeak(&i, b, 2li);
    if c.exchanged && d.exchanged { atomicStore(&u, c.old_value); atomicStore(&i, d.old_value + atomicLoad(&i)); }
}
