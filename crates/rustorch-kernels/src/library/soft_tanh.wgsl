// The CPU's order of roundings: rustorch-cpu/src/math/single.rs.
fn soft_exp(x: f32) -> f32 {
    let shifted = kept(fused(min(x, 89.0), LOG2_E, 12582912.0));
    let whole = kept(shifted - 12582912.0);
    // log 2 in two parts, the first short, so that its multiples are exact.
    let r = fused(whole, LN2_LOW, fused(whole, LN2_HIGH, min(x, 89.0)));
    var p = EXP_1;
    p = fused(p, r, EXP_2);
    p = fused(p, r, EXP_3);
    p = fused(p, r, EXP_4);
    p = fused(p, r, EXP_5);
    let e = kept(fused(kept(p * r), r, r)) + 1.0;
    let half = i32(whole) >> 1u;
    return e * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(i32(whole) - half + 127) << 23u);
}
fn soft_tanh(x: f32) -> f32 {
    if (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u {
        return x;
    }
    let t = abs(x);
    if t < 0.625 {
        let z = x * x;
        var p = TANH_1;
        p = fused(p, z, TANH_2);
        p = fused(p, z, TANH_3);
        p = fused(p, z, TANH_4);
        p = fused(p, z, TANH_5);
        return fused(kept(p * z), x, x);
    }
    let far = 1.0 - divide(2.0, soft_exp(2.0 * t) + 1.0);
    return select(far, -far, x < 0.0);
}
