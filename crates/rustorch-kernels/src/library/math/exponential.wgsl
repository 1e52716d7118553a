// m·2ⁿ in two factors, because n may exceed the exponents at either end.
fn scaled(m: f32, n: i32) -> f32 {
    let half = n >> 1u;
    return m * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(n - half + 127) << 23u);
}
// eˣ = 2ⁿ·(1 + t), the remainder at most ½ log 2: t and n.
fn exp_parts(v: f32) -> vec2<f32> {
    let x = clamp(v, -110.0, 95.0);
    let n = round(x * 1.442695);
    // log 2 in two parts, the first short, so that its multiples are exact.
    let high = kept(x - n * 0.693359375);
    let low = n * 2.1219444e-4;
    let r = kept(high + low);
    let lost = kept(low - kept(r - high));
    var p = 0.0013814599;
    p = p * r + 0.008368717;
    p = p * r + 0.04166839;
    p = p * r + 0.16666521;
    p = p * r + 0.49999994;
    return vec2<f32>((p * r * r + lost) + r, n);
}
fn exp_times(x: f32, doublings: i32) -> f32 {
    if nan(x) { return x; }
    let parts = exp_parts(x);
    return scaled(1.0 + parts.x, i32(parts.y) + doublings);
}
fn exp_of(x: f32) -> f32 {
    return exp_times(x, 0);
}
fn expm1_of(x: f32) -> f32 {
    if nan(x) || abs(x) < 1e-8 { return x; }
    if x > 88.73 { return infinity(); }
    if x < -20.0 { return -1.0; }
    let parts = exp_parts(x);
    let half = scaled(0.5, i32(parts.y));
    return (half * parts.x + (half - 0.5)) * 2.0;
}
fn sigmoid(x: f32) -> f32 {
    if nan(x) { return x; }
    let e = exp_of(-abs(x));
    return divide(select(1.0, e, x < 0.0), 1.0 + e);
}
fn silu(x: f32) -> f32 {
    if nan(x) { return x; }
    let e = exp_of(-abs(x));
    return divide(select(x, x * e, x < 0.0), 1.0 + e);
}
fn softplus(x: f32) -> f32 {
    if nan(x) || x > 20.0 { return x; }
    return log1p_of(exp_of(x));
}
fn sinh_of(x: f32) -> f32 {
    if nan(x) { return x; }
    if abs(x) < 1.0 {
        let z = x * x;
        let p = ((2.816951e-6 * z + 0.0001983616) * z + 0.00833335) * z + 0.16666667;
        return p * z * x + x;
    }
    let e = exp_times(abs(x), -1);
    return with_sign(e - 0.25 / e, x);
}
fn cosh_of(x: f32) -> f32 {
    if nan(x) { return x; }
    let e = exp_times(abs(x), -1);
    return e + 0.25 / e;
}
fn tanh_of(x: f32) -> f32 {
    if nan(x) { return x; }
    let t = abs(x);
    if t < 0.625 {
        let z = x * x;
        let p = (((-0.0057049915 * z + 0.020639092) * z - 0.053739715) * z + 0.13331442) * z - 0.3333328;
        return with_sign(p * z * x + x, x);
    }
    return with_sign(1.0 - divide(2.0, exp_of(2.0 * min(t, 40.0)) + 1.0), x);
}
fn erf_of(x: f32) -> f32 {
    if nan(x) { return x; }
    let t = abs(x);
    if t < 0.9375 {
        let z = x * x;
        var p = 8.296613e-5;
        p = p * z - 0.00081258075;
        p = p * z + 0.0051996;
        p = p * z - 0.026858851;
        p = p * z + 0.11283686;
        p = p * z - 0.37612632;
        p = p * z + 0.12837917;
        return p * x + x;
    }
    let c = min(t, 4.0);
    var p = 2.1278682e-5;
    p = p * c - 0.0004365741;
    p = p * c + 0.004181237;
    p = p * c - 0.025146069;
    p = p * c + 0.108321056;
    p = p * c + 0.6333099;
    p = p * c + 1.1295332;
    p = p * c - 0.00017845111;
    return with_sign(1.0 - exp_of(-p), x);
}
fn gelu(x: f32) -> f32 {
    return 0.5 * x * (1.0 + erf_of(x * 0.70710677));
}
fn gelu_tanh(x: f32) -> f32 {
    return 0.5 * x * (1.0 + tanh_of(0.7978846 * x * (1.0 + 0.044715 * x * x)));
}
