//! The cross entropy of rows of logits, and its gradient, each in one pass over the logits.

use super::lanes::{largest, map_sum, sum};
use super::norm::wide;
use super::strided::{self, Rows, RowsMut, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{
    CrossEntropy, CrossEntropyBackward, DType, Element, Error, Fault, View, ViewMut, dispatch_dtype,
};

/// Elements whose largest is found and whose exponentials are summed while they are in the first cache. Sums of more are sums of
/// such sums in `f64`.
const BLOCK: usize = 1024;

/// Elements of logits that make a thread worth its while.
const GRAIN: usize = 1 << 11;

pub(super) fn forward(
    pool: &ThreadPool,
    op: &CrossEntropy,
    logits: &View<'_>,
    target: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let CrossEntropy { axis, ignore_index, label_smoothing } = *op;
    dispatch_dtype!(logits.dtype(), float, T => {
        let x = Rows::<T>::new(logits, axis)?;
        let targets = Targets::<T>::new(CrossEntropy::NAME, axis, x.len(), ignore_index, target)?;
        let smoothing = Smoothing::new(label_smoothing, x.len());
        // Of each row loss, logsumexp, what rounding took from it, and weight.
        let mut losses = vec![[<T as Wide>::Acc::ZERO; 4]; x.count()];
        strided::par_units(pool, &mut losses, 1, GRAIN / x.len().max(1), |first, losses| {
            let (mut gathered, mut wide, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
            let (mut gathered2, mut wide2) = (Vec::new(), Vec::new());
            let mut terms = vec![<T as Wide>::Acc::ZERO; BLOCK.min(x.len())];
            for (i, loss) in (first..).zip(losses) {
                *loss = simd::run(Row {
                    x: T::widen(x.row(i, &mut gathered), &mut wide),
                    target: targets.row(i, &mut gathered2, &mut wide2),
                    weight: targets.weight.as_deref(),
                    smoothing,
                    blocks: &mut blocks,
                    terms: &mut terms,
                });
            }
        });
        for (k, out) in outs.iter_mut().enumerate() {
            strided::with_slice(pool, out, |out: &mut [<T as Wide>::Acc]| {
                out.iter_mut().zip(&losses).for_each(|(out, loss)| *out = loss[k]);
                Ok(())
            })?;
        }
        Ok(())
    }, _ => Err(unreachable_memory()))
}

/// The gradient of the logits, which may have their place.
pub(super) fn backward(
    pool: &ThreadPool,
    op: &CrossEntropyBackward,
    [grad, logits, logsumexp, rest]: [&View<'_>; 4],
    target: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let CrossEntropyBackward { axis, ignore_index, label_smoothing } = *op;
    dispatch_dtype!(logits.dtype(), float, T => {
        let x = Rows::<T>::new(logits, axis)?;
        let targets = Targets::<T>::new(CrossEntropyBackward::NAME, axis, x.len(), ignore_index, target)?;
        let smoothing = Smoothing::new(label_smoothing, x.len());
        let (grad, logsumexp, rest) = (strided::dense(grad)?, strided::dense(logsumexp)?, strided::dense(rest)?);
        let outs = RowsMut::<T>::new(out, axis)?;
        pool.ranges(x.count().min(outs.count()), GRAIN / x.len().max(1), |range| {
            let (mut gathered, mut wide, mut scattered, mut result) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let (mut gathered2, mut wide2) = (Vec::new(), Vec::new());
            for i in range {
                let x = T::widen(x.row(i, &mut gathered), &mut wide);
                let target = targets.row(i, &mut gathered2, &mut wide2);
                let weight = targets.weight.as_deref();
                let (total_weight, grad, logsumexp) = (targets.total_weight, grad[i], [logsumexp[i], rest[i]]);
                let fill = |out: &mut [T]| {
                    T::narrow(out, &mut result, |out| {
                        simd::run(RowBackward {
                            x, target, weight, smoothing, total_weight, grad, logsumexp, out,
                        });
                    });
                };
                // SAFETY: each row belongs to one range, and is written before it is read; where it has the place of the
                // logits, these were copied first.
                unsafe { outs.with_row(i, &mut scattered, fill) };
            }
        });
        Ok(())
    }, _ => Err(unreachable_memory()))
}

/// The targets of all rows.
struct Targets<'a, T: Wide> {
    rows: RowTargets<'a, T>,
    weight: Option<Vec<T::Acc>>,
    total_weight: f64,
}

enum RowTargets<'a, T> {
    /// The class of each row, none where it is ignored.
    Classes(Vec<Option<usize>>),
    Probabilities(Rows<'a, T>),
}

/// The target of a row.
#[derive(Clone, Copy)]
enum Target<'a, T> {
    Ignored,
    Class(usize),
    Probabilities(&'a [T]),
}

impl<'a, T: Wide> Targets<'a, T> {
    fn new(
        name: &'static str,
        axis: usize,
        classes: usize,
        ignore_index: i64,
        args: &[View<'a>],
    ) -> Result<Targets<'a, T>, Fault> {
        let [target, weight @ ..] = args else { return Err(unreachable_memory()) };
        let rows = match target.dtype() {
            DType::I32 => RowTargets::Classes(self::classes::<i32>(name, target, classes, ignore_index)?),
            DType::I64 => RowTargets::Classes(self::classes::<i64>(name, target, classes, ignore_index)?),
            _ => RowTargets::Probabilities(Rows::new(target, axis)?),
        };
        let weight = weight.first().map(wide::<T>).transpose()?;
        let total_weight = match &weight {
            Some(weight) => weight.iter().map(|w| w.to_f64()).sum(),
            None => classes as f64,
        };
        Ok(Targets { rows, weight, total_weight })
    }

    fn row<'s>(&self, i: usize, gathered: &'s mut Vec<T>, wide: &'s mut Vec<T::Acc>) -> Target<'s, T::Acc>
    where
        'a: 's,
    {
        match &self.rows {
            RowTargets::Classes(classes) => classes[i].map_or(Target::Ignored, Target::Class),
            RowTargets::Probabilities(rows) => Target::Probabilities(T::widen(rows.row(i, gathered), wide)),
        }
    }
}

/// The classes of all rows, each below `len`, none where it is the ignored one.
fn classes<I: Element + Into<i64>>(
    name: &'static str,
    target: &View<'_>,
    len: usize,
    ignore_index: i64,
) -> Result<Vec<Option<usize>>, Fault> {
    let classes = strided::dense::<I>(target)?;
    let each = classes.iter().enumerate().map(|(row, &class)| {
        let class: i64 = class.into();
        match usize::try_from(class) {
            _ if class == ignore_index => Ok(None),
            Ok(class) if class < len => Ok(Some(class)),
            _ => Err(Error::argument(
                name,
                format!(
                    "the target of row {row} is {class}, neither one of the {len} classes from 0 on nor ignore_index, \
                     which is {ignore_index}"
                ),
            )
            .into()),
        }
    });
    each.collect()
}

/// What becomes of a target `y`: `factor · y + spread`, times the weight.
#[derive(Clone, Copy)]
struct Smoothing {
    factor: f64,
    spread: f64,
}

impl Smoothing {
    fn new(label_smoothing: f64, classes: usize) -> Smoothing {
        Smoothing { factor: 1.0 - label_smoothing, spread: label_smoothing / classes as f64 }
    }
}

/// Loss, logsumexp, what rounding took from it, and weight of a row.
struct Row<'a, T> {
    x: &'a [T],
    target: Target<'a, T>,
    weight: Option<&'a [T]>,
    smoothing: Smoothing,
    blocks: &'a mut Vec<[T; 2]>,
    terms: &'a mut [T],
}

impl<T: Real> Task for Row<'_, T> {
    type Output = [T; 4];
    #[inline(always)]
    fn run<L: Level>(self, l: L) -> [T; 4] {
        let Row { x, target, weight, smoothing: Smoothing { factor, spread }, blocks, terms } = self;
        blocks.clear();
        for block in x.chunks(BLOCK) {
            let most = largest(block);
            // The exponentials of −∞ alone are zeros. A NaN is not the largest, but reaches the sum.
            let shift = if most == T::NEG_INFINITY { T::ZERO } else { most };
            blocks.push([most, map_sum(block, |x| (x - shift).exp_normal(l))]);
        }
        let most =
            blocks.iter().fold(T::NEG_INFINITY, |most, block| if block[0] > most { block[0] } else { most });
        // Where everything is −∞ there is no distribution: the sum is 0, and differences are NaN, as in PyTorch.
        let peak = if most == T::NEG_INFINITY { T::ZERO } else { most };
        let total: f64 = blocks.iter().map(|[own, sum]| sum.to_f64() * (*own - peak).exp(l).to_f64()).sum();
        // The largest is taken off first: beside it, the logarithm would lose its digits. Their sum is kept in two parts.
        let shift = T::of(total).ln(l);
        let logsumexp = most + shift;
        let part = logsumexp - most;
        let rest = (most - (logsumexp - part)) + (shift - part);
        let (loss, own) = match target {
            Target::Ignored => (T::ZERO, T::ZERO),
            Target::Class(class) => {
                let own = weight.map_or(T::ONE, |weight| weight[class]);
                let mut loss = T::of(factor) * own * (shift + (most - x[class]));
                if spread != 0.0 {
                    loss = loss + T::of(spread * terms_sum(x, None, weight, [most, shift], terms));
                }
                (loss, own)
            }
            Target::Probabilities(y) => {
                let smoothed = Some((y, [factor, spread].map(T::of)));
                (T::of(terms_sum(x, smoothed, weight, [most, shift], terms)), T::ONE)
            }
        };
        [loss, logsumexp, rest, own]
    }
}

