// What compilers may assume of NaN is asked of its bits instead.
fn nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
}
fn infinite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}
fn ordered(a: f32, b: f32) -> bool {
    return !(nan(a) || nan(b));
}
fn negative(x: f32) -> bool {
    return bitcast<u32>(x) >= 0x80000000u;
}
fn with_sign(x: f32, sign: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}
fn infinity() -> f32 {
    var bits = 0x7f800000u;
    return bitcast<f32>(bits);
}
fn not_a_number() -> f32 {
    var bits = 0x7fc00000u;
    return bitcast<f32>(bits);
}
fn larger(a: f32, b: f32) -> f32 {
    if nan(a) || nan(b) { return not_a_number(); }
    return select(b, a, a > b);
}
fn smaller(a: f32, b: f32) -> f32 {
    if nan(a) || nan(b) { return not_a_number(); }
    return select(b, a, a < b);
}
fn sign_of(x: f32) -> f32 {
    if nan(x) { return 0.0; }
    return select(select(0.0, 1.0, x > 0.0), -1.0, x < 0.0);
}
fn relu(x: f32) -> f32 {
    return select(x, 0.0, x < 0.0 && !nan(x));
}
fn nan_double(x: f64) -> bool {
    return nan(f32(x));
}
// As kept(x) of a single.
fn kept_double(x: f64) -> f64 {
    return select(x, x + 1.0lf, nan_double(x));
}
fn ordered_double(a: f64, b: f64) -> bool {
    return !(nan_double(a) || nan_double(b));
}
fn larger_double(a: f64, b: f64) -> f64 {
    if nan_double(a) { return a; }
    return select(select(b, a, a > b), b, nan_double(b));
}
fn smaller_double(a: f64, b: f64) -> f64 {
    if nan_double(a) { return a; }
    return select(select(b, a, a < b), b, nan_double(b));
}
// Exact, by long division of the mantissas, eight bits at a time.
fn remainder_toward_zero(a: f32, b: f32) -> f32 {
    let x = bitcast<u32>(a) & 0x7fffffffu;
    let y = bitcast<u32>(b) & 0x7fffffffu;
    if x >= 0x7f800000u || y > 0x7f800000u || y == 0u { return not_a_number(); }
    if x < y { return a; }
    let x_exponent = max(x >> 23u, 1u);
    let y_exponent = max(y >> 23u, 1u);
    let y_mantissa = select(y & 0x7fffffu, (y & 0x7fffffu) | 0x800000u, y >= 0x800000u);
    var rest = select(x & 0x7fffffu, (x & 0x7fffffu) | 0x800000u, x >= 0x800000u) % y_mantissa;
    var shift = x_exponent - y_exponent;
    while shift > 0u && rest != 0u {
        let step = min(shift, 8u);
        rest = (rest << step) % y_mantissa;
        shift -= step;
    }
    // The remainder counts units of the divisor's last place.
    var exponent = y_exponent;
    while rest != 0u && rest < 0x800000u && exponent > 1u {
        rest = rest << 1u;
        exponent -= 1u;
    }
    let bits = select(rest, (rest & 0x7fffffu) | (exponent << 23u), rest >= 0x800000u);
    return bitcast<f32>(bits | (bitcast<u32>(a) & 0x80000000u));
}
fn remainder_of(a: f32, b: f32) -> f32 {
    let rest = remainder_toward_zero(a, b);
    if nan(rest) || rest == 0.0 || (b < 0.0) == (rest < 0.0) { return rest; }
    return rest + b;
}
fn floor_quotient(a: f32, b: f32) -> f32 {
    if b == 0.0 || nan(b) { return a / b; }
    let rest = remainder_toward_zero(a, b);
    if nan(rest) { return rest; }
    var quotient = divide(a - rest, b);
    if rest != 0.0 && (b < 0.0) != (rest < 0.0) { quotient = quotient - 1.0; }
    if quotient == 0.0 { return with_sign(0.0, with_sign(1.0, a) * with_sign(1.0, b)); }
    let below = floor(quotient);
    return select(below, below + 1.0, quotient - below > 0.5);
}
// (high·2³² + low)·2^exponent; what is no number has the exponent 9999.
fn double_of(high: i32, low: u32, exponent: i32) -> f64 {
    if exponent == 9999 { return f64(not_a_number()); }
    var x = f64(high) * 4294967296.0lf + f64(low);
    var n = exponent;
    while n > 0 {
        let step = min(n, 100);
        x = x * f64(bitcast<f32>(u32(127 + step) << 23u));
        n -= step;
    }
    while n < 0 {
        let step = min(-n, 100);
        x = x * f64(bitcast<f32>(u32(127 - step) << 23u));
        n += step;
    }
    return x;
}
