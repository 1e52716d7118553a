fn fused_long(a: f64, b: f64, c: f64) -> f64 {
    // Dekker's product in two parts, Knuth's sums: Numerische Mathematik 18 (1971), The Art of Computer Programming 2.
    let split = f64(134217728.0) + f64(1.0);
    let product = a * b;
    if !(abs(product) < f64(1e37) && abs(product) > f64(1e-30) && abs(a) < f64(1e34) && abs(b) < f64(1e34)) {
        return product + c;
    }
    let a_shifted = a * split;
    let a_high = a_shifted - (a_shifted - a);
    let a_low = a - a_high;
    let b_shifted = b * split;
    let b_high = b_shifted - (b_shifted - b);
    let b_low = b - b_high;
    let product_low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    let sum = product + c;
    let part = sum - product;
    let sum_low = (product - (sum - part)) + (c - part);
    let low = sum_low + product_low;
    let low_part = low - sum_low;
    let lost = (sum_low - (low - low_part)) + (product_low - low_part);
    let result = sum + low;
    let rest = (sum - result) + low;
    if lost != f64(0.0) && rest != f64(0.0) {
        let other = result + (rest + rest);
        if other - result == rest + rest && other != result && (lost > f64(0.0)) == (rest > f64(0.0)) {
            return other;
        }
    }
    return result;
}
