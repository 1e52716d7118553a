//! IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S: four or eight magnitudes at a time are an entry of a codebook.
//!
//! The nearest entry is found by looking at all of them. That takes longer than ggml's tables of neighbours, needs no
//! tables, and never misses.

use super::QuantizeBlock;
use super::k::group_weights;
use super::legacy::inverse;
use super::search::{CodeSet, best_scale, clamp, round, sum};
use crate::block::{BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs};
use crate::grid::{IQ2_S_CODES, IQ2_XS_CODES, IQ2_XXS_CODES, IQ3_S_CODES, IQ3_XXS_CODES};
use crate::le::{F16Le, U16Le};

impl QuantizeBlock for BlockIq2Xxs {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<8, 256, 32>(x, importance, &IQ2_XXS_CODES, 8.0, true);
        let mut qs = [U16Le::new(0); 32];
        for (part, qs) in qs.chunks_exact_mut(4).enumerate() {
            let index = |j: usize| fit.indices[4 * part + j];
            let signs_and_scale = fit.signs_and_scale(part);
            qs[0] = U16Le::new(index(0) | index(1) << 8);
            qs[1] = U16Le::new(index(2) | index(3) << 8);
            qs[2] = U16Le::new(signs_and_scale as u16);
            qs[3] = U16Le::new((signs_and_scale >> 16) as u16);
        }
        Self { d: fit.d, qs }
    }
}

impl QuantizeBlock for BlockIq2Xs {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<8, 512, 16>(x, importance, &IQ2_XS_CODES, 8.0, true);
        Self {
            d: fit.d,
            qs: std::array::from_fn(|i| U16Le::new(fit.indices[i] | u16::from(fit.signs[i] & 127) << 9)),
            scales: fit.nibble_scales(),
        }
    }
}

impl QuantizeBlock for BlockIq2S {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<8, 1024, 16>(x, importance, &IQ2_S_CODES, 8.0, false);
        let mut qh = [0; 8];
        for (i, index) in fit.indices[..32].iter().enumerate() {
            qh[i / 4] |= ((index >> 8) as u8) << (2 * (i % 4));
        }
        Self {
            d: fit.d,
            qs: std::array::from_fn(|i| fit.indices[i] as u8),
            signs: fit.signs,
            qh,
            scales: fit.nibble_scales(),
        }
    }
}

impl QuantizeBlock for BlockIq3Xxs {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<4, 256, 32>(x, importance, &IQ3_XXS_CODES, 4.0, true);
        let mut scales_and_signs = [0; 32];
        for (part, bytes) in scales_and_signs.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&fit.signs_and_scale(part).to_le_bytes());
        }
        Self { d: fit.d, qs: fit.indices.map(|index| index as u8), scales_and_signs }
    }
}

impl QuantizeBlock for BlockIq3S {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<4, 512, 32>(x, importance, &IQ3_S_CODES, 1.0, false);
        let mut qh = [0; 8];
        for (i, index) in fit.indices.iter().enumerate() {
            qh[i / 8] |= ((index >> 8) as u8) << (i % 8);
        }
        Self {
            d: fit.d,
            qs: fit.indices.map(|index| index as u8),
            qh,
            signs: fit.signs,
            scales: std::array::from_fn(|i| fit.scales[2 * i] | fit.scales[2 * i + 1] << 4),
        }
    }
}

/// A superblock whose values are `d / divisor * (2 * scale + 1) * sign * code`.
struct CodebookFit {
    d: F16Le,
    /// One for each group, 0 to 15.
    scales: [u8; 16],
    /// An entry for each 4 or 8 values.
    indices: [u16; 64],
    /// A bit for each value.
    signs: [u8; 32],
}

impl CodebookFit {
    /// Four sets of seven signs and the scale of 32 values.
    #[inline(always)]
    fn signs_and_scale(&self, part: usize) -> u32 {
        (0..4).fold(u32::from(self.scales[part]) << 28, |bits, j| {
            bits | u32::from(self.signs[4 * part + j] & 127) << (7 * j)
        })
    }

