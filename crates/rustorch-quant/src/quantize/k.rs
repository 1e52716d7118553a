//! The K types: scales of groups, themselves quantized under the scale of a superblock.
//!
//! Each group gets the scale (and minimum) that fits it best; these are rounded to integers under a superblock scale,
//! found by the same search; then codes and superblock scales are fitted to each other in turn while that helps.

use super::QuantizeBlock;
use super::legacy::inverse;
use super::search::{
    CodeSet, Positive, Symmetric, best_scale, best_scale_and_min, clamp, largest, round, smoothed_weights,
    sum,
};
use crate::block::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8K, pack_scales_mins};
use crate::le::F16Le;

impl QuantizeBlock for BlockQ2K {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit_affine::<16>(x, importance, 3.0, 15.0);
        Self {
            scales: std::array::from_fn(|j| fit.scales[j] | fit.mins[j] << 4),
            qs: join_crumbs(&fit.codes),
            d: fit.d,
            dmin: fit.dmin,
        }
    }
}

impl QuantizeBlock for BlockQ3K {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit_symmetric::<16>(x, importance, Symmetric { n: 4.0 }, 32.0);
        let codes = fit.codes.map(|l| (l + 4) as u8);
        let mut scales = [0; 12];
        for (j, &sc) in fit.scales.iter().enumerate() {
            let sc = (sc + 32) as u8;
            scales[j % 8] |= (sc & 15) << (4 * (j / 8));
            scales[8 + j % 4] |= (sc >> 4) << (2 * (j / 4));
        }
        Self {
            hmask: join_bit_planes(&codes.map(|l| l >> 2)),
            qs: join_crumbs(&codes.map(|l| l & 3)),
            scales,
            d: fit.d,
        }
    }
}

impl QuantizeBlock for BlockQ4K {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit_affine::<32>(x, importance, 15.0, 63.0);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: pack_scales_mins(&first_eight(&fit.scales), &first_eight(&fit.mins)),
            qs: join_nibbles_by_64(&fit.codes),
        }
    }
}

impl QuantizeBlock for BlockQ5K {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit_affine::<32>(x, importance, 31.0, 63.0);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: pack_scales_mins(&first_eight(&fit.scales), &first_eight(&fit.mins)),
            qh: join_bit_planes(&fit.codes.map(|l| l >> 4)),
            qs: join_nibbles_by_64(&fit.codes.map(|l| l & 15)),
        }
    }
}

impl QuantizeBlock for BlockQ6K {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit_symmetric::<16>(x, importance, Symmetric { n: 32.0 }, 128.0);
        let codes = fit.codes.map(|l| (l + 32) as u8);
        let mut ql = [0; 128];
        for (half, ql) in ql.chunks_exact_mut(64).enumerate() {
            for (l, q) in ql.iter_mut().enumerate() {
                *q = (codes[128 * half + l] & 15) | (codes[128 * half + 64 + l] & 15) << 4;
            }
        }
        Self { ql, qh: join_crumbs(&codes.map(|l| l >> 4)), scales: fit.scales, d: fit.d }
    }
}

impl QuantizeBlock for BlockQ8K {
    #[inline(always)]
    fn quantize(x: &[f32], _importance: Option<&[f32]>) -> Self {
        let mut out = [bytemuck::Zeroable::zeroed()];
        crate::activation::quantize_q8_k(x, &mut out);
        out[0]
    }
}

/// A superblock whose values are `d * scale * code`.
pub(super) struct SymmetricFit {
    pub(super) d: F16Le,
    pub(super) scales: [i8; 16],
    pub(super) codes: [i8; 256],
}

