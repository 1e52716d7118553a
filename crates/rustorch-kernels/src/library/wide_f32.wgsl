// Pairs of f32 whose sum is the number: Dekker, Numerische Mathematik 18 (1971).
alias Wide = vec2<f32>;
fn wide(x: f32) -> Wide { return vec2<f32>(x, 0.0); }
fn wide_of(high: f32, low: f32) -> Wide { return vec2<f32>(high, low); }
fn wide_settle(high: f32, low: f32) -> Wide {
    let sum = kept(high + low);
    return vec2<f32>(sum, low - (sum - high));
}
fn wide_add(a: Wide, b: Wide) -> Wide {
    let sum = kept(a.x + b.x);
    let part = kept(sum - a.x);
    return wide_settle(sum, ((a.x - (sum - part)) + (b.x - part)) + (a.y + b.y));
}
fn wide_mul(a: Wide, b: Wide) -> Wide {
    let product = kept(a.x * b.x);
    return wide_settle(product, fused(a.x, b.x, -product) + (a.x * b.y + a.y * b.x));
}
fn narrow(a: Wide) -> f32 { return a.x + a.y; }
