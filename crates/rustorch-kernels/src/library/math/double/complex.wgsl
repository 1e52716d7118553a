// A sum and what rounding it has lost.
fn exact_sum_double(a: f64, b: f64) -> vec2<f64> {
    let sum = kept_double(a + b);
    let part = kept_double(sum - a);
    return vec2<f64>(sum, kept_double(a - kept_double(sum - part)) + (b - part));
}
// A square and what rounding it has lost. Halves of 26 bits have exact products.
fn exact_square_double(x: f64) -> vec2<f64> {
    let square = kept_double(x * x);
    let high = bitcast<f64>((bitcast<i64>(x) + 0x4000000li) & -0x8000000li);
    let low = kept_double(x - high);
    return vec2<f64>(square, ((high * high - square) + 2.0lf * high * low) + low * low);
}
// The formulas of complex numbers are the CPU's, so that branch cuts, infinities and roundings are, too.
fn c_size(z: vec2<f64>) -> f64 {
    if infinite_double(z.x) || infinite_double(z.y) { return infinity_double(); }
    if nan_double(z.x) || nan_double(z.y) { return no_double(); }
    var a = max(abs(z.x), abs(z.y));
    var b = min(abs(z.x), abs(z.y));
    if b <= a * 1e-17lf { return a + b; }
    var unit = 1.0lf;
    if a > 1e150lf {
        a = a * 1e-200lf;
        b = b * 1e-200lf;
        unit = 1e200lf;
    } else if b < 1e-130lf {
        a = a * 1e200lf;
        b = b * 1e200lf;
        unit = 1e-200lf;
    }
    let a_square = exact_square_double(a);
    let b_square = exact_square_double(b);
    return unit * root_double(b_square.y + a_square.y + b_square.x + a_square.x);
}
fn c_polar_double(size: f64, angle: f64) -> vec2<f64> {
    let turn = sin_cos_double(angle);
    return vec2<f64>(size * turn.y, size * turn.x);
}
fn c_exp_double(z: vec2<f64>) -> vec2<f64> {
    if infinite_double(z.x) {
        if negative_double(z.x) {
            if !finite_double(z.y) { return vec2<f64>(0.0lf, 0.0lf); }
        } else if zero_double(z.y) || !finite_double(z.y) {
            return vec2<f64>(z.x, select(z.y, no_double(), infinite_double(z.y)));
        }
    } else if nan_double(z.x) && zero_double(z.y) {
        return z;
    }
    return c_polar_double(exp_double(z.x), z.y);
}
fn c_angle_double(z: vec2<f64>) -> f64 {
    return atan2_double(z.y, z.x);
}
// a² + b² − 1, of which nothing is left near the circle if squares are rounded.
fn beyond_circle_double(a: f64, b: f64) -> f64 {
    let a_square = exact_square_double(a);
    let b_square = exact_square_double(b);
    let first = exact_sum_double(a_square.x, -1.0lf);
    let second = exact_sum_double(first.x, b_square.x);
    let third = exact_sum_double(second.x, a_square.y);
    let fourth = exact_sum_double(third.x, b_square.y);
    return fourth.x + (first.y + second.y + third.y + fourth.y);
}
fn c_log_size_double(z: vec2<f64>) -> f64 {
    let size = c_size(z);
    if nan_double(size) || infinite_double(z.x) || infinite_double(z.y) { return size; }
    let a = max(abs(z.x), abs(z.y));
    let b = min(abs(z.x), abs(z.y));
    if size > 0.5lf && size < 2.0lf { return 0.5lf * log1p_double(beyond_circle_double(a, b)); }
    if size > 1e-290lf && size < 1e300lf { return log_double(size); }
    var ratio = 0.0lf;
    if b > 0.0lf { ratio = divide_double(b, a); }
    return log_double(a) + 0.5lf * log1p_double(ratio * ratio);
}
fn c_log_double(z: vec2<f64>) -> vec2<f64> {
    return vec2<f64>(c_log_size_double(z), c_angle_double(z));
}
// The root of x + iy in the first half of the first quadrant, for x, y ≥ 0; mirrored at the diagonal it is that of −x + iy.
fn c_slanted_root_double(x: f64, y: f64) -> vec2<f64> {
    if x == 0.0lf && y == 0.0lf { return vec2<f64>(0.0lf, 0.0lf); }
    // Powers of two keep sums from overflow and the digits of small numbers.
    var scale = 1.0lf;
    var back = 1.0lf;
    if max(x, y) > 1e300lf {
        scale = 0.0625lf;
        back = 4.0lf;
    } else if max(x, y) < 1e-290lf {
        scale = 324518553658426726783156020576256.0lf;
        back = 5.551115123125783e-17lf;
    }
    let large = root_double(0.5lf * (c_size(vec2<f64>(x * scale, y * scale)) + x * scale));
    return vec2<f64>(large * back, divide_double(y * scale, large + large) * back);
}
fn c_sqrt_double(z: vec2<f64>) -> vec2<f64> {
    if infinite_double(z.y) { return vec2<f64>(infinity_double(), z.y); }
    var slanted = vec2<f64>(infinity_double(), select(0.0lf, z.y, nan_double(z.y)));
    if !infinite_double(z.x) { slanted = c_slanted_root_double(abs(z.x), abs(z.y)); }
    if negative_double(z.x) { return vec2<f64>(slanted.y, with_sign_double(slanted.x, z.y)); }
    return vec2<f64>(slanted.x, with_sign_double(slanted.y, z.y));
}
fn c_sin_double(z: vec2<f64>) -> vec2<f64> {
    let turn = sin_cos_double(z.x);
    return vec2<f64>(turn.x * cosh_double(z.y), turn.y * sinh_double(z.y));
}
fn c_cos_double(z: vec2<f64>) -> vec2<f64> {
    let turn = sin_cos_double(z.x);
    return vec2<f64>(turn.y * cosh_double(z.y), -turn.x * sinh_double(z.y));
}
fn c_tan_double(z: vec2<f64>) -> vec2<f64> {
    let turned = c_tanh_double(vec2<f64>(z.y, z.x));
    return vec2<f64>(turned.y, turned.x);
}
fn c_sinh_double(z: vec2<f64>) -> vec2<f64> {
    let turn = sin_cos_double(z.y);
    return vec2<f64>(sinh_double(z.x) * turn.y, cosh_double(z.x) * turn.x);
}
fn c_cosh_double(z: vec2<f64>) -> vec2<f64> {
    let turn = sin_cos_double(z.y);
    return vec2<f64>(cosh_double(z.x) * turn.y, sinh_double(z.x) * turn.x);
}
fn c_tanh_double(z: vec2<f64>) -> vec2<f64> {
    let turn = sin_cos_double(z.y);
    if infinite_double(z.x) {
        let side = select(z.y, turn.x * turn.y, finite_double(z.y));
        return vec2<f64>(with_sign_double(1.0lf, z.x), with_sign_double(0.0lf, side));
    }
    if nan_double(z.x) || !finite_double(z.y) {
        return vec2<f64>(select(no_double(), z.x, z.x == 0.0lf), select(no_double(), z.y, z.y == 0.0lf));
    }
    // Beside the square of a larger one's hyperbolic sine that of a cosine is nothing.
    if abs(z.x) > 22.0lf {
        return vec2<f64>(with_sign_double(1.0lf, z.x), 4.0lf * turn.x * turn.y * exp_double(-2.0lf * abs(z.x)));
    }
    let s = sinh_double(z.x);
    let scale = s * s + turn.y * turn.y;
    return vec2<f64>(divide_double(s * cosh_double(z.x), scale), divide_double(turn.x * turn.y, scale));
}
fn c_one() -> vec2<f64> {
    return vec2<f64>(1.0lf, 0.0lf);
}
fn c_power_double(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    if zero_double(b.x) && zero_double(b.y) { return c_one(); }
    if zero_double(a.x) && zero_double(a.y) {
        if b.x > 0.0lf { return vec2<f64>(0.0lf, 0.0lf); }
        return vec2<f64>(no_double(), no_double());
    }
    return c_exp_double(c_mul_double(b, c_log_double(a)));
}
// Where cancellation takes the digits of singles, they are computed in doubles.
fn c_wide(z: vec2<f32>) -> vec2<f64> {
    return vec2<f64>(f64(z.x), f64(z.y));
}
fn c_narrow(z: vec2<f64>) -> vec2<f32> {
    return vec2<f32>(f32(z.x), f32(z.y));
}
