fn codes(at: u32, g: u32, i: u32) -> u32 {
    return word_at(at + 2u + 4u * i);
}
