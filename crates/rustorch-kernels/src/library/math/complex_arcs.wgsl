// Arcs of complex numbers by W. Kahan's formulas ("Branch cuts for complex elementary functions", 1987), as the CPU has
// them: of the parts' absolute values all sums are of positive numbers, so that nothing cancels; signs come back at the end.
fn c_small(z: vec2<f32>) -> bool {
    return finite(z.x) && finite(z.y) && max(abs(z.x), abs(z.y)) < 1e-4;
}
fn c_far(z: vec2<f32>) -> bool {
    return !finite(z.x) || !finite(z.y) || max(abs(z.x), abs(z.y)) > 1e4;
}
// √(1 + z) and the conjugate of √(1 − z), of z = |x| + i|y|.
fn c_sum_root(z: vec2<f32>) -> vec2<f32> {
    return c_slanted_root(1.0 + abs(z.x), abs(z.y));
}
fn c_difference_root(z: vec2<f32>) -> vec2<f32> {
    let rest = 1.0 - abs(z.x);
    let slanted = c_slanted_root(abs(rest), abs(z.y));
    if rest < 0.0 { return vec2<f32>(slanted.y, slanted.x); }
    return slanted;
}
fn c_arc_height(sum: vec2<f32>, difference: vec2<f32>) -> f32 {
    return asinh_of(difference.x * sum.y + difference.y * sum.x);
}
fn c_far_height(z: vec2<f32>) -> f32 {
    return 0.6931472 + c_log_size(z);
}
fn c_asin(z: vec2<f32>) -> vec2<f32> {
    if c_small(z) { return z; }
    if c_far(z) {
        if z.x == 0.0 && nan(z.y) { return z; }
        return vec2<f32>(with_sign(atan2_of(abs(z.x), abs(z.y)), z.x), with_sign(c_far_height(z), z.y));
    }
    let sum = c_sum_root(z);
    let difference = c_difference_root(z);
    let re = atan2_of(abs(z.x), difference.x * sum.x + difference.y * sum.y);
    return vec2<f32>(with_sign(re, z.x), with_sign(c_arc_height(sum, difference), z.y));
}
fn c_acos(z: vec2<f32>) -> vec2<f32> {
    if c_small(z) || z.x == 0.0 && nan(z.y) { return vec2<f32>(1.5707964 - (z.x + 4.371139e-8), -z.y); }
    if c_far(z) { return vec2<f32>(atan2_of(abs(z.y), z.x), with_sign(c_far_height(z), -z.y)); }
    let sum = c_sum_root(z);
    let difference = c_difference_root(z);
    var half = atan2_of(difference.x, sum.x);
    if negative(z.x) { half = atan2_of(sum.x, difference.x); }
    return vec2<f32>(2.0 * half, with_sign(c_arc_height(sum, difference), -z.y));
}
fn c_asinh(z: vec2<f32>) -> vec2<f32> {
    let arc = c_asin(vec2<f32>(z.y, z.x));
    return vec2<f32>(arc.y, arc.x);
}
fn c_acosh(z: vec2<f32>) -> vec2<f32> {
    let arc = c_acos(z);
    return vec2<f32>(abs(arc.y), with_sign(arc.x, z.y));
}
fn c_atanh(z: vec2<f32>) -> vec2<f32> {
    if c_small(z) { return z; }
    let x = abs(z.x);
    let y = abs(z.y);
    if infinite(x) || infinite(y) {
        return vec2<f32>(with_sign(0.0, z.x), with_sign(select(1.5707964, y, nan(y)), z.y));
    }
    if nan(x) || nan(y) { return vec2<f32>(select(not_a_number(), z.x, z.x == 0.0), not_a_number()); }
    // Whose squares overflow.
    if max(x, y) > 1e18 {
        let half = c_abs(vec2<f32>(0.5 * x, 0.5 * y));
        let re = divide(divide(0.5 * x, half), half) * 0.5;
        return vec2<f32>(with_sign(re, z.x), with_sign(1.5707964, z.y));
    }
    let rest = 1.0 - x;
    let square = y * y;
    var re = 0.0;
    if rest == 0.0 && y < 1e-18 {
        // Whose square vanishes.
        re = 0.5 * (0.6931472 - log_of(y));
    } else {
        re = 0.25 * log1p_of(divide(4.0 * x, rest * rest + square));
    }
    let im = 0.5 * atan2_of(2.0 * y, rest * (1.0 + x) - square);
    return vec2<f32>(with_sign(re, z.x), with_sign(im, z.y));
}
fn c_atan(z: vec2<f32>) -> vec2<f32> {
    let arc = c_atanh(vec2<f32>(z.y, z.x));
    return vec2<f32>(arc.y, arc.x);
}
