// x = 2ⁿ·(1 + f), √½ ≤ 1 + f < √2: f and n, of a positive number.
fn log_parts_double(x: f64) -> vec2<f64> {
    let small = upper_word(x) < 0x00100000;
    let y = select(x, x * 18014398509481984.0lf, small);
    let bits = bitcast<i64>(y) - 0x3fe6a09e00000000li;
    let n = i32(bits >> 52u) - select(0, 54, small);
    return vec2<f64>(bitcast<f64>((bits & 0xfffffffffffffli) + 0x3fe6a09e00000000li) - 1.0lf, f64(n));
}
// log(1 + f) − f + ½f² for √½ ≤ 1 + f < √2.
fn log_rest(f: f64) -> f64 {
    let s = divide_double(f, 2.0lf + f);
    let z = s * s;
    let w = z * z;
    let even = w * (3.999999999940941908e-01lf + w * (2.222219843214978396e-01lf + w * 1.531383769920937332e-01lf));
    let odd = z * (6.666666666666735130e-01lf + w * (2.857142874366239149e-01lf
        + w * (1.818357216161805012e-01lf + w * 1.479819860511658591e-01lf)));
    return s * (0.5lf * f * f + (odd + even));
}
fn ordinary_log_double(x: f64) -> bool {
    let bits = bitcast<i64>(x);
    return bits > 0li && bits < 0x7ff0000000000000li;
}
// What the logarithm of other numbers is, whatever its base.
fn log_special_double(x: f64) -> f64 {
    if zero_double(x) { return -infinity_double(); }
    if infinite_double(x) && !negative_double(x) { return x; }
    return no_double();
}
fn log_double(x: f64) -> f64 {
    if !ordinary_log_double(x) { return log_special_double(x); }
    let parts = log_parts_double(x);
    let f = parts.x;
    let n = parts.y;
    return (((log_rest(f) + n * 1.90821492927058770002e-10lf) - 0.5lf * f * f) + f) + n * 6.93147180369123816490e-01lf;
}
// log(1 + f) in two parts, the first short.
fn log_split(f: f64) -> vec2<f64> {
    let square = 0.5lf * f * f;
    let high = shortened(f - square);
    return vec2<f64>(high, ((f - high) - square) + log_rest(f));
}
fn log2_double(x: f64) -> f64 {
    if !ordinary_log_double(x) { return log_special_double(x); }
    let parts = log_parts_double(x);
    let near = log_split(parts.x);
    let high = near.x * 1.44269504072144627571lf;
    let low = (near.y + near.x) * 1.67517131648865118353e-10lf + near.y * 1.44269504072144627571lf;
    let sum = kept_double(parts.y + high);
    return (low + ((parts.y - sum) + high)) + sum;
}
fn log10_double(x: f64) -> f64 {
    if !ordinary_log_double(x) { return log_special_double(x); }
    let parts = log_parts_double(x);
    let near = log_split(parts.x);
    let high = near.x * 4.34294481878168880939e-01lf;
    let y = parts.y * 3.01029995663611771306e-01lf;
    let low = parts.y * 3.69423907715893078616e-13lf + (near.y + near.x) * 2.50829467116452752298e-11lf
        + near.y * 4.34294481878168880939e-01lf;
    let sum = kept_double(y + high);
    return (low + ((y - sum) + high)) + sum;
}
fn log1p_double(x: f64) -> f64 {
    if nan_double(x) || abs(x) < 1e-16lf { return x; }
    var f = x;
    var n = 0.0lf;
    var lost = 0.0lf;
    if x < -0.2928932188134524lf || x > 0.4142135623730950lf {
        let sum = kept_double(1.0lf + x);
        if !ordinary_log_double(sum) { return log_special_double(sum); }
        let parts = log_parts_double(sum);
        f = parts.x;
        n = parts.y;
        // What rounding the sum has lost.
        if n < 54.0lf { lost = divide_double(select(x - (sum - 1.0lf), 1.0lf - (sum - x), x > 1.0lf), sum); }
    }
    return (((log_rest(f) + (n * 1.90821492927058770002e-10lf + lost)) - 0.5lf * f * f) + f)
        + n * 6.93147180369123816490e-01lf;
}
// log(eᵃ + eᵇ); its error is that of numbers up to log 2 where the result is smaller.
fn log_add_exp_double(a: f64, b: f64) -> f64 {
    if nan_double(a) || nan_double(b) { return no_double(); }
    let more = select(b, a, a > b);
    let less = select(a, b, a > b);
    // The difference of equal infinities would be NaN.
    if infinite_double(more) || infinite_double(less) { return more; }
    let difference = kept_double(less - more);
    // What rounding the difference has lost.
    let part = kept_double(difference - less);
    let lost = (less - kept_double(difference - part)) - kept_double(more + part);
    let e = exp_double(difference);
    return more + log1p_double(select(e, e + e * lost, difference > -800.0lf));
}
fn asinh_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    let t = abs(x);
    if t < 1e-8lf { return x; }
    if t > 1e8lf { return with_sign_double(log_double(t) + 0.6931471805599453lf, x); }
    if t > 2.0lf {
        return with_sign_double(log_double(2.0lf * t + divide_double(1.0lf, root_double(t * t + 1.0lf) + t)), x);
    }
    return with_sign_double(log1p_double(t + divide_double(t * t, root_double(t * t + 1.0lf) + 1.0lf)), x);
}
fn acosh_double(x: f64) -> f64 {
    if nan_double(x) || x < 1.0lf { return no_double(); }
    if x > 1e8lf { return log_double(x) + 0.6931471805599453lf; }
    if x > 2.0lf { return log_double(2.0lf * x - divide_double(1.0lf, x + root_double(x * x - 1.0lf))); }
    let t = x - 1.0lf;
    return log1p_double(t + root_double(t * t + 2.0lf * t));
}
fn atanh_double(x: f64) -> f64 {
    let t = abs(x);
    if nan_double(x) || t > 1.0lf { return no_double(); }
    if t == 1.0lf { return with_sign_double(infinity_double(), x); }
    if t < 1e-10lf { return x; }
    if t < 0.5lf { return with_sign_double(0.5lf * log1p_double(2.0lf * t + divide_double(2.0lf * t * t, 1.0lf - t)), x); }
    return with_sign_double(0.5lf * log1p_double(2.0lf * divide_double(t, 1.0lf - t)), x);
}
