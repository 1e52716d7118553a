//! Masks of dropout for the weights of some queries, drawn for several blocks of keys at once.

use super::flash::KEYS;
use crate::kernels::dropout;
use rustorch_core::Dropout;
use std::ops::Range;

/// Keys that are drawn at once: a group of elements, which share their random blocks.
const DRAWN: usize = Dropout::GROUP;
const _: () = assert!(DRAWN.is_multiple_of(KEYS));

/// Masks of rows of weights.
pub(super) struct DrawnMasks<'a> {
    dropout: &'a Dropout,
    /// The rows, counted over all heads.
    rows: Range<usize>,
    /// The length of a row.
    n: usize,
    /// Which keys are drawn.
    keys: Range<usize>,
    /// `DRAWN` of each row.
    masks: Vec<f32>,
}

impl<'a> DrawnMasks<'a> {
    /// For some rows of weights, each of `n` keys.
    pub(super) fn new(dropout: &'a Dropout, rows: Range<usize>, n: usize) -> DrawnMasks<'a> {
        let masks = vec![0.0; rows.len() * DRAWN];
        DrawnMasks { dropout, rows, n, keys: 0..0, masks }
    }

    /// Draws the masks of a block of keys, unless they are there.
    pub(super) fn draw(&mut self, start: usize) {
        if self.keys.contains(&start) {
            return;
        }
        let first = start / DRAWN * DRAWN;
        self.keys = first..self.n.min(first + DRAWN);
        for (row, masks) in self.rows.clone().zip(self.masks.chunks_exact_mut(DRAWN)) {
            dropout::masks(self.dropout, row * self.n + first, &mut masks[..self.keys.len()]);
        }
    }

    /// Those of `count` keys of a block that was drawn, for one of the rows.
    pub(super) fn row(&self, row: usize, start: usize, count: usize) -> &[f32] {
        &self.masks[row * DRAWN + start - self.keys.start..][..count]
    }
}
