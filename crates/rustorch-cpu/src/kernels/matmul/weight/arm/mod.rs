//! Vector kernels for 64-bit Arm: NEON, with `sdot` and `smmla` where the CPU has them.
//!
//! Codes and activations are multiplied as signed bytes, so that no offset is taken back, and the unpacked codes of [`Chunk`]
//! stand without it here.

/// The statements for each of the constants. Loops of so many steps, each of several instructions, are left as they are by the
/// compiler, with what belongs into registers in memory.
macro_rules! unrolled {
    ($i:ident in $($n:literal)* => $body:block) => {$({
        const $i: usize = $n;
        $body
    })*};
}

mod codes;
mod dot;
mod panel;
mod panel_lanes;
mod row;

pub(crate) use codes::Vectored;

use super::activation::{PanelChunk, Row};
use super::chunk::Chunk;
use super::types::Weight;
use super::{Acc, Kernels, PanelsFn, ROWS, RowsFn, lanes};
use crate::Isa;
use dot::{Dotprod, Neon};
use panel::{ByDot, ByMatrix};

// Conditions are `const` blocks: what they leave out is not compiled.

/// The kernels of a type with vector code.
pub(super) fn vector<W: Vectored>(isa: Isa) -> Kernels {
    let rows: RowsFn = match isa {
        Isa::NeonI8mm | Isa::NeonDotprod => rows_dotprod::<W>,
        Isa::Neon => row::rows::<W, Neon>,
        _ => return Kernels::portable::<W>(),
    };
    Kernels { rows, panels: panels::<W>(isa), unpack: codes::unpack_row::<W>, ..Kernels::portable::<W>() }
}

/// The kernels of a type whose codes are unpacked by portable code.
pub(super) fn plain<W: Weight>(isa: Isa) -> Kernels {
    match panels::<W>(isa) {
        None => Kernels::portable::<W>(),
        panels => Kernels { panels, unpack: codes::plain_unpack_row::<W>, ..Kernels::portable::<W>() },
    }
}

fn panels<W: Weight>(isa: Isa) -> Option<PanelsFn> {
    Some(match isa {
        // A panel has no room for the sums of a second plane.
        _ if const { W::PLANES > 1 } => return None,
        // The results of `smmla` are sums of eight products, those of lanes of four.
        Isa::NeonI8mm | Isa::NeonDotprod if const { lanes::is::<W>() } => panels_dotprod_lanes::<W>,
        Isa::NeonI8mm => panels_i8mm::<W>,
        Isa::NeonDotprod => panels_dotprod::<W>,
        Isa::Neon if const { lanes::is::<W>() } => panel_lanes::panels::<W, Neon>,
        Isa::Neon => panel::panels::<W, ByDot<Neon>>,
        _ => return None,
    })
}

macro_rules! wrappers {
    ($($features:literal: $name:ident<W: $bound:ident>($($arg:ident: $ty:ty),*) = $body:expr;)*) => {$(
        /// # Safety
        /// The body's contract, on a CPU with the features of the instruction set.
        #[target_feature(enable = $features)]
        unsafe fn $name<W: $bound>($($arg: $ty),*) {
            // SAFETY: the contract is passed on.
            unsafe { $body($($arg),*) }
        }
    )*};
}

wrappers! {
    "neon,dotprod": rows_dotprod<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = row::rows::<W, Dotprod>;
    "neon,dotprod": panels_dotprod<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel::panels::<W, ByDot<Dotprod>>;
    "neon,dotprod": panels_dotprod_lanes<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel_lanes::panels::<W, Dotprod>;
    "neon,dotprod,i8mm": panels_i8mm<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel::panels::<W, ByMatrix>;
}
