// 1, which compilers do not know: they would take sums and differences together, and the errors that are sought with them.
var<private> ring_one: f64;
fn fused_long(a: f64, b: f64, c: f64) -> f64 {
    // A product in parts of 24 and 29 bits; Knuth's sums: The Art of Computer Programming 2.
    let product = a * b;
    if !(abs(product) < f64(1e37) && abs(product) > f64(1e-30) && abs(a) < f64(1e34) && abs(b) < f64(1e34)) {
        return product + c;
    }
    let a_high = f64(f32(a));
    let a_low = a - a_high;
    let b_high = f64(f32(b));
    let b_low = b - b_high;
    let product_low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    let sum = product + c;
    // What an infinite sum has lost is no number.
    if !(abs(sum) < f64(1e308)) {
        return sum;
    }
    let part = sum * ring_one - product;
    let sum_low = (product - (sum * ring_one - part)) + (c - part);
    let low = sum_low + product_low;
    let low_part = low * ring_one - sum_low;
    let lost = (sum_low - (low * ring_one - low_part)) + (product_low - low_part);
    let result = sum + low;
    let rest = (sum - result * ring_one) + low;
    if lost != f64(0.0) && rest != f64(0.0) {
        let other = result + (rest + rest);
        if other * ring_one - result == rest + rest && other != result && (lost > f64(0.0)) == (rest > f64(0.0)) {
            return other;
        }
    }
    return result;
}
