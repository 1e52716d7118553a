enable f16;
enable wgpu_int16;
struct Block { scale: f16, low: vec3<f16>, levels: array<u32, 4>, pair: vec2<f16> }
@group(0) @binding(0) var<storage, read> blocks: array<Block>;
@group(0) @binding(1) var<storage, read_write> out: array<f16>;
@group(0) @binding(2) var<uniform> bias: vec4<f16>;
var<workgroup> tile: array<vec3<f16>, 9>;
var<private> last: vec3<f16> = vec3<f16>(1.5h, -0.25h, 65504.0h);
const TABLE = array<f16, 3>(1.0h, 0.333h, -2.0h);
const POINTS = array<vec3<f16>, 2>(vec3<f16>(1.0h), vec3<f16>(0.1h, 2.0h, 3.0h));

@compute @workgroup_size(8)
fn half(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {
    let block = blocks[id.x];
    tile[lid.x] = block.low * block.scale + POINTS[lid.x & 1u];
    workgroupBarrier();
    last += tile[7u - lid.x];
    let packed = pack2x16float(vec2<f32>(last.xy));
    let bits = bitcast<vec2<u16>>(block.pair);
    out[id.x] = last.x + bias.y * TABLE[id.x % 3u] + f16(unpack2x16float(packed).y) + f16(f32(block.pair.x) * 0.1) + f16(bits.x);
    out[id.x + 1u] = f16(quantizeToF16(0.1 * f32(id.x)));
}
