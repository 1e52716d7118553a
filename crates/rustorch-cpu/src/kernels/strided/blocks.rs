//! Lines across memory, which lie beside each other, by blocks that fit into a cache nearby.

use super::rows::{Rows, RowsMut};
use rustorch_core::Element;

/// The fewest lines of a block, and the bytes of its elements at most: part of a second-level cache.
const NARROW: usize = 16;
const NEAR: usize = 256 << 10;

/// How lines are divided into blocks.
pub(crate) struct Blocks {
    lines: usize,
    /// Lines that lie beside each other, from a multiple of that number on.
    beside: usize,
    /// Lines of a block.
    width: usize,
}

impl Blocks {
    /// Of lines that lie beside each other in two views; none where these are few.
    pub(crate) fn of<T: Element>(from: &Rows<'_, T>, to: &RowsMut<'_, T>) -> Option<Blocks> {
        // Their shapes agree but along the axis.
        let beside = from.beside().min(to.beside());
        let lines = from.count().min(to.count());
        if beside < NARROW || !lines.is_multiple_of(beside) {
            return None;
        }
        let width = (NEAR / (from.len().max(to.len()).max(1) * size_of::<T>())).clamp(NARROW, beside);
        Some(Blocks { lines, beside, width })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lines / self.beside * self.beside.div_ceil(self.width)
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
        let of_run = self.beside.div_ceil(self.width);
        let within = block % of_run * self.width;
        (block / of_run * self.beside + within, self.width.min(self.beside - within))
    }
}