    #[inline(always)]
    fn nibble_scales(&self) -> [u8; 8] {
        std::array::from_fn(|i| self.scales[2 * i] | self.scales[2 * i + 1] << 4)
    }
}

/// The odd integers from 1 to `most`.
#[derive(Clone, Copy)]
pub(super) struct Odd {
    pub(super) most: f32,
}

impl CodeSet for Odd {
    #[inline(always)]
    fn reaches(self) -> impl Iterator<Item = f32> {
        (-9..=9).map(move |k| self.most + 0.2 * k as f32)
    }

    #[inline(always)]
    fn nearest(self, v: f32) -> f32 {
        2.0 * round(clamp((v - 1.0) * 0.5, 0.0, (self.most - 1.0) * 0.5)) + 1.0
    }
}

/// Fits groups of `GROUP` values, `N` values to an entry. With `even`, each eight signs have an even number of bits.
#[inline(always)]
fn fit<const N: usize, const ENTRIES: usize, const GROUP: usize>(
    x: &[f32],
    importance: Option<&[f32]>,
    codebook: &[[f32; ENTRIES]; N],
    divisor: f32,
    even: bool,
) -> CodebookFit {
    let x: &[f32; 256] = x.try_into().expect("callers split the source into blocks of 256");
    let w = group_weights::<GROUP>(x, importance);
    let (magnitudes, signs) = split_signs(x, &w, even);
    // No codebook has an entry whose codes are all its largest, but every one reaches it.
    let top = codebook[0].iter().fold(0f32, |top, &code| top.max(code));

    let (mut wanted, mut weight) = ([0f32; 16], [0f32; 16]);
    for j in 0..256 / GROUP {
        let range = GROUP * j..GROUP * (j + 1);
        let (magnitudes, w) = (&magnitudes[range.clone()], &w[range]);
        let largest = magnitudes.iter().fold(0f32, |m, &v| m.max(v));
        let try_inverse = |inverse: f32| {
            let (mut wll, mut wlx) = (0.0, 0.0);
            for (x, w) in magnitudes.as_chunks::<N>().0.iter().zip(w.as_chunks::<N>().0) {
                let (entry, _) = nearest(codebook, &linear(x, w, inverse), w);
                for i in 0..N {
                    let code = codebook[i][entry];
                    wll += w[i] * code * code;
                    wlx += w[i] * code * x[i];
                }
            }
            // The scale, by how much it lowers the error, and how much an error in it weighs.
            if wlx > 0.0 && wll > 0.0 { (wlx / wll, wlx / wll * wlx, wll) } else { (0.0, 0.0, 0.0) }
        };
        let mut best = (0.0, 0.0, 0.0);
        for k in 0..6 {
            let found = try_inverse(inverse(largest) * top * (0.75 + 0.1 * k as f32));
            if found.1 > best.1 {
                best = found;
            }
        }
        for _ in 0..2 {
            let found = try_inverse(inverse(best.0));
            if found.1 <= best.1 {
                break;
            }
            best = found;
        }
        (wanted[j], weight[j]) = (best.0, best.2);
    }
    let odd = Odd { most: 31.0 };
    let mut d = F16Le::new(best_scale(&wanted, &weight, odd) * divisor);
    let id = inverse(d.get() / divisor);
    let scales = wanted.map(|scale| odd.nearest(scale * id));

    let mut best: Option<(f32, F16Le, [u16; 64])> = None;
    for _ in 0..3 {
        let unit_scale = d.get() / divisor;
        let (mut indices, mut units) = ([0; 64], [0f32; 256]);
        for part in 0..256 / N {
            let range = N * part..N * (part + 1);
            let scale = scales[N * part / GROUP];
            let x: &[f32; N] = magnitudes[range.clone()].try_into().expect("N values");
            let w: &[f32; N] = w[range.clone()].try_into().expect("N values");
            let (entry, _) = nearest(codebook, &linear(x, w, inverse(unit_scale * scale)), w);
            indices[part] = entry as u16;
            for (i, unit) in units[range].iter_mut().enumerate() {
                *unit = scale * codebook[i][entry];
            }
        }
        let error = sum(256, |i| {
            let e = unit_scale * units[i] - magnitudes[i];
            w[i] * e * e
        });
        if best.as_ref().is_some_and(|best| error >= best.0) {
            break;
        }
        best = Some((error, d, indices));
        let uu = sum(256, |i| w[i] * units[i] * units[i]);
        let ux = sum(256, |i| w[i] * units[i] * magnitudes[i]);
        if !(uu > 0.0 && ux > 0.0) {
            break;
        }
        d = F16Le::new(ux / uu * divisor);
    }
    let (_, d, indices) = best.expect("the first round always gives a candidate");
    CodebookFit { d, scales: scales.map(|odd| (odd * 0.5) as u8), indices, signs }
}

