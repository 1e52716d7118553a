fn byte_at(at: u32) -> u32 {
    return (w[at >> 2u] >> ((at & 3u) * 8u)) & 255u;
}
fn half_at(at: u32) -> u32 {
    return (w[at >> 2u] >> ((at & 2u) * 8u)) & 65535u;
}
fn word_at(at: u32) -> u32 {
    if (at & 2u) == 0u {
        return w[at >> 2u];
    }
    return (w[at >> 2u] >> 16u) | (w[(at >> 2u) + 1u] << 16u);
}
