// Exponential to two units in the last place, in the order of operations of Arm's optimized routines, which ggml uses.
fn power_of_two(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }
fn quick_exp(v: f32) -> f32 {
    var x = v;
    if x > 89.0 { x = 89.0; }
    if x < -104.0 { x = -104.0; }
    let shifted = kept(fused(x, LOG2_E, 12582912.0));
    let n = shifted - 12582912.0;
    let b = fused(n, LN2_LOW, fused(n, LN2_HIGH, x));
    let u = b * b;
    let high = fused(EXP_5, b, EXP_4);
    let low = fused(EXP_3, b, EXP_2);
    let j = fused(fused(high, u, low), u, fused(EXP_1, b, 1.0));
    let whole = bitcast<i32>(shifted) - 1262485504;
    let half = whole >> 1u;
    let result = j * power_of_two(half) * power_of_two(whole - half);
    return select(result, v, (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u);
}
