//! Numbers as fixtures have them.

/// The index of the largest; of equals the first.
pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, &x) in logits.iter().enumerate() {
        if x > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Little-endian `f32` values in base64.
pub(crate) fn floats(text: &str) -> Vec<f32> {
    base64(text).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The bytes that a text in base64 stands for.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits =
        text.bytes().filter(|&b| b != b'=').map(|b| ALPHABET.iter().position(|&a| a == b).unwrap() as u32);
    let (mut bits, mut held, mut out) = (0u32, 0, Vec::new());
    for digit in digits {
        bits = bits << 6 | digit;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

/// The FNV-1a hash of some bytes.
pub(crate) fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}
