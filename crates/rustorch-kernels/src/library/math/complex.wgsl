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
fn c_log(z: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(log_of(c_abs(z)), atan2_of(z.y, z.x));
}
fn c_sqrt(z: vec2<f32>) -> vec2<f32> {
    let size = c_abs(z);
    if size == 0.0 { return vec2<f32>(0.0, z.y); }
    let large = root(0.5 * (size + abs(z.x)));
    let small = divide(0.5 * z.y, large);
    if negative(z.x) { return vec2<f32>(abs(small), with_sign(large, z.y)); }
    return vec2<f32>(large, small);
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
