// Values of struct and array type, by value and by pointer, in all address spaces; names that C reserves.
struct float { int: f32, half: vec3<f32>, flags: vec3<bool>, ok: bool }
struct Pair { a: array<vec3<u32>, 3>, b: mat }
struct mat { rows: array<array<f32, 3>, 2>, first: vec2<i32> }
struct Only { tail: array<vec2<f32>> }
@group(0) @binding(0) var<storage, read_write> pairs: array<Pair>;
@group(0) @binding(1) var<storage, read_write> only: Only;
@group(0) @binding(2) var<uniform> one: vec3<f32>;
@group(0) @binding(3) var<uniform> extra: mat4;
struct mat4 { x: vec3<f32>, y: f32, z: vec2<f32>, w: array<vec4<f32>, 2> }
var<private> state: float;
var<private> numbers: array<i32, 6> = array<i32, 6>(1, 2, 3, -4, 5, -2147483648);
var<workgroup> pool: array<array<Pair, 2>, 3>;
var<workgroup> flags: array<bool, 7>;
var<workgroup> single: float;
const PAIRS = array<Pair, 2>(Pair(array(vec3(1u), vec3(2u, 3u, 4u), vec3<u32>()), mat(array(array(1.0, 2.0, 3.0), array(4.0, 5.0, 0.1)), vec2(7, -8))), Pair());

fn main(kernel: Pair, exp: u32) -> Pair {
    var result = kernel;
    result.a[exp % 3u] = kernel.a[(exp + 1u) % 3u] + vec3(exp);
    result.b.rows[1] = PAIRS[exp & 1u].b.rows[exp & 1u];
    return result;
}

fn change(to: ptr<function, Pair>, fabs: ptr<private, float>) -> float {
    (*to).b.first += pool[1][0].b.first;
    (*fabs).half.y = 3.0;
    (*fabs).flags[u32((*fabs).int) % 3u] = true;
    let copy = *fabs;
    return float(copy.half[u32(copy.int) % 3u], copy.half.zyx, !copy.flags, all(copy.flags) || copy.ok);
}

@compute @workgroup_size(4, 2, 2)
fn structures(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) global: vec3<u32>) {
    var barrier = main(pairs[local], group.x);
    pool[local % 3u][local & 1u] = barrier;
    flags[local % 7u] = local > 3u;
    workgroupBarrier();
    state = float(f32(numbers[local % 6u]), one, vec3(flags[0], flags[1], true), false);
    let double = change(&barrier, &state);
    single = double;
    var swizzled = double.flags.zx;
    swizzled.y = state.flags[local % 3u];
    if any(swizzled) { single.flags = vec3(swizzled, state.ok); }
    pairs[local] = barrier;
    pairs[local + 1u] = pool[2][1];
    pairs[local + 2u] = PAIRS[local & 1u];
    only.tail[local] = double.half.xy * extra.z + extra.w[local & 1u].zw + vec2(f32(arrayLength(&only.tail) + arrayLength(&pairs)));
    let taken = array<vec3<f32>, 2>(one, double.half);
    only.tail[local + 1u] = taken[local & 1u].xz + vec2(extra.x.y, f32(global.z));
}
