//! IQ4_NL and IQ4_XS.

use super::QuantizeBlock;
use super::k::fit_symmetric;
use super::legacy::{inverse, join_nibbles};
use super::search::{CodeSet, best_scale, smoothed_weights};
use crate::block::{BlockIq4Nl, BlockIq4Xs, KVALUES_IQ4NL};
use crate::le::{F16Le, U16Le};

impl QuantizeBlock for BlockIq4Nl {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let x: &[f32; 32] = x.try_into().expect("callers split the source into blocks of 32");
        let d = F16Le::new(best_scale(x, &smoothed_weights(x, importance), NonLinear));
        let id = inverse(d.get());
        Self { d, qs: join_nibbles(&std::array::from_fn(|i| nearest_index(x[i] * id))) }
    }
}

impl QuantizeBlock for BlockIq4Xs {
    #[inline(always)]
    fn quantize(x: &[f32], importance: Option<&[f32]>) -> Self {
        let fit = fit_symmetric::<32>(x, importance, NonLinear, 32.0);
        let (mut scales_h, mut scales_l, mut qs) = (0, [0; 4], [0; 128]);
        for (part, qs) in qs.chunks_exact_mut(16).enumerate() {
            let sc = (fit.scales[part] + 32) as u8;
            scales_l[part / 2] |= (sc & 15) << (4 * (part % 2));
            scales_h |= u16::from(sc >> 4) << (2 * part);
            let indices = std::array::from_fn(|i| nearest_index(f32::from(fit.codes[32 * part + i])));
            qs.copy_from_slice(&join_nibbles(&indices));
        }
        Self { d: fit.d, scales_h: U16Le::new(scales_h), scales_l, qs }
    }
}

/// [`KVALUES_IQ4NL`].
#[derive(Clone, Copy)]
struct NonLinear;

/// Half-way between neighbouring codes.
const BOUNDS: [f32; 15] = {
    let mut bounds = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        bounds[i] = (KVALUES_IQ4NL[i] as f32 + KVALUES_IQ4NL[i + 1] as f32) / 2.0;
        i += 1;
    }
    bounds
};

impl CodeSet for NonLinear {
    #[inline(always)]
    fn reaches(self) -> impl Iterator<Item = f32> {
        let last = f32::from(KVALUES_IQ4NL[0]);
        (-7..=7).flat_map(move |k| [last + k as f32, -(last + k as f32)])
    }

    #[inline(always)]
    fn nearest(self, v: f32) -> f32 {
        let mut code = f32::from(KVALUES_IQ4NL[0]);
        for (i, &bound) in BOUNDS.iter().enumerate() {
            let step = f32::from(KVALUES_IQ4NL[i + 1]) - f32::from(KVALUES_IQ4NL[i]);
            code += if v >= bound { step } else { 0.0 };
        }
        code
    }
}

/// The index of the code nearest to `v`.
#[inline(always)]
fn nearest_index(v: f32) -> u8 {
    BOUNDS.iter().map(|&bound| u8::from(v >= bound)).sum()
}