/// Fits groups of `N` values with codes of `set` and scales from `-n_scales` to `n_scales - 1`.
#[inline(always)]
pub(super) fn fit_symmetric<const N: usize>(
    x: &[f32],
    importance: Option<&[f32]>,
    set: impl CodeSet,
    n_scales: f32,
) -> SymmetricFit {
    let x: &[f32; 256] = x.try_into().expect("callers split the source into blocks of 256");
    let w = group_weights::<N>(x, importance);
    let (mut wanted, mut weight) = ([0f32; 16], [0f32; 16]);
    for (j, (x, w)) in x.as_chunks::<N>().0.iter().zip(w.as_chunks::<N>().0).enumerate() {
        wanted[j] = best_scale(x, w, set);
        // An error in the scale is multiplied by the codes.
        let inverse = inverse(wanted[j]);
        weight[j] = sum(N, |i| {
            let code = set.nearest(x[i] * inverse);
            w[i] * code * code
        });
    }
    let scale_set = Symmetric { n: n_scales };
    let mut d = F16Le::new(best_scale(&wanted, &weight, scale_set));
    if d.get() == 0.0 && largest(&wanted) != 0.0 {
        // Too small for the search, or for a normal half: the largest scale decides.
        d = F16Le::new(largest(&wanted) / -n_scales);
    }
    let id = inverse(d.get());
    let scales: [f32; 16] = std::array::from_fn(|j| scale_set.nearest(wanted[j] * id));

    let mut best: Option<(f32, F16Le, [f32; 256])> = None;
    for _ in 0..4 {
        let mut codes = [0f32; 256];
        for (j, codes) in codes.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let inverse = inverse(d.get() * scales[j]);
            for (i, code) in codes.iter_mut().enumerate() {
                *code = set.nearest(x[N * j + i] * inverse);
            }
        }
        let unit: [f32; 256] = std::array::from_fn(|i| scales[i / N] * codes[i]);
        let scale = d.get();
        let error = sum(256, |i| {
            let e = scale * unit[i] - x[i];
            w[i] * e * e
        });
        if best.as_ref().is_some_and(|best| error >= best.0) {
            break;
        }
        best = Some((error, d, codes));
        let uu = sum(256, |i| w[i] * unit[i] * unit[i]);
        let ux = sum(256, |i| w[i] * unit[i] * x[i]);
        if uu <= 0.0 {
            break;
        }
        d = F16Le::new(ux / uu);
    }
    let (_, d, codes) = best.expect("the first round always gives a candidate");
    SymmetricFit { d, scales: scales.map(|s| s as i8), codes: codes.map(|l| l as i8) }
}

/// A superblock whose values are `d * scale * code - dmin * min`.
struct AffineFit {
    d: F16Le,
    dmin: F16Le,
    scales: [u8; 16],
    mins: [u8; 16],
    codes: [u8; 256],
}

/// Fits groups of `N` values with codes from 0 to `n` and scales and minima from 0 to `n_scales`.
#[inline(always)]
fn fit_affine<const N: usize>(x: &[f32], importance: Option<&[f32]>, n: f32, n_scales: f32) -> AffineFit {
    let x: &[f32; 256] = x.try_into().expect("callers split the source into blocks of 256");
    let w = group_weights::<N>(x, importance);
    let (mut scales, mut mins, mut weight) = ([0f32; 16], [0f32; 16], [0f32; 16]);
    for (j, (x, w)) in x.as_chunks::<N>().0.iter().zip(w.as_chunks::<N>().0).enumerate() {
        (scales[j], mins[j]) = best_scale_and_min(x, w, n);
        weight[j] = sum(N, |i| w[i]);
    }
    let (mut d, mut scales) = round_positive(&scales, &weight, n_scales);
    let (mut dmin, mut mins) = round_positive(&mins, &weight, n_scales);
    for (j, (x, w)) in x.as_chunks::<N>().0.iter().zip(w.as_chunks::<N>().0).enumerate() {
        (scales[j], mins[j]) = best_integers(x, w, [d.get(), dmin.get()], [scales[j], mins[j]], n, n_scales);
    }

    let mut best: Option<(f32, F16Le, F16Le, [f32; 256])> = None;
    for _ in 0..4 {
        let (dv, mv) = (d.get(), dmin.get());
        let mut codes = [0f32; 256];
        for (j, codes) in codes.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let (inverse, min) = (inverse(dv * scales[j]), mv * mins[j]);
            for (i, code) in codes.iter_mut().enumerate() {
                *code = round(clamp((x[N * j + i] + min) * inverse, 0.0, n));
            }
        }
        let unit: [f32; 256] = std::array::from_fn(|i| scales[i / N] * codes[i]);
        let error = sum(256, |i| {
            let e = dv * unit[i] - mv * mins[i / N] - x[i];
            w[i] * e * e
        });
        if best.as_ref().is_some_and(|best| error >= best.0) {
            break;
        }
        best = Some((error, d, dmin, codes));
        // Least squares for d and dmin, given the integers.
        let uu = sum(256, |i| w[i] * unit[i] * unit[i]);
        let um = sum(256, |i| w[i] * unit[i] * mins[i / N]);
        let mm = sum(256, |i| w[i] * mins[i / N] * mins[i / N]);
        let ux = sum(256, |i| w[i] * unit[i] * x[i]);
        let mx = sum(256, |i| w[i] * mins[i / N] * x[i]);
        let determinant = uu * mm - um * um;
        let (new_d, new_dmin) = if determinant > 0.0 {
            ((ux * mm - mx * um) / determinant, (ux * um - mx * uu) / determinant)
        } else if uu > 0.0 && mm == 0.0 {
            (ux / uu, 0.0)
        } else {
            break;
        };
        if new_d <= 0.0 || new_dmin < 0.0 {
            break;
        }
        (d, dmin) = (F16Le::new(new_d), F16Le::new(new_dmin));
    }
    let (_, d, dmin, codes) = best.expect("the first round always gives a candidate");
    AffineFit {
        d,
        dmin,
        scales: scales.map(|s| s as u8),
        mins: mins.map(|m| m as u8),
        codes: codes.map(|l| l as u8),
    }
}

