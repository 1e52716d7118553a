fn code(nibble: u32) -> u32 {
    // E2M1, doubled.
    let odd = (nibble & 4u) != 0u;
    let positive = select(0x03020100u, 0x0c080604u, odd);
    let negative = select(0xfdfeff00u, 0xf4f8fafcu, odd);
    return (select(positive, negative, (nibble & 8u) != 0u) >> ((nibble & 3u) * 8u)) & 255u;
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    // Blocks have an odd number of bytes.
    let place = at + 1u + 4u * (i & 3u);
    let shift = (place & 3u) * 8u;
    let next = w[(place >> 2u) + select(0u, 1u, shift != 0u)];
    let word = (w[place >> 2u] >> shift) | select(0u, next << ((32u - shift) & 31u), shift != 0u);
    let packed = word >> (4u * (i >> 2u));
    return code(packed & 15u) | (code((packed >> 8u) & 15u) << 8u) | (code((packed >> 16u) & 15u) << 16u)
        | (code((packed >> 24u) & 15u) << 24u);
}
fn e8m0_halved(e: u32) -> f32 {
    // A variable, because constants must not be subnormal everywhere.
    var bits = (e - 1u) << 23u;
    if e < 2u { bits = 0x00200000u << e; }
    return bitcast<f32>(bits);
}
