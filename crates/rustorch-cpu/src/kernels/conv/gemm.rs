//! Convolution as a GEMM: the kernel times the im2col matrix, which is packed chunk by chunk from the input.

use super::columns::{Gather, Source};
use super::geometry::{Geometry, Offset, Segment};
use super::number::Number;
use crate::kernels::matmul::{Parts, Pitched, Scalar, StridedTile, Tile, Tiles, with_packed, with_scratch};
use crate::{Isa, ThreadPool};
use std::marker::PhantomData;

/// Channels and taps that are packed together: a panel of columns stays in the first-level cache.
pub(super) const DEPTH: usize = 256;
/// Bytes of packed columns and sums that a task works on: they stay in the second-level cache.
const BLOCK_BYTES: usize = 512 << 10;
/// Panels of columns in a block at most.
const MOST_PANELS: usize = 12;
/// Rows for which packing the columns once more is worth another thread's help.
const LEAST_ROWS: usize = 48;
/// Nanoseconds of work worth claiming for a thread.
const WORTH: f64 = 10_000.0;

/// Columns up to which packing the kernel takes longer than it saves.
const FEW_COLUMNS: usize = 96;

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
    /// The first of a panel's results in each row, if tiles can write them: sums are results, and all columns are neighbours there.
    fn run(&self, geometry: &Geometry, segments: &[Segment], columns: usize) -> Option<usize> {
        let (first, last) = (segments.first()?, segments.last()?);
        let are_neighbours = geometry.axes[2].result_stride == 1
            && last.lane + last.len == columns
            && segments.windows(2).all(|pair| pair[1].result == pair[0].result + pair[0].len);
        (T::IS_SUM && self.bias.is_none() && are_neighbours).then_some(first.result)
    }

    /// Where results of a group's first row are counted from, if sums can be written there: they are results as they stand, and those of a
    /// line are neighbours.
    pub(super) fn lines(&self, geometry: &Geometry, group: usize) -> Option<*mut T::Sum> {
        let is_plain = T::IS_SUM && self.bias.is_none() && geometry.axes[2].result_stride == 1;
        is_plain.then(|| self.base.wrapping_add(group * geometry.result.group).cast())
    }

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
        let rounded = match T::IS_SUM {
            true => sums.as_ptr().cast(),
            false => {
                let rounded = &mut rounded[..sums.len()];
                T::round(sums, rounded);
                rounded.as_ptr()
            }
        };
        let first = group * geometry.result.group + row * geometry.result.channel;
        let stride = geometry.axes[2].result_stride;
        for segment in segments {
            // SAFETY: this function's contract; sums of the results' type are read as such.
            unsafe {
                let (run, to) = (rounded.add(segment.lane), self.base.add(first + segment.result));
                if stride == 1 {
                    std::ptr::copy_nonoverlapping(run, to, segment.len);
                } else {
                    for i in 0..segment.len {
                        to.add(i * stride).write(*run.add(i));
                    }
                }
            }
        }
    }
}

/// Rows of the kernel that a tile multiplies together.
struct Panel<E> {
    row: usize,
    rows: usize,
    tile: Tile<E>,
    /// That of rows which are not packed.
    in_place: Option<StridedTile<E>>,
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
) {
    let tiles = T::Sum::tiles(Isa::detect());
    let taps = geometry.taps();
    let (rows, k) = (geometry.rows, geometry.channels * taps.len());
    let all = geometry.images * geometry.positions();
    if all == 0 || rows == 0 || geometry.groups == 0 {
        return;
    }
    let is_in_order =
        || geometry.kernel.channel == taps.len() && taps.iter().enumerate().all(|(i, tap)| tap.kernel == i);
    let in_place = all <= FEW_COLUMNS && !tiles.strided.is_empty() && is_in_order();
    let mut panels: Vec<Panel<T::Sum>> =
        tiles.over(0..rows).map(|(row, rows, tile)| Panel { row, rows, tile, in_place: None }).collect();
    // SAFETY: this function's contract; rows in order have their `k` elements one after the other.
    unsafe {
        if in_place {
            for (panel, (_, tile)) in panels.iter_mut().zip(tiles.strided_over(0..rows)) {
                panel.in_place = Some(tile);
            }
            multiply(pool, geometry, &taps, tiles, &panels, (source, kernel.base()), results);
        } else {
            with_packed(geometry.groups * rows * k, |packed| {
                pack(pool, geometry, &taps, kernel, &panels, packed);
                multiply(pool, geometry, &taps, tiles, &panels, (source, packed), results);
            });
        }
    }
}

