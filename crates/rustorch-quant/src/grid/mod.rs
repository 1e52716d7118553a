//! The codebooks of the IQ types: facts of the formats, kept packed in the source and unpacked by the compiler.

mod iq1;
mod iq2;
mod iq3;

pub(crate) use iq1::IQ1_EIGHTFOLD;
pub(crate) use iq2::{IQ2_S, IQ2_XS, IQ2_XXS};
pub(crate) use iq3::{IQ3_S, IQ3_XXS};

/// Each entry of `packed` as `N` levels: `16 / N` bits each, the first lowest, index `levels`.
const fn unpack<const N: usize, const ENTRIES: usize>(
    packed: &[u16; ENTRIES],
    levels: &[i8],
) -> [[i8; N]; ENTRIES] {
    let bits = 16 / N;
    let mut grid = [[0; N]; ENTRIES];
    let mut entry = 0;
    while entry < ENTRIES {
        let mut i = 0;
        while i < N {
            grid[entry][i] = levels[(packed[entry] as usize >> (i * bits)) & ((1 << bits) - 1)];
            i += 1;
        }
        entry += 1;
    }
    grid
}

/// For each set of eight sign bits, eight masks: 0 keeps a level, -1 negates it.
static SIGN_MASKS: [[i8; 8]; 256] = {
    let mut masks = [[0; 8]; 256];
    let mut signs = 0;
    while signs < 256 {
        let mut i = 0;
        while i < 8 {
            masks[signs][i] = -((signs >> i & 1) as i8);
            i += 1;
        }
        signs += 1;
    }
    masks
};

/// `levels` with those negated whose bit in `signs` is set.
#[inline(always)]
pub(crate) fn signed(levels: &[i8; 8], signs: u8) -> [i8; 8] {
    let masks = &SIGN_MASKS[usize::from(signs)];
    std::array::from_fn(|i| (levels[i] ^ masks[i]) - masks[i])
}

/// Eight sign bits out of the low seven of `stored`: the eighth makes their number even.
#[inline(always)]
pub(crate) fn even_signs(stored: u32) -> u8 {
    let seven = (stored & 127) as u8;
    let mut parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    seven | parity << 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_even_in_number() {
        for stored in 0..128 {
            let signs = even_signs(stored);
            assert_eq!(u32::from(signs & 127), stored);
            assert!(signs.count_ones().is_multiple_of(2));
        }
    }

    #[test]
    fn signs_negate() {
        assert_eq!(signed(&[1, 2, 3, 4, 5, 6, 7, 43], 0b1000_0101), [-1, 2, -3, 4, 5, 6, 7, -43]);
    }
}
