//! Splitting of operands that exceed the maximum binding size ([`Hardware::max_binding`]) or 32-bit indices.
//!
//! An operation on larger operands runs as a sequence of chunks. [`axes`] and [`spatial`] say along which axes each operation
//! may be split: axes along which results are independent, with the neighbourhood that they need ([`halo`]), and the axis of a
//! table that indices select from. This module decides, from layouts alone, where to split. A chunk whose elements are
//! scattered over more than a binding is staged: gathered to, or computed in, a scratch buffer, by copies that may be split
//! themselves. Splitting does not change results: each element is computed as in a single launch.

pub(crate) mod axes;
pub(crate) mod copy;
mod extent;
pub(crate) mod halo;
mod request;
pub(crate) mod spatial;

pub(crate) use axes::{OwnLines, SplitPlan, row_pitch};
pub(crate) use extent::{Extent, StagedOperand, elementwise};
pub(crate) use request::{is_seen, plan};

use crate::Hardware;
use halo::Halo;
use rustorch_core::{Decline, Dims, Layout};
use smallvec::SmallVec;
use std::ops::Range;

/// The maximum number of launches; beyond it the operation is left to another device. Transposing 16 GiB with 128 MiB bindings
/// takes as many.
const MOST: usize = 1 << 14;

/// An axis along which operands are split together.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Its length in units.
    pub(crate) len: usize,
    /// For each operand the elements that correspond to a unit; `None` if the operand is not split along this axis.
    pub(crate) moves: SmallVec<[Option<Move>; 6]>,
    /// Chunks begin at multiples of this many units, unless they are shorter.
    pub(crate) alignment: usize,
    /// It is split only once this outer axis is down to one unit.
    pub(crate) within: Option<usize>,
}

/// The elements of an operand's dimension that correspond to units of an axis.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// A fixed number of elements of a dimension per unit.
    Each(usize, usize),
    /// Overlapping ranges of a dimension.
    Around(usize, Halo),
}

impl Move {
    fn dim(&self) -> usize {
        match self {
            Move::Each(dim, _) | Move::Around(dim, _) => *dim,
        }
    }

    /// The elements of the dimension that go with all units.
    fn all(&self, len: usize) -> Range<usize> {
        match self {
            Move::Each(_, unit) => 0..len * unit,
            Move::Around(_, halo) => 0..halo.size,
        }
    }

    /// The elements that go with `len` units from `start` on, of those in a range; never none, though none may be needed.
    fn narrowed(&self, start: usize, len: usize, of: &Range<usize>) -> Range<usize> {
        let own = match self {
            Move::Each(_, unit) => start * unit..(start + len) * unit,
            Move::Around(_, halo) => halo.range(start, len),
        };
        let first = own.start.clamp(of.start, of.end.saturating_sub(1).max(of.start));
        first..own.end.clamp((first + 1).min(of.end), of.end)
    }

    /// About how many units have so many elements.
    fn units(&self, elements: usize) -> usize {
        match self {
            Move::Each(_, unit) => elements / unit,
            Move::Around(_, halo) => halo.units(elements),
        }
    }
}

/// A chunk: a part of every operand.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Layouts of the operands' parts.
    pub(crate) layouts: Vec<Layout>,
    /// Which operands are staged in scratch buffers.
    pub(crate) staged: SmallVec<[bool; 6]>,
    /// The first unit of each axis.
    pub(crate) starts: Dims,
    /// The units of each axis.
    pub(crate) lens: Dims,
    /// For each axis and operand, the elements of its dimension that are here.
    ranges: Vec<SmallVec<[Range<usize>; 6]>>,
}

/// Whether kernels see every operand whole.
pub(crate) fn fit(operands: &[Extent], hardware: &Hardware) -> bool {
    operands.iter().all(|x| x.fits(&x.layout, hardware))
}

/// Splits operands along axes until every part fits a binding. The chunks cover the operands once, in order.
///
/// # Errors
/// If an operand cannot be split so, or only into too many chunks.
pub(crate) fn split_operands(
    operands: &[Extent],
    axes: &[Axis],
    hardware: &Hardware,
) -> Result<Vec<Chunk>, Decline> {
    let whole = Chunk {
        layouts: operands.iter().map(|x| x.layout.clone()).collect(),
        staged: operands.iter().map(|x| x.staging == StagedOperand::Result).collect(),
        starts: axes.iter().map(|_| 0).collect(),
        lens: axes.iter().map(|axis| axis.len).collect(),
        ranges: axes
            .iter()
            .map(|axis| {
                axis.moves.iter().map(|x| x.as_ref().map_or(0..0, |moves| moves.all(axis.len))).collect()
            })
            .collect(),
    };
    let mut cutter = Splitter { operands, axes, hardware, chunks: Vec::new() };
    cutter.split(whole)?;
    Ok(cutter.chunks)
}

/// Too many launches.
fn too_many() -> Decline {
    Decline::Attr("an operand that takes more than 16384 launches, each for what kernels see at once")
}

struct Splitter<'a> {
    operands: &'a [Extent],
    axes: &'a [Axis],
    hardware: &'a Hardware,
    chunks: Vec<Chunk>,
}

