//! Squares of the source, transformed.

use super::super::geometry::Geometry;
use super::block::{Block, Run};
use super::{load, store};
use crate::simd::{LANES, Level, Task};
use std::ops::Range;

/// No lines are longer.
const MOST_WIDTH: usize = 1024;

/// Transforms the squares of a block's tiles, through lines of `WIDTH` positions: those that the squares of neighbouring tiles see, and what vectors
/// read behind them. Made only by [`multiply_all`](super::multiply_all) and [`weight::run`](super::weight::run), whose contracts it relies on.
pub(super) struct Squares<'a, const WIDTH: usize> {
    pub(super) geometry: &'a Geometry,
    pub(super) block: &'a Block,
    pub(super) channels: Range<usize>,
    pub(super) columns: usize,
    /// The group's first channel.
    pub(super) from: *const f32,
    /// For each point and panel `[channels][columns]`.
    pub(super) to: *mut f32,
    /// From point to point.
    pub(super) pitch: usize,
}

impl<const WIDTH: usize> Task for Squares<'_, WIDTH> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Squares { geometry, block, channels, columns, from, to, pitch } = self;
        let panel = channels.len() * columns + LANES;
        let [mut gathered, mut lines] = [[[0.0f32; WIDTH]; 4]; 2];
        for (place, channel) in channels.enumerate() {
            let from = from.wrapping_add(channel * geometry.source.channel);
            for run in &block.runs {
                // SAFETY: lines have room for what vectors read behind the tiles of a panel; of what they write behind these in
                // `to`, the next tiles, the next channel or nobody is the owner, and it is written later.
                unsafe {
                    vertical(l, geometry, run, from, &mut gathered, &mut lines);
                    let to = to.add(run.panel * panel + place * columns + run.lane);
                    for v in (0..run.len).step_by(LANES) {
                        for (k, line) in lines.iter().enumerate() {
                            let at = line.as_ptr().add(2 * v);
                            let (d0, d1) = l.even_odd(load(l, at), load(l, at.add(LANES)));
                            let (d2, d3) = l.even_odd(load(l, at.add(2)), load(l, at.add(LANES + 2)));
                            let to = to.add(4 * k * pitch + v);
                            store(l, l.sub(d0, d2), to);
                            store(l, l.add(d1, d2), to.add(pitch));
                            store(l, l.sub(d2, d1), to.add(2 * pitch));
                            store(l, l.sub(d1, d3), to.add(3 * pitch));
                        }
                    }
                }
            }
        }
    }
}

/// Four lines of the source that a run of tiles sees, transformed downwards; zero where nothing is. `gathered` is room for lines whose elements
/// are not neighbours.
///
/// # Safety
/// `from` is a channel that has the geometry's elements.
#[inline(always)]
unsafe fn vertical<L: Level, const WIDTH: usize>(
    l: L,
    geometry: &Geometry,
    run: &Run,
    from: *const f32,
    gathered: &mut [[f32; WIDTH]; 4],
    lines: &mut [[f32; WIDTH]; 4],
) {
    static NOTHING: [f32; MOST_WIDTH] = [0.0; MOST_WIDTH];
    const { assert!(WIDTH <= MOST_WIDTH) };
    let [_, b, c] = &geometry.axes;
    let width = 2 * run.len + 2;
    let start = ((-run.at[1]).max(0) as usize).min(width);
    let end = ((c.len as isize - run.at[1]).max(0) as usize).clamp(start, width);
    let len = end - start;
    let first = run.plane as isize + (run.at[1] + start as isize) * c.source_stride as isize;
    let mut seen = [NOTHING.as_ptr(); 4];
    for (k, seen) in seen.iter_mut().enumerate() {
        let y = run.at[0] + k as isize;
        if y < 0 || y >= b.len as isize || len == 0 {
            continue;
        }
        let line = from.wrapping_offset(first + y * b.source_stride as isize);
        *seen = line;
        if c.source_stride != 1 {
            for (i, to) in gathered[k][..len].iter_mut().enumerate() {
                // SAFETY: a position that exists, by this function's contract.
                *to = unsafe { *line.add(i * c.source_stride) };
            }
            *seen = gathered[k].as_ptr();
        }
    }
    let zero = l.splat(0.0);
    // SAFETY: vectors begin within `width`, behind which lines have room for one; of the source, only what exists is read, or the zeros.
    unsafe {
        for at in (0..start).step_by(LANES) {
            for line in lines.iter_mut() {
                store(l, zero, line.as_mut_ptr().add(at));
            }
        }
        if len >= LANES {
            for at in (0..len).step_by(LANES) {
                // The last vectors overlap those before them.
                let at = at.min(len - LANES);
                let (r0, r1) = (load(l, seen[0].add(at)), load(l, seen[1].add(at)));
                let (r2, r3) = (load(l, seen[2].add(at)), load(l, seen[3].add(at)));
                let outs = [l.sub(r0, r2), l.add(r1, r2), l.sub(r2, r1), l.sub(r1, r3)];
                for (line, out) in lines.iter_mut().zip(outs) {
                    store(l, out, line.as_mut_ptr().add(start + at));
                }
            }
        } else {
            for i in 0..len {
                let [r0, r1, r2, r3] = seen.map(|line| *line.add(i));
                for (line, out) in lines.iter_mut().zip([r0 - r2, r1 + r2, r2 - r1, r1 - r3]) {
                    *line.as_mut_ptr().add(start + i) = out;
                }
            }
        }
        for at in (end..width).step_by(LANES) {
            for line in lines.iter_mut() {
                store(l, zero, line.as_mut_ptr().add(at));
            }
        }
    }
}
