//! Operands as splitting sees them.

use super::{Axis, Move};
use crate::Hardware;
use crate::library::strided::Grid;
use crate::wgsl::per_word;
use rustorch_core::{DType, Decline, Dims, Layout, Shape, TensorMeta};
use smallvec::SmallVec;

/// An operand to be split.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The dtype.
    pub(crate) dtype: DType,
    /// Where its elements are.
    pub(crate) layout: Layout,
    /// Whether it may be staged.
    pub(crate) staging: StagedOperand,
}

/// Whether and how an operand may be staged in a scratch buffer where its part is scattered over more than a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagedOperand {
    /// Never: it is split further.
    Never,
    /// Parts of an argument are gathered.
    Argument,
    /// Parts of a result are computed in scratch memory and copied.
    Result,
    /// As an argument; and the family splits lines that are too large itself, in place if they span at most this many elements.
    Lines(Option<usize>),
}

impl Extent {
    /// An operand that is split in place.
    pub(crate) fn of(x: &TensorMeta<'_>) -> Extent {
        Extent { dtype: x.dtype, layout: x.layout.clone(), staging: StagedOperand::Never }
    }

    /// The byte range to bind.
    fn bytes(&self, layout: &Layout) -> (u64, u64) {
        let (size, len) = (self.dtype.block_bytes() as u64, self.dtype.block_len() as u64);
        let start = layout.offset() as u64 / len * size;
        (start, ((layout.end() as u64).div_ceil(len) * size).max(start))
    }

    /// Whether a part fits a binding.
    pub(crate) fn fits(&self, layout: &Layout, hardware: &Hardware) -> bool {
        let (start, end) = self.bytes(layout);
        let first = hardware.window.map_or(0, |align| start / u64::from(align) * u64::from(align));
        end.next_multiple_of(4) - first <= self.limit(hardware)
    }

    /// Whether it would fit if it were packed.
    pub(super) fn fits_packed(&self, layout: &Layout, hardware: &Hardware) -> bool {
        let bytes = packed(layout).map_or(u64::MAX, |x| (x.end() * self.dtype.block_bytes()) as u64);
        bytes.next_multiple_of(4) <= self.limit(hardware)
    }

    /// The maximum size of a binding for this dtype.
    fn limit(&self, hardware: &Hardware) -> u64 {
        // Elements, and the bytes of blocks, are counted in 32 bits.
        let counted = if self.dtype.is_quant() { 1 } else { self.dtype.block_bytes() as u64 };
        hardware.max_binding.min(u64::from(u32::MAX) * counted)
    }

    /// The most elements of a dimension for which a part fits a binding, wherever it begins; `packed`: as if it were packed.
    pub(crate) fn room(&self, layout: &Layout, dim: usize, packed: bool, hardware: &Hardware) -> usize {
        let (size, len) = (self.dtype.block_bytes() as u64, self.dtype.block_len() as u64);
        // Where it lies, a window may have to begin earlier; and it ends on a word.
        let before = if packed { 0 } else { u64::from(hardware.window.unwrap_or(0)) + 4 };
        let room = (self.limit(hardware) / 4 * 4).saturating_sub(before);
        let room = usize::try_from(room / size * len).unwrap_or(usize::MAX);
        let (stride, count) = (layout.strides()[dim], layout.dims()[dim]);
        if packed {
            let lines: usize = solid(layout).filter(|&d| d != dim).map(|d| layout.dims()[d]).product();
            return room / lines.max(1);
        }
        let beside = layout.end() - layout.offset() - (count - 1) * stride;
        room.checked_sub(beside).map_or(0, |room| room / stride.max(1) + 1)
    }
}

/// The dimensions whose elements lie at different places.
fn solid(layout: &Layout) -> impl Iterator<Item = usize> {
    (0..layout.ndim()).filter(|&d| layout.strides()[d] != 0 && layout.dims()[d] != 1)
}

/// The dimensions whose elements lie at different places, from the outermost in memory.
fn by_stride(layout: &Layout) -> SmallVec<[usize; 6]> {
    let mut order: SmallVec<[usize; 6]> = solid(layout).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(layout.strides()[d]));
    order
}

/// The same elements in the same order, with nothing in between.
pub(super) fn packed(layout: &Layout) -> Option<Layout> {
    let mut strides = Dims::from_elem(0, layout.ndim());
    let mut step = 1usize;
    for d in by_stride(layout).into_iter().rev() {
        strides[d] = step;
        step = step.checked_mul(layout.dims()[d])?;
    }
    // Where there is one element, it has the stride that rows have.
    for d in (0..layout.ndim()).filter(|&d| layout.dims()[d] == 1) {
        strides[d] = 1;
    }
    Layout::new(layout.shape().clone(), strides, 0).ok()
}

/// A layout without its repetitions, its dimensions from the outermost in memory.
pub(super) fn in_order(layout: &Layout) -> Option<Layout> {
    let order = by_stride(layout);
    let dims: Dims = order.iter().map(|&d| layout.dims()[d]).collect();
    let strides: Dims = order.iter().map(|&d| layout.strides()[d]).collect();
    Layout::new(Shape::new(dims).ok()?, strides, layout.offset()).ok()
}

/// Operands of one shape whose elements correspond, and their dimensions merged where all of them allow it: each is an
/// axis. Chunks of the last operand begin on words.
pub(crate) fn elementwise(operands: &[(DType, &Layout)]) -> Result<(Vec<Extent>, Vec<Axis>), Decline> {
    let grid = Grid::new(&operands.iter().map(|x| x.1).collect::<SmallVec<[&Layout; 4]>>());
    let large = |_| Decline::Attr("too large");
    let shape = Shape::new(&grid.dims[..]).map_err(large)?;
    let extents = operands
        .iter()
        .zip(&grid.strides)
        .map(|(&(dtype, layout), strides)| {
            let layout = Layout::new(shape.clone(), &strides[..], layout.offset()).map_err(large)?;
            Ok(Extent { dtype, layout, staging: StagedOperand::Never })
        })
        .collect::<Result<Vec<_>, Decline>>()?;
    let axes = grid
        .dims
        .iter()
        .enumerate()
        .map(|(d, &len)| Axis {
            len,
            moves: operands.iter().map(|_| Some(Move::Each(d, 1))).collect(),
            alignment: extents.last().map_or(1, |last| alignment(last, d, 1)),
            within: None,
        })
        .collect();
    Ok((extents, axes))
}

/// The number of units of a result's dimension that fill whole words.
pub(super) fn alignment(result: &Extent, dim: usize, unit: usize) -> usize {
    let elements = per_word(result.dtype);
    let step = result.layout.strides()[dim] * unit;
    // The first is a power of two; of the second, only its powers of two count.
    elements >> step.trailing_zeros().min(elements.trailing_zeros())
}
