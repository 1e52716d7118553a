// As the functions of singles.
fn c_small_double(z: vec2<f64>) -> bool {
    return finite_double(z.x) && finite_double(z.y) && max(abs(z.x), abs(z.y)) < 1e-9lf;
}
fn c_far_double(z: vec2<f64>) -> bool {
    return !finite_double(z.x) || !finite_double(z.y) || max(abs(z.x), abs(z.y)) > 1e9lf;
}
// √(1 + z) and the conjugate of √(1 − z), of z = |x| + i|y|.
fn c_sum_root_double(z: vec2<f64>) -> vec2<f64> {
    return c_slanted_root_double(1.0lf + abs(z.x), abs(z.y));
}
fn c_difference_root_double(z: vec2<f64>) -> vec2<f64> {
    let rest = 1.0lf - abs(z.x);
    let slanted = c_slanted_root_double(abs(rest), abs(z.y));
    if rest < 0.0lf { return vec2<f64>(slanted.y, slanted.x); }
    return slanted;
}
fn c_arc_height_double(sum: vec2<f64>, difference: vec2<f64>) -> f64 {
    return asinh_double(difference.x * sum.y + difference.y * sum.x);
}
fn c_far_height_double(z: vec2<f64>) -> f64 {
    return 0.6931471805599453lf + c_log_size_double(z);
}
fn c_asin_double(z: vec2<f64>) -> vec2<f64> {
    if c_small_double(z) { return z; }
    if c_far_double(z) {
        if z.x == 0.0lf && nan_double(z.y) { return z; }
        let re = atan2_double(abs(z.x), abs(z.y));
        return vec2<f64>(with_sign_double(re, z.x), with_sign_double(c_far_height_double(z), z.y));
    }
    let sum = c_sum_root_double(z);
    let difference = c_difference_root_double(z);
    let re = atan2_double(abs(z.x), difference.x * sum.x + difference.y * sum.y);
    return vec2<f64>(with_sign_double(re, z.x), with_sign_double(c_arc_height_double(sum, difference), z.y));
}
fn c_acos_double(z: vec2<f64>) -> vec2<f64> {
    if c_small_double(z) || z.x == 0.0lf && nan_double(z.y) { return vec2<f64>(1.57079632679489655800lf - z.x, -z.y); }
    if c_far_double(z) { return vec2<f64>(atan2_double(abs(z.y), z.x), with_sign_double(c_far_height_double(z), -z.y)); }
    let sum = c_sum_root_double(z);
    let difference = c_difference_root_double(z);
    var half = atan2_double(difference.x, sum.x);
    if negative_double(z.x) { half = atan2_double(sum.x, difference.x); }
    return vec2<f64>(2.0lf * half, with_sign_double(c_arc_height_double(sum, difference), -z.y));
}
fn c_asinh_double(z: vec2<f64>) -> vec2<f64> {
    let arc = c_asin_double(vec2<f64>(z.y, z.x));
    return vec2<f64>(arc.y, arc.x);
}
fn c_acosh_double(z: vec2<f64>) -> vec2<f64> {
    let arc = c_acos_double(z);
    return vec2<f64>(abs(arc.y), with_sign_double(arc.x, z.y));
}
fn c_atanh_double(z: vec2<f64>) -> vec2<f64> {
    if c_small_double(z) { return z; }
    let x = abs(z.x);
    let y = abs(z.y);
    if infinite_double(x) || infinite_double(y) {
        let im = select(1.57079632679489655800lf, y, nan_double(y));
        return vec2<f64>(with_sign_double(0.0lf, z.x), with_sign_double(im, z.y));
    }
    if nan_double(x) || nan_double(y) { return vec2<f64>(select(no_double(), z.x, z.x == 0.0lf), no_double()); }
    // Whose squares overflow.
    if max(x, y) > 1e150lf {
        let half = c_size(vec2<f64>(0.5lf * x, 0.5lf * y));
        let re = divide_double(divide_double(0.5lf * x, half), half) * 0.5lf;
        return vec2<f64>(with_sign_double(re, z.x), with_sign_double(1.57079632679489655800lf, z.y));
    }
    let rest = 1.0lf - x;
    let square = y * y;
    var re = 0.0lf;
    if rest == 0.0lf && y < 1e-150lf {
        // Whose square vanishes.
        re = 0.5lf * (0.6931471805599453lf - log_double(y));
    } else {
        re = 0.25lf * log1p_double(divide_double(4.0lf * x, rest * rest + square));
    }
    let im = 0.5lf * atan2_double(2.0lf * y, rest * (1.0lf + x) - square);
    return vec2<f64>(with_sign_double(re, z.x), with_sign_double(im, z.y));
}
fn c_atan_double(z: vec2<f64>) -> vec2<f64> {
    let arc = c_atanh_double(vec2<f64>(z.y, z.x));
    return vec2<f64>(arc.y, arc.x);
}
