// (asin x − x)/x of x² = z up to ¼.
fn asin_rest(z: f64) -> f64 {
    var p = 3.47933107596021167570e-05lf;
    p = p * z + 7.91534994289814532176e-04lf;
    p = p * z - 4.00555345006794114027e-02lf;
    p = p * z + 2.01212532134862925881e-01lf;
    p = p * z - 3.25565818622400915405e-01lf;
    p = p * z + 1.66666666666666657415e-01lf;
    var q = 7.70381505559019352791e-02lf;
    q = q * z - 6.88283971605453293030e-01lf;
    q = q * z + 2.02094576023350569471lf;
    q = q * z - 2.40339491173441421878lf;
    q = q * z + 1.0lf;
    return divide_double(z * p, q);
}
fn asin_double(x: f64) -> f64 {
    let t = abs(x);
    if nan_double(x) || t > 1.0lf { return no_double(); }
    if t < 1e-8lf { return x; }
    if t < 0.5lf { return x + x * asin_rest(x * x); }
    let z = 0.5lf * (1.0lf - t);
    let s = root_double(z);
    let rest = asin_rest(z);
    if t > 0.975lf {
        return with_sign_double(1.57079632679489655800lf - (2.0lf * (s + s * rest) - 6.12323399573676603587e-17lf), x);
    }
    let f = shortened(s);
    let c = divide_double(z - f * f, s + f);
    let part = 2.0lf * s * rest - (6.12323399573676603587e-17lf - 2.0lf * c);
    return with_sign_double(0.78539816339744827900lf - (part - (0.78539816339744827900lf - 2.0lf * f)), x);
}
fn acos_double(x: f64) -> f64 {
    let t = abs(x);
    if nan_double(x) || t > 1.0lf { return no_double(); }
    if t < 0.5lf {
        return 1.57079632679489655800lf - (x - (6.12323399573676603587e-17lf - x * asin_rest(x * x)));
    }
    let z = 0.5lf * (1.0lf - t);
    let s = root_double(z);
    if t == 1.0lf { return select(0.0lf, 3.14159265358979311600lf, x < 0.0lf); }
    let part = asin_rest(z) * s;
    if x < 0.0lf { return 2.0lf * (1.57079632679489655800lf - (s + (part - 6.12323399573676603587e-17lf))); }
    let f = shortened(s);
    return 2.0lf * (f + (part + divide_double(z - f * f, s + f)));
}
fn atan_double(x: f64) -> f64 {
    if nan_double(x) { return x; }
    let t = abs(x);
    if t < 1e-9lf { return x; }
    var r = t;
    var high = 0.0lf;
    var low = 0.0lf;
    if t >= 2.4375lf {
        r = divide_double(-1.0lf, t);
        high = 1.57079632679489655800lf;
        low = 6.12323399573676603587e-17lf;
    } else if t >= 1.1875lf {
        r = divide_double(t - 1.5lf, 1.0lf + 1.5lf * t);
        high = 9.82793723247329054082e-01lf;
        low = 1.39033110312309984516e-17lf;
    } else if t >= 0.6875lf {
        r = divide_double(t - 1.0lf, t + 1.0lf);
        high = 7.85398163397448278999e-01lf;
        low = 3.06161699786838301793e-17lf;
    } else if t >= 0.4375lf {
        r = divide_double(2.0lf * t - 1.0lf, 2.0lf + t);
        high = 4.63647609000806093515e-01lf;
        low = 2.26987774529616870924e-17lf;
    }
    let z = r * r;
    var p = 1.62858201153657823623e-02lf;
    p = p * z - 3.65315727442169155270e-02lf;
    p = p * z + 4.97687799461593236017e-02lf;
    p = p * z - 5.83357013379057348645e-02lf;
    p = p * z + 6.66107313738753120669e-02lf;
    p = p * z - 7.69187620504482999495e-02lf;
    p = p * z + 9.09088713343650656196e-02lf;
    p = p * z - 1.11111104054623557880e-01lf;
    p = p * z + 1.42857142725034663711e-01lf;
    p = p * z - 1.99999999998764832476e-01lf;
    p = p * z + 3.33333333333329318027e-01lf;
    return with_sign_double(high - ((r * (z * p) - low) - r), x);
}
fn atan2_double(y: f64, x: f64) -> f64 {
    if nan_double(x) || nan_double(y) { return no_double(); }
    var a = abs(y);
    var b = abs(x);
    // Of infinities only the ratio counts. 0/0 counts as 0, ∞/∞ as 1.
    if infinite_double(a) || infinite_double(b) {
        a = select(0.0lf, 1.0lf, infinite_double(a));
        b = select(0.0lf, 1.0lf, infinite_double(b));
    }
    var angle = 0.0lf;
    if zero_double(b) {
        angle = select(1.57079632679489655800lf, 0.0lf, zero_double(a));
    } else {
        angle = atan_double(divide_double(a, b));
    }
    if negative_double(x) { angle = 3.14159265358979311600lf - (angle - 1.22464679914735317720e-16lf); }
    return with_sign_double(angle, y);
}
