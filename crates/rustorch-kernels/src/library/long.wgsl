fn long_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn long_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let a_low = a.x & 65535u;
    let a_high = a.x >> 16u;
    let b_low = b.x & 65535u;
    let b_high = b.x >> 16u;
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 16u);
    let other = a_low * b_high + (middle & 65535u);
    let high = a_high * b_high + (middle >> 16u) + (other >> 16u);
    return vec2<u32>((other << 16u) | (low & 65535u), high + a.x * b.y + a.y * b.x);
}
