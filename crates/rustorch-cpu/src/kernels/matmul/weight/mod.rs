//! Matmuls of `f32` activations with block-quantized weights.
//!
//! Activations are rounded once to the 8-bit type that the weight's type is multiplied with, as in ggml; products of codes are summed
//! as integers. There are two ways through the weights, with the same result bit for bit:
//! - few rows of activations: [`row`](x86) kernels read blocks in place, four rows of the weight at a time;
//! - many: 32 rows of the weight are unpacked to bytes and multiplied with panels of sixteen interleaved rows of activations, one vector lane
//!   for each.
//!
//! An output element is made of chains of fused multiply-adds over the blocks of its row, starting from zero, in order.
//! Nothing else in its environment changes it. The chains are those of ggml on x86-64, so that results equal its results
//! bit for bit: a rounding more or less, and an activation behind it rounds to another of its 8-bit codes, which moves
//! the logits of a model by a thousandth of their range. ggml interleaves the blocks of eight rows of some types (Q4_0, Q2_K,
//! Q4_K, IQ4_NL, MXFP4) and has one chain for each result; for the others its dot product has one for each lane of a vector
//! of eight, added in the end ([`lanes`]). With [`Numerics::Fast`] these have one, too ([`fast`]).

mod activation;
#[cfg(target_arch = "aarch64")]
mod arm;
mod chunk;
mod fast;
mod lanes;
mod matmul;
mod portable;
mod types;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use activation::Activations;
pub(crate) use arch::Vectored;
#[cfg(target_arch = "aarch64")]
use arm as arch;
pub(crate) use matmul::{Product, matmul};
#[cfg(target_arch = "x86_64")]
use x86 as arch;

use crate::Isa;
use activation::{LANES, PanelChunk, PanelForm, Row};
use chunk::Chunk;
use fast::Fast;
use rustorch_core::{Numerics, QuantType};
use types::{ActivationQuant, Kind, Weight};

/// Without vector code, every type is plain.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    use super::types::Weight;
    use super::{Isa, Kernels};

    pub(crate) trait Vectored: Weight {}
    impl<W: Weight> Vectored for W {}

    pub(super) fn vector<W: Weight>(_isa: Isa) -> Kernels {
        Kernels::portable::<W>()
    }

    pub(super) fn plain<W: Weight>(_isa: Isa) -> Kernels {
        Kernels::portable::<W>()
    }
}

/// A row-major `[n, k]` matrix: the weight's shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    /// Rows, which are columns of the result.
    pub(crate) n: usize,
    /// Values in a row.
    pub(crate) k: usize,
    /// Bytes from one row to the next.
    pub(crate) row_bytes: usize,
}

/// Which rows of [`Activations`] are multiplied with a matrix.
#[derive(Clone, Copy)]
pub(crate) enum RowIds<'a> {
    /// The first so many.
    All(usize),
    /// These.
    Listed(&'a [u32]),
}

impl RowIds<'_> {
    /// How many.
    pub(crate) fn len(self) -> usize {
        match self {
            RowIds::All(count) => count,
            RowIds::Listed(ids) => ids.len(),
        }
    }

    /// The `i`-th of them.
    #[inline(always)]
    fn get(self, i: usize) -> usize {
        match self {
            RowIds::All(_) => i,
            RowIds::Listed(ids) => ids[i] as usize,
        }
    }
}

/// Rows of the weight that kernels take at a time.
const ROWS: usize = 4;

/// Rows of the weight that are unpacked together.
const UNPACKED: usize = 32;
/// Panels that kernels take at a time, at most.
const MOST_PANELS: usize = 4;

/// Sums in the making: four rows of the weight times a panel. Aligned, since a vector that lies in two cache lines takes twice as long.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Acc([[f32; LANES]; ROWS]);

