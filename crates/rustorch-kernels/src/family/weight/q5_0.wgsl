fn less(codes: u32, offset: u32) -> u32 {
    // Byte by byte: the borrowed top bits keep the subtractions apart.
    return ((codes | 0x80808080u) - offset) ^ 0x80808080u;
}
fn fifth_bits(bits: u32) -> u32 {
    return ((bits & 1u) << 4u) | ((bits & 2u) << 11u) | ((bits & 4u) << 18u) | ((bits & 8u) << 25u);
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    let low = (word_at(at + 6u + 4u * (i & 3u)) >> (4u * (i >> 2u))) & 0x0f0f0f0fu;
    return less(low | fifth_bits(word_at(at + 2u) >> (4u * i)), 0x10101010u);
}
