fn code(nibble: u32) -> u32 {
    var four = 0xbfad9881u;
    switch nibble >> 2u {
        case 1u: { four = 0xf6eaddcfu; }
        case 2u: { four = 0x26190d01u; }
        case 3u: { four = 0x71594535u; }
        default: {}
    }
    return (four >> ((nibble & 3u) * 8u)) & 255u;
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    let packed = word_at(at + 2u + 4u * (i & 3u)) >> (4u * (i >> 2u));
    return code(packed & 15u) | (code((packed >> 8u) & 15u) << 8u) | (code((packed >> 16u) & 15u) << 16u)
        | (code((packed >> 24u) & 15u) << 24u);
}
