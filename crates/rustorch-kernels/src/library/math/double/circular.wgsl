// The words of 2/π after the point.
fn inverse_quarter_double(i: i32) -> u32 {
    switch i {
        case 0: { return 0xa2f9836eu; }
        case 1: { return 0x4e441529u; }
        case 2: { return 0xfc2757d1u; }
        case 3: { return 0xf534ddc0u; }
        case 4: { return 0xdb629599u; }
        case 5: { return 0x3c439041u; }
        case 6: { return 0xfe5163abu; }
        case 7: { return 0xdebbc561u; }
        case 8: { return 0xb7246e3au; }
        case 9: { return 0x424dd2e0u; }
        case 10: { return 0x06492eeau; }
        case 11: { return 0x09d1921cu; }
        case 12: { return 0xfe1deb1cu; }
        case 13: { return 0xb129a73eu; }
        case 14: { return 0xe88235f5u; }
        case 15: { return 0x2ebb4484u; }
        case 16: { return 0xe99c7026u; }
        case 17: { return 0xb45f7e41u; }
        case 18: { return 0x3991d639u; }
        case 19: { return 0x835339f4u; }
        case 20: { return 0x9c845f8bu; }
        case 21: { return 0xbdf9283bu; }
        case 22: { return 0x1ff897ffu; }
        case 23: { return 0xde05980fu; }
        case 24: { return 0xef2f118bu; }
        case 25: { return 0x5a0a6d1fu; }
        case 26: { return 0x6d367ecfu; }
        case 27: { return 0x27cb09b7u; }
        case 28: { return 0x4f463f66u; }
        case 29: { return 0x9e5fea2du; }
        case 30: { return 0x7527bac7u; }
        case 31: { return 0xebe5f17bu; }
        case 32: { return 0x3d0739f7u; }
        case 33: { return 0x8a5292eau; }
        case 34: { return 0x6bfb5fb1u; }
        case 35: { return 0x1f8d5d08u; }
        case 36: { return 0x56033046u; }
        case 37: { return 0xfc7b6babu; }
        default: { return 0u; }
    }
}
// The remainder of a large x ≥ 0 by π/2 in two parts, and the quadrant: by as much of 2/π as it takes (Payne and Hanek, 1983).
fn far_quarter(x: f64) -> vec3<f64> {
    // x = mantissa·2^(shift + 2). What of 2/π yields multiples of 4 is left out; 192 bits of the rest are taken.
    let bits = bitcast<i64>(x);
    let mantissa = (bits & 0xfffffffffffffli) | 0x10000000000000li;
    let shift = i32(bits >> 52u) - 1077;
    let first = shift >> 5u;
    let turn = u32(shift & 31);
    let mask = 0xffffffffli;
    // From the lowest word on.
    var p = array<i64, 6>();
    var window = array<i64, 6>();
    var carry = 0li;
    for (var i = 0; i < 6; i += 1) {
        let high = inverse_quarter_double(first + 5 - i);
        let next = inverse_quarter_double(first + 6 - i);
        window[i] = long_of_word(select((high << turn) | (next >> ((32u - turn) & 31u)), high, turn == 0u));
        let t = (mantissa & mask) * window[i] + carry;
        p[i] = t & mask;
        carry = (t >> 32u) & mask;
    }
    carry = 0li;
    for (var i = 1; i < 6; i += 1) {
        let t = (mantissa >> 32u) * window[i - 1] + p[i] + carry;
        p[i] = t & mask;
        carry = (t >> 32u) & mask;
    }
    // Two bits of quarters, then their fraction.
    var quadrant = i32(p[5] >> 30u);
    let upper = ((p[5] >> 29u) & 1li) != 0li;
    carry = 1li;
    for (var i = 5; i > 0; i -= 1) {
        p[i] = ((p[i] << 2u) & mask) | (p[i - 1] >> 30u);
    }
    p[0] = (p[0] << 2u) & mask;
    if upper {
        quadrant += 1;
        for (var i = 0; i < 6; i += 1) {
            let t = (p[i] ^ mask) + carry;
            p[i] = t & mask;
            carry = t >> 32u;
        }
    }
    var j = 5;
    while j > 2 && p[j] == 0li { j -= 1; }
    let unit = bitcast<f64>(i64(1023 - 32 * (7 - j)) << 52u);
    let high = (f64(p[j]) * 4294967296.0lf + f64(p[j - 1] & 0xfffff800li)) * unit;
    let low = (f64(p[j - 1] & 0x7ffli) + f64(p[j - 2]) * 2.3283064365386963e-10lf) * unit;
    // The product with π/2, whose parts have few bits enough to be exact.
    let product = kept_double(high * 1.5707963267948966lf);
    let a = shortened(high);
    let b = high - a;
    let lost = ((a * 1.570796012878418lf - product) + a * 3.13916478589249e-07lf + b * 1.570796012878418lf) + b * 3.13916478589249e-07lf;
    let rest = lost + (high * 6.12323399573676603587e-17lf + low * 1.5707963267948966lf);
    let sign = select(1.0lf, -1.0lf, upper);
    return vec3<f64>(sign * product, sign * rest, f64(quadrant & 3));
}
// As far_quarter, of any finite x ≥ 0.
fn quarter_double(x: f64) -> vec3<f64> {
    if x > 1647099.0lf { return far_quarter(x); }
    let n = round(x * 6.36619772367581382433e-01lf);
    // π/2 in four parts, the first three so short that their multiples are exact.
    let first = kept_double(x - n * 1.57079632673412561417lf);
    let w = n * 6.07710050630396597660e-11lf;
    let second = kept_double(first - w);
    let second_lost = (first - second) - w;
    let v = n * 2.02226624871116645580e-21lf;
    let third = kept_double(second - v);
    let third_lost = (second - third) - v;
    let rest = (n * 8.47842766036889956997e-32lf - third_lost) - second_lost;
    let r = kept_double(third - rest);
    return vec3<f64>(r, (third - r) - rest, n - 4.0lf * floor(n * 0.25lf));
}
// Sine and cosine.
fn sin_cos_double(x: f64) -> vec2<f64> {
    if !finite_double(x) { return vec2<f64>(no_double(), no_double()); }
    let reduced = quarter_double(abs(x));
    let r = reduced.x;
    let rest = reduced.y;
    let z = r * r;
    var p = 1.58969099521155010221e-10lf;
    p = p * z - 2.50507602534068634195e-08lf;
    p = p * z + 2.75573137070700676789e-06lf;
    p = p * z - 1.98412698298579493134e-04lf;
    p = p * z + 8.33333333332248946124e-03lf;
    let cube = z * r;
    let s = r - ((z * (0.5lf * rest - cube * p) - rest) + cube * 1.66666666666666324348e-01lf);
    var q = -1.13596475577881948265e-11lf;
    q = q * z + 2.08757232129817482790e-09lf;
    q = q * z - 2.75573143513906633035e-07lf;
    q = q * z + 2.48015872894767294178e-05lf;
    q = q * z - 1.38888888888741095749e-03lf;
    q = q * z + 4.16666666666666019037e-02lf;
    let half = 0.5lf * z;
    let near = kept_double(1.0lf - half);
    let c = near + (((1.0lf - near) - half) + (z * (z * q) - r * rest));
    let quadrant = u32(reduced.z) & 3u;
    let turned = select(vec2<f64>(s, c), vec2<f64>(c, -s), (quadrant & 1u) != 0u);
    let both = select(turned, -turned, (quadrant & 2u) != 0u);
    return vec2<f64>(select(both.x, -both.x, negative_double(x)), both.y);
}
fn tan_double(x: f64) -> f64 {
    let both = sin_cos_double(x);
    return divide_double(both.x, both.y);
}
