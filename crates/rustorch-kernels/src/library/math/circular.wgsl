// a·b in 64 bits: low and high word.
fn product_words(a: u32, b: u32) -> vec2<u32> {
    let a_low = a & 0xffffu;
    let a_high = a >> 16u;
    let b_low = b & 0xffffu;
    let b_high = b >> 16u;
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 16u);
    let other = a_low * b_high + (middle & 0xffffu);
    return vec2<u32>((other << 16u) | (low & 0xffffu), a_high * b_high + (middle >> 16u) + (other >> 16u));
}
// The words of 2/π after the point, `i` from −1.
fn inverse_quarter(i: i32) -> u32 {
    switch i {
        case 0: { return 0xa2f9836eu; }
        case 1: { return 0x4e441529u; }
        case 2: { return 0xfc2757d1u; }
        case 3: { return 0xf534ddc0u; }
        case 4: { return 0xdb629599u; }
        case 5: { return 0x3c439041u; }
        case 6: { return 0xfe5163abu; }
        default: { return 0u; }
    }
}
// The remainder of x by π/2, and the quadrant: of a large number by as much of 2/π as it takes (Payne and Hanek, 1983).
fn quarter(x: f32) -> vec2<f32> {
    if abs(x) < 6000.0 {
        let n = round(x * 0.63661975);
        // π/2 in four parts, the first three so short that their multiples are exact. Compilers that make
        // one product of them would lose them.
        let first = kept(x - n * 1.5703125);
        let second = kept(first - n * 0.0004837512969970703);
        let third = kept(second - n * 7.549533620476723e-8);
        return vec2<f32>(third - n * 2.563344e-12, n - 4.0 * floor(n * 0.25));
    }
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    // |x| = mantissa·2^(shift − 32), the mantissa of 32 bits. What of 2/π yields multiples of 4 is left out.
    let mantissa = (bits << 8u) | 0x80000000u;
    let shift = i32(bits >> 23u) - 128;
    let word = shift >> 5u;
    let turn = u32(shift & 31);
    let back = (32u - turn) & 31u;
    let a = inverse_quarter(word - 1);
    let b = inverse_quarter(word);
    let c = inverse_quarter(word + 1);
    let d = inverse_quarter(word + 2);
    let high = select((a << turn) | (b >> back), a, turn == 0u);
    let middle = select((b << turn) | (c >> back), b, turn == 0u);
    let low = select((c << turn) | (d >> back), c, turn == 0u);
    let p = product_words(mantissa, low);
    let q = product_words(mantissa, middle);
    let part = p.y + q.x;
    var top = mantissa * high + q.y + select(0u, 1u, part < p.y);
    var rest = part;
    // Two bits of quarters, then their fraction.
    var quadrant = top >> 30u;
    top = (top << 2u) | (rest >> 30u);
    rest = rest << 2u;
    let upper = (top & 0x80000000u) != 0u;
    if upper {
        quadrant += 1u;
        rest = ~rest + 1u;
        top = ~top + select(0u, 1u, rest == 0u);
    }
    let fraction = (f32(top) + f32(rest) * 2.3283064e-10) * 2.3283064e-10;
    let r = fraction * select(1.5707964, -1.5707964, upper);
    let turned = f32(quadrant & 3u);
    return select(vec2<f32>(r, turned), vec2<f32>(-r, f32((4u - (quadrant & 3u)) & 3u)), x < 0.0);
}
// Sine and cosine.
fn sin_cos(x: f32) -> vec2<f32> {
    if !finite(x) { return vec2<f32>(not_a_number(), not_a_number()); }
    let reduced = quarter(x);
    let r = reduced.x;
    let z = r * r;
    var p = 2.7183025e-6;
    p = p * z - 0.00019839333;
    p = p * z + 0.008333329;
    p = p * z - 0.16666667;
    let s = p * z * r + r;
    var q = -2.7205667e-7;
    q = q * z + 2.479946e-5;
    q = q * z - 0.0013888883;
    q = q * z + 0.041666668;
    let c = q * z * z + (1.0 - 0.5 * z);
    let quadrant = u32(reduced.y) & 3u;
    let turned = select(vec2<f32>(s, c), vec2<f32>(c, -s), (quadrant & 1u) != 0u);
    // Multiples of π/2 that are taken off would take the sign of a zero along.
    return select(select(turned, -turned, (quadrant & 2u) != 0u), vec2<f32>(x, 1.0), x == 0.0);
}
fn tan_of(x: f32) -> f32 {
    let both = sin_cos(x);
    return select(divide(both.x, both.y), x, x == 0.0);
}
