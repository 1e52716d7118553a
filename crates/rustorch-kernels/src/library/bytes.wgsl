fn byte_at(at: u32) -> u32 {
    return (w[at >> 2u] >> ((at & 3u) * 8u)) & 255u;
}
fn half_at(at: u32) -> u32 {
    return (w[at >> 2u] >> ((at & 2u) * 8u)) & 65535u;
}
// Without a branch, which would keep loads from being on their way together.
fn word_at(at: u32) -> u32 {
    let low = w[at >> 2u];
    let high = w[(at >> 2u) + ((at >> 1u) & 1u)];
    return select(low, (low >> 16u) | (high << 16u), (at & 2u) != 0u);
}
