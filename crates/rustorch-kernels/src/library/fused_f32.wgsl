// Without a branch, as are quotients: SwiftShader, which is WebGPU in browsers without a GPU, follows every path through a loop,
// and was not seen to end with those of an exponential. tests/it/forks.rs counts them.
fn fused(a: f32, b: f32, c: f32) -> f32 {
    // Dekker's product in two parts, Knuth's sums: Numerische Mathematik 18 (1971), The Art of Computer Programming 2.
    let product = kept(a * b);
    let splits = (abs(product) < 1e37) & (abs(product) > 1e-30) & (abs(a) < 1e34) & (abs(b) < 1e34);
    let a_shifted = kept(a * 4097.0);
    let a_high = a_shifted - kept(a_shifted - a);
    let a_low = a - a_high;
    let b_shifted = kept(b * 4097.0);
    let b_high = b_shifted - kept(b_shifted - b);
    let b_low = b - b_high;
    let product_low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    let sum = kept(product + c);
    let part = kept(sum - product);
    let sum_low = (product - (sum - part)) + (c - part);
    let low = kept(sum_low + product_low);
    let low_part = kept(low - sum_low);
    let lost = (sum_low - (low - low_part)) + (product_low - low_part);
    let result = kept(sum + low);
    let rest = (sum - result) + low;
    let other = kept(result + (rest + rest));
    let halfway = (lost != 0.0) & (rest != 0.0) & (other - result == rest + rest) & (other != result);
    let rounded = select(result, other, halfway & ((lost > 0.0) == (rest > 0.0)));
    // What an infinite sum has lost is no number.
    return select(sum, rounded, splits & (abs(sum) < 3e38));
}
