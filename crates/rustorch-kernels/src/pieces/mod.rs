//! Operands larger than what kernels see at once, in pieces that are not.
//!
//! A device shows a kernel so many bytes of a buffer ([`Hardware::max_binding`]), and kernels count in 32 bits. An operation
//! on more is the same operation on parts of its operands, one after the other. Where they may be cut is a matter of the
//! operation ([`axes`]): along the dimensions in which its results do not depend on each other, and along the one of a table
//! in which indices choose. How they are cut is decided here, from layouts alone. A cut changes no bit of any result: each
//! element is computed as it would be in one launch.

mod axes;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use axes::row_pitch;
pub(crate) use request::{foresee, plan};

use crate::Hardware;
use crate::family::strided::Grid;
use crate::wgsl::per_word;
use rustorch_core::{DType, Decline, Dims, Layout, Shape};
use smallvec::SmallVec;

/// More pieces than this are more trouble than another device's work.
const MOST: usize = 1024;

/// An operand, as far as cutting goes.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The dtype.
    pub(crate) dtype: DType,
    /// Where its elements are.
    pub(crate) layout: Layout,
}

/// A direction in which operands are cut together.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// How many units it has.
    pub(crate) len: usize,
    /// For each operand the dimension that is cut, and its elements for each unit; none where the operand stays whole.
    pub(crate) moves: SmallVec<[Option<(usize, usize)>; 6]>,
    /// Pieces begin at multiples of so many units, where they are long enough.
    pub(crate) granule: usize,
}

/// A part of every operand.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Where their elements are.
    pub(crate) layouts: Vec<Layout>,
    /// The first unit of each axis.
    pub(crate) starts: Dims,
    /// The units of each axis.
    pub(crate) lens: Dims,
}

impl Extent {
    /// The bytes that a kernel has to see: the first, where a window has to begin; and the end.
    fn bytes(&self, layout: &Layout) -> (u64, u64) {
        let (size, len) = (self.dtype.block_bytes() as u64, self.dtype.block_len() as u64);
        let start = layout.offset() as u64 / len * size;
        (start, ((layout.end() as u64).div_ceil(len) * size).max(start))
    }

    /// Whether a kernel sees all of a part at once.
    fn fits(&self, layout: &Layout, hardware: &Hardware) -> bool {
        let (start, end) = self.bytes(layout);
        let first = hardware.window.map_or(0, |align| start / u64::from(align) * u64::from(align));
        end.next_multiple_of(4) - first <= self.limit(hardware)
    }

    /// The most bytes that a kernel sees.
    fn limit(&self, hardware: &Hardware) -> u64 {
        // Elements, and the bytes of blocks, are counted in 32 bits.
        let counted = if self.dtype.is_quant() { 1 } else { self.dtype.block_bytes() as u64 };
        hardware.max_binding.min(u64::from(u32::MAX) * counted)
    }

    /// The most units of a dimension of a part that a kernel sees, wherever the part begins; one where there is room for
    /// none.
    fn units(&self, layout: &Layout, (dim, unit): (usize, usize), hardware: &Hardware) -> usize {
        let (size, len) = (self.dtype.block_bytes() as u64, self.dtype.block_len() as u64);
        // A window may have to begin earlier, and ends on a word.
        let room =
            self.limit(hardware).saturating_sub(u64::from(hardware.window.unwrap_or(0)) + 4) / size * len;
        let stride = layout.strides()[dim];
        let beside = layout.end() - layout.offset() - (layout.dims()[dim] - 1) * stride;
        match usize::try_from(room).unwrap_or(usize::MAX).checked_sub(beside) {
            Some(room) => ((room / stride.max(1) + 1) / unit).max(1),
            None => 1,
        }
    }
}

/// Whether kernels see every operand whole.
pub(crate) fn fit(operands: &[Extent], hardware: &Hardware) -> bool {
    operands.iter().all(|x| x.fits(&x.layout, hardware))
}

/// Cuts operands along axes until kernels see all of every piece. The pieces cover the operands once, in order.
///
/// # Errors
/// If an operand cannot be cut so, or only into very many pieces.
pub(crate) fn cut(operands: &[Extent], axes: &[Axis], hardware: &Hardware) -> Result<Vec<Piece>, Decline> {
    let whole = Piece {
        layouts: operands.iter().map(|x| x.layout.clone()).collect(),
        starts: axes.iter().map(|_| 0).collect(),
        lens: axes.iter().map(|axis| axis.len).collect(),
    };
    let mut pieces = Vec::new();
    split(whole, operands, axes, hardware, &mut pieces)?;
    Ok(pieces)
}

