fn order_key(v: vec2<u32>) -> vec2<u32> {
    let magnitude = v.y & 0x7fffffffu;
    if magnitude > 0x7ff00000u || magnitude == 0x7ff00000u && v.x != 0u { return vec2<u32>(0xffffffffu, 0xffffffffu); }
    // Zeros of either sign are equal.
    if (magnitude | v.x) == 0u { return vec2<u32>(0u, 0x80000000u); }
    return select(vec2<u32>(v.x, v.y | 0x80000000u), ~v, v.y >> 31u != 0u);
}
fn order_value(k: vec2<u32>) -> vec2<u32> {
    if k.x == 0xffffffffu && k.y == 0xffffffffu { return vec2<u32>(0u, 0x7ff80000u); }
    return select(~k, vec2<u32>(k.x, k.y & 0x7fffffffu), k.y >> 31u != 0u);
}
