//! Kernels of 3 × 3 without stride by Winograd's F(2 × 2, 3 × 3): four results take 16 products of each channel instead of 36.
//!
//! Each tile of 2 × 2 results sees a square of 4 × 4 positions. Squares and kernels are transformed by additions; their products, summed over
//! the channels, are 16 matmuls; and their sums are transformed back to results (Lavin and Gray: *Fast Algorithms for Convolutional Neural
//! Networks*, 2016). A result then has rounding errors of whatever its square has, also of what it does not see itself. Infinities and NaN
//! would spread the same way, which [`run`] finds out.
//!
//! The gradient with respect to the input is such a sum, too; the one with respect to the kernel ([`weight`]) takes as many products.

mod block;
mod kernel;
mod results;
mod squares;
pub(super) mod weight;

use super::columns::Source;
use super::gemm::{ConvOutput, DEPTH};
use super::geometry::{Axis, Geometry};
use super::number::Number;
use crate::kernels::matmul::{Pitched, Scalar, Tile, with_packed, with_scratch};
use crate::simd::{self, LANES, Level};
use crate::{Isa, ThreadPool};
use block::Block;
use kernel::{kernel_pitch, transform_kernel};
use results::Results;
use squares::Squares;
use std::any::TypeId;
use std::sync::atomic::{AtomicBool, Ordering};

/// Positions of a square, products of each channel.
const POINTS: usize = 16;
/// Columns of the tiles of the matmuls at most.
const MOST_COLUMNS: usize = 64;
/// Positions of lines that the squares of the most neighbouring tiles see, and what vectors read behind them.
const WIDTH: usize = 2 * MOST_COLUMNS + 3 * LANES;
/// What transforming a square of a channel, or a tile of results, costs in products.
const SQUARE: usize = 80;
/// What transforming a kernel of one channel costs in products, where those of all channels stay in the second-level cache, and where they do not.
const KERNEL: [usize; 2] = [200, 900];
/// Bytes of transformed squares and sums for which more panels are taken together, so that kernels are read less often.
const TOGETHER_BYTES: usize = 4 << 20;
/// Panels taken together at most.
const MOST_TOGETHER: usize = 4;
/// Kernels of one channel that stay, transformed, in the second-level cache.
const KEPT: usize = 8 << 10;
/// Rows for which transforming squares once more is worth another thread's help.
const LEAST_ROWS: usize = 64;
/// Products worth claiming for a thread.
const GRAIN: usize = 100_000;

/// Rows of the kernel that a tile multiplies together: the first, how many, and the tile.
type Panel = (usize, usize, Tile<f32>);

/// Whether a geometry of `T` has tiles that see squares, in `f32`.
fn has_squares<T: Number>(geometry: &Geometry) -> bool {
    let [a, b, c] = &geometry.axes;
    TypeId::of::<T::Sum>() == TypeId::of::<f32>()
        && a.is_pointwise()
        && b.three_taps().is_some()
        && c.three_taps().is_some()
}

/// Whether this is the faster way for a geometry of `T`. The more images there are, the less it matters that the kernel is transformed.
pub(super) fn suits<T: Number>(geometry: &Geometry) -> bool {
    let (rows, channels, tiles) = (geometry.rows, geometry.channels, all_tiles(geometry));
    let kernels = rows.saturating_mul(channels);
    let once = KERNEL[usize::from(!is_kept(geometry))];
    let cost =
        kernels.saturating_mul(POINTS * tiles + once).saturating_add(SQUARE * tiles * (rows + channels));
    has_squares::<T>(geometry) && cost < kernels.saturating_mul(9 * geometry.images * geometry.positions())
}

/// Whether a transformed kernel stays in the second-level cache.
fn is_kept(geometry: &Geometry) -> bool {
    geometry.rows.saturating_mul(geometry.channels) <= KEPT
}

/// How many tiles an axis takes.
fn tiles(axis: &Axis) -> usize {
    axis.results.div_ceil(2)
}

/// How many tiles all results are.
fn all_tiles(geometry: &Geometry) -> usize {
    let [a, b, c] = &geometry.axes;
    geometry.images * a.results * tiles(b) * tiles(c)
}

/// Computes every result of a geometry that [`suits`], if all of them are finite, and returns whether they are.
///
/// # Safety
/// The source and the kernel have the elements that the geometry describes; the results are the caller's alone.
pub(super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    source: Source<'_, T::Sum>,
    kernel: Source<'_, T::Sum>,
    results: &ConvOutput<'_, T>,
) -> bool {
    let isa = Isa::detect();
    let kernels = match f32::narrow_tiles(isa) {
        Some(narrow) if all_tiles(geometry) <= narrow.columns => narrow,
        _ => f32::tiles(isa),
    };
    assert!(kernels.columns.is_multiple_of(LANES) && kernels.columns <= MOST_COLUMNS, "no tiles are wider");
    let panels: Vec<Panel> = kernels.over(0..geometry.rows).collect();
    let mut is_finite = true;
    with_packed::<f32>(geometry.groups * POINTS * kernel_pitch(geometry), |packed| {
        // SAFETY: this function's contract; sums are `f32` where a geometry suits; there is room for the kernel.
        unsafe {
            transform_kernel(pool, geometry, kernel.base().cast(), &panels, packed);
            // Not written any more.
            let packed = Source::new(packed.cast_const());
            is_finite = multiply_all(pool, geometry, (kernels.columns, &panels), source, packed, results);
        }
    });
    is_finite
}

