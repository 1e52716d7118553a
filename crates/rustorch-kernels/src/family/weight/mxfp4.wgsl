fn code(nibble: u32) -> u32 {
    // E2M1, doubled.
    var four = 0x03020100u;
    switch nibble >> 2u {
        case 1u: { four = 0x0c080604u; }
        case 2u: { four = 0xfdfeff00u; }
        case 3u: { four = 0xf4f8fafcu; }
        default: {}
    }
    return (four >> ((nibble & 3u) * 8u)) & 255u;
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    // Blocks have an odd number of bytes.
    let place = at + 1u + 4u * (i & 3u);
    let shift = (place & 3u) * 8u;
    var word = w[place >> 2u] >> shift;
    if shift != 0u { word |= w[(place >> 2u) + 1u] << (32u - shift); }
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