/// The same with a kernel whose rows are in place, or packed.
///
/// # Safety
/// As of [`run`]; the kernel is what the panels' tiles take.
unsafe fn multiply<T: Number>(
    pool: &ThreadPool,
    geometry: &Geometry,
    taps: &[Offset],
    tiles: &Tiles<T::Sum>,
    panels: &[Panel<T::Sum>],
    (source, kernel): (Source<'_, T::Sum>, *const T::Sum),
    results: &ConvOutput<'_, T>,
) {
    let (columns, rows, k) = (tiles.columns, geometry.rows, geometry.channels * taps.len());
    let all = geometry.images * geometry.positions();
    // SAFETY: not written while threads read it.
    let kernel = unsafe { Source::new(kernel) };
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
            let mut runs = [None; MOST_PANELS];
            for (run, segments) in runs.iter_mut().zip(&segments) {
                *run = results.run(geometry, segments, columns);
            }
            let place = |row: usize| group * geometry.result.group + row * geometry.result.channel;
            let (gathered, summed) = (count * DEPTH.min(k) * columns, count * (end - first) * columns);
            with_scratch::<T::Sum>(gathered + summed, |scratch| {
                // SAFETY: the scratch has room for both; units are disjoint in results; and this function's contract.
                unsafe {
                    let sums = scratch.add(gathered);
                    let sums_of = |i: usize, row: usize| Pitched {
                        first: sums.add((i * (end - first) + row - first) * columns),
                        pitch: columns,
                    };
                    // Without values to sum, the tiles write zeros.
                    for p in (0..k.max(1)).step_by(DEPTH) {
                        let depth = DEPTH.min(k - p);
                        Gather {
                            geometry,
                            taps,
                            segments: &segments,
                            source,
                            group,
                            rows: p..p + depth,
                            pitch: columns,
                            to: scratch,
                        }
                        .run();
                        for panel in panels {
                            for i in 0..count {
                                let sums = sums_of(i, panel.row);
                                let from = (p > 0).then(|| sums.to_read());
                                let to = match runs[i] {
                                    Some(run) if p + depth == k => Pitched {
                                        first: results.base.add(place(panel.row) + run).cast(),
                                        pitch: geometry.result.channel,
                                    },
                                    _ => sums,
                                };
                                let w = scratch.add(i * depth * columns).cast_const();
                                let x = kernel.base();
                                if let Some(tile) = panel.in_place {
                                    let row =
                                        group * geometry.kernel.group + panel.row * geometry.kernel.image;
                                    let x = Pitched { first: x.add(row + p), pitch: geometry.kernel.image };
                                    tile(depth, x, w, from, to);
                                } else {
                                    let x = x.add((group * rows + panel.row) * k + p * panel.rows);
                                    (panel.tile)(depth, x, w, from, to);
                                }
                            }
                        }
                    }
                    for (i, segments) in segments.iter().enumerate().filter(|(i, _)| runs[*i].is_none()) {
                        let used = segments.last().map_or(0, |segment| segment.lane + segment.len);
                        for row in first..end {
                            let sums = std::slice::from_raw_parts_mut(sums_of(i, row).first, used);
                            results.put(geometry, (group, row), segments, sums, &mut rounded);
                        }
                    }
                }
            });
        }
    });
}

/// Elements for a thread to pack at least.
const PACK_GRAIN: usize = 16 << 10;

/// Writes the kernel in the order in which tiles read it: for each group and panel `[k][rows]`.
///
/// # Safety
/// The kernel has the elements that the geometry describes, and there is room for them.
unsafe fn pack<E: Scalar>(
    pool: &ThreadPool,
    geometry: &Geometry,
    taps: &[Offset],
    kernel: Source<'_, E>,
    panels: &[Panel<E>],
    packed: *mut E,
) {
    let k = geometry.channels * taps.len();
    let mut offsets = Vec::with_capacity(k);
    for channel in 0..geometry.channels {
        offsets.extend(taps.iter().map(|tap| channel * geometry.kernel.channel + tap.kernel));
    }
    let parts = Parts::new(packed);
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
