//! The codebooks of the IQ types: facts of the formats, kept packed in the source and unpacked by the compiler.

mod iq1;
mod iq2;
mod iq3;

pub(crate) use iq1::{IQ1_CODES, IQ1_EIGHTFOLD};
pub(crate) use iq2::{IQ2_S, IQ2_XS, IQ2_XXS};
pub(crate) use iq3::{IQ3_S, IQ3_XXS};

/// Each entry of `packed` as `N` codes: `16 / N` bits each, the first lowest, index `codes`.
const fn unpack<const N: usize, const ENTRIES: usize>(
    packed: &[u16; ENTRIES],
    codes: &[i8],
) -> [[i8; N]; ENTRIES] {
    let bits = 16 / N;
    let mut grid = [[0; N]; ENTRIES];
    let mut entry = 0;
    while entry < ENTRIES {
        let mut i = 0;
        while i < N {
            grid[entry][i] = codes[(packed[entry] as usize >> (i * bits)) & ((1 << bits) - 1)];
            i += 1;
        }
        entry += 1;
    }
    grid
}

/// A codebook code by code, each code of all entries contiguous, for searching it.
const fn transpose<const N: usize, const ENTRIES: usize>(grid: &[[i8; N]; ENTRIES]) -> [[f32; ENTRIES]; N] {
    let mut codes = [[0.0; ENTRIES]; N];
    let mut entry = 0;
    while entry < ENTRIES {
        let mut i = 0;
        while i < N {
            codes[i][entry] = grid[entry][i] as f32;
            i += 1;
        }
        entry += 1;
    }
    codes
}

/// [`IQ2_XXS`] for searching.
pub(crate) static IQ2_XXS_CODES: [[f32; 256]; 8] = transpose(&IQ2_XXS);
/// [`IQ2_XS`] for searching.
pub(crate) static IQ2_XS_CODES: [[f32; 512]; 8] = transpose(&IQ2_XS);
/// [`IQ2_S`] for searching.
pub(crate) static IQ2_S_CODES: [[f32; 1024]; 8] = transpose(&IQ2_S);
/// [`IQ3_XXS`] for searching.
pub(crate) static IQ3_XXS_CODES: [[f32; 256]; 4] = transpose(&IQ3_XXS);
/// [`IQ3_S`] for searching.
pub(crate) static IQ3_S_CODES: [[f32; 512]; 4] = transpose(&IQ3_S);

/// For each set of eight sign bits, eight bytes: 0 keeps a code, 0xff negates it.
static SIGN_MASKS: [u64; 256] = {
    let mut masks = [0; 256];
    let mut signs = 0;
    while signs < 256 {
        let mut bytes = [0; 8];
        let mut i = 0;
        while i < 8 {
            bytes[i] = if signs >> i & 1 == 1 { 0xff } else { 0 };
            i += 1;
        }
        masks[signs] = u64::from_ne_bytes(bytes);
        signs += 1;
    }
    masks
};

/// `codes`, which are positive, with those negated whose bit in `signs` is set.
#[inline(always)]
pub(crate) fn signed(codes: [i8; 8], signs: u8) -> [i8; 8] {
    let mask = SIGN_MASKS[usize::from(signs)];
    // All eight at once: -x is !x + 1, and no sum carries into the next byte since no code is zero.
    let codes: u64 = bytemuck::cast(codes);
    bytemuck::cast((codes ^ mask).wrapping_add(mask & 0x0101_0101_0101_0101))
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
    fn signed_levels_are_positive() {
        let eight = [&IQ2_XXS[..], &IQ2_XS, &IQ2_S].concat();
        let four = [&IQ3_XXS[..], &IQ3_S].concat();
        assert!(eight.as_flattened().iter().chain(four.as_flattened()).all(|&code| code > 0));
    }

    #[test]
    fn signs_negate() {
        assert_eq!(signed([1, 2, 3, 4, 5, 6, 7, 43], 0b1000_0101), [-1, 2, -3, 4, 5, 6, 7, -43]);
    }
}
