// Doubles by their bits, which take 64-bit integers.
fn upper_word(x: f64) -> i32 {
    return i32(bitcast<i64>(x) >> 32u);
}
// x without the lower word: a product of two such numbers is exact but for ten bits.
fn shortened(x: f64) -> f64 {
    return bitcast<f64>(bitcast<i64>(x) & -4294967296li);
}
fn negative_double(x: f64) -> bool {
    return bitcast<i64>(x) < 0li;
}
fn infinite_double(x: f64) -> bool {
    return (bitcast<i64>(x) & 0x7fffffffffffffffli) == 0x7ff0000000000000li;
}
fn finite_double(x: f64) -> bool {
    return (bitcast<i64>(x) & 0x7fffffffffffffffli) < 0x7ff0000000000000li;
}
fn zero_double(x: f64) -> bool {
    return (bitcast<i64>(x) & 0x7fffffffffffffffli) == 0li;
}
fn with_sign_double(x: f64, sign: f64) -> f64 {
    let bits = bitcast<i64>(x) & 0x7fffffffffffffffli;
    return bitcast<f64>(select(bits, bits - 9223372036854775807li - 1li, negative_double(sign)));
}
fn infinity_double() -> f64 {
    return f64(infinity());
}
fn no_double() -> f64 {
    return f64(not_a_number());
}
// m·2ⁿ in two factors, because n may exceed the exponents at either end.
fn scaled_double(m: f64, n: i32) -> f64 {
    let half = n >> 1u;
    return m * bitcast<f64>(i64(half + 1023) << 52u) * bitcast<f64>(i64(n - half + 1023) << 52u);
}
// Exact, by long division of the mantissas, ten bits at a time.
fn remainder_toward_zero_double(a: f64, b: f64) -> f64 {
    let x = bitcast<i64>(a) & 0x7fffffffffffffffli;
    let y = bitcast<i64>(b) & 0x7fffffffffffffffli;
    if x >= 0x7ff0000000000000li || y > 0x7ff0000000000000li || y == 0li { return no_double(); }
    if x < y { return a; }
    let x_exponent = max(i32(x >> 52u), 1);
    let y_exponent = max(i32(y >> 52u), 1);
    let one = 0x10000000000000li;
    let y_mantissa = (y & (one - 1li)) + select(0li, one, y >= one);
    var rest = ((x & (one - 1li)) + select(0li, one, x >= one)) % y_mantissa;
    var shift = x_exponent - y_exponent;
    while shift > 0 && rest != 0li {
        let step = min(shift, 10);
        rest = (rest << u32(step)) % y_mantissa;
        shift -= step;
    }
    // The remainder counts units of the divisor's last place.
    var exponent = y_exponent;
    while rest != 0li && rest < one && exponent > 1 {
        rest = rest << 1u;
        exponent -= 1;
    }
    let bits = select(rest, (rest & (one - 1li)) | (i64(exponent) << 52u), rest >= one);
    return with_sign_double(bitcast<f64>(bits), a);
}
fn remainder_double(a: f64, b: f64) -> f64 {
    let rest = remainder_toward_zero_double(a, b);
    if nan_double(rest) || zero_double(rest) || negative_double(b) == negative_double(rest) { return rest; }
    return rest + b;
}
fn floor_quotient_double(a: f64, b: f64) -> f64 {
    if zero_double(b) || nan_double(b) { return a / b; }
    let rest = remainder_toward_zero_double(a, b);
    if nan_double(rest) { return rest; }
    var quotient = divide_double(a - rest, b);
    if !zero_double(rest) && negative_double(b) != negative_double(rest) { quotient = quotient - 1.0lf; }
    if zero_double(quotient) { return with_sign_double(0.0lf, with_sign_double(1.0lf, a) * with_sign_double(1.0lf, b)); }
    let below = floor(quotient);
    return select(below, below + 1.0lf, quotient - below > 0.5lf);
}
