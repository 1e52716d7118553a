// The formulas of complex numbers are the processor's, so that branch cuts, infinities and roundings are, too.
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
    // Squares, and what rounding them has lost.
    let a_square = kept_double(a * a);
    let a_high = shortened(a);
    let a_low = a - a_high;
    let a_lost = ((a_high * a_high - a_square) + 2.0lf * a_high * a_low) + a_low * a_low;
    let b_square = kept_double(b * b);
    let b_high = shortened(b);
    let b_low = b - b_high;
    let b_lost = ((b_high * b_high - b_square) + 2.0lf * b_high * b_low) + b_low * b_low;
    return unit * root_double(b_lost + a_lost + b_square + a_square);
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
fn c_log_double(z: vec2<f64>) -> vec2<f64> {
    return vec2<f64>(log_double(c_size(z)), c_angle_double(z));
}
fn c_sqrt_double(z: vec2<f64>) -> vec2<f64> {
    if zero_double(z.y) {
        if !negative_double(z.x) { return vec2<f64>(root_double(z.x), z.y); }
        return vec2<f64>(0.0lf, with_sign_double(root_double(-z.x), z.y));
    }
    if zero_double(z.x) {
        let half = root_double(0.5lf * abs(z.y));
        return vec2<f64>(half, with_sign_double(half, z.y));
    }
    return c_polar_double(root_double(c_size(z)), 0.5lf * c_angle_double(z));
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
    let turn = sin_cos_double(z.x + z.x);
    let scale = turn.y + cosh_double(z.y + z.y);
    return vec2<f64>(divide_double(turn.x, scale), divide_double(sinh_double(z.y + z.y), scale));
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
    let turn = sin_cos_double(z.y + z.y);
    let scale = cosh_double(z.x + z.x) + turn.y;
    return vec2<f64>(divide_double(sinh_double(z.x + z.x), scale), divide_double(turn.x, scale));
}
fn c_turned(z: vec2<f64>) -> vec2<f64> {
    return c_mul_double(vec2<f64>(0.0lf, 1.0lf), z);
}
fn c_turned_back(z: vec2<f64>) -> vec2<f64> {
    return c_mul_double(vec2<f64>(-0.0lf, -1.0lf), z);
}
fn c_one() -> vec2<f64> {
    return vec2<f64>(1.0lf, 0.0lf);
}
// By the square of the divisor's size, for divisors that are constants.
fn c_simple_quotient(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    let square = b.x * b.x + b.y * b.y;
    return vec2<f64>(divide_double(a.x * b.x + a.y * b.y, square), divide_double(a.y * b.x - a.x * b.y, square));
}
fn c_asin_double(z: vec2<f64>) -> vec2<f64> {
    return c_turned_back(c_log_double(c_sqrt_double(c_one() - c_mul_double(z, z)) + c_turned(z)));
}
fn c_acos_double(z: vec2<f64>) -> vec2<f64> {
    return c_turned_back(c_log_double(c_turned(c_sqrt_double(c_one() - c_mul_double(z, z))) + z));
}
fn c_atan_double(z: vec2<f64>) -> vec2<f64> {
    if zero_double(z.x) && abs(z.y) == 1.0lf { return vec2<f64>(0.0lf, with_sign_double(infinity_double(), z.y)); }
    let turned = c_turned(z);
    return c_simple_quotient(c_log_double(c_one() + turned) - c_log_double(c_one() - turned), vec2<f64>(0.0lf, 2.0lf));
}
fn c_asinh_double(z: vec2<f64>) -> vec2<f64> {
    return c_log_double(z + c_sqrt_double(c_one() + c_mul_double(z, z)));
}
fn c_acosh_double(z: vec2<f64>) -> vec2<f64> {
    let two = vec2<f64>(2.0lf, 0.0lf);
    let above = c_sqrt_double(c_simple_quotient(z + c_one(), two));
    let below = c_sqrt_double(c_simple_quotient(z - c_one(), two));
    return c_mul_double(two, c_log_double(above + below));
}
fn c_atanh_double(z: vec2<f64>) -> vec2<f64> {
    if zero_double(z.y) && abs(z.x) == 1.0lf { return vec2<f64>(with_sign_double(infinity_double(), z.x), 0.0lf); }
    return c_simple_quotient(c_log_double(c_one() + z) - c_log_double(c_one() - z), vec2<f64>(2.0lf, 0.0lf));
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
