fn less(codes: u32, offset: u32) -> u32 {
    // Byte by byte: the borrowed top bits keep the subtractions apart.
    return ((codes | 0x80808080u) - offset) ^ 0x80808080u;
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    let low = (word_at(at + 32u + 32u * (g >> 2u) + 4u * i) >> (2u * (g & 3u))) & 0x03030303u;
    let high = (word_at(at + 4u * i) >> g) & 0x01010101u;
    return less(low | (high << 2u), 0x04040404u);
}
fn scale(at: u32, s: u32) -> i32 {
    // Four low bits in the first eight bytes, two high ones in the last four.
    let low = (byte_at(at + 96u + (s & 7u)) >> (4u * (s >> 3u))) & 15u;
    let high = (byte_at(at + 104u + (s & 3u)) >> (2u * (s >> 2u))) & 3u;
    return i32(low | (high << 4u)) - 32;
}
