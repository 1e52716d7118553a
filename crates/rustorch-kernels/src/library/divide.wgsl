fn ordinary(x: f32) -> bool {
    let magnitude = bitcast<u32>(x) & 0x7fffffffu;
    return magnitude >= 0x0c800000u && magnitude < 0x7e800000u;
}
fn divide(a: f32, b: f32) -> f32 {
    let quotient = a / b;
    if !(ordinary(quotient) && ordinary(a) && ordinary(b)) {
        return quotient;
    }
    // What is left of a shows by how much the quotient is off (Markstein's correction).
    return fused(fused(-quotient, b, a), 1.0 / b, quotient);
}
fn root(a: f32) -> f32 {
    let estimate = sqrt(a);
    if !(ordinary(estimate) && ordinary(a)) {
        return estimate;
    }
    return fused(fused(-estimate, estimate, a), 0.5 / estimate, estimate);
}
