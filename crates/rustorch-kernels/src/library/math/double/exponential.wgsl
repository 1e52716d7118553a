// Polynomials and cuts of the doubles' functions are those of fdlibm (Sun Microsystems, 1993), whose errors stay below a unit
// of the last place.
// x = n·log 2 + high − low, the difference at most ½ log 2: high, low, their rounded difference, and n.
fn exp_reduced(x: f64) -> vec4<f64> {
    let n = round(x * 1.44269504088896338700lf);
    // log 2 in two parts, the first short, so that its multiples are exact.
    let high = x - n * 6.93147180369123816490e-01lf;
    let low = n * 1.90821492927058770002e-10lf;
    return vec4<f64>(high, low, kept_double(high - low), n);
}
fn exp_times_double(x: f64, doublings: i32) -> f64 {
    if nan_double(x) { return x; }
    let parts = exp_reduced(clamp(x, -800.0lf, 800.0lf));
    let r = parts.z;
    let z = r * r;
    var p = 4.13813679705723846039e-08lf;
    p = p * z - 1.65339022054652515390e-06lf;
    p = p * z + 6.61375632143793436117e-05lf;
    p = p * z - 2.77777777770155933842e-03lf;
    p = p * z + 1.66666666666666019037e-01lf;
    let c = r - z * p;
    return scaled_double(1.0lf + ((divide_double(r * c, 2.0lf - c) - parts.y) + parts.x), i32(parts.w) + doublings);
}
fn exp_double(x: f64) -> f64 {
    return exp_times_double(x, 0);
}
fn expm1_double(x: f64) -> f64 {
    if nan_double(x) || abs(x) < 5e-17lf { return x; }
    if x > 709.782712893383973096lf { return infinity_double(); }
    if x < -40.0lf { return -1.0lf; }
    let parts = exp_reduced(x);
    let r = parts.z;
    let lost = (parts.x - r) - parts.y;
    let n = i32(parts.w);
    let half = 0.5lf * r;
    let z = r * half;
    var p = -2.01099218183624371326e-07lf;
    p = p * z + 4.00821782732936239552e-06lf;
    p = p * z - 7.93650757867487942473e-05lf;
    p = p * z + 1.58730158725481460165e-03lf;
    p = p * z - 3.33333333333331316428e-02lf;
    p = p * z + 1.0lf;
    let t = 3.0lf - p * half;
    var e = z * divide_double(p - t, 6.0lf - r * t);
    e = (r * (e - lost) - lost) - z;
    // eˣ = 2ⁿ·(1 + r − e).
    if n == 0 { return r - e; }
    if n == -1 { return 0.5lf * (r - e) - 0.5lf; }
    if n == 1 {
        if r < -0.25lf { return -2.0lf * (e - (r + 0.5lf)); }
        return 1.0lf + 2.0lf * (r - e);
    }
    if n < 0 || n > 56 { return scaled_double(kept_double((r - e) + 1.0lf), n) - 1.0lf; }
    let small = bitcast<f64>(i64(1023 - n) << 52u);
    if n < 20 { return scaled_double((r - e) + (1.0lf - small), n); }
    return scaled_double((r - (e + small)) + 1.0lf, n);
}
// (a + rest)/(1 + e) for a small rest and e from 0 to 1, mending the rounding of the divisor.
fn over_one_plus(a: f64, rest: f64, e: f64) -> f64 {
    let divisor = kept_double(1.0lf + e);
    let lost = e - (divisor - 1.0lf);
    let quotient = divide_double(a, divisor);
    return quotient + divide_double(rest - quotient * lost, divisor);
}
fn sigmoid_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    let e = exp_double(-abs(x));
    return over_one_plus(select(1.0lf, e, x < 0.0lf), 0.0lf, e);
}
fn silu_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    if infinite_double(x) { return select(x, no_double(), x < 0.0lf); }
    // What mends the rounding would make of −0 another zero.
    if x == 0.0lf { return x; }
    let e = exp_double(-abs(x));
    return over_one_plus(select(x, x * e, x < 0.0lf), 0.0lf, e);
}
fn softplus_double(x: f64) -> f64 {
    if nan_double(x) || x > 20.0lf { return x; }
    return log1p_double(exp_double(x));
}
fn sinh_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    let t = abs(x);
    if t < 3e-9lf { return x; }
    if t > 709.0lf { return with_sign_double(exp_times_double(t, -1), x); }
    let e = expm1_double(t);
    if t < 1.0lf {
        return with_sign_double(0.5lf * (2.0lf * e - divide_double(e * e, e + 1.0lf)), x);
    }
    return with_sign_double(0.5lf * (e + divide_double(e, e + 1.0lf)), x);
}
fn cosh_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    let t = abs(x);
    if t < 0.6931471805599453lf {
        let e = expm1_double(t);
        return 1.0lf + divide_double(e * e, 2.0lf * (1.0lf + e));
    }
    let half = exp_times_double(t, -1);
    return half + divide_double(0.25lf, half);
}
fn tanh_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    let t = abs(x);
    if t < 1e-300lf { return x; }
    if t > 22.0lf { return with_sign_double(1.0lf, x); }
    if t > 0.54930614433405484lf {
        return with_sign_double(1.0lf - divide_double(2.0lf, expm1_double(2.0lf * t) + 2.0lf), x);
    }
    let e = expm1_double(2.0lf * select(-t, t, t > 0.25541281188299536lf));
    return with_sign_double(divide_double(e, e + 2.0lf), x);
}
