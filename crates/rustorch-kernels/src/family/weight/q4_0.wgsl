fn less(codes: u32, offset: u32) -> u32 {
    // Byte by byte: the borrowed top bits keep the subtractions apart.
    return ((codes | 0x80808080u) - offset) ^ 0x80808080u;
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    let packed = word_at(at + 2u + 4u * (i & 3u)) >> (4u * (i >> 2u));
    return less(packed & 0x0f0f0f0fu, 0x08080808u);
}
