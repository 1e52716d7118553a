//! Size classes of the caching allocator: eight to the octave, so that at most an eighth is wasted.

/// The smallest block: a cache line.
const LEAST: usize = 64;
/// Steps in an octave, as a power of two.
const STEPS: u32 = 3;

/// The number of a size class; classes are ordered by size.
#[inline]
pub(crate) fn class_of(bytes: usize) -> usize {
    if bytes <= LEAST {
        return 0;
    }
    let n = bytes - 1;
    let octave = n.ilog2();
    let step = (n >> (octave.saturating_sub(STEPS))) & ((1 << STEPS) - 1);
    ((((octave - LEAST.ilog2()) as usize) << STEPS) | step) + 1
}

/// The bytes of a block that serves `bytes`: the top of its class.
#[inline]
pub(crate) fn rounded(bytes: usize) -> usize {
    if bytes <= LEAST {
        return LEAST;
    }
    let n = bytes - 1;
    let unit = 1usize << (n.ilog2() - STEPS);
    (n / unit).checked_add(1).and_then(|k| k.checked_mul(unit)).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_serves_its_whole_class_with_little_waste() {
        for bytes in (0..5000).chain([1 << 20, (1 << 20) + 1, usize::MAX / 2, usize::MAX]) {
            let size = rounded(bytes);
            assert!(size >= bytes);
            assert!(size <= LEAST || size - bytes <= size / 8, "{bytes} {size}");
            assert_eq!(class_of(bytes), class_of(size), "{bytes} {size}");
            if size < usize::MAX / 2 {
                assert!(class_of(size + 1) > class_of(size), "{size}");
            }
        }
    }
}
