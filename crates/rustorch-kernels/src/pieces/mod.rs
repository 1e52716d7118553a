//! Operands larger than what kernels see at once, in pieces that are not.
//!
//! A device shows a kernel so many bytes of a buffer ([`Hardware::max_binding`]), and kernels count in 32 bits. An operation
//! on more is the same operation on parts of its operands, one after the other. Where they may be cut is a matter of the
//! operation ([`axes`], [`spatial`]): along the dimensions in which its results do not depend on each other, with what these
//! need around them ([`halo`]), and along the one of a table in which indices choose. How they are cut is decided here, from
//! layouts alone. A part that lies scattered over more than a kernel sees is collected in temporary memory first, or made
//! there, by copies that are cut themselves. A cut changes no bit of any result: each element is computed as it would be in
//! one launch.

mod axes;
mod extent;
mod halo;
#[cfg(test)]
mod large_tests;
mod request;
mod spatial;
#[cfg(test)]
mod tests;

pub(crate) use axes::row_pitch;
pub(crate) use extent::{Aside, Extent, elementwise};
pub(crate) use request::{foresee, plan};

use crate::Hardware;
use halo::Halo;
use rustorch_core::{Decline, Dims, Layout};
use smallvec::SmallVec;
use std::ops::Range;

/// More launches than this are more trouble than another device's work. To turn 16 GiB around, of which kernels see 128 MiB,
/// takes as many: one for each pair of a part that is read and a part that is written.
const MOST: usize = 1 << 14;

/// A direction in which operands are cut together.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// How many units it has.
    pub(crate) len: usize,
    /// For each operand what of it goes with units; none where the operand stays whole.
    pub(crate) moves: SmallVec<[Option<Move>; 6]>,
    /// Pieces begin at multiples of so many units, where they are long enough.
    pub(crate) granule: usize,
    /// It is cut only where this other axis has been cut down to one unit.
    pub(crate) within: Option<usize>,
}

/// What of an operand goes with units of an axis: a part of one dimension.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// So many elements of a dimension for each unit.
    Each(usize, usize),
    /// Elements of a dimension that neighbours share.
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

/// A part of every operand.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Where their elements are.
    pub(crate) layouts: Vec<Layout>,
    /// Which of them kernels meet in temporary memory.
    pub(crate) apart: SmallVec<[bool; 6]>,
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

/// Cuts operands along axes until kernels see all of every piece. The pieces cover the operands once, in order.
///
/// # Errors
/// If an operand cannot be cut so, or only into very many pieces.
pub(crate) fn cut(operands: &[Extent], axes: &[Axis], hardware: &Hardware) -> Result<Vec<Piece>, Decline> {
    let whole = Piece {
        layouts: operands.iter().map(|x| x.layout.clone()).collect(),
        apart: operands.iter().map(|x| x.aside == Aside::Result).collect(),
        starts: axes.iter().map(|_| 0).collect(),
        lens: axes.iter().map(|axis| axis.len).collect(),
        ranges: axes
            .iter()
            .map(|axis| {
                axis.moves.iter().map(|x| x.as_ref().map_or(0..0, |moves| moves.all(axis.len))).collect()
            })
            .collect(),
    };
    let mut cutter = Cutter { operands, axes, hardware, pieces: Vec::new() };
    cutter.split(whole)?;
    Ok(cutter.pieces)
}

/// What takes more launches than are worth while.
fn too_many() -> Decline {
    Decline::Attr("an operand that takes more than 16384 launches, each for what kernels see at once")
}

struct Cutter<'a> {
    operands: &'a [Extent],
    axes: &'a [Axis],
    hardware: &'a Hardware,
    pieces: Vec<Piece>,
}

