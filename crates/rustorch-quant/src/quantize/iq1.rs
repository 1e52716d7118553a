//! IQ1_S and IQ1_M: eight ternary codes at a time are an entry of a codebook, and all of a run are shifted up or down by an eighth.
//!
//! Scales are searched for with ternary codes of any kind, which is quick, and corrected with those of the codebook.

use super::QuantizeBlock;
use super::codebook::{Odd, nearest};
use super::k::group_weights;
use super::legacy::inverse;
use super::search::{CodeSet, best_scale, clamp, round, sum};
use crate::block::{BlockIq1M, BlockIq1S};
use crate::grid::IQ1_CODES;
use crate::le::{F16Le, U16Le};

/// By how much codes are shifted.
const SHIFT: f32 = 0.125;

impl QuantizeBlock for BlockIq1S {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<32, 32>(x, importance);
        let qh = std::array::from_fn(|part| {
            let high = |j: usize| (fit.octets[4 * part + j].entry >> 8) << (3 * j);
            let down = u16::from(fit.octets[4 * part].down) << 15;
            U16Le::new(high(0) | high(1) | high(2) | high(3) | u16::from(fit.scales[part]) << 12 | down)
        });
        Self { d: fit.d, qs: fit.low_bytes(), qh }
    }
}

impl QuantizeBlock for BlockIq1M {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit::<16, 8>(x, importance);
        let nibble = |octet: Octet| (octet.entry >> 8) as u8 | u8::from(octet.down) << 3;
        let d = fit.d.to_bits();
        let scales = std::array::from_fn(|part| {
            let scale = |j: usize| u16::from(fit.scales[4 * part + j]) << (3 * j);
            U16Le::new(scale(0) | scale(1) | scale(2) | scale(3) | (d >> (4 * part) & 15) << 12)
        });
        Self {
            qs: fit.low_bytes(),
            qh: std::array::from_fn(|i| nibble(fit.octets[2 * i]) | nibble(fit.octets[2 * i + 1]) << 4),
            scales,
        }
    }
}

/// Eight values.
#[derive(Clone, Copy, Default)]
struct Octet {
    /// The entry of the codebook.
    entry: u16,
    /// Whether its codes are shifted down.
    down: bool,
}

impl Octet {
    #[inline(always)]
    fn code(self, i: usize) -> f32 {
        IQ1_CODES[i][usize::from(self.entry)] + if self.down { -SHIFT } else { SHIFT }
    }
}

/// A superblock whose values are `d * (2 * scale + 1) * code`.
struct TernaryFit {
    d: F16Le,
    /// One for each group, 0 to 7.
    scales: [u8; 16],
    octets: [Octet; 32],
}

impl TernaryFit {
    #[inline(always)]
    fn low_bytes(&self) -> [u8; 32] {
        self.octets.map(|octet| octet.entry as u8)
    }
}

/// A scale, by how much it lowers the error, and how much an error in it weighs.
#[derive(Clone, Copy, Default)]
struct Candidate {
    scale: f32,
    gain: f32,
    weight: f32,
}

impl Candidate {
    /// Of the sums of `w * code * code` and `w * code * x`.
    #[inline(always)]
    fn new(wcc: f32, wcx: f32) -> Candidate {
        match wcx > 0.0 && wcc > 0.0 {
            true => Candidate { scale: wcx / wcc, gain: wcx / wcc * wcx, weight: wcc },
            false => Candidate::default(),
        }
    }
}

/// Fits groups of `GROUP` values, of which each `RUN` are shifted alike.
#[inline(always)]
fn fit<const GROUP: usize, const RUN: usize>(x: &[f32], importance: Option<&[f32]>) -> TernaryFit {
    let x: &[f32; 256] = x.try_into().expect("callers split the source into blocks of 256");
    let w = group_weights::<GROUP>(x, importance);
    let (mut wanted, mut weight) = ([0f32; 16], [0f32; 16]);
    for j in 0..256 / GROUP {
        let range = GROUP * j..GROUP * (j + 1);
        let (x, w) = (&x[range.clone()], &w[range]);
        let best = group_scale::<RUN>(x, w);
        (wanted[j], weight[j]) = (best.scale, best.weight);
    }
    let odd = Odd { most: 15.0 };
    let mut d = F16Le::new(best_scale(&wanted, &weight, odd));
    let id = inverse(d.get());
    let scales = wanted.map(|scale| odd.nearest(scale * id));

    let mut best: Option<(f32, F16Le, [Octet; 32])> = None;
    for _ in 0..3 {
        let (mut octets, mut units) = ([Octet::default(); 32], [0f32; 256]);
        for run in 0..256 / RUN {
            let range = RUN * run..RUN * (run + 1);
            let scale = scales[RUN * run / GROUP];
            let octets = &mut octets[range.start / 8..range.end / 8];
            entries(&x[range.clone()], &w[range.clone()], inverse(d.get() * scale), octets);
            for (i, unit) in units[range].iter_mut().enumerate() {
                *unit = scale * octets[i / 8].code(i % 8);
            }
        }
        let error = sum(256, |i| {
            let e = d.get() * units[i] - x[i];
            w[i] * e * e
        });
        if best.as_ref().is_some_and(|best| error >= best.0) {
            break;
        }
        best = Some((error, d, octets));
        let uu = sum(256, |i| w[i] * units[i] * units[i]);
        let ux = sum(256, |i| w[i] * units[i] * x[i]);
        if !(uu > 0.0 && ux > 0.0) {
            break;
        }
        d = F16Le::new(ux / uu);
    }
    let (_, d, octets) = best.expect("the first round always gives a candidate");
    TernaryFit { d, scales: scales.map(|odd| (odd * 0.5) as u8), octets }
}

