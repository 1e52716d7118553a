//! Vector kernels for x86-64.

mod grouped;
mod levels;
mod panel256;
mod panel512;
mod row;
mod row512;

pub(crate) use levels::Vectored;

use super::activation::{PanelChunk, Row};
use super::chunk::Chunk;
use super::types::Weight;
use super::{Acc, Kernels, ROWS, portable};
use crate::Isa;

/// The kernels of a type with vector code.
pub(super) fn vector<W: Vectored>(isa: Isa) -> Kernels {
    let (rows, panels): (super::RowsFn, super::PanelsFn) = match isa {
        Isa::Avx512 => (rows_avx512::<W>, panels_avx512::<W>),
        Isa::Avx2 => (rows_avx2::<W>, panels_avx2::<W>),
        _ => return Kernels::portable::<W>(),
    };
    Kernels { rows, panels, unpack: unpack_avx2::<W>, ..Kernels::portable::<W>() }
}

/// The kernels of a type whose levels are unpacked by portable code, compiled for wide vectors.
pub(super) fn plain<W: Weight>(isa: Isa) -> Kernels {
    let panels: super::PanelsFn = match isa {
        Isa::Avx512 => panels_avx512::<W>,
        Isa::Avx2 => panels_avx2::<W>,
        _ => return Kernels::portable::<W>(),
    };
    Kernels { rows: rows_grouped::<W>, unpack: plain_unpack::<W>, panels, ..Kernels::portable::<W>() }
}

macro_rules! wrappers {
    ($($features:literal: $name:ident<W: $bound:ident>($($arg:ident: $ty:ty),*) = $body:expr;)*) => {$(
        /// # Safety
        /// The body's contract, on a processor with the features of the level.
        #[target_feature(enable = $features)]
        unsafe fn $name<W: $bound>($($arg: $ty),*) {
            // SAFETY: the contract is passed on.
            unsafe { $body($($arg),*) }
        }
    )*};
}

wrappers! {
    "avx2,fma,f16c,bmi2": rows_avx2<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = row::rows::<W, false>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": rows_avx512<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = row512::rows::<W>;
    "avx2,fma,f16c,bmi2": unpack_avx2<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = levels::unpack_row::<W>;
    "avx2,fma,f16c,bmi2": panels_avx2<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel256::panels::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": panels_avx512<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel512::panels::<W>;
    "avx2,fma,f16c,bmi2": rows_grouped<W: Weight>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = grouped::rows::<W>;
    "avx2,fma,f16c,bmi2": plain_unpack<W: Weight>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = portable::unpack_row::<W>;
}
