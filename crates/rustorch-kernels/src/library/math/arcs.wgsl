fn asin_near(x: f32) -> f32 {
    let z = x * x;
    var p = 0.037529424;
    p = p * z + 0.014429807;
    p = p * z + 0.031809922;
    p = p * z + 0.04451671;
    p = p * z + 0.075005054;
    p = p * z + 0.1666666;
    return p * z * x + x;
}
fn asin_of(x: f32) -> f32 {
    let t = abs(x);
    if nan(x) || t > 1.0 { return not_a_number(); }
    if t < 0.5 { return asin_near(x); }
    let part = asin_near(root(0.5 * (1.0 - t)));
    return with_sign(1.5707964 - (2.0 * part + 4.371139e-8), x);
}
fn acos_of(x: f32) -> f32 {
    let t = abs(x);
    if nan(x) || t > 1.0 { return not_a_number(); }
    if t < 0.5 { return 1.5707964 - (asin_near(x) + 4.371139e-8); }
    let part = 2.0 * asin_near(root(0.5 * (1.0 - t)));
    return select(part, 3.1415927 - (part + 8.742278e-8), x < 0.0);
}
// The arc of a/b for a, b ≥ 0, not both 0 or ∞, in [0, π/2].
fn arc(a: f32, b: f32) -> f32 {
    var r = divide(a, b);
    var high = 0.0;
    var low = 0.0;
    if r > 2.4142137 {
        r = -divide(b, a);
        high = 1.5707964;
        low = -4.371139e-8;
    } else if r > 0.41421357 {
        r = divide(a - b, a + b);
        high = 0.7853982;
        low = -2.1855694e-8;
    }
    let z = r * r;
    var p = -0.06077857;
    p = p * z + 0.105936766;
    p = p * z - 0.14243516;
    p = p * z + 0.1999847;
    p = p * z - 0.33333316;
    return high + (r + (p * z * r + low));
}
fn atan_of(x: f32) -> f32 {
    if nan(x) { return x; }
    return with_sign(arc(abs(x), 1.0), x);
}
fn atan2_of(y: f32, x: f32) -> f32 {
    if nan(x) || nan(y) { return not_a_number(); }
    var a = abs(y);
    var b = abs(x);
    // Infinities and numbers near the ends of the range: only the ratio counts. 0/0 counts as 0, ∞/∞ as 1.
    if infinite(a) || infinite(b) {
        a = select(0.0, 1.0, infinite(a));
        b = select(0.0, 1.0, infinite(b));
    } else if max(a, b) > 1e18 {
        a = a * 1e-20;
        b = b * 1e-20;
    } else if max(a, b) < 1e-18 {
        a = a * 1e20;
        b = b * 1e20;
    }
    var angle = 0.0;
    if a > b {
        angle = 1.5707964 - (arc(b, a) + 4.371139e-8);
    } else if b > 0.0 {
        angle = arc(a, b);
    }
    if negative(x) { angle = 3.1415927 - (angle + 8.742278e-8); }
    return with_sign(angle, y);
}
