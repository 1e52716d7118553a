@group(0) @binding(0) var<storage, read_write> out: array<i32>;
@compute @workgroup_size(1)
fn control(@builtin(global_invocation_id) id: vec3<u32>) {
    var n = i32(id.x);
    var total = 0;
    loop {
        if n > 100 { break; }
        var i = 0;
        loop {
            let step = i * 2;
            switch i {
                case 0: { i += 1; continue; }
                case 1, 2: { if n == 3 { break; } total += step; }
                case -2147483648: { total = 7; }
                case 5: { break; }
                default: { if step > 12 { total -= 1; } else { continue; } }
            }
            while total > 1000 { total /= 2; if total == 3 { continue; } total -= 1; }
            continuing {
                i += 1;
                total += step;
                break if i > 9 + step % 3;
            }
        }
        for (var k = 0; k < 3; k++) { if k == n { continue; } total += k; if total < 0 { return; } }
        n += 50;
    }
    { let inner = total + 1; out[id.x] = inner; }
    switch id.x { default: { out[id.x] += 1; } }
}
