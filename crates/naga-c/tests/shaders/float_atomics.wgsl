@group(0) @binding(0) var<storage, read_write> sum: atomic<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@compute @workgroup_size(64)
fn float_atomics(@builtin(global_invocation_id) id: vec3<u32>) {
    let old = atomicAdd(&sum, x[id.x]);
    atomicSub(&sum, old * 0.5);
    let previous = atomicExchange(&sum, 1.0);
    if previous > 2.0 { atomicAdd(&sum, previous); }
}
