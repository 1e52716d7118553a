// Philox4x32-10: Salmon, Moraes, Dror, Shaw, SC 2011.
fn philox(counter: vec2<u32>, seed: vec2<u32>) -> vec4<u32> {
    var x = vec4<u32>(counter.x, counter.y, 0u, 0u);
    var key = seed;
    for (var round = 0u; round < 10u; round += 1u) {
        if round != 0u { key = key + vec2<u32>(0x9e3779b9u, 0xbb67ae85u); }
        let a = product_words(x.x, 0xd2511f53u);
        let b = product_words(x.z, 0xcd9e8d57u);
        x = vec4<u32>(b.y ^ x.y ^ key.x, b.x, a.y ^ x.w ^ key.y, a.x);
    }
    return x;
}
// word·range/2³², rounded down, of a range of 64 bits.
fn scaled_word(word: u32, range: vec2<u32>) -> vec2<u32> {
    return pair_add(product_words(word, range.y), vec2<u32>(product_words(word, range.x).y, 0u));
}
// words·range/2⁶⁴, rounded down.
fn scaled_pair(words: vec2<u32>, range: vec2<u32>) -> vec2<u32> {
    let low = pair_add(product_words(words.x, range.y), vec2<u32>(product_words(words.x, range.x).y, 0u));
    let middle = pair_add(product_words(words.y, range.x), vec2<u32>(low.x, 0u));
    return pair_add(pair_add(product_words(words.y, range.y), vec2<u32>(low.y, 0u)), vec2<u32>(middle.y, 0u));
}