/// Values without their signs, and the signs. Where these must be even in number and are not, the value that matters
/// least gets the wrong one and its "magnitude" is negative.
#[inline(always)]
fn split_signs(x: &[f32; 256], w: &[f32; 256], even: bool) -> ([f32; 256], [u8; 32]) {
    let (mut magnitudes, mut signs) = (*x, [0; 32]);
    for (part, signs) in signs.iter_mut().enumerate() {
        let range = 8 * part..8 * (part + 1);
        let (x, w) = (&x[range.clone()], &w[range.clone()]);
        for (i, x) in x.iter().enumerate() {
            *signs |= u8::from(*x < 0.0) << i;
        }
        if even && signs.count_ones() % 2 == 1 {
            let least =
                (0..8).fold(
                    0,
                    |least, i| {
                        if w[i] * x[i] * x[i] < w[least] * x[least] * x[least] { i } else { least }
                    },
                );
            *signs ^= 1 << least;
        }
        for (i, magnitude) in magnitudes[range].iter_mut().enumerate() {
            if *signs >> i & 1 == 1 {
                *magnitude = -*magnitude;
            }
        }
    }
    (magnitudes, signs)
}

/// [`nearest`]'s factors of codes for values that these stand for at a scale.
#[inline(always)]
fn linear<const N: usize>(x: &[f32; N], w: &[f32; N], inverse: f32) -> [f32; N] {
    std::array::from_fn(|i| 2.0 * w[i] * x[i] * inverse)
}

/// The entry `g` with the smallest `sum of w * (v - g)^2`, `linear` being `2 * w * v`, and by how much that is less than `sum of w * v^2`.
#[inline(always)]
pub(super) fn nearest<const N: usize, const ENTRIES: usize>(
    codebook: &[[f32; ENTRIES]; N],
    linear: &[f32; N],
    w: &[f32; N],
) -> (usize, f32) {
    // Less the part that no entry changes, the negative error is the sum of g * (2 * w * v - w * g).
    let (mut best, mut at) = ([f32::NEG_INFINITY; 8], [0u32; 8]);
    for chunk in 0..ENTRIES / 8 {
        let mut score = [0f32; 8];
        for i in 0..N {
            for (lane, score) in score.iter_mut().enumerate() {
                let code = codebook[i][8 * chunk + lane];
                *score += code * (linear[i] - w[i] * code);
            }
        }
        for lane in 0..8 {
            let better = score[lane] > best[lane];
            best[lane] = if better { score[lane] } else { best[lane] };
            at[lane] = if better { chunk as u32 } else { at[lane] };
        }
    }
    let lane = (1..8).fold(0, |lane, other| if best[other] > best[lane] { other } else { lane });
    (8 * at[lane] as usize + lane, best[lane])
}
