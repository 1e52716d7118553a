fn codes(at: u32, g: u32, i: u32) -> u32 {
    return (word_at(at + 16u + 32u * (g >> 2u) + 4u * i) >> (2u * (g & 3u))) & 0x03030303u;
}
fn scale(at: u32, s: u32) -> i32 {
    return i32(byte_at(at + s) & 15u);
}
fn minimum(at: u32, s: u32) -> i32 {
    return i32(byte_at(at + s) >> 4u);
}
