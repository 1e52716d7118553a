//! Writing and adding elements at given indices.

use super::copy::copy;
use super::index::{covered, lines};
use super::strided::{self, Rows, for_rows, indices, unreachable_memory};
use crate::Pool;
use rustorch_core::{C64, C128, Element, Fault, ScatterMode, View, ViewMut, bf16, dispatch_dtype, f16};

/// `x` with `src` written or added at `index`. Lines along the axis are independent; inside one, sources go in order.
pub(super) fn run(
    pool: &Pool,
    axis: usize,
    mode: ScatterMode,
    [x, index, src]: [&View<'_>; 3],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let name = match mode {
        ScatterMode::Replace => "scatter",
        ScatterMode::Add => "scatter_add",
    };
    let len = x.layout().dims().get(axis).copied().unwrap_or(1);
    let chosen = indices(name, index, len)?;
    copy(pool, x, out)?;
    if chosen.is_empty() {
        return Ok(());
    }
    let dims = index.layout().dims();
    let n = dims.get(axis).copied().unwrap_or(1);
    let (starts, step) = lines(index.layout().shape(), axis)?;
    let (from, to) = (covered(x.layout(), dims, axis)?, covered(out.layout(), dims, axis)?);
    let src_part = covered(src.layout(), dims, axis)?;
    dispatch_dtype!(x.dtype(), all, T => {
        let source = Rows::<T>::new(&strided::part(src, &src_part), axis)?;
        for_rows(pool, &strided::part(x, &from), &mut strided::part_mut(out, &to), axis, n + len, &|i, x: &[T], out| {
            out.copy_from_slice(x);
            let mut gathered = Vec::new();
            let source = source.row(i, &mut gathered);
            for (k, &value) in source[..n].iter().enumerate() {
                let place = &mut out[chosen[starts[i] + k * step]];
                *place = match mode {
                    ScatterMode::Replace => value,
                    ScatterMode::Add => place.plus(value),
                };
            }
        })
    }, _ => Err(unreachable_memory()))
}

/// Elements that can be added; truth values by "or".
trait Plus: Element {
    fn plus(self, b: Self) -> Self;
}

macro_rules! plus {
    ($($a:ident, $b:ident: $($t:ty),* => $sum:expr;)*) => {$($(
        impl Plus for $t {
            #[inline(always)]
            fn plus(self, $b: $t) -> $t {
                let $a = self;
                $sum
            }
        }
    )*)*};
}

plus! {
    a, b: bool => a | b;
    a, b: u8, i8, i16, i32, u32, i64 => a.wrapping_add(b);
    a, b: f16, bf16, f32, f64, C64, C128 => a + b;
}