impl Cutter<'_> {
    fn split(&mut self, mut piece: Piece) -> Result<(), Decline> {
        let apart: Decline = Decline::Attr(
            "what of an operand belongs together is larger than what the device's kernels see at once",
        );
        let mut large: SmallVec<[(usize, Option<usize>); 4]> = SmallVec::new();
        for i in 0..self.operands.len() {
            if self.seen(&piece, i) {
                continue;
            }
            let way = self.longest(&piece, i);
            if self.left_to_family(&piece, i, way) {
                continue;
            }
            if self.collects(&piece, i, way) {
                piece.apart[i] = true;
            }
            if !self.seen(&piece, i) {
                large.push((i, way));
            }
        }
        let Some(&(_, first)) = large.first() else {
            return self.keep(piece);
        };
        // Where a device's kernels see buffers from their beginning only, no part is better than the whole.
        let Some(a) = first.filter(|_| self.hardware.window.is_some()) else {
            return Err(apart);
        };
        let axis = &self.axes[a];
        let len = piece.lens[a];
        let most = large
            .iter()
            .filter(|&&(_, way)| way == Some(a))
            .map(|&(i, _)| self.units(&piece, i, a, piece.apart[i]))
            .min()
            .unwrap_or(1)
            // Halos are estimated: parts that are still too large come here again.
            .clamp(1, len.div_ceil(2));
        // Pieces of about one length.
        let even = len.div_ceil(len.div_ceil(most)).next_multiple_of(axis.granule);
        let step = match most / axis.granule * axis.granule {
            0 => most,
            whole => even.min(whole),
        };
        let mut start = 0;
        while start < len {
            let part = piece.narrowed(a, axis, start, step.min(len - start))?;
            self.split(part)?;
            start += step;
        }
        Ok(())
    }

    fn keep(&mut self, mut piece: Piece) -> Result<(), Decline> {
        if self.pieces.len() == MOST {
            return Err(too_many());
        }
        for (i, x) in self.operands.iter().enumerate() {
            piece.apart[i] &= !x.fits(&piece.layouts[i], self.hardware);
        }
        self.pieces.push(piece);
        Ok(())
    }

    /// Whether kernels see all of an operand, where it lies or aside.
    fn seen(&self, piece: &Piece, i: usize) -> bool {
        let (x, layout) = (&self.operands[i], &piece.layouts[i]);
        x.fits(layout, self.hardware) || piece.apart[i] && x.fits_packed(layout, self.hardware)
    }

    /// Whether an operand that is not seen is cut farther by the family: where nothing else reaches as far as its lines.
    fn left_to_family(&self, piece: &Piece, i: usize, way: Option<usize>) -> bool {
        match self.operands[i].aside {
            Aside::Lines(Some(reach)) => way.is_none_or(|a| self.reach(piece, a, i) <= reach),
            Aside::Lines(None) => way.is_none(),
            _ => false,
        }
    }

    /// Whether an argument is collected from here on: where there is no cutting it until it fits where it lies, or only
    /// into far smaller pieces.
    fn collects(&self, piece: &Piece, i: usize, way: Option<usize>) -> bool {
        if piece.apart[i] || !matches!(self.operands[i].aside, Aside::Argument | Aside::Lines(_)) {
            return false;
        }
        match way {
            Some(a) => 4 * self.units(piece, i, a, false) < self.units(piece, i, a, true),
            None => self.operands[i].fits_packed(&piece.layouts[i], self.hardware),
        }
    }

    /// The most units of an axis for which kernels see an operand, wherever the part begins; none where there is room for
    /// none.
    fn units(&self, piece: &Piece, i: usize, a: usize, apart: bool) -> usize {
        let (x, layout) = (&self.operands[i], &piece.layouts[i]);
        self.axes[a].moves[i]
            .as_ref()
            .map_or(0, |moves| moves.units(x.room(layout, moves.dim(), apart, self.hardware)))
    }

    /// How far an operand reaches along an axis.
    fn reach(&self, piece: &Piece, a: usize, i: usize) -> usize {
        let layout = &piece.layouts[i];
        let axis = &self.axes[a];
        if piece.lens[a] == 1 || axis.within.is_some_and(|outer| piece.lens[outer] > 1) {
            return 0;
        }
        axis.moves[i].as_ref().map_or(0, |moves| {
            let unit = if let Move::Each(_, unit) = moves { *unit } else { 1 };
            layout.dims()[moves.dim()].saturating_sub(unit) * layout.strides()[moves.dim()]
        })
    }

    /// The axis along which an operand reaches farthest; the outer one of equals.
    fn longest(&self, piece: &Piece, i: usize) -> Option<usize> {
        let reach = |a: usize| self.reach(piece, a, i);
        (0..self.axes.len()).rev().max_by_key(|&a| reach(a)).filter(|&a| reach(a) > 0)
    }
}

impl Piece {
    fn narrowed(&self, a: usize, axis: &Axis, start: usize, len: usize) -> Result<Piece, Decline> {
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
                let place = 3 + dim - self.layouts[i].rank();
                corner.target[place] = self.starts[a];
                corner.source[place] = self.ranges[a][i].start;
            }
        }
        corner
    }
}
