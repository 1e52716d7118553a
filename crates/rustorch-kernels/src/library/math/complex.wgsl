fn c_mul(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
// Division that neither overflows nor underflows on the way (Smith, 1962).
fn c_div(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    if abs(b.x) >= abs(b.y) {
        if b.x == 0.0 && b.y == 0.0 { return a / abs(b.x); }
        let ratio = divide(b.y, b.x);
        let scale = b.x + b.y * ratio;
        return vec2<f32>(divide(a.x + a.y * ratio, scale), divide(a.y - a.x * ratio, scale));
    }
    let ratio = divide(b.x, b.y);
    let scale = b.x * ratio + b.y;
    return vec2<f32>(divide(a.x * ratio + a.y, scale), divide(a.y * ratio - a.x, scale));
}
fn c_abs(z: vec2<f32>) -> f32 {
    let a = max(abs(z.x), abs(z.y));
    let b = min(abs(z.x), abs(z.y));
    if infinite(z.x) || infinite(z.y) { return infinity(); }
    if nan(z.x) || nan(z.y) { return not_a_number(); }
    if a == 0.0 { return 0.0; }
    if a > 1e18 || b < 1e-18 {
        let ratio = divide(b, a);
        return a * root(1.0 + ratio * ratio);
    }
    return root(a * a + b * b);
}
fn c_exp(z: vec2<f32>) -> vec2<f32> {
    let turn = sin_cos(z.y);
    let size = exp_of(z.x);
    return vec2<f32>(size * turn.y, size * turn.x);
}
// a² + b² − 1, of which nothing is left near the circle if squares are rounded.
fn beyond_circle(a: f32, b: f32) -> f32 {
    let a_rest = wide_add(wide_mul(wide(a), wide(a)), wide(-1.0));
    return narrow(wide_add(a_rest, wide_mul(wide(b), wide(b))));
}
fn c_log_size(z: vec2<f32>) -> f32 {
    let size = c_abs(z);
    if nan(size) || infinite(z.x) || infinite(z.y) { return size; }
    let a = max(abs(z.x), abs(z.y));
    let b = min(abs(z.x), abs(z.y));
    if size > 0.5 && size < 2.0 { return 0.5 * log1p_of(beyond_circle(a, b)); }
    if size > 1e-30 && size < 1e37 { return log_of(size); }
    var ratio = 0.0;
    if b > 0.0 { ratio = divide(b, a); }
    return log_of(a) + 0.5 * log1p_of(ratio * ratio);
}
fn c_log(z: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(c_log_size(z), atan2_of(z.y, z.x));
}
// The root of x + iy in the first half of the first quadrant, for x, y ≥ 0; mirrored at the diagonal it is that of −x + iy.
fn c_slanted_root(x: f32, y: f32) -> vec2<f32> {
    if x == 0.0 && y == 0.0 { return vec2<f32>(0.0, 0.0); }
    // Powers of two keep sums from overflow and the digits of small numbers.
    var scale = 1.0;
    var back = 1.0;
    if max(x, y) > 1e37 {
        scale = 0.0625;
        back = 4.0;
    } else if max(x, y) < 1e-30 {
        scale = 281474976710656.0;
        back = 5.9604645e-8;
    }
    let large = root(0.5 * (c_abs(vec2<f32>(x * scale, y * scale)) + x * scale));
    return vec2<f32>(large * back, divide(y * scale, large + large) * back);
}
fn c_sqrt(z: vec2<f32>) -> vec2<f32> {
    if infinite(z.y) { return vec2<f32>(infinity(), z.y); }
    var slanted = vec2<f32>(infinity(), select(0.0, z.y, nan(z.y)));
    if !infinite(z.x) { slanted = c_slanted_root(abs(z.x), abs(z.y)); }
    if negative(z.x) { return vec2<f32>(slanted.y, with_sign(slanted.x, z.y)); }
    return vec2<f32>(slanted.x, with_sign(slanted.y, z.y));
}
fn c_sin(z: vec2<f32>) -> vec2<f32> {
    let turn = sin_cos(z.x);
    return vec2<f32>(turn.x * cosh_of(z.y), turn.y * sinh_of(z.y));
}
fn c_cos(z: vec2<f32>) -> vec2<f32> {
    let turn = sin_cos(z.x);
    return vec2<f32>(turn.y * cosh_of(z.y), -turn.x * sinh_of(z.y));
}
fn c_sinh(z: vec2<f32>) -> vec2<f32> {
    let turn = sin_cos(z.y);
    return vec2<f32>(sinh_of(z.x) * turn.y, cosh_of(z.x) * turn.x);
}
fn c_cosh(z: vec2<f32>) -> vec2<f32> {
    let turn = sin_cos(z.y);
    return vec2<f32>(cosh_of(z.x) * turn.y, sinh_of(z.x) * turn.x);
}
fn c_tanh(z: vec2<f32>) -> vec2<f32> {
    let turn = sin_cos(z.y);
    if infinite(z.x) {
        return vec2<f32>(with_sign(1.0, z.x), with_sign(0.0, select(z.y, turn.x * turn.y, finite(z.y))));
    }
    if nan(z.x) || !finite(z.y) {
        return vec2<f32>(select(not_a_number(), z.x, z.x == 0.0), select(not_a_number(), z.y, z.y == 0.0));
    }
    // Beside the square of a larger one's hyperbolic sine that of a cosine is nothing.
    if abs(z.x) > 10.0 {
        return vec2<f32>(with_sign(1.0, z.x), 4.0 * turn.x * turn.y * exp_of(-2.0 * abs(z.x)));
    }
    let s = sinh_of(z.x);
    let scale = s * s + turn.y * turn.y;
    return vec2<f32>(divide(s * cosh_of(z.x), scale), divide(turn.x * turn.y, scale));
}
fn c_tan(z: vec2<f32>) -> vec2<f32> {
    let turned = c_tanh(vec2<f32>(z.y, z.x));
    return vec2<f32>(turned.y, turned.x);
}
fn c_sigmoid(z: vec2<f32>) -> vec2<f32> {
    return c_div(vec2<f32>(1.0, 0.0), vec2<f32>(1.0, 0.0) + c_exp(-z));
}
fn c_mul_double(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    return vec2<f64>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
fn c_div_double(a: vec2<f64>, b: vec2<f64>) -> vec2<f64> {
    if abs(b.x) >= abs(b.y) {
        if b.x == 0.0lf && b.y == 0.0lf { return vec2<f64>(a.x / abs(b.x), a.y / abs(b.x)); }
        let ratio = divide_double(b.y, b.x);
        let scale = b.x + b.y * ratio;
        return vec2<f64>(divide_double(a.x + a.y * ratio, scale), divide_double(a.y - a.x * ratio, scale));
    }
    let ratio = divide_double(b.x, b.y);
    let scale = b.x * ratio + b.y;
    return vec2<f64>(divide_double(a.x * ratio + a.y, scale), divide_double(a.y * ratio - a.x, scale));
}
fn c_abs_double(z: vec2<f64>) -> f64 {
    let a = max(abs(z.x), abs(z.y));
    let b = min(abs(z.x), abs(z.y));
    if a == 0.0lf { return a; }
    let ratio = divide_double(b, a);
    return a * root_double(1.0lf + ratio * ratio);
}
// As kept(x) of both parts.
fn kept_complex(z: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(kept(z.x), kept(z.y));
}