/// The sum of `(shift + (most − x)) · (factor · y + spread) · weight`.
#[inline(always)]
fn terms_sum<T: Real>(
    x: &[T],
    y: Option<(&[T], [T; 2])>,
    weight: Option<&[T]>,
    [most, shift]: [T; 2],
    terms: &mut [T],
) -> f64 {
    let mut total = 0.0;
    for (i, x) in x.chunks(BLOCK).enumerate() {
        let terms = &mut terms[..x.len()];
        for (term, &x) in terms.iter_mut().zip(x) {
            *term = shift + (most - x);
        }
        if let Some((y, [factor, spread])) = y {
            for (term, &y) in terms.iter_mut().zip(&y[i * BLOCK..]) {
                *term = *term * (factor * y + spread);
            }
        }
        if let Some(weight) = weight {
            for (term, &weight) in terms.iter_mut().zip(&weight[i * BLOCK..]) {
                *term = *term * weight;
            }
        }
        total += sum(terms).to_f64();
    }
    total
}

/// The gradient of a row of logits.
struct RowBackward<'a, T> {
    x: &'a [T],
    target: Target<'a, T>,
    weight: Option<&'a [T]>,
    smoothing: Smoothing,
    total_weight: f64,
    grad: T,
    /// In two parts.
    logsumexp: [T; 2],
    out: &'a mut [T],
}

