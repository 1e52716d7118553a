// Layouts that C would choose otherwise, helpers, tables, loops.
struct Inner { v: vec3<f32>, w: f32, x: vec3<u32> }
struct Outer { a: u32, inner: array<Inner, 2>, b: vec2<f32>, tail: array<vec3<f32>> }

@group(0) @binding(0) var<storage, read_write> data: Outer;
@group(0) @binding(1) var<storage, read> key: array<vec4<u32>>;
@group(0) @binding(2) var<uniform> table: array<vec4<u32>, 3>;

const PRIMES = array<i32, 4>(2, 3, 5, 7);
var<private> calls: i32 = 3;

fn pick(i: i32) -> vec3<f32> {
    calls += 1;
    return data.inner[i & 1].v * 0.1;
}

fn add(to: ptr<function, vec3<f32>>, what: vec3<f32>) {
    *to += what;
}

@compute @workgroup_size(32)
fn walk(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = vec3<f32>();
    var i = 0;
    loop {
        if i == 2 { i = 3; continue; }
        add(&sum, pick(i % PRIMES[i & 3]));
        let done = i >= calls;
        continuing {
            i += 1;
            break if i > 6 || calls > 100;
        }
    }
    switch table[id.x & 1u].y {
        case 1u, 2u: { sum.y = sum.x; }
        case 3u: { sum[id.x % 3u] = 1.0; }
        default: { data.tail[id.x] = sum.zyx; }
    }
    data.inner[0].x = key[id.x].xyz + id;
    data.b = select(sum.xy, vec2(f32(arrayLength(&data.tail))), sum.xy < vec2(1.0));
}
