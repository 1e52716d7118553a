//! Scales that make the weighted square error small.
//!
//! The error as a function of the scale has many local minima, one for nearly every way in which values fall into
//! codes. So a search tries inverse scales around the one that maps the largest value to the last code, computes for
//! the codes that come out the scale that fits them best (least squares), and follows the best candidate down: round
//! again with the scale found, fit again, until nothing changes.

/// Adding and subtracting it rounds a value below 2^22 in magnitude to the nearest integer, ties to even.
const ROUNDER: f32 = 12_582_912.0;

/// Below this magnitude a group counts as zero, as in ggml.
const TINY: f32 = 1e-15;

/// `v`, in -2^22..2^22, rounded to the nearest integer, ties to even.
#[inline(always)]
pub(super) fn round(v: f32) -> f32 {
    (v + ROUNDER) - ROUNDER
}

/// `v` within `low..=high`; `low` for NaN. Two instructions, unlike `f32::clamp`, which keeps NaNs.
#[inline(always)]
pub(super) fn clamp(v: f32, low: f32, high: f32) -> f32 {
    let v = if v > low { v } else { low };
    if v < high { v } else { high }
}

/// The first value with the largest magnitude; `x` is not empty, and finite.
#[inline(always)]
pub(super) fn largest(x: &[f32]) -> f32 {
    // Two loops that vectorise instead of one that does not.
    let magnitude = x.iter().fold(0, |m: u32, v| m.max(v.to_bits() & 0x7fff_ffff));
    x.iter().copied().find(|v| v.to_bits() & 0x7fff_ffff == magnitude).unwrap_or(x[0])
}

/// The sum of `term(0), …, term(n - 1)` in eight partial sums, which vectorises; `n` is a multiple of eight.
#[inline(always)]
pub(super) fn sum(n: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut partial = [0f32; 8];
    for chunk in 0..n / 8 {
        for (j, p) in partial.iter_mut().enumerate() {
            *p += term(8 * chunk + j);
        }
    }
    let [a, b, c, d, e, f, g, h] = partial;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// How much an error in each value weighs: its importance, if there is one, times its magnitude smoothed by the root
/// mean square of its neighbours. Large weights of a layer matter more than small ones.
#[inline(always)]
pub(super) fn smoothed_weights<const N: usize>(x: &[f32; N], importance: Option<&[f32]>) -> [f32; N] {
    let mean_square = sum(N, |i| x[i] * x[i]) / N as f32;
    let rms = mean_square.sqrt();
    match importance {
        None => std::array::from_fn(|i| rms + x[i].abs()),
        // Values without any importance give way to others, but are not thrown away.
        Some(w) if w.iter().any(|&w| w > 0.0) => {
            let least = sum(N, |i| w[i]) / N as f32 / 1024.0;
            std::array::from_fn(|i| (w[i] + least) * (2.0 * mean_square + x[i] * x[i]).sqrt())
        }
        Some(_) => std::array::from_fn(|i| (rms + x[i].abs()) * 2f32.powi(-20)),
    }
}

/// A set of codes, some of them negative, in which a value is the nearest code times a scale.
pub(super) trait CodeSet: Copy {
    /// The inverse scales to try, times the largest value of the group.
    fn reaches(self) -> impl Iterator<Item = f32>;
    /// The code nearest to `v`.
    fn nearest(self, v: f32) -> f32;
}

/// The integers from `-n` to `n - 1`.
#[derive(Clone, Copy)]
pub(super) struct Symmetric {
    pub(super) n: f32,
}

impl CodeSet for Symmetric {
    #[inline(always)]
    fn reaches(self) -> impl Iterator<Item = f32> {
        // The side with the extra code takes the largest value.
        (-9..=9).map(move |k| -(self.n + 0.1 * k as f32))
    }

    #[inline(always)]
    fn nearest(self, v: f32) -> f32 {
        round(clamp(v, -self.n, self.n - 1.0))
    }
}

/// The integers from 0 to `n`.
#[derive(Clone, Copy)]
pub(super) struct Positive {
    pub(super) n: f32,
}

impl CodeSet for Positive {
    #[inline(always)]
    fn reaches(self) -> impl Iterator<Item = f32> {
        (-9..=9).map(move |k| self.n + 0.1 * k as f32)
    }

    #[inline(always)]
    fn nearest(self, v: f32) -> f32 {
        round(clamp(v, 0.0, self.n))
    }
}

/// The scale `s` with the smallest `sum of w * (x - s * code)^2`, where every `x` takes the code nearest to `x / s`.
/// Zero if all values are.
#[inline(always)]
pub(super) fn best_scale<const N: usize>(x: &[f32; N], w: &[f32; N], set: impl CodeSet) -> f32 {
    let largest = largest(x);
    if largest.abs() < TINY {
        return 0.0;
    }
    // The error is (sum of w x^2) - gain.
    let fit = |inverse: f32| {
        let codes: [f32; N] = std::array::from_fn(|i| set.nearest(x[i] * inverse));
        let xl = sum(N, |i| w[i] * x[i] * codes[i]);
        let ll = sum(N, |i| w[i] * codes[i] * codes[i]);
        if ll > 0.0 { (xl / ll, xl / ll * xl) } else { (0.0, 0.0) }
    };
    let mut best = (0.0, 0.0);
    for reach in set.reaches() {
        let found = fit(reach / largest);
        if found.1 > best.1 {
            best = found;
        }
    }
    for _ in 0..4 {
        let found = fit(1.0 / best.0);
        if found.1 <= best.1 {
            break;
        }
        best = found;
    }
    best.0
}

/// The scale `s` and the minimum `m >= 0` with the smallest `sum of w * (x - (s * l - m))^2`, where `l` is an integer
/// from 0 to `n`.
#[inline(always)]
pub(super) fn best_scale_and_min<const N: usize>(x: &[f32; N], w: &[f32; N], n: f32) -> (f32, f32) {
    let (mut low, mut high) = (0f32, x[0]);
    for &v in x {
        low = low.min(v);
        high = high.max(v);
    }
    if high - low < TINY {
        return (0.0, -low);
    }
    let w1 = sum(N, |i| w[i]);
    let wx = sum(N, |i| w[i] * x[i]);
    let fit = |inverse: f32, min: f32| {
        let codes: [f32; N] = std::array::from_fn(|i| round(clamp((x[i] + min) * inverse, 0.0, n)));
        let wl = sum(N, |i| w[i] * codes[i]);
        let wll = sum(N, |i| w[i] * codes[i] * codes[i]);
        let wlx = sum(N, |i| w[i] * codes[i] * x[i]);
        let determinant = w1 * wll - wl * wl;
        if determinant <= 0.0 {
            return None;
        }
        let mut scale = (w1 * wlx - wx * wl) / determinant;
        let mut min = (wl * wlx - wll * wx) / determinant;
        if min < 0.0 {
            (scale, min) = (wlx / wll, 0.0);
        }
        let error = sum(N, |i| {
            let e = scale * codes[i] - min - x[i];
            w[i] * e * e
        });
        // The comparison is false for a NaN, too.
        (scale > 0.0).then_some((error, scale, min))
    };
    let mut best = (f32::INFINITY, (high - low) / n, -low);
    for k in 0..=18 {
        let reach = n - 0.9 + 0.1 * k as f32;
        if let Some(found) = fit(reach / (high - low), -low)
            && found.0 < best.0
        {
            best = found;
        }
    }
    for _ in 0..4 {
        match fit(1.0 / best.1, best.2) {
            Some(found) if found.0 < best.0 => best = found,
            _ => break,
        }
    }
    (best.1, best.2)
}
