fn ordinary(x: f32) -> bool {
    let magnitude = bitcast<u32>(x) & 0x7fffffffu;
    return (magnitude >= 0x0c800000u) & (magnitude < 0x7e800000u);
}
fn divide(a: f32, b: f32) -> f32 {
    let quotient = a / b;
    // What is left of a shows by how much the quotient is off (Markstein's correction).
    let nearest = fused(fused(-quotient, b, a), 1.0 / b, quotient);
    return select(quotient, nearest, ordinary(quotient) & ordinary(a) & ordinary(b));
}
fn root(a: f32) -> f32 {
    let estimate = sqrt(a);
    let nearest = fused(fused(-estimate, estimate, a), 0.5 / estimate, estimate);
    return select(estimate, nearest, ordinary(estimate) & ordinary(a));
}
