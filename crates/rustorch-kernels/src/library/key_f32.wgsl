fn order_key(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u { return 0xffffffffu; }
    // Zeros of either sign are equal.
    if magnitude == 0u { return 0x80000000u; }
    return select(bits | 0x80000000u, ~bits, bits >> 31u != 0u);
}
fn order_value(k: u32) -> f32 {
    if k == 0xffffffffu { return bitcast<f32>(k & 0x7fc00000u); }
    return bitcast<f32>(select(~k, k & 0x7fffffffu, k >> 31u != 0u));
}
