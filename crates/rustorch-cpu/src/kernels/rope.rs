//! Rotary position embedding.

use super::strided::{self, for_rows, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{DType, Error, Fault, RopeParams, RopeStyle, View, ViewMut, Yarn, dispatch_dtype};

pub(super) fn run(
    pool: &ThreadPool,
    rope: &RopeParams,
    x: &View<'_>,
    positions: &View<'_>,
    factors: Option<&View<'_>>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let positions: Vec<f64> = match positions.dtype() {
        DType::I32 => strided::dense::<i32>(positions)?.iter().map(|&p| p.into()).collect(),
        DType::I64 => strided::dense::<i64>(positions)?.iter().map(|&p| p as f64).collect(),
        other => return Err(Error::dtype("rope", "positions must be i32 or i64", [other]).into()),
    };
    let factors = factors.map(strided::dense::<f32>).transpose()?;
    let rope_args = RopeArgs { rope, positions: &positions, factors: factors.as_deref() };
    dispatch_dtype!(x.dtype(), float, T => rope_args.run::<T>(pool, x, out), _ => Err(unreachable_memory()))
}

/// What a rotation depends on beside its argument.
struct RopeArgs<'a> {
    rope: &'a RopeParams,
    positions: &'a [f64],
    factors: Option<&'a [f32]>,
}

impl RopeArgs<'_> {
    fn run<T: Wide>(&self, pool: &ThreadPool, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
        let RopeArgs { rope, positions, factors } = *self;
        let axis = x.layout().ndim() - 1;
        let (dim, seq) = (x.layout().dims()[axis], positions.len());
        let (style, half) = (rope.style, rope.rotated / 2);
        // Cosines, then sines, of every position.
        let mut table = vec![T::Acc::ZERO; seq * rope.rotated];
        strided::par_units(pool, &mut table, rope.rotated, 1 << 9, |first, table| {
            for (row, &position) in table.chunks_exact_mut(rope.rotated).zip(&positions[first..]) {
                let (cos, sin) = row.split_at_mut(half);
                simd::run(RopeCosSin { rope, position: T::Acc::of(position), factors, cos, sin });
            }
        });
        for_rows(pool, x, out, axis, dim, &|i, x: &[T], out: &mut [T]| {
            let (cos, sin) = table[i % seq * 2 * half..][..2 * half].split_at(half);
            let (mut wide, mut result) = (Vec::new(), Vec::new());
            let x = T::widen(x, &mut wide);
            T::narrow(out, &mut result, |out| simd::run(ApplyRope { style, x, cos, sin, out }));
        })
    }
}

/// The cosines and sines of one position.
struct RopeCosSin<'a, T> {
    rope: &'a RopeParams,
    position: T,
    factors: Option<&'a [f32]>,
    cos: &'a mut [T],
    sin: &'a mut [T],
}

impl<T: Real> Task for RopeCosSin<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let RopeCosSin { rope, position, factors, cos, sin } = self;
        let scale = T::of(rope.scale.into());
        let mut magnitude = rope.yarn.as_ref().map_or(1.0, |yarn| yarn.attn_factor);
        let mut blend = None;
        if let Some(yarn) = rope.yarn.as_ref().filter(|yarn| yarn.ext_factor != 0.0) {
            magnitude *= 1.0 + 0.1 * (1.0 / rope.scale).ln();
            blend = Some((corrected(rope, yarn), yarn.ext_factor));
        }
        // The angles come by repeated multiplication, as in ggml, so that they are rounded as there.
        let step = T::of(rope.base.into()).system_pow(T::of(-2.0) / T::of(rope.rotated as f64));
        let mut angle = position;
        for (i, theta) in cos.iter_mut().enumerate() {
            let full = factors.map_or(angle, |factors| angle / T::of(factors[i].into()));
            *theta = scale * full;
            if let Some(((low, high), extrapolated)) = blend {
                let ramp = 1.0 - ((i as f32 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                let mix = T::of((ramp * extrapolated).into());
                *theta = *theta * (T::ONE - mix) + full * mix;
            }
            angle = angle * step;
        }
        let magnitude = T::of(magnitude.into());
        for (cos, sin) in cos.iter_mut().zip(sin) {
            let turned = cos.system_sin_cos();
            (*sin, *cos) = (turned.0 * magnitude, turned.1 * magnitude);
        }
    }
}

/// The pairs between which YaRN blends from extrapolation to interpolation.
fn corrected(rope: &RopeParams, yarn: &Yarn) -> (f32, f32) {
    let dims = rope.rotated as f32;
    let pair = |rotations: f32| {
        dims * (yarn.original_context as f32 / (rotations * 2.0 * std::f32::consts::PI)).ln()
            / (2.0 * rope.base.ln())
    };
    (pair(yarn.beta_fast).floor().max(0.0), pair(yarn.beta_slow).ceil().min(dims - 1.0))
}

struct ApplyRope<'a, T> {
    style: RopeStyle,
    x: &'a [T],
    cos: &'a [T],
    sin: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Task for ApplyRope<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let ApplyRope { style, x, cos, sin, out } = self;
        let half = cos.len();
        match style {
            RopeStyle::Adjacent => {
                let pairs = x[..2 * half].as_chunks::<2>().0;
                let outs = out[..2 * half].as_chunks_mut::<2>().0;
                for (((&[a, b], out), &cos), &sin) in pairs.iter().zip(outs).zip(cos).zip(sin) {
                    *out = [a.fma(l, cos, -(b * sin)), a.fma(l, sin, b * cos)];
                }
            }
            RopeStyle::Halves => {
                let (a, b) = (&x[..half], &x[half..2 * half]);
                let (first, second) = out[..2 * half].split_at_mut(half);
                let sin = &sin[..half];
                for i in 0..half {
                    first[i] = a[i].fma(l, cos[i], -(b[i] * sin[i]));
                    second[i] = a[i].fma(l, sin[i], b[i] * cos[i]);
                }
            }
        }
        out[2 * half..].copy_from_slice(&x[2 * half..]);
    }
}