impl<T: Real> Task for RowBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let RowBackward { x, target, weight, smoothing, total_weight, grad, logsumexp: [whole, rest], out } =
            self;
        let Smoothing { factor, spread } = smoothing;
        let share = |x: T| ((x - whole) - rest).exp_normal(l);
        match target {
            Target::Ignored => out.fill(T::ZERO),
            Target::Class(class) => {
                let own = factor * weight.map_or(1.0, |weight| weight[class].to_f64());
                let scale = T::of(own + spread * total_weight) * grad;
                let each = T::of(spread) * grad;
                match weight {
                    Some(weight) if spread != 0.0 => {
                        for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
                            *out = share(x) * scale - each * weight;
                        }
                    }
                    _ => {
                        for (out, &x) in out.iter_mut().zip(x) {
                            *out = share(x) * scale - each;
                        }
                    }
                }
                out[class] = out[class] - T::of(own) * grad;
            }
            Target::Probabilities(y) => {
                let (factor, spread) = (T::of(factor), T::of(spread));
                for (out, &y) in out.iter_mut().zip(y) {
                    *out = factor * y + spread;
                }
                if let Some(weight) = weight {
                    for (out, &weight) in out.iter_mut().zip(weight) {
                        *out = *out * weight;
                    }
                }
                let total = T::of(out.chunks(BLOCK).map(|block| sum(block).to_f64()).sum());
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = (share(x) * total - *out) * grad;
                }
            }
        }
    }
}
