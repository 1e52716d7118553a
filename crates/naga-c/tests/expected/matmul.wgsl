// Tiles of a matmul in workgroup memory.
struct Shape { m: u32, n: u32, k: u32, scale: f32 }

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> shape: Shape;

const TILE = 8u;
var<workgroup> tile_a: array<array<f32, TILE>, TILE>;
var<workgroup> tile_b: array<array<f32, TILE>, TILE>;

fn at(row: u32, column: u32, width: u32) -> u32 {
    return row * width + column;
}

@compute @workgroup_size(TILE, TILE)
fn matmul(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {
    var sum = 0.0;
    for (var start = 0u; start < shape.k; start += TILE) {
        tile_a[lid.y][lid.x] = a[at(id.y, start + lid.x, shape.k)];
        tile_b[lid.y][lid.x] = b[at(start + lid.y, id.x, shape.n)];
        workgroupBarrier();
        for (var i = 0u; i < TILE; i++) {
            sum = fma(tile_a[lid.y][i], tile_b[i][lid.x], sum);
        }
        workgroupBarrier();
    }
    if id.x >= shape.n || id.y >= shape.m { return; }
    c[at(id.y, id.x, shape.n)] = sum * shape.scale;
}
