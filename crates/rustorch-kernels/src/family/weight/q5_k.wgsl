fn codes(at: u32, g: u32, i: u32) -> u32 {
    let low = (word_at(at + 48u + 32u * (g >> 1u) + 4u * i) >> (4u * (g & 1u))) & 0x0f0f0f0fu;
    return low | (((word_at(at + 16u + 4u * i) >> g) & 0x01010101u) << 4u);
}
fn scale(at: u32, s: u32) -> i32 {
    if s < 4u {
        return i32(byte_at(at + 4u + s) & 63u);
    }
    return i32((byte_at(at + 8u + s) & 15u) | ((byte_at(at + s) >> 6u) << 4u));
}
fn minimum(at: u32, s: u32) -> i32 {
    if s < 4u {
        return i32(byte_at(at + 8u + s) & 63u);
    }
    return i32((byte_at(at + 8u + s) >> 4u) | ((byte_at(at + 4u + s) >> 6u) << 4u));
}
