fn code(nibble: u32) -> u32 {
    // Without a branch, since neighbours have other codes.
    let odd = (nibble & 4u) != 0u;
    let low = select(0xbfad9881u, 0xf6eaddcfu, odd);
    let high = select(0x26190d01u, 0x71594535u, odd);
    return (select(low, high, (nibble & 8u) != 0u) >> ((nibble & 3u) * 8u)) & 255u;
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    let packed = word_at(at + 2u + 4u * (i & 3u)) >> (4u * (i >> 2u));
    return code(packed & 15u) | (code((packed >> 8u) & 15u) << 8u) | (code((packed >> 16u) & 15u) << 16u)
        | (code((packed >> 24u) & 15u) << 24u);
}
