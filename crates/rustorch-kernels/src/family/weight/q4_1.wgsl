fn codes(at: u32, g: u32, i: u32) -> u32 {
    return (word_at(at + 4u + 4u * (i & 3u)) >> (4u * (i >> 2u))) & 0x0f0f0f0fu;
}
