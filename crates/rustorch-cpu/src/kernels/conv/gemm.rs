//! Convolution as a GEMM: the kernel times the im2col matrix, which is packed chunk by chunk from the input.

use super::columns::{Gather, Source};
use super::geometry::{Geometry, Segment};
use super::number::{Number, Room};
use crate::kernels::matmul::{Parts, Scalar, Tile, with_scratch};
use crate::{Isa, ThreadPool};
use rustorch_core::Fault;
use std::marker::PhantomData;

/// Channels and taps that are packed together: a panel of columns stays in the first-level cache.
pub(super) const DEPTH: usize = 256;
/// Bytes of packed columns and sums that a task works on: they stay in the second-level cache.
const BLOCK_BYTES: usize = 512 << 10;
/// Panels of columns in a block at most.
const MOST_PANELS: usize = 8;
/// Rows for which packing the columns once more is worth another thread's help.
const LEAST_ROWS: usize = 48;
/// Nanoseconds of work worth claiming for a thread.
const WORTH: f64 = 10_000.0;

/// Where results go.
pub(super) struct ConvOutput<'a, T: Number> {
    pub(super) base: *mut T,
    /// One for each channel of the results.
    pub(super) bias: Option<&'a [T::Sum]>,
    pub(super) life: PhantomData<&'a mut T>,
}

// SAFETY: threads write disjoint elements.
unsafe impl<T: Number> Sync for ConvOutput<'_, T> {}

impl<T: Number> ConvOutput<'_, T> {
    /// Writes a row of sums to the runs that `segments` describe. Changes the sums.
    ///
    /// # Safety
    /// The results exist, and no other thread uses them. Sums are as many as the segments have results, `stride` apart.
    #[inline(always)]
    pub(super) unsafe fn put(
        &self,
        geometry: &Geometry,
        (group, row): (usize, usize),
        segments: &[Segment],
        sums: &mut [T::Sum],
        rounded: &mut [T],
    ) {
        if let Some(bias) = self.bias {
            let bias = bias[group * geometry.rows + row];
            for sum in sums.iter_mut() {
                *sum = T::add(*sum, bias);
            }
        }
        let rounded = &mut rounded[..sums.len()];
        T::round(sums, rounded);
        let first = group * geometry.result.group + row * geometry.result.channel;
        let stride = geometry.axes[2].result_stride;
        for segment in segments {
            let run = &rounded[segment.lane..segment.lane + segment.len];
            // SAFETY: this function's contract.
            unsafe {
                let to = self.base.add(first + segment.result);
                if stride == 1 {
                    std::ptr::copy_nonoverlapping(run.as_ptr(), to, run.len());
                } else {
                    for (i, &value) in run.iter().enumerate() {
                        to.add(i * stride).write(value);
                    }
                }
            }
        }
    }
}

/// Rows of the kernel that a tile multiplies together, packed.
struct Panel<E> {
    row: usize,
    rows: usize,
    tile: Tile<E>,
}