fn split(
    piece: Piece,
    operands: &[Extent],
    axes: &[Axis],
    hardware: &Hardware,
    pieces: &mut Vec<Piece>,
) -> Result<(), Decline> {
    let large: SmallVec<[usize; 4]> =
        (0..operands.len()).filter(|&i| !operands[i].fits(&piece.layouts[i], hardware)).collect();
    let Some(&first) = large.first() else {
        if pieces.len() == MOST {
            return Err(Decline::Attr(
                "an operand that takes more than 1024 launches, each for what kernels see at once",
            ));
        }
        pieces.push(piece);
        return Ok(());
    };
    // Where a device's kernels see buffers from their beginning only, no part is better than the whole.
    let way = |i: usize| hardware.window.and_then(|_| longest(&piece, axes, i));
    let Some(a) = way(first) else {
        return Err(Decline::Attr(
            "what of an operand belongs together is larger than what the device's kernels see at once",
        ));
    };
    let axis = &axes[a];
    let most = large
        .iter()
        .filter(|&&i| way(i) == Some(a))
        .filter_map(|&i| Some(operands[i].units(&piece.layouts[i], axis.moves[i]?, hardware)))
        .min()
        .unwrap_or(1);
    let len = piece.lens[a];
    // Pieces of about one length.
    let even = len.div_ceil(len.div_ceil(most)).next_multiple_of(axis.granule);
    let step = match most / axis.granule * axis.granule {
        0 => most,
        whole => even.min(whole),
    };
    let mut start = 0;
    while start < len {
        let part = piece.narrowed(a, axis, start, step.min(len - start))?;
        split(part, operands, axes, hardware, pieces)?;
        start += step;
    }
    Ok(())
}

/// The axis along which an operand reaches farthest; the outer one of equals.
fn longest(piece: &Piece, axes: &[Axis], operand: usize) -> Option<usize> {
    let layout = &piece.layouts[operand];
    let reach = |a: usize| -> usize {
        axes[a].moves[operand].map_or(0, |(dim, unit)| (piece.lens[a] - 1) * unit * layout.strides()[dim])
    };
    (0..axes.len()).rev().max_by_key(|&a| reach(a)).filter(|&a| reach(a) > 0)
}

impl Piece {
    fn narrowed(&self, a: usize, axis: &Axis, start: usize, len: usize) -> Result<Piece, Decline> {
        let mut part = self.clone();
        part.starts[a] += start;
        part.lens[a] = len;
        for (layout, moves) in part.layouts.iter_mut().zip(&axis.moves) {
            if let Some((dim, unit)) = *moves {
                *layout =
                    layout.slice(dim, start * unit, len * unit, 1).map_err(|_| Decline::Attr("too large"))?;
            }
        }
        Ok(part)
    }
}

/// Operands of one shape whose elements correspond, and their dimensions merged where all of them allow it: each is an
/// axis. Pieces of the last operand begin on words.
pub(crate) fn elementwise(operands: &[(DType, &Layout)]) -> Result<(Vec<Extent>, Vec<Axis>), Decline> {
    let grid = Grid::new(&operands.iter().map(|x| x.1).collect::<SmallVec<[&Layout; 4]>>());
    let large = |_| Decline::Attr("too large");
    let shape = Shape::new(&grid.dims[..]).map_err(large)?;
    let extents = operands
        .iter()
        .zip(&grid.strides)
        .map(|(&(dtype, layout), strides)| {
            let layout = Layout::new(shape.clone(), &strides[..], layout.offset()).map_err(large)?;
            Ok(Extent { dtype, layout })
        })
        .collect::<Result<Vec<_>, Decline>>()?;
    let axes = grid
        .dims
        .iter()
        .enumerate()
        .map(|(d, &len)| Axis {
            len,
            moves: operands.iter().map(|_| Some((d, 1))).collect(),
            granule: extents.last().map_or(1, |last| granule(last, d, 1)),
        })
        .collect();
    Ok((extents, axes))
}

/// So many units of a dimension of a result are whole words.
fn granule(result: &Extent, dim: usize, unit: usize) -> usize {
    let elements = per_word(result.dtype);
    let step = result.layout.strides()[dim] * unit;
    // The first is a power of two; of the second, only its powers of two count.
    elements >> step.trailing_zeros().min(elements.trailing_zeros())
}
