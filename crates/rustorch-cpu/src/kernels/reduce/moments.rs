//! Variance and logsumexp.

use super::{COLUMNS, Reducer};
use crate::kernels::lanes::{map_sum, max, sum};
use crate::math::Real;
use crate::simd::Level;

/// Count, mean, and sum of squared deviations.
#[derive(Clone, Copy)]
pub(super) struct Moments;

#[derive(Clone, Copy)]
pub(super) struct Spread {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    /// Of `n` elements with this provisional mean, whose deviations from it sum to `rest`, squared to `squares`.
    #[inline(always)]
    fn of(n: f64, mean: f64, rest: f64, squares: f64) -> Spread {
        Spread { n, mean: mean + rest / n, squares: squares - rest * rest / n }
    }

    pub(super) fn variance(self, correction: f64) -> f64 {
        self.squares.max(0.0) / (self.n - correction).max(0.0)
            + if self.squares.is_nan() { f64::NAN } else { 0.0 }
    }

    /// Chan, Golub, LeVeque: *Updating formulae and a pairwise algorithm for computing sample variances*, 1979.
    #[inline(always)]
    fn merge(a: Spread, b: Spread) -> Spread {
        if a.n == 0.0 {
            return b;
        }
        if b.n == 0.0 {
            return a;
        }
        let n = a.n + b.n;
        let delta = b.mean - a.mean;
        Spread {
            n,
            mean: a.mean + delta * (b.n / n),
            squares: a.squares + b.squares + delta * delta * (a.n * b.n / n),
        }
    }
}

impl<C: Real> Reducer<C> for Moments {
    type State = Spread;

    fn empty(self) -> Spread {
        Spread { n: 0.0, mean: 0.0, squares: 0.0 }
    }

    #[inline(always)]
    fn chunk<L: Level>(self, _: L, x: &[C], _: usize) -> Spread {
        let n = x.len() as f64;
        let mean = C::of(sum(x).to_f64() / n);
        let rest = map_sum(x, |x| x - mean);
        let squares = map_sum(x, |x| (x - mean) * (x - mean));
        Spread::of(n, mean.to_f64(), rest.to_f64(), squares.to_f64())
    }

    #[inline(always)]
    fn rows<L: Level>(self, _: L, rows: &[&[C]], _: usize, states: &mut [Spread]) {
        let n = states.len();
        let mut scratch = [[C::ZERO; COLUMNS]; 3];
        let [mean, rest, squares] = &mut scratch;
        let (mean, rest, squares) = (&mut mean[..n], &mut rest[..n], &mut squares[..n]);
        for row in rows {
            for (mean, &x) in mean.iter_mut().zip(&row[..n]) {
                *mean = *mean + x;
            }
        }
        let count = C::of(rows.len() as f64);
        for mean in mean.iter_mut() {
            *mean = *mean / count;
        }
        for row in rows {
            for (((rest, squares), &mean), &x) in
                rest.iter_mut().zip(squares.iter_mut()).zip(mean.iter()).zip(&row[..n])
            {
                let d = x - mean;
                *rest = *rest + d;
                *squares = *squares + d * d;
            }
        }
        for (i, state) in states.iter_mut().enumerate() {
            let part = Spread::of(rows.len() as f64, mean[i].to_f64(), rest[i].to_f64(), squares[i].to_f64());
            *state = Spread::merge(*state, part);
        }
    }

    #[inline(always)]
    fn merge(self, a: Spread, b: Spread) -> Spread {
        Spread::merge(a, b)
    }
}

/// log Σ eˣ relative to the largest element.
#[derive(Clone, Copy)]
pub(super) struct LogSumExp;

#[derive(Clone, Copy)]
pub(super) struct Scaled {
    /// What was subtracted from the exponents.
    shift: f64,
    sum: f64,
}

impl Scaled {
    pub(super) fn finish(self) -> f64 {
        self.shift + self.sum.ln()
    }

    #[inline(always)]
    fn merge(a: Scaled, b: Scaled) -> Scaled {
        // A part of nothing but −∞ has no scale of its own.
        if a.sum == 0.0 {
            return b;
        }
        if b.sum == 0.0 {
            return a;
        }
        let shift = a.shift.max(b.shift);
        Scaled { shift, sum: a.sum * (a.shift - shift).exp() + b.sum * (b.shift - shift).exp() }
    }
}

/// The largest element where it can be subtracted.
#[inline(always)]
fn finite<C: Real>(x: C) -> C {
    if x.abs() < C::INFINITY { x } else { C::ZERO }
}

impl<C: Real> Reducer<C> for LogSumExp {
    type State = Scaled;

    fn empty(self) -> Scaled {
        Scaled { shift: 0.0, sum: 0.0 }
    }

    #[inline(always)]
    fn chunk<L: Level>(self, l: L, x: &[C], _: usize) -> Scaled {
        let shift = finite(max(x));
        Scaled { shift: shift.to_f64(), sum: map_sum(x, |x| (x - shift).exp(l)).to_f64() }
    }

    #[inline(always)]
    fn rows<L: Level>(self, l: L, rows: &[&[C]], _: usize, states: &mut [Scaled]) {
        let n = states.len();
        let (mut shift, mut sum) = ([C::NEG_INFINITY; COLUMNS], [C::ZERO; COLUMNS]);
        let (shift, sum) = (&mut shift[..n], &mut sum[..n]);
        for row in rows {
            for (shift, &x) in shift.iter_mut().zip(&row[..n]) {
                *shift = shift.larger(x);
            }
        }
        for shift in shift.iter_mut() {
            *shift = finite(*shift);
        }
        for row in rows {
            for ((sum, &shift), &x) in sum.iter_mut().zip(shift.iter()).zip(&row[..n]) {
                *sum = *sum + (x - shift).exp(l);
            }
        }
        for (i, state) in states.iter_mut().enumerate() {
            *state = Scaled::merge(*state, Scaled { shift: shift[i].to_f64(), sum: sum[i].to_f64() });
        }
    }

    #[inline(always)]
    fn merge(self, a: Scaled, b: Scaled) -> Scaled {
        Scaled::merge(a, b)
    }
}
