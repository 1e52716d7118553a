// log(1 + f) for √½ ≤ 1 + f < √2.
fn log_near_one(f: f32) -> f32 {
    let square = f * f;
    var p = 0.06746642;
    p = p * f - 0.11675652;
    p = p * f + 0.11888162;
    p = p * f - 0.124055885;
    p = p * f + 0.14219552;
    p = p * f - 0.16667996;
    p = p * f + 0.20002119;
    p = p * f - 0.2500001;
    p = p * f + 0.33333313;
    return f + (p * f * square - 0.5 * square);
}
// x = 2ⁿ·(1 + f): f and n, of a positive number.
fn log_parts(x: f32) -> vec2<f32> {
    let small = bitcast<u32>(x) < 0x00800000u;
    // Subnormal numbers by their integer mantissa, for hardware that takes them for zero.
    let tiny = f32(bitcast<u32>(x) & 0x7fffffu);
    let scaled_bits = select(bitcast<u32>(x), bitcast<u32>(tiny), small);
    let bits = bitcast<i32>(scaled_bits - 0x3f3504f3u);
    let n = f32(bits >> 23u) + select(0.0, -149.0, small);
    return vec2<f32>(bitcast<f32>((bitcast<u32>(bits) & 0x7fffffu) + 0x3f3504f3u) - 1.0, n);
}
// What the logarithm of other numbers is, whatever its base.
fn log_special(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) == 0u { return -infinity(); }
    if bits == 0x7f800000u { return x; }
    return not_a_number();
}
fn ordinary_log(x: f32) -> bool {
    return bitcast<u32>(x) - 1u < 0x7f7fffffu;
}
fn log_of(x: f32) -> f32 {
    if !ordinary_log(x) { return log_special(x); }
    let parts = log_parts(x);
    let near = log_near_one(parts.x);
    return parts.y * 0.693359375 + (near - parts.y * 2.1219444e-4);
}
fn log2_of(x: f32) -> f32 {
    if !ordinary_log(x) { return log_special(x); }
    let parts = log_parts(x);
    let near = log_near_one(parts.x);
    return parts.y + (near + near * 0.44269504);
}
fn log10_of(x: f32) -> f32 {
    if !ordinary_log(x) { return log_special(x); }
    let parts = log_parts(x);
    let near = log_near_one(parts.x);
    return parts.y * 0.30102539 + (near * 0.4342945 + parts.y * 4.605039e-6);
}
fn log1p_of(x: f32) -> f32 {
    if nan(x) { return x; }
    if x > -0.29 && x < 0.41 { return log_near_one(x); }
    let sum = kept(1.0 + x);
    if !ordinary_log(sum) { return log_special(sum); }
    // What rounding the sum has lost.
    let lost = select(x - kept(sum - 1.0), 1.0 - kept(sum - x), x > 1.0);
    return log_of(sum) + lost / sum;
}
// log(eᵃ + eᵇ); its error is that of numbers up to log 2 where the result is smaller.
fn log_add_exp_of(a: f32, b: f32) -> f32 {
    if nan(a) || nan(b) { return not_a_number(); }
    let more = max(a, b);
    let less = min(a, b);
    // The difference of equal infinities would be NaN.
    if infinite(more) || infinite(less) { return more; }
    let difference = kept(less - more);
    // What rounding the difference has lost.
    let part = kept(difference - less);
    let lost = (less - kept(difference - part)) - kept(more + part);
    let e = exp_of(difference);
    return more + log1p_of(select(e, e + e * lost, difference > -200.0));
}
fn asinh_of(x: f32) -> f32 {
    let t = abs(x);
    if nan(x) { return x; }
    if t > 1e9 { return with_sign(log_of(t) + 0.6931472, x); }
    return with_sign(log1p_of(t + divide(t * t, 1.0 + root(1.0 + t * t))), x);
}
fn acosh_of(x: f32) -> f32 {
    if nan(x) || x < 1.0 { return not_a_number(); }
    if x > 1e9 { return log_of(x) + 0.6931472; }
    let t = x - 1.0;
    return log1p_of(t + root(t * (x + 1.0)));
}
fn atanh_of(x: f32) -> f32 {
    let t = abs(x);
    if nan(x) || t > 1.0 { return not_a_number(); }
    if t == 1.0 { return with_sign(infinity(), x); }
    return with_sign(0.5 * log1p_of(divide(2.0 * t, 1.0 - t)), x);
}