impl std::ops::Deref for Acc {
    type Target = [[f32; LANES]; ROWS];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Acc {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

type RowsFn = unsafe fn([*const u8; ROWS], usize, &Row<'_>, &mut [f32; ROWS]);
type UnpackFn = unsafe fn(*const u8, usize, *mut Chunk, usize);
/// [`Acc`]s for each panel of a kind with lanes: for each of eight lanes, and for the minima.
const LANE_ACCS: usize = 9;

/// [`Acc`]s for each panel: sums, and for [`Kind::Integer`] those of minima, if there are some.
const fn accs<W: Weight>() -> usize {
    match W::KIND {
        Kind::LaneBlocks | Kind::Lanes => LANE_ACCS,
        Kind::Integer if W::MINS => 2,
        Kind::Integer | Kind::Blocks | Kind::Groups => 1,
    }
}

type FinishFn = unsafe fn(&mut [Acc], &mut Acc);
type PanelsFn = unsafe fn(*const Chunk, &[*const PanelChunk], usize, *mut Acc);

/// The kernels of a block type.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// What activations are rounded to.
    activation_quant: ActivationQuant,
    /// What panels have to hold.
    form: PanelForm,
    /// Four rows of the weight times a row of activations; see [`portable::rows`].
    rows: RowsFn,
    /// A row of the weight as chunks; see [`portable::unpack_row`].
    unpack: UnpackFn,
    /// Chunks of `quads` times four rows times up to `at_once` panels; see [`portable::panels`]. Without it, `rows` serve for any number of rows.
    panels: Option<PanelsFn>,
    /// See `panels`.
    quads: usize,
    /// See `panels`; at most [`MOST_PANELS`].
    at_once: usize,
    /// Chunks of a row that `panels` take at a time, fewer at its end. Those of a row are [`UNPACKED`] chunks apart, those of a panel one after
    /// the other.
    depth: usize,
    /// Prepares this thread for `panels`; the CPU has the instruction set of the kernels.
    enter: unsafe fn(),
    /// What [`enter`](Self::enter) needs in the end.
    leave: unsafe fn(),
    /// [`Acc`]s that a panel takes.
    accs: usize,
    /// Makes results of them and leaves zeros; the CPU has the instruction set of the kernels.
    finish: FinishFn,
}

impl Kernels {
    /// The kernels of a type on an instruction set that this CPU has, which round activations.
    pub(crate) fn get(quant: QuantType, numerics: Numerics, isa: Isa) -> Kernels {
        types::visit(quant, Choose { numerics, isa })
    }

    fn portable<W: Weight>() -> Kernels {
        Kernels {
            activation_quant: W::ACTIVATION_QUANT,
            form: PanelForm {
                group: match W::KIND {
                    Kind::Blocks | Kind::LaneBlocks => 32,
                    Kind::Integer | Kind::Lanes => W::GROUP,
                    Kind::Groups => 16,
                },
                is_paired: false,
            },
            rows: portable::rows::<W>,
            unpack: portable::unpack_row::<W>,
            panels: if const { lanes::is::<W>() } { None } else { Some(portable::panels::<W>) },
            quads: 1,
            at_once: 2,
            depth: 1,
            enter: || {},
            leave: || {},
            accs: accs::<W>(),
            finish: match W::KIND {
                Kind::LaneBlocks | Kind::Lanes => lanes::finish_panel::<W>,
                Kind::Integer if W::MINS => portable::subtract_minima,
                Kind::Integer | Kind::Blocks | Kind::Groups => {
                    |accs, out| *out = std::mem::take(&mut accs[0])
                }
            },
        }
    }

    /// What activations are rounded to.
    pub(crate) fn activation_quant(&self) -> ActivationQuant {
        self.activation_quant
    }
}

struct Choose {
    numerics: Numerics,
    isa: Isa,
}

impl types::Visitor for Choose {
    type Output = Kernels;

    fn plain<W: Weight>(self) -> Kernels {
        arch::plain::<W>(self.isa)
    }

    fn vector<W: Vectored>(self) -> Kernels {
        match self.numerics {
            Numerics::Fast if const { lanes::is::<W>() } => arch::vector::<Fast<W>>(self.isa),
            _ => arch::vector::<W>(self.isa),
        }
    }
}
