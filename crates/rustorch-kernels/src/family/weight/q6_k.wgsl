fn codes(at: u32, g: u32, i: u32) -> u32 {
    let part = g & 3u;
    let low = (word_at(at + 64u * (g >> 2u) + 32u * (part & 1u) + 4u * i) >> (4u * (part >> 1u))) & 0x0f0f0f0fu;
    let high = (word_at(at + 128u + 32u * (g >> 2u) + 4u * i) >> (2u * part)) & 0x03030303u;
    return low | (high << 4u);
}
fn scale(at: u32, s: u32) -> i32 {
    return bitcast<i32>(byte_at(at + 192u + s) << 24u) >> 24u;
}
