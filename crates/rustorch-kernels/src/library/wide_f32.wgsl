// Pairs of f32 whose sum is the number: Dekker, Numerische Mathematik 18 (1971). Every difference is kept: compilers that take sums
// apart find what a sum has lost to be a + b - (a + b), which is 0.
alias Wide = vec2<f32>;
fn wide(x: f32) -> Wide { return vec2<f32>(x, 0.0); }
fn wide_of(high: f32, low: f32) -> Wide { return vec2<f32>(high, low); }
fn wide_settle(high: f32, low: f32) -> Wide {
    let sum = kept(high + low);
    return vec2<f32>(sum, low - kept(sum - high));
}
fn wide_add(a: Wide, b: Wide) -> Wide {
    let sum = kept(a.x + b.x);
    let part = kept(sum - a.x);
    let lost = kept(a.x - kept(sum - part)) + kept(b.x - part);
    return wide_settle(sum, kept(lost) + (a.y + b.y));
}
fn wide_mul(a: Wide, b: Wide) -> Wide {
    let product = kept(a.x * b.x);
    return wide_settle(product, fused(a.x, b.x, -product) + (a.x * b.y + a.y * b.x));
}
fn narrow(a: Wide) -> f32 { return a.x + a.y; }
