//! Vector kernels for x86-64.

mod amx;
mod amx_lanes;
mod codes;
mod dot;
mod grouped;
mod lanes;
mod panel256;
mod panel256_lanes;
mod panel512;
mod panel512_lanes;
mod row;
mod row512;

pub(crate) use codes::{Scales4, Vectored};

use super::activation::{PanelChunk, PanelForm, Row};
use super::chunk::{Chunk, small};
use super::lanes as portable_lanes;
use super::types::{Kind, Weight};
use super::{Acc, Kernels, ROWS};
use crate::Isa;

/// Whether codes use all eight bits, so that pairs of products may leave 16 bits.
const fn wide<W: Weight>() -> bool {
    W::BITS == 8
}

/// Whether kernels for CPUs without VNNI want codes without their offset, and their absolute values.
const fn wants_signs<W: Weight>() -> bool {
    wide::<W>() && !matches!(W::KIND, Kind::Lanes)
}

/// Whether kernels without tiles of AMX want values in the order of [`paired`](super::chunk::paired).
const fn paired<W: Weight>() -> bool {
    matches!(W::KIND, Kind::Lanes) && small::<W>()
}

// Conditions are `const` blocks: what they leave out is not compiled.

/// The kernels of a type with vector code.
pub(super) fn vector<W: Vectored>(isa: Isa) -> Kernels {
    if isa == Isa::Avx512 && amx::fits::<W>() {
        let kernels = Kernels {
            rows: rows_avx512::<W>,
            quads: amx::QUADS,
            at_once: amx::PANELS,
            enter: amx::enter::<W>,
            leave: amx::leave,
            finish: finish::<W>(isa),
            ..Kernels::portable::<W>()
        };
        return if const { portable_lanes::is::<W>() } {
            let (panels, unpack) =
                (Some(panels_amx_lanes::<W> as super::PanelsFn), unpack_amx_lanes::<W> as super::UnpackFn);
            Kernels { panels, unpack, depth: amx_lanes::DEPTH, ..kernels }
        } else {
            Kernels { panels: Some(panels_amx::<W>), unpack: unpack_amx::<W>, ..kernels }
        };
    }
    let rows: super::RowsFn = match isa {
        Isa::Avx512 => rows_avx512::<W>,
        Isa::AvxVnni => rows_avxvnni::<W>,
        Isa::Avx2 => rows_avx2::<W>,
        _ => return Kernels::portable::<W>(),
    };
    match isa {
        Isa::Avx2 if const { wants_signs::<W>() } => without_tiles::<W>(isa, rows, unpack_avx2_signed::<W>),
        _ => without_tiles::<W>(isa, rows, unpack_avx2::<W>),
    }
}

/// The kernels of a type whose codes are unpacked by portable code, compiled for wide vectors.
pub(super) fn plain<W: Weight>(isa: Isa) -> Kernels {
    let unpack: super::UnpackFn = match isa {
        Isa::Avx512 | Isa::AvxVnni => plain_unpack::<W>,
        Isa::Avx2 if const { wants_signs::<W>() } => plain_unpack_signed::<W>,
        Isa::Avx2 => plain_unpack::<W>,
        _ => return Kernels::portable::<W>(),
    };
    let rows: super::RowsFn =
        if const { portable_lanes::is::<W>() } { rows_lanes::<W> } else { rows_grouped::<W> };
    without_tiles::<W>(isa, rows, unpack)
}

/// The kernels of an instruction set with vectors, by these of a type.
fn without_tiles<W: Weight>(isa: Isa, rows: super::RowsFn, unpack: super::UnpackFn) -> Kernels {
    let panels: Option<super::PanelsFn> = match isa {
        // A panel has no room for the sums of a second plane.
        _ if const { W::PLANES > 1 } => None,
        Isa::Avx512 if const { portable_lanes::is::<W>() } => Some(panels_avx512_lanes::<W>),
        Isa::Avx512 => Some(panels_avx512::<W>),
        Isa::AvxVnni if const { portable_lanes::is::<W>() } => Some(panels_avxvnni_lanes::<W>),
        Isa::AvxVnni => Some(panels_avxvnni::<W>),
        _ if const { portable_lanes::is::<W>() } => Some(panels_avx2_lanes::<W>),
        _ => Some(panels_avx2::<W>),
    };
    let portable = Kernels::portable::<W>();
    let form = PanelForm { is_paired: paired::<W>(), ..portable.form };
    Kernels { rows, unpack, panels, form, finish: finish::<W>(isa), ..portable }
}

/// What makes results of the sums of panels.
fn finish<W: Weight>(isa: Isa) -> super::FinishFn {
    match isa {
        Isa::Avx512 if const { portable_lanes::is::<W>() } => finish_avx512_lanes::<W>,
        Isa::Avx2 | Isa::AvxVnni if const { portable_lanes::is::<W>() } => finish_avx2_lanes::<W>,
        _ => Kernels::portable::<W>().finish,
    }
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
    "avx2,fma,f16c,bmi2": rows_avx2<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = row::rows::<W, dot::Avx2>;
    "avxvnni,avx2,fma,f16c,bmi2": rows_avxvnni<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = row::rows::<W, dot::AvxVnni>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": rows_avx512<W: Vectored>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = row512::rows::<W>;
    "avx2,fma,f16c,bmi2": unpack_avx2<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = codes::unpack_row::<W>;
    "avx2,fma,f16c,bmi2": unpack_avx2_signed<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = codes::unpack_signed_row::<W>;
    "avx2,fma,f16c,bmi2": panels_avx2<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel256::panels::<W, dot::Avx2>;
    "avxvnni,avx2,fma,f16c,bmi2": panels_avxvnni<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel256::panels::<W, dot::AvxVnni>;
    "avx2,fma,f16c,bmi2": panels_avx2_lanes<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel256_lanes::panels::<W, dot::Avx2>;
    "avxvnni,avx2,fma,f16c,bmi2": panels_avxvnni_lanes<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel256_lanes::panels::<W, dot::AvxVnni>;
    "avx2,fma,f16c,bmi2": finish_avx2_lanes<W: Weight>(acc: &mut [Acc], out: &mut Acc) = panel256_lanes::finish::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": panels_avx512<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel512::panels::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": panels_avx512_lanes<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = panel512_lanes::panels::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": unpack_amx<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = amx::unpack_row::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": panels_amx<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = amx::panels::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": unpack_amx_lanes<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = amx_lanes::unpack_row::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": panels_amx_lanes<W: Weight>(w: *const Chunk, x: &[*const PanelChunk], n32: usize, acc: *mut Acc) = amx_lanes::panels::<W>;
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi2": finish_avx512_lanes<W: Weight>(acc: &mut [Acc], out: &mut Acc) = panel512_lanes::finish::<W>;
    "avx2,fma,f16c,bmi2": rows_lanes<W: Weight>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = lanes::plain_rows::<W>;
    "avx2,fma,f16c,bmi2": rows_grouped<W: Weight>(w: [*const u8; ROWS], k: usize, x: &Row<'_>, out: &mut [f32; ROWS]) = grouped::rows::<W>;
    "avx2,fma,f16c,bmi2": plain_unpack<W: Weight>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = codes::plain_unpack_row::<W>;
    "avx2,fma,f16c,bmi2": plain_unpack_signed<W: Weight>(w: *const u8, k: usize, out: *mut Chunk, step: usize) = codes::plain_unpack_signed_row::<W>;
}
