//! Unpacking of the bit layouts that several types share. Plain loops over whole arrays, which vectorise.

/// Sixteen bytes as 32 values: the low nibbles, then the high ones.
#[inline(always)]
pub(super) fn nibbles(qs: &[u8; 16], q: &mut [i8; 256]) {
    for i in 0..16 {
        q[i] = (qs[i] & 15) as i8;
        q[16 + i] = (qs[i] >> 4) as i8;
    }
}

/// Sets bit 4 of value `i` to bit `i` of `qh`.
#[inline(always)]
pub(super) fn join_fifth_bits(qh: u32, q: &mut [i8; 256]) {
    for (i, q) in q[..32].iter_mut().enumerate() {
        *q |= ((qh >> i & 1) << 4) as i8;
    }
}

/// 2-bit values: byte `l` of each 32 holds values `l`, `l + 32`, `l + 64` and `l + 96` of a half.
#[inline(always)]
pub(super) fn crumbs(qs: &[u8; 64], q: &mut [i8; 256]) {
    for half in 0..2 {
        for j in 0..4 {
            for l in 0..32 {
                q[128 * half + 32 * j + l] = (qs[32 * half + l] >> (2 * j) & 3) as i8;
            }
        }
    }
}

/// Adds `weight` to value `32 * j + l` where bit `j` of byte `l` is set.
#[inline(always)]
pub(super) fn bit_planes(bits: &[u8; 32], weight: i8, q: &mut [i8; 256]) {
    for j in 0..8 {
        for l in 0..32 {
            q[32 * j + l] += (bits[l] >> j & 1) as i8 * weight;
        }
    }
}
