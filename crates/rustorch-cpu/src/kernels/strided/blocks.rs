//! Adjacent lines whose elements are strided, by blocks that fit into the second-level cache.

use super::rows::{Rows, RowsMut};
use rustorch_core::Element;

/// The fewest lines of a block, and the bytes of its elements at most: part of a second-level cache.
const NARROW: usize = 16;
const NEAR: usize = 256 << 10;
/// How many elements of a line are copied for each access at most.
const MOST_COPIED: usize = 4;

/// How lines are divided into blocks.
pub(crate) struct Blocks {
    lines: usize,
    /// How many of them are adjacent.
    adjacent: usize,
    /// Lines of a block.
    width: usize,
}

impl Blocks {
    /// Blocks to copy, of lines of `len` elements, each of which has so many accesses by index; none where few lines are adjacent in both views,
    /// or copies take longer than the accesses.
    pub(crate) fn of<T: Element>(
        from: &Rows<'_, T>,
        to: &RowsMut<'_, T>,
        len: usize,
        accesses: usize,
    ) -> Option<Blocks> {
        // Their shapes agree but along the axis.
        let adjacent = from.adjacent().min(to.adjacent());
        let lines = from.count().min(to.count());
        if adjacent < NARROW || !lines.is_multiple_of(adjacent) || len > MOST_COPIED * accesses {
            return None;
        }
        let width = (NEAR / (len.max(1) * size_of::<T>())).clamp(NARROW, adjacent);
        Some(Blocks { lines, adjacent, width })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lines / self.adjacent * self.adjacent.div_ceil(self.width)
    }

    /// Lines of a block at most.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// From the elements of one index to those of the next, in a copy of a block: no power of two, for those would all be in one set of a cache.
    pub(crate) fn pitch(&self) -> usize {
        self.width + NARROW
    }

    /// The first line of a block, and how many it has.
    pub(crate) fn get(&self, block: usize) -> (usize, usize) {
        let of_run = self.adjacent.div_ceil(self.width);
        let within = block % of_run * self.width;
        (block / of_run * self.adjacent + within, self.width.min(self.adjacent - within))
    }
}
