//! The tiles of results that are computed together.

use super::super::geometry::{Axis, Geometry, Segment};
use super::tiles;
use crate::simd::LANES;
use std::ops::Range;

/// Neighbouring tiles of a line, in one panel of columns.
pub(super) struct Run {
    pub(super) panel: usize,
    /// The column of the first.
    pub(super) lane: usize,
    /// How many.
    pub(super) len: usize,
    /// Where the plane begins in the source.
    pub(super) plane: usize,
    /// The position in the plane that the first square begins with; it may be outside.
    pub(super) at: [isize; 2],
    /// How many lines of results there are.
    pub(super) down: usize,
    /// Where two of them are among a row's sums.
    pub(super) lines: [usize; 2],
}

/// Tiles that are computed together.
#[derive(Default)]
pub(super) struct Block {
    pub(super) runs: Vec<Run>,
    pub(super) panels: usize,
    /// Whether its last panel has columns without tiles.
    pub(super) is_partial: bool,
    /// The lines of results.
    pub(super) segments: Vec<Segment>,
    /// Results of a row.
    pub(super) sums: Vec<f32>,
}

impl Block {
    /// Takes these tiles, which are counted through lines, planes and images.
    pub(super) fn find(&mut self, geometry: &Geometry, range: Range<usize>, columns: usize) {
        let [a, b, c] = &geometry.axes;
        let (down, along) = (tiles(b), tiles(c));
        let first = |axis: &Axis| axis.three_taps().map_or(0, |(first, _)| first);
        let (top, left) = (first(b), first(c));
        self.runs.clear();
        self.segments.clear();
        self.panels = range.len().div_ceil(columns);
        self.is_partial = !range.len().is_multiple_of(columns);
        let (mut i, mut sums) = (range.start, 0);
        while i < range.end {
            let (line, x) = (i / along, i % along);
            let (plane, y) = (line / down, line % down);
            let (image, z) = (plane / a.results, plane % a.results);
            let place = i - range.start;
            let (panel, lane) = (place / columns, place % columns);
            let len = (along - x).min(columns - lane).min(range.end - i);
            let width = 2 * len.next_multiple_of(LANES);
            let lines = 2.min(b.results - 2 * y);
            self.runs.push(Run {
                panel,
                lane,
                len,
                plane: image * geometry.source.image + z * a.source_stride,
                at: [2 * y as isize + top, 2 * x as isize + left],
                down: lines,
                lines: [sums, sums + width],
            });
            for k in 0..lines {
                self.segments.push(Segment {
                    lane: sums + k * width,
                    len: (2 * len).min(c.results - 2 * x),
                    image: 0,
                    at: [0; 3],
                    result: geometry.first
                        + image * geometry.result.image
                        + z * a.result_stride
                        + (2 * y + k) * b.result_stride
                        + 2 * x * c.result_stride,
                });
            }
            sums += 2 * width;
            i += len;
        }
        self.sums.resize(sums, 0.0);
    }
}
