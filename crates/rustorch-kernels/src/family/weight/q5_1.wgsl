fn fifth_bits(bits: u32) -> u32 {
    return ((bits & 1u) << 4u) | ((bits & 2u) << 11u) | ((bits & 4u) << 18u) | ((bits & 8u) << 25u);
}
fn codes(at: u32, g: u32, i: u32) -> u32 {
    let low = (word_at(at + 8u + 4u * (i & 3u)) >> (4u * (i >> 2u))) & 0x0f0f0f0fu;
    return low | fifth_bits(word_at(at + 4u) >> (4u * i));
}
