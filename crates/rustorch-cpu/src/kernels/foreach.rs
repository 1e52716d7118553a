//! Operations on many tensors at once, whose chunks the threads share.

use super::copy::copy;
use super::optimizer_step::scalar;
use super::strided::{self, Disjoint, Updated, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{Fault, ForeachMul, TotalNorm, View, ViewMut, dispatch_dtype};
use std::borrow::Cow;
use std::ops::Range;

/// Elements of a chunk, which has a sum of its own: sums do not depend on the number of threads.
const CHUNK: usize = 1 << 12;
/// Chunks that make a thread worth its while.
const GRAIN: usize = 4;

/// The chunks of tensors of these lengths: where each tensor's begin, and how many there are.
struct Chunks {
    ends: Vec<usize>,
}

impl Chunks {
    fn new(lengths: impl Iterator<Item = usize>) -> Chunks {
        let mut end = 0;
        let ends = lengths.map(|n| {
            end += n.div_ceil(CHUNK);
            end
        });
        Chunks { ends: ends.collect() }
    }

    fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The tensor of a chunk, and its elements there, of which the tensor has `n(tensor)`.
    fn of(&self, chunk: usize, n: impl Fn(usize) -> usize) -> (usize, Range<usize>) {
        let tensor = self.ends.partition_point(|&end| end <= chunk);
        let first = tensor.checked_sub(1).map_or(0, |before| self.ends[before]);
        let start = (chunk - first) * CHUNK;
        (tensor, start..n(tensor).min(start + CHUNK))
    }
}

pub(super) fn total_norm(
    pool: &ThreadPool,
    op: &TotalNorm,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let first = super::first(args)?;
    let norm = Norm::of(op.ord);
    dispatch_dtype!(first.dtype(), float, T => {
        let tensors: Vec<Cow<'_, [T]>> = args.iter().map(strided::dense).collect::<Result<_, _>>()?;
        let chunks = Chunks::new(tensors.iter().map(|x| x.len()));
        let mut sums = vec![0.0; chunks.count()];
        strided::par_units(pool, &mut sums, 1, GRAIN, |first, sums| {
            let mut wide = Vec::new();
            for (chunk, sum) in (first..).zip(sums) {
                let (tensor, range) = chunks.of(chunk, |tensor| tensors[tensor].len());
                *sum = simd::run(Terms { norm, x: T::widen(&tensors[tensor][range], &mut wide) });
            }
        });
        let total = norm.root(sums.into_iter().fold(0.0, |a, b| norm.join(a, b)));
        strided::with_slice(pool, out, |out: &mut [<T as Wide>::Acc]| {
            out.fill(<T as Wide>::Acc::of(total));
            Ok(())
        })
    }, _ => Err(unreachable_memory()))
}

/// The norm of an order.
#[derive(Clone, Copy)]
enum Norm {
    One,
    Two,
    Largest,
    Power(f64),
}

impl Norm {
    fn of(ord: f64) -> Norm {
        match ord {
            1.0 => Norm::One,
            2.0 => Norm::Two,
            f64::INFINITY => Norm::Largest,
            ord => Norm::Power(ord),
        }
    }

    /// Of two sums.
    #[inline(always)]
    fn join(self, a: f64, b: f64) -> f64 {
        if let Norm::Largest = self { a.larger(b) } else { a + b }
    }

    fn root(self, total: f64) -> f64 {
        match self {
            Norm::One | Norm::Largest => total,
            Norm::Two => total.sqrt(),
            Norm::Power(ord) => total.powf(1.0 / ord),
        }
    }
}

/// The sum of the powers of some elements, or the largest magnitude.
struct Terms<'a, T> {
    norm: Norm,
    x: &'a [T],
}

impl<T: Real> Task for Terms<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> f64 {
        let Terms { norm, x } = self;
        match norm {
            Norm::One => reduce(x, norm, |x| x.abs()),
            Norm::Two => reduce(x, norm, |x| x * x),
            Norm::Largest => reduce(x, norm, |x| x.abs()),
            Norm::Power(ord) => reduce(x, norm, |x| x.abs().powf(ord)),
        }
    }
}

#[inline(always)]
fn reduce<T: Real>(x: &[T], norm: Norm, term: impl Fn(f64) -> f64) -> f64 {
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = norm.join(*lane, term(x.to_f64()));
        }
    }
    let terms = lanes.into_iter().chain(tail.iter().map(|x| term(x.to_f64())));
    terms.fold(0.0, |a, b| norm.join(a, b))
}

pub(super) fn mul(
    pool: &ThreadPool,
    op: &ForeachMul,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [factor, tensors @ ..] = args else { return Err(unreachable_memory()) };
    let (products, found_inf) = outs.split_at_mut(tensors.len());
    for (x, out) in tensors.iter().zip(&mut *products) {
        if !x.is_aliased() {
            copy(pool, x, out)?;
        }
    }
    let factor = scalar(factor)?;
    dispatch_dtype!(super::first(tensors)?.dtype(), float, T => {
        let factor = <T as Wide>::Acc::of(factor);
        // SAFETY: each holds its argument, as just seen to.
        let updated = products.iter_mut().map(|out| unsafe { Updated::<T>::new(out) });
        let mut updated: Vec<_> = updated.collect::<Result<_, _>>()?;
        let all: Vec<(usize, Disjoint<'_, T>)> = updated
            .iter_mut()
            .zip(tensors)
            .map(|(out, x)| Ok((x.layout().numel(), out.elements()?)))
            .collect::<Result<_, Fault>>()?;
        let chunks = Chunks::new(all.iter().map(|(n, _)| *n));
        let mut finite = vec![true; chunks.count()];
        strided::par_units(pool, &mut finite, 1, GRAIN, |first, finite| {
            let (mut wide, mut values, mut result) = (Vec::new(), Vec::new(), Vec::new());
            for (chunk, finite) in (first..).zip(finite) {
                let (tensor, range) = chunks.of(chunk, |tensor| all[tensor].0);
                // SAFETY: each chunk is one thread's.
                let out = unsafe { all[tensor].1.slice(range.start, range.len()) };
                values.clear();
                values.extend_from_slice(T::widen(out, &mut wide));
                T::narrow(out, &mut result, |out| *finite = simd::run(Scale { x: &values, factor, out }));
            }
        });
        drop(all);
        updated.into_iter().try_for_each(|out| out.scatter(pool))?;
        if op.found_inf {
            let found = if finite.into_iter().all(|finite| finite) { 0f32 } else { 1.0 };
            strided::with_slice(pool, super::only(found_inf)?, |out: &mut [f32]| {
                out.fill(found);
                Ok(())
            })?;
        }
        Ok(())
    }, _ => Err(unreachable_memory()))
}

/// The product of a chunk with the factor; whether all elements are finite.
struct Scale<'a, T> {
    x: &'a [T],
    factor: T,
    out: &'a mut [T],
}

impl<T: Real> Task for Scale<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run<L: Level>(self, _: L) -> bool {
        let Scale { x, factor, out } = self;
        let mut finite = true;
        for (out, &x) in out.iter_mut().zip(x) {
            finite &= x.abs() < T::INFINITY;
            *out = x * factor;
        }
        finite
    }
}