impl Splitter<'_> {
    fn split(&mut self, mut chunk: Chunk) -> Result<(), Decline> {
        let staged: Decline = Decline::Attr(
            "what of an operand belongs together is larger than what the device's kernels see at once",
        );
        let mut large: SmallVec<[(usize, Option<usize>); 4]> = SmallVec::new();
        for i in 0..self.operands.len() {
            if self.seen(&chunk, i) {
                continue;
            }
            let way = self.longest(&chunk, i);
            if self.left_to_family(&chunk, i, way) {
                continue;
            }
            if self.collects(&chunk, i, way) {
                chunk.staged[i] = true;
            }
            if !self.seen(&chunk, i) {
                large.push((i, way));
            }
        }
        let Some(&(_, first)) = large.first() else {
            return self.keep(chunk);
        };
        // Where a device's kernels see buffers from their beginning only, no part is better than the whole.
        let Some(a) = first.filter(|_| self.hardware.window.is_some()) else {
            return Err(staged);
        };
        let axis = &self.axes[a];
        let len = chunk.lens[a];
        let most = large
            .iter()
            .filter(|&&(_, way)| way == Some(a))
            .map(|&(i, _)| self.units(&chunk, i, a, chunk.staged[i]))
            .min()
            .unwrap_or(1)
            // Halos are estimated: parts that are still too large come here again.
            .clamp(1, len.div_ceil(2));
        // Chunks of about one length.
        let even = len.div_ceil(len.div_ceil(most)).next_multiple_of(axis.alignment);
        let step = match most / axis.alignment * axis.alignment {
            0 => most,
            whole => even.min(whole),
        };
        let mut start = 0;
        while start < len {
            let part = chunk.narrowed(a, axis, start, step.min(len - start))?;
            self.split(part)?;
            start += step;
        }
        Ok(())
    }

    fn keep(&mut self, mut chunk: Chunk) -> Result<(), Decline> {
        if self.chunks.len() == MOST {
            return Err(too_many());
        }
        for (i, x) in self.operands.iter().enumerate() {
            chunk.staged[i] &= !x.fits(&chunk.layouts[i], self.hardware);
        }
        self.chunks.push(chunk);
        Ok(())
    }

    /// Whether kernels see all of an operand, in place or aside.
    fn seen(&self, chunk: &Chunk, i: usize) -> bool {
        let (x, layout) = (&self.operands[i], &chunk.layouts[i]);
        x.fits(layout, self.hardware) || chunk.staged[i] && x.fits_packed(layout, self.hardware)
    }

    /// Whether an operand that is not seen is cut farther by the family: where nothing else reaches as far as its lines.
    fn left_to_family(&self, chunk: &Chunk, i: usize, way: Option<usize>) -> bool {
        match self.operands[i].staging {
            StagedOperand::Lines(Some(reach)) => way.is_none_or(|a| self.reach(chunk, a, i) <= reach),
            StagedOperand::Lines(None) => way.is_none(),
            _ => false,
        }
    }

    /// Whether an argument is collected from here on: where there is no cutting it until it fits in place, or only
    /// into far smaller chunks.
    fn collects(&self, chunk: &Chunk, i: usize, way: Option<usize>) -> bool {
        if chunk.staged[i]
            || !matches!(self.operands[i].staging, StagedOperand::Argument | StagedOperand::Lines(_))
        {
            return false;
        }
        match way {
            Some(a) => 4 * self.units(chunk, i, a, false) < self.units(chunk, i, a, true),
            None => self.operands[i].fits_packed(&chunk.layouts[i], self.hardware),
        }
    }

    /// The most units of an axis for which kernels see an operand, wherever the part begins; none where there is room for
    /// none.
    fn units(&self, chunk: &Chunk, i: usize, a: usize, staged: bool) -> usize {
        let (x, layout) = (&self.operands[i], &chunk.layouts[i]);
        self.axes[a].moves[i]
            .as_ref()
            .map_or(0, |moves| moves.units(x.room(layout, moves.dim(), staged, self.hardware)))
    }

    /// How far an operand reaches along an axis.
    fn reach(&self, chunk: &Chunk, a: usize, i: usize) -> usize {
        let layout = &chunk.layouts[i];
        let axis = &self.axes[a];
        if chunk.lens[a] == 1 || axis.within.is_some_and(|outer| chunk.lens[outer] > 1) {
            return 0;
        }
        axis.moves[i].as_ref().map_or(0, |moves| {
            let unit = if let Move::Each(_, unit) = moves { *unit } else { 1 };
            layout.dims()[moves.dim()].saturating_sub(unit) * layout.strides()[moves.dim()]
        })
    }

    /// The axis along which an operand reaches farthest; the outer one of equals.
    fn longest(&self, chunk: &Chunk, i: usize) -> Option<usize> {
        let reach = |a: usize| self.reach(chunk, a, i);
        (0..self.axes.len()).rev().max_by_key(|&a| reach(a)).filter(|&a| reach(a) > 0)
    }
}

impl Chunk {
    fn narrowed(&self, a: usize, axis: &Axis, start: usize, len: usize) -> Result<Chunk, Decline> {
        let mut part = self.clone();
        part.starts[a] += start;
        part.lens[a] = len;
        for (i, moves) in axis.moves.iter().enumerate() {
            let Some(moves) = moves else { continue };
            let all = &self.ranges[a][i];
            let own = moves.narrowed(part.starts[a], len, all);
            part.layouts[i] = self.layouts[i]
                .slice(moves.dim(), own.start - all.start, own.len(), 1)
                .map_err(|_| Decline::Attr("too large"))?;
            part.ranges[a][i] = own;
        }
        Ok(part)
    }

    /// Where parts that neighbours share begin: of the result and, of operand `i`, of its trailing dimensions.
    fn corner(&self, axes: &[Axis], i: usize) -> crate::plan::Corner {
        let mut corner = crate::plan::Corner::default();
        for (a, axis) in axes.iter().enumerate() {
            if let Some(Move::Around(dim, _)) = axis.moves.get(i).unwrap_or(&None) {
                let place = 3 + dim - self.layouts[i].ndim();
                corner.target[place] = self.starts[a];
                corner.source[place] = self.ranges[a][i].start;
            }
        }
        corner
    }
}
