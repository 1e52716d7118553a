//! Cumulative sums, products and extrema.

use super::strided::{for_rows, unreachable_memory};
use crate::ThreadPool;
use crate::simd::{self, Level, Task};
use rustorch_core::{C64, C128, Element, Fault, ScanOp, View, ViewMut, bf16, dispatch_dtype, f16};

pub(super) fn run(
    pool: &ThreadPool,
    op: ScanOp,
    axis: usize,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    match op {
        ScanOp::Sum => accumulate(pool, false, axis, x, out),
        ScanOp::Prod => accumulate(pool, true, axis, x, out),
        ScanOp::Max => extreme(pool, true, axis, x, out),
        ScanOp::Min => extreme(pool, false, axis, x, out),
    }
}

fn accumulate(
    pool: &ThreadPool,
    product: bool,
    axis: usize,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let len = x.layout().dims().get(axis).copied().unwrap_or(1);
    dispatch_dtype!(x.dtype(), all, T => {
        for_rows(pool, x, out, axis, 2 * len, &|_, x: &[T], out: &mut [<T as Scanned>::Out]| {
            let mut total = T::start(product);
            for (x, out) in x.iter().zip(out) {
                total = x.take(product, total);
                *out = T::result(total);
            }
        })
    }, _ => Err(unreachable_memory()))
}

fn extreme(
    pool: &ThreadPool,
    largest: bool,
    axis: usize,
    x: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let len = x.layout().dims().get(axis).copied().unwrap_or(1);
    dispatch_dtype!(x.dtype(), [Bool U8 I8 I16 I32 U32 I64 F16 BF16 F32 F64], T => {
        for_rows(pool, x, out, axis, len, &|_, x: &[T], out: &mut [T]| {
            simd::run(Extrema { x, out, largest });
        })
    }, _ => Err(unreachable_memory()))
}

/// Elements that are compared with the extreme so far at once.
const CHUNK: usize = 32;

/// The running extrema of a line. Most chunks of a line without an order have no new one, and are filled.
struct Extrema<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
    largest: bool,
}

impl<T: Element + PartialOrd> Task for Extrema<'_, T> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    fn run<L: Level>(self, _: L) {
        // Of equals the last, as in PyTorch (zeros differ in their signs). A NaN always replaces, and no number replaces a NaN.
        match self.largest {
            true => extrema(self.x, self.out, |x, best| (x >= best) | (x != x)),
            false => extrema(self.x, self.out, |x, best| (x <= best) | (x != x)),
        }
    }
}

#[inline(always)]
fn extrema<T: Element>(x: &[T], out: &mut [T], replaces: impl Fn(T, T) -> bool) {
    let Some(&(mut best)) = x.first() else { return };
    for (x, out) in x.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        if !x.iter().fold(false, |any, &x| any | replaces(x, best)) {
            out.fill(best);
            continue;
        }
        for (&x, out) in x.iter().zip(out) {
            if replaces(x, best) {
                best = x;
            }
            *out = best;
        }
    }
}

/// An element of a running sum or product, which runs in the widest type of its family.
trait Scanned: Element {
    /// The type of the results.
    type Out: Element;
    /// The type of the running value.
    type Total: Copy;
    fn start(product: bool) -> Self::Total;
    fn take(self, product: bool, total: Self::Total) -> Self::Total;
    fn result(total: Self::Total) -> Self::Out;
}

macro_rules! scanned {
    ($total:ty, $out:ty, |$t:ident| $result:expr, |$a:ident, $b:ident| $sum:expr, $product:expr, $from:expr;
     $($x:ident: $in:ty => $wide:expr),*) => {$(
        impl Scanned for $in {
            type Out = $out;
            type Total = $total;
            #[inline(always)]
            fn start(product: bool) -> $total {
                $from(u8::from(product))
            }
            #[inline(always)]
            fn take(self, product: bool, $a: $total) -> $total {
                let $x = self;
                let $b: $total = $wide;
                if product { $product } else { $sum }
            }
            #[inline(always)]
            fn result($t: $total) -> $out {
                $result
            }
        }
    )*};
}

scanned!(i64, i64, |t| t, |a, b| a.wrapping_add(b), a.wrapping_mul(b), i64::from;
    x: bool => x.into(), x: u8 => x.into(), x: i8 => x.into(), x: i16 => x.into(), x: i32 => x.into(),
    x: u32 => x.into(), x: i64 => x);
scanned!(f64, f16, |t| f16::from_f64(t), |a, b| a + b, a * b, f64::from; x: f16 => x.to_f64());
scanned!(f64, bf16, |t| bf16::from_f64(t), |a, b| a + b, a * b, f64::from; x: bf16 => x.to_f64());
scanned!(f64, f32, |t| t as f32, |a, b| a + b, a * b, f64::from; x: f32 => x.into());
scanned!(f64, f64, |t| t, |a, b| a + b, a * b, f64::from; x: f64 => x);
scanned!(C128, C64, |t| C64::new(t.re as f32, t.im as f32), |a, b| a + b, a * b,
    |n: u8| C128::new(n.into(), 0.0); x: C64 => C128::new(x.re.into(), x.im.into()));
scanned!(C128, C128, |t| t, |a, b| a + b, a * b, |n: u8| C128::new(n.into(), 0.0); x: C128 => x);
