//! Depthwise convolutions: the one channel that some rows see is padded into the cache, and summed line by line there.

use super::columns::Source;
use super::gemm::ConvOutput;
use super::geometry::Geometry;
use super::lines::{self, Memory, Weights};
use super::number::{Number, Room};
use super::padded::copy_plane;
use crate::ThreadPool;
use crate::kernels::matmul::{Scalar, with_scratch};
use crate::simd::LANES;
use rustorch_core::Fault;

/// Planes for which threads divide them among themselves, and not their lines.
const FEWEST: usize = 16;
/// Bytes of a padded plane that stays in the second-level cache.
const MOST_BYTES: usize = 512 << 10;
/// Multiplications worth claiming for a thread.
const GRAIN: usize = 100_000;

/// Whether a geometry suits: few rows that see one channel, in many planes that fit in a cache.
pub(super) fn suits(geometry: &Geometry) -> bool {
    let margins = geometry.axes.each_ref().map(|axis| axis.margins());
    let plane = geometry
        .axes
        .iter()
        .zip(margins)
        .fold(16usize, |size, (axis, (before, after))| size.saturating_mul(axis.len + before + after));
    geometry.channels == 1
        && geometry.rows <= super::direct::MOST_ROWS
        && fills_vectors(geometry)
        && geometry.positions() > 0
        && geometry.images * geometry.groups >= FEWEST
        && plane <= MOST_BYTES
}

/// Whether lines fill vectors, or those that are computed together: of these, half of the elements of padded lines are results.
fn fills_vectors(geometry: &Geometry) -> bool {
    let line = &geometry.axes[2];
    let (before, after) = line.margins();
    lines::suits(geometry) || lines::suits_together(geometry) && 2 * line.results >= line.len + before + after
}

/// Computes every result of a geometry that [`suits`].
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
    let mut padded = geometry.clone();
    padded.pad(geometry.axes.each_ref().map(|axis| axis.margins()));
    let mut packed = Room::<T::Sum>::new(geometry.groups * geometry.rows * Weights::<T>::depth(geometry))?;
    // SAFETY: this function's contract.
    let weights = unsafe { Weights::<T>::new(&padded, kernel, packed.elements()?) };
    let [a, b, c] = &padded.axes;
    let (lines, plane) = (weights.together(&padded, b.results), padded.source.channel);
    let cost = (Weights::<T>::depth(geometry) * geometry.rows * geometry.positions()).max(1);
    pool.ranges(geometry.images * geometry.groups, GRAIN / cost, |units| {
        let mut memory = Memory::default();
        with_scratch::<T::Sum>(plane + LANES, |scratch| {
            for unit in units {
                let (image, group) = (unit / geometry.groups, unit % geometry.groups);
                let first = image * geometry.source.image + group * geometry.source.group;
                // SAFETY: there is room for the plane and a vector behind it; units are disjoint in results; and this function's contract.
                unsafe {
                    (0..LANES).for_each(|i| scratch.add(plane + i).write(T::Sum::ZERO));
                    let to = std::slice::from_raw_parts_mut(scratch, plane);
                    copy_plane(geometry, source, first, &padded, to);
                    for z in image * a.results..(image + 1) * a.results {
                        for y in (0..b.results).step_by(lines) {
                            let (first, end) = (z * b.results + y, z * b.results + b.results.min(y + lines));
                            memory.find(&padded, first * c.results..end * c.results);
                            weights.sum(&padded, scratch, group, results, &mut memory);
                        }
                    }
                }
            }
        });
    });
    Ok(())
}