/// The same with a transformed kernel, for tiles of so many columns.
///
/// # Safety
/// As of [`run`]; the kernel is [transformed](transform_kernel) for these panels.
unsafe fn multiply_all<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    (columns, panels): (usize, &[Panel]),
    source: Source<'_, T::Sum>,
    packed: Source<'_, f32>,
    results: &ConvOutput<'_, T>,
) -> bool {
    let (rows, channels, pitch) = (geometry.rows, geometry.channels, kernel_pitch(geometry));
    let all = all_tiles(geometry);
    let across = all.div_ceil(columns);
    let panel_bytes = POINTS * columns * (rows + channels) * size_of::<f32>();
    let together = match is_kept(geometry) {
        true => 1,
        false => {
            let fair = (across * geometry.groups).div_ceil(4 * pool.threads());
            (TOGETHER_BYTES / panel_bytes.max(1)).min(fair).clamp(1, MOST_TOGETHER)
        }
    };
    let blocks = across.div_ceil(together);
    // Few blocks are divided by rows, though squares are transformed for each part.
    let parts = match pool.threads() {
        1 => 1,
        threads => (2 * threads).div_ceil((geometry.groups * blocks).max(1)).min(rows / LEAST_ROWS).max(1),
    };
    let edge = |part: usize| panels.get(panels.len() * part / parts).map_or(rows, |&(row, ..)| row);
    let cost = (POINTS * rows * channels * columns * together / parts).max(1);
    let is_finite = AtomicBool::new(true);
    pool.ranges(geometry.groups * blocks * parts, GRAIN / cost, |units| {
        let mut block = Block::default();
        let mut rounded = Vec::new();
        for unit in units {
            let (group, index, part) = (unit / (blocks * parts), unit / parts % blocks, unit % parts);
            let width = together * columns;
            block.find(geometry, index * width..all.min((index + 1) * width), columns);
            let count = block.panels;
            let panels = &panels[panels.len() * part / parts..panels.len() * (part + 1) / parts];
            let part = edge(part)..edge(part + 1);
            // Vectors of the last tiles of a panel reach into the next row, and those of the last row into what is behind it.
            let shown = count * (channels * columns + LANES);
            let summed = count * part.len() * columns + LANES;
            with_scratch::<f32>(POINTS * (shown + summed), |scratch| {
                // SAFETY: the scratch has room for both; units are disjoint in results; and this function's contract.
                unsafe {
                    let sums = scratch.add(POINTS * shown);
                    let from = source.base().cast::<f32>().wrapping_add(group * geometry.source.group);
                    if block.is_partial {
                        scratch.write_bytes(0, POINTS * shown);
                    }
                    simd::run(Squares::<WIDTH> {
                        geometry,
                        block: &block,
                        channels: 0..channels,
                        columns,
                        from,
                        to: scratch,
                        pitch: shown,
                    });
                    for point in 0..POINTS {
                        let kernel = packed.base().add((group * POINTS + point) * pitch);
                        for i in 0..count {
                            let w = scratch.add(point * shown + i * (channels * columns + LANES));
                            let to = sums.add(point * summed + i * part.len() * columns);
                            multiply(panels, kernel, (w, channels), to, columns);
                        }
                        sums.add((point + 1) * summed - LANES).write_bytes(0, LANES);
                    }
                    rounded.resize(rounded.len().max(block.sums.len()), T::BLANK);
                    let finite = simd::run(Results::<T> {
                        geometry,
                        block: &mut block,
                        columns,
                        from: sums,
                        pitch: summed,
                        group,
                        rows: part,
                        results,
                        rounded: &mut rounded,
                    });
                    if !finite {
                        is_finite.store(false, Ordering::Relaxed);
                    }
                }
            });
            if !is_finite.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    is_finite.into_inner()
}

/// The products of one point, summed over channels: for each row of the panels `columns` sums.
///
/// # Safety
/// The kernel is transformed for the panels; `w` has so many rows of columns, and there is room for the sums.
unsafe fn multiply(
    panels: &[Panel],
    kernel: *const f32,
    (w, channels): (*const f32, usize),
    to: *mut f32,
    columns: usize,
) {
    // Without channels, the tiles write zeros.
    for p in (0..channels.max(1)).step_by(DEPTH) {
        let depth = DEPTH.min(channels - p);
        let mut to = to;
        for &(row, height, tile) in panels {
            // SAFETY: this function's contract.
            unsafe {
                let sums = Pitched { first: to, pitch: columns };
                to = to.add(height * columns);
                let x = kernel.add(row * channels + p * height);
                tile(depth, x, w.add(p * columns), (p > 0).then(|| sums.to_read()), sums);
            }
        }
    }
}

/// Sixteen numbers.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn load<L: Level>(l: L, from: *const f32) -> L::F {
    // SAFETY: this function's contract.
    l.load(unsafe { &*from.cast() })
}

/// Stores sixteen numbers.
///
/// # Safety
/// They can be written.
#[inline(always)]
unsafe fn store<L: Level>(l: L, v: L::F, to: *mut f32) {
    // SAFETY: this function's contract.
    l.store(v, unsafe { &mut *to.cast() });
}
