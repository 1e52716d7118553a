// Numbers whose products with numbers of their kind are neither near the ends of the range of doubles nor of that of singles,
// by which they are taken apart. Quotients and roots of others stay as the hardware has them.
fn ordinary_double(x: f64) -> bool {
    return abs(x) > 1e-30lf && abs(x) < 1e30lf;
}
// c − a·b, where that is little beside c: what is left is exact but for its last bits.
fn left_over(a: f64, b: f64, c: f64) -> f64 {
    let product = kept_double(a * b);
    let a_high = f64(f32(a));
    let a_low = a - a_high;
    let b_high = f64(f32(b));
    let b_low = b - b_high;
    let lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return (c - product) - lost;
}
fn divide_double(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if !(ordinary_double(quotient) && ordinary_double(a) && ordinary_double(b)) {
        return quotient;
    }
    return quotient + left_over(quotient, b, a) / b;
}
fn root_double(a: f64) -> f64 {
    let estimate = sqrt(a);
    if !(ordinary_double(estimate) && ordinary_double(a)) {
        return estimate;
    }
    // The first step leaves the square of what the estimate lacks.
    let root = estimate + left_over(estimate, estimate, a) * (0.5lf / estimate);
    return root + left_over(root, root, a) * (0.5lf / root);
}
