// log₂ t of a positive number in two parts, the first short.
fn log2_split(t: f64) -> vec2<f64> {
    let small = upper_word(t) < 0x00100000;
    let normal = select(t, t * 9007199254740992.0lf, small);
    let bits = bitcast<i64>(normal);
    var n = i32(bits >> 52u) - 1023 - select(0, 53, small);
    var fraction = (bits & 0xfffffffffffffli) | 0x3ff0000000000000li;
    // About 1, 1½ or 2.
    let j = i32((bits >> 32u) & 0xfffffli);
    let middle = j > 0x3988e && j < 0xbb67a;
    if j >= 0xbb67a {
        n += 1;
        fraction -= 0x10000000000000li;
    }
    let a = bitcast<f64>(fraction);
    let base = select(1.0lf, 1.5lf, middle);
    let u = a - base;
    let v = divide_double(1.0lf, a + base);
    let s = u * v;
    let s_high = shortened(s);
    let t_high = shortened(a + base);
    let t_low = a - (t_high - base);
    let s_low = v * ((u - s_high * t_high) - s_high * t_low);
    let z = s * s;
    var p = 2.06975017800338417784e-01lf;
    p = p * z + 2.30660745775561754067e-01lf;
    p = p * z + 2.72728123808534006489e-01lf;
    p = p * z + 3.33333329818377432918e-01lf;
    p = p * z + 4.28571428578550184252e-01lf;
    p = p * z + 5.99999999999994648725e-01lf;
    let rest = z * z * p + s_low * (s_high + s);
    let square = s_high * s_high;
    let sum_high = shortened(3.0lf + square + rest);
    let sum_low = rest - ((sum_high - 3.0lf) - square);
    let product = s_high * sum_high;
    let product_low = s_low * sum_high + sum_low * s;
    let high = shortened(product + product_low);
    let low = product_low - (high - product);
    // By 2/(3 log 2), and log₂ of the base.
    let z_high = 9.61796700954437255859e-01lf * high;
    let z_low = -7.02846165095275826516e-09lf * high + low * 9.61796693925975554329e-01lf
        + select(0.0lf, 1.35003920212974897128e-08lf, middle);
    let base_high = select(0.0lf, 5.84962487220764160156e-01lf, middle);
    let whole = f64(n);
    let first = shortened(((z_high + z_low) + base_high) + whole);
    return vec2<f64>(first, z_low - (((first - whole) - base_high) - z_high));
}
fn power_double(a: f64, b: f64) -> f64 {
    let t = abs(a);
    if zero_double(b) || (a == 1.0lf && !nan_double(a)) { return 1.0lf; }
    if nan_double(a) || nan_double(b) { return no_double(); }
    if infinite_double(b) {
        if t == 1.0lf { return 1.0lf; }
        return select(0.0lf, infinity_double(), (t > 1.0lf) == (b > 0.0lf));
    }
    let whole = trunc(b) == b;
    let odd = whole && abs(b) < 9007199254740992.0lf && trunc(0.5lf * b) != 0.5lf * b;
    let sign = select(1.0lf, a, odd);
    if zero_double(a) { return with_sign_double(select(infinity_double(), 0.0lf, b > 0.0lf), sign); }
    if infinite_double(a) { return with_sign_double(select(0.0lf, infinity_double(), b > 0.0lf), sign); }
    if a < 0.0lf && !whole { return no_double(); }
    if t == 1.0lf { return with_sign_double(1.0lf, sign); }
    // Beyond 2⁶⁴ every power of another number than 1 is 0 or ∞.
    let exponent = clamp(b, -1.8e19lf, 1.8e19lf);
    let log = log2_split(t);
    let b_high = shortened(exponent);
    let high = b_high * log.x;
    let low = (exponent - b_high) * log.x + exponent * log.y;
    let rough = high + low;
    if rough >= 1025.0lf { return with_sign_double(infinity_double(), sign); }
    if rough <= -1080.0lf { return with_sign_double(0.0lf, sign); }
    let n = round(rough);
    let fraction = high - n;
    // 2^(fraction + low)
    let part = shortened(fraction + low);
    let u = part * 6.93147182464599609375e-01lf;
    let v = (low - (part - fraction)) * 6.93147180559945286227e-01lf - part * 1.90465429995776804525e-09lf;
    let z = kept_double(u + v);
    let w = v - (z - u);
    let square = z * z;
    var p = 4.13813679705723846039e-08lf;
    p = p * square - 1.65339022054652515390e-06lf;
    p = p * square + 6.61375632143793436117e-05lf;
    p = p * square - 2.77777777770155933842e-03lf;
    p = p * square + 1.66666666666666019037e-01lf;
    let c = z - square * p;
    let r = divide_double(z * c, c - 2.0lf) - (w + z * w);
    return with_sign_double(scaled_double(1.0lf - (r - z), i32(n)), sign);
}