/// The scale of a group.
#[inline(always)]
fn group_scale<const RUN: usize>(x: &[f32], w: &[f32]) -> Candidate {
    let largest = x.iter().fold(0f32, |m, &v| m.max(v.abs()));
    let mut best = Candidate::default();
    for k in 0..16 {
        let found = any_codes::<RUN>(x, w, inverse(largest) * (0.8 + 0.15 * k as f32));
        if found.gain > best.gain {
            best = found;
        }
    }
    let around = best.scale;
    best = Candidate::default();
    for by in [0.85, 1.0, 1.15] {
        let mut found = codebook_codes::<RUN>(x, w, inverse(around * by));
        for _ in 0..2 {
            if found.gain <= best.gain {
                break;
            }
            best = found;
            found = codebook_codes::<RUN>(x, w, inverse(best.scale));
        }
    }
    best
}

/// What any ternary codes give.
#[inline(always)]
fn any_codes<const RUN: usize>(x: &[f32], w: &[f32], inverse: f32) -> Candidate {
    let (mut wcc, mut wcx) = (0.0, 0.0);
    for (x, w) in x.as_chunks::<RUN>().0.iter().zip(w.as_chunks::<RUN>().0) {
        let of = |shift: f32| {
            let codes: [f32; RUN] =
                std::array::from_fn(|i| round(clamp(x[i] * inverse - shift, -1.0, 1.0)) + shift);
            let cc = sum(RUN, |i| w[i] * codes[i] * codes[i]);
            let cx = sum(RUN, |i| w[i] * codes[i] * x[i]);
            // Less the part that no codes change, the error at this scale.
            (cc - 2.0 * inverse * cx, cc, cx)
        };
        let (up, down) = (of(SHIFT), of(-SHIFT));
        let better = if down.0 < up.0 { down } else { up };
        (wcc, wcx) = (wcc + better.1, wcx + better.2);
    }
    Candidate::new(wcc, wcx)
}

/// What the codebook's give.
#[inline(always)]
fn codebook_codes<const RUN: usize>(x: &[f32], w: &[f32], inverse: f32) -> Candidate {
    let (mut wcc, mut wcx) = (0.0, 0.0);
    for (x, w) in x.as_chunks::<RUN>().0.iter().zip(w.as_chunks::<RUN>().0) {
        let mut octets = [Octet::default(); 4];
        entries(x, w, inverse, &mut octets[..RUN / 8]);
        wcc += sum(RUN, |i| w[i] * octets[i / 8].code(i % 8) * octets[i / 8].code(i % 8));
        wcx += sum(RUN, |i| w[i] * octets[i / 8].code(i % 8) * x[i]);
    }
    Candidate::new(wcc, wcx)
}

/// The entries nearest to the values of a run, and the better shift.
#[inline(always)]
fn entries(x: &[f32], w: &[f32], inverse: f32, out: &mut [Octet]) {
    let mut least = f32::INFINITY;
    for down in [false, true] {
        let shift = if down { -SHIFT } else { SHIFT };
        let (mut error, mut found) = (0.0, [Octet::default(); 4]);
        for ((x, w), octet) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0).zip(&mut found) {
            let target = x.map(|x| x * inverse - shift);
            let linear = std::array::from_fn(|i| 2.0 * w[i] * target[i]);
            let (entry, score) = nearest(&IQ1_CODES, &linear, w);
            *octet = Octet { entry: entry as u16, down };
            error += sum(8, |i| w[i] * target[i] * target[i]) - score;
        }
        if error < least {
            least = error;
            out.copy_from_slice(&found[..out.len()]);
        }
    }
}
