// Overflow wraps. A division by zero fails a device assert: see device_assert.rs.
fn floor_divide_signed(a: i32, b: i32) -> i32 {
    if b == 0i {
        device_assert(FLOOR_DIVIDE, 0u, 0u, 0u);
        return 0i;
    }
    if b == -1i { return -a; }
    let quotient = a / b;
    return select(quotient, quotient - 1i, a % b != 0i && (a < 0i) != (b < 0i));
}
fn remainder_signed(a: i32, b: i32) -> i32 {
    if b == 0i {
        device_assert(REMAINDER, 0u, 0u, 0u);
        return 0i;
    }
    if b == -1i { return 0i; }
    let rest = a % b;
    return select(rest, rest + b, rest != 0i && (rest < 0i) != (b < 0i));
}
fn power_signed(a: i32, b: i32) -> i32 {
    if b < 0i {
        // The reciprocal rounded to zero: only of ±1 it is something else.
        if a == -1i && (b & 1i) != 0i { return a; }
        return select(0i, 1i, a == 1i || a == -1i);
    }
    var base = a;
    var rest = b;
    var power = 1i;
    while rest != 0i {
        if (rest & 1i) != 0i { power = power * base; }
        base = base * base;
        rest = rest >> 1u;
    }
    return power;
}
fn floor_divide_unsigned(a: u32, b: u32) -> u32 {
    if b == 0u {
        device_assert(FLOOR_DIVIDE, 0u, 0u, 0u);
        return 0u;
    }
    return a / b;
}
fn remainder_unsigned(a: u32, b: u32) -> u32 {
    if b == 0u {
        device_assert(REMAINDER, 0u, 0u, 0u);
        return 0u;
    }
    return a % b;
}
fn power_unsigned(a: u32, b: u32) -> u32 {
    var base = a;
    var rest = b;
    var power = 1u;
    while rest != 0u {
        if (rest & 1u) != 0u { power = power * base; }
        base = base * base;
        rest = rest >> 1u;
    }
    return power;
}
fn floor_divide_long(a: i64, b: i64) -> i64 {
    if b == 0li {
        device_assert(FLOOR_DIVIDE, 0u, 0u, 0u);
        return 0li;
    }
    if b == -1li { return -a; }
    let quotient = a / b;
    return select(quotient, quotient - 1li, a % b != 0li && (a < 0li) != (b < 0li));
}
fn remainder_long(a: i64, b: i64) -> i64 {
    if b == 0li {
        device_assert(REMAINDER, 0u, 0u, 0u);
        return 0li;
    }
    if b == -1li { return 0li; }
    let rest = a % b;
    return select(rest, rest + b, rest != 0li && (rest < 0li) != (b < 0li));
}
fn power_long(a: i64, b: i64) -> i64 {
    if b < 0li {
        // The reciprocal rounded to zero: only of ±1 it is something else.
        if a == -1li && (b & 1li) != 0li { return a; }
        return select(0li, 1li, a == 1li || a == -1li);
    }
    var base = a;
    var rest = b;
    var power = 1li;
    while rest != 0li {
        if (rest & 1li) != 0li { power = power * base; }
        base = base * base;
        rest = rest >> 1u;
    }
    return power;
}
// Integers of 64 bits as two words, low and high, where hardware has none.
fn pair_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn pair_negate(a: vec2<u32>) -> vec2<u32> {
    return pair_add(~a, vec2<u32>(1u, 0u));
}
fn pair_product(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = product_words(a.x, b.x);
    return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}
fn pair_below(a: vec2<u32>, b: vec2<u32>) -> bool {
    let a_high = bitcast<i32>(a.y);
    let b_high = bitcast<i32>(b.y);
    return a_high < b_high || (a_high == b_high && a.x < b.x);
}
fn pair_equal(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x == b.x && a.y == b.y;
}
fn pair_zero(a: vec2<u32>) -> bool {
    return (a.x | a.y) == 0u;
}
fn pair_of(a: i32) -> vec2<u32> {
    return vec2<u32>(bitcast<u32>(a), bitcast<u32>(a >> 31u));
}
// The integer of f that is nearest to zero, saturating; 0 for NaN.
fn pair_of_float(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    let exponent = i32((bits >> 23u) & 255u) - 150;
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    if nan(x) || exponent <= -24 { return vec2<u32>(0u, 0u); }
    if exponent >= 40 {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative(x));
    }
    var r = vec2<u32>(mantissa, 0u);
    if exponent < 0 {
        r = vec2<u32>(mantissa >> u32(-exponent), 0u);
    } else if exponent >= 32 {
        r = vec2<u32>(0u, mantissa << u32(exponent - 32));
    } else if exponent > 0 {
        r = vec2<u32>(mantissa << u32(exponent), mantissa >> u32(32 - exponent));
    }
    if negative(x) { return pair_negate(r); }
    return r;
}
// To nearest even: what the low bits add is gathered into one.
fn float_of_pair(a: vec2<u32>) -> f32 {
    let below = (a.y & 0x80000000u) != 0u;
    let r = select(a, pair_negate(a), below);
    var value = f32(r.x);
    if r.y != 0u {
        let zeros = countLeadingZeros(r.y);
        let top = select((r.y << zeros) | (r.x >> ((32u - zeros) & 31u)), r.y, zeros == 0u);
        let lost = (r.x << zeros) != 0u;
        value = f32(top | select(0u, 1u, lost)) * bitcast<f32>((127u + 32u - zeros) << 23u);
    }
    return select(value, -value, below);
}
// Some compilers extend the sign of unsigned numbers, too.
fn long_of_word(a: u32) -> i64 {
    return i64(a) & 0xffffffffli;
}
fn long_of_pair(a: vec2<u32>) -> i64 {
    return (i64(bitcast<i32>(a.y)) << 32u) | long_of_word(a.x);
}
fn long_of_double(x: f64) -> i64 {
    if nan_double(x) { return 0li; }
    if x >= 9223372036854775808.0lf { return 9223372036854775807li; }
    if x <= -9223372036854775808.0lf { return -9223372036854775807li - 1li; }
    return i64(x);
}
