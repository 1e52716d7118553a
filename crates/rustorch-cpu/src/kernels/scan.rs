//! Cumulative sums, products and extrema.

mod extrema;

use super::only;
use super::strided::{GROUP, for_row_groups, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{C64, C128, Element, Fault, Scan, ScanOp, View, ViewMut, bf16, dispatch_dtype, f16};

pub(super) fn run(
    pool: &ThreadPool,
    scan: &Scan,
    x: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    match scan.op {
        ScanOp::Sum => accumulate(pool, false, scan.axis, x, only(outs)?),
        ScanOp::Prod => accumulate(pool, true, scan.axis, x, only(outs)?),
        ScanOp::Max => extrema::run(pool, true, scan.axis, x, outs),
        ScanOp::Min => extrema::run(pool, false, scan.axis, x, outs),
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
        for_row_groups(pool, x, out, axis, 2 * len, &|x: [&[T]; GROUP], out: [&mut [<T as Scanned>::Out]; GROUP]| {
            together(product, x, out);
        }, &|x: &[T], out: &mut [<T as Scanned>::Out]| together(product, [x], [out]))
    }, _ => Err(unreachable_memory()))
}

/// Accumulates several lines of one length, which do not wait for each other's additions.
#[inline(always)]
fn together<T: Scanned, const N: usize>(product: bool, x: [&[T]; N], out: [&mut [T::Out]; N]) {
    let len = x.iter().map(|x| x.len()).chain(out.iter().map(|out| out.len())).min().unwrap_or(0);
    let (x, mut out) = (x.map(|x| &x[..len]), out.map(|out| &mut out[..len]));
    let mut totals = [T::start(product); N];
    for i in 0..len {
        for ((x, out), total) in x.iter().zip(&mut out).zip(&mut totals) {
            *total = x[i].take(product, *total);
            out[i] = T::result(*total);
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