/// Computes every result of a geometry.
///
/// # Safety
/// The source and the kernel have the elements that the geometry describes; the results are the caller's alone.
pub(super) unsafe fn run<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    source: Source<'_, T::Sum>,
    kernel: Source<'_, T::Sum>,
    results: &ConvOutput<'_, T>,
) -> Result<(), Fault> {
    let isa = Isa::detect();
    let tiles = T::Sum::tiles(isa);
    let (columns, most) = (tiles.columns, tiles.most_rows());
    let taps = geometry.taps();
    let k = geometry.channels * taps.len();
    let rows = geometry.rows;
    let all = geometry.images * geometry.positions();
    if all == 0 || rows == 0 || geometry.groups == 0 {
        return Ok(());
    }
    let mut panels: Vec<Panel<T::Sum>> = Vec::with_capacity(rows / most + 4);
    let mut row = 0;
    while row < rows {
        let (height, tile) = tiles.at_most(rows - row);
        panels.push(Panel { row, rows: height, tile });
        row += height;
    }
    let mut packed = Room::new(geometry.groups * rows * k)?;
    let packed = packed.elements()?;
    // SAFETY: this function's contract.
    unsafe { pack(pool, geometry, kernel, &panels, k, packed) };
    let packed = &*packed;

    let size = size_of::<T::Sum>();
    let across = all.div_ceil(columns);
    let per_panel = columns * size * (DEPTH.min(k) + rows.min(1024));
    let mut block = (BLOCK_BYTES / per_panel).clamp(1, MOST_PANELS);
    let threads = pool.threads();
    let mut parts = rows.div_ceil(1024);
    if threads > 1 {
        block = block.min((across * geometry.groups).div_ceil(4 * threads)).max(1);
        let units = across.div_ceil(block) * geometry.groups;
        parts = parts.max((2 * threads).div_ceil(units).min(rows / LEAST_ROWS)).max(1);
    }
    let blocks = across.div_ceil(block);
    // Packing and multiplying a row of a panel, in nanoseconds.
    let unit_ns = (k * block) as f64 * size as f64 * (0.5 + 0.1 * (rows / parts) as f64);
    let edge = |part: usize| {
        let at = panels.len() * part / parts;
        panels.get(at).map_or(rows, |panel| panel.row)
    };
    pool.ranges(geometry.groups * blocks * parts, (WORTH / unit_ns.max(1.0)) as usize, |units| {
        let mut segments: Vec<Vec<Segment>> = Vec::new();
        let mut rounded = vec![T::BLANK; columns];
        for unit in units {
            let (group, rest) = (unit / (blocks * parts), unit % (blocks * parts));
            let (index, part) = (rest / parts, rest % parts);
            let (first, end) = (edge(part), edge(part + 1));
            let panels = &panels[panels.len() * part / parts..panels.len() * (part + 1) / parts];
            let start = index * block * columns;
            let count = block.min(across - index * block);
            segments.resize_with(count, Vec::new);
            for (i, segments) in segments.iter_mut().enumerate() {
                let from = start + i * columns;
                geometry.segments(from..all.min(from + columns), segments);
            }
            let (gathered, summed) = (count * DEPTH.min(k) * columns, count * (end - first) * columns);
            with_scratch::<T::Sum>(gathered + summed, |scratch| {
                // SAFETY: the scratch has room for both; units are disjoint in results; and this function's contract.
                unsafe {
                    let sums = scratch.add(gathered);
                    for i in 0..summed {
                        sums.add(i).write(T::Sum::ZERO);
                    }
                    for p in (0..k).step_by(DEPTH) {
                        let depth = DEPTH.min(k - p);
                        Gather {
                            geometry,
                            taps: &taps,
                            segments: &segments,
                            source,
                            group,
                            rows: p..p + depth,
                            pitch: columns,
                            to: scratch,
                        }
                        .run();
                        for panel in panels {
                            let x = packed.as_ptr().add((group * rows + panel.row) * k + p * panel.rows);
                            for i in 0..count {
                                let sums = sums.add((i * (end - first) + panel.row - first) * columns);
                                tiles.accumulate(
                                    panel.tile,
                                    depth,
                                    x,
                                    scratch.add(i * depth * columns),
                                    sums,
                                );
                            }
                        }
                    }
                    for (i, segments) in segments.iter().enumerate() {
                        let used = segments.last().map_or(0, |segment| segment.lane + segment.len);
                        for row in first..end {
                            let sums = sums.add((i * (end - first) + row - first) * columns);
                            let sums = std::slice::from_raw_parts_mut(sums, used);
                            results.put(geometry, (group, row), segments, sums, &mut rounded);
                        }
                    }
                }
            });
        }
    });
    Ok(())
}

/// Elements for a thread to pack at least.
const PACK_GRAIN: usize = 16 << 10;

/// Writes the kernel in the order in which tiles read it: for each group and panel `[k][rows]`.
///
/// # Safety
/// The kernel has the elements that the geometry describes.
unsafe fn pack<E: Scalar>(
    pool: &ThreadPool,
    geometry: &Geometry,
    kernel: Source<'_, E>,
    panels: &[Panel<E>],
    k: usize,
    packed: &mut [E],
) {
    let taps = geometry.taps();
    let mut offsets = Vec::with_capacity(k);
    for channel in 0..geometry.channels {
        offsets.extend(taps.iter().map(|tap| channel * geometry.kernel.channel + tap.kernel));
    }
    let parts = Parts::new(packed.as_mut_ptr());
    let most = panels.iter().map(|panel| panel.rows).max().unwrap_or(1);
    pool.ranges(geometry.groups * panels.len(), (PACK_GRAIN / (k * most).max(1)).max(1), |range| {
        for i in range {
            let (group, panel) = (i / panels.len(), &panels[i % panels.len()]);
            // SAFETY: each panel is packed by one thread, to its own part; and this function's contract.
            unsafe {
                let to = parts.part((group * geometry.rows + panel.row) * k, panel.rows * k).as_mut_ptr();
                let step = geometry.kernel.image;
                let from = kernel.base().wrapping_add(group * geometry.kernel.group + panel.row * step);
                match panel.rows {
                    12 => pack_rows::<_, 12>(from, step, &offsets, to),
                    8 => pack_rows::<_, 8>(from, step, &offsets, to),
                    6 => pack_rows::<_, 6>(from, step, &offsets, to),
                    4 => pack_rows::<_, 4>(from, step, &offsets, to),
                    rows => {
                        for (p, &offset) in offsets.iter().enumerate() {
                            for i in 0..rows {
                                *to.add(p * rows + i) = *from.add(i * step + offset);
                            }
                        }
                    }
                }
            }
        }
    });
}

/// `H` rows that lie `step` apart, as `[k][H]`.
///
/// # Safety
/// Each row has elements at all offsets, and there is room for them.
unsafe fn pack_rows<E: Copy, const H: usize>(from: *const E, step: usize, offsets: &[usize], to: *mut E) {
    for (p, &offset) in offsets.iter().enumerate() {
        for i in 0..H {
            // SAFETY: this function's contract.
            unsafe { *to.add(p * H + i) = *from.add(i * step + offset) };
        }
    }
}