/// Of the integers around a group's scale and minimum, those with the smallest error: each was rounded without the other.
#[inline(always)]
fn best_integers<const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    [d, dmin]: [f32; 2],
    [scale, min]: [f32; 2],
    n: f32,
    n_scales: f32,
) -> (f32, f32) {
    let mut best = (f32::INFINITY, scale, min);
    // The pair itself first: it stays where others are no better.
    for (ds, dm) in [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (1, 1), (-1, 1), (1, -1)] {
        let (scale, min) = (scale + ds as f32, min + dm as f32);
        if scale < 0.0 || min < 0.0 || scale > n_scales || min > n_scales {
            continue;
        }
        let (step, offset) = (d * scale, dmin * min);
        let inverse = inverse(step);
        let error = sum(N, |i| {
            let code = round(clamp((x[i] + offset) * inverse, 0.0, n));
            let e = step * code - offset - x[i];
            w[i] * e * e
        });
        if error < best.0 {
            best = (error, scale, min);
        }
    }
    (best.1, best.2)
}

/// Values that are not negative as multiples, 0 to `n`, of a half.
#[inline(always)]
fn round_positive(values: &[f32; 16], weight: &[f32; 16], n: f32) -> (F16Le, [f32; 16]) {
    let set = Positive { n };
    let mut d = F16Le::new(best_scale(values, weight, set));
    if d.get() == 0.0 {
        // Too small for the search: the largest decides.
        d = F16Le::new(largest(values) / n);
    }
    let id = inverse(d.get());
    (d, values.map(|v| set.nearest(v * id)))
}

#[inline(always)]
pub(super) fn group_weights<const N: usize>(x: &[f32; 256], importance: Option<&[f32]>) -> [f32; 256] {
    let mut weights = [0f32; 256];
    for (j, w) in weights.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let x: &[f32; N] = x[N * j..][..N].try_into().expect("N values");
        *w = smoothed_weights(x, importance.map(|v| &v[N * j..][..N]));
    }
    weights
}

#[inline(always)]
fn first_eight(values: &[u8; 16]) -> [u8; 8] {
    std::array::from_fn(|j| values[j])
}

/// 2-bit values: byte `l` of each 32 holds values `l`, `l + 32`, `l + 64` and `l + 96` of a half.
#[inline(always)]
fn join_crumbs(codes: &[u8; 256]) -> [u8; 64] {
    let mut qs = [0; 64];
    for (half, qs) in qs.chunks_exact_mut(32).enumerate() {
        for (l, q) in qs.iter_mut().enumerate() {
            for j in 0..4 {
                *q |= codes[128 * half + 32 * j + l] << (2 * j);
            }
        }
    }
    qs
}

/// Bit `j` of byte `l` is value `32 * j + l`.
#[inline(always)]
fn join_bit_planes(bits: &[u8; 256]) -> [u8; 32] {
    std::array::from_fn(|l| (0..8).fold(0, |byte, j| byte | bits[32 * j + l] << j))
}

#[inline(always)]
fn join_nibbles_by_64(codes: &[u8; 256]) -> [u8; 128] {
    std::array::from_fn(|i| {
        let first = 64 * (i / 32) + i % 32;
        codes[first] | codes[first + 32] << 4
    })
}
