fn fused(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact; the sum is rounded to f64, then to f32. Rounding twice errs only where the first result lies
    // half way between two f32: there what the sum lost decides.
    let product = f64(a) * f64(b);
    let sum = product + f64(c);
    let result = f32(sum);
    let part = sum - product;
    let lost = (product - (sum - part)) + (f64(c) - part);
    let rest = sum - f64(result);
    if lost != f64(0.0) && rest != f64(0.0) {
        let other = f64(result) + (rest + rest);
        if f64(f32(other)) == other && (lost > f64(0.0)) == (rest > f64(0.0)) {
            return f32(other);
        }
    }
    return result;
}
