//! Sources with their padding, for images of short lines: every tap then sees something from every result.

use super::columns::Source;
use super::geometry::Geometry;
use super::number::Room;
use crate::ThreadPool;
use crate::kernels::matmul::{Parts, Scalar};
use crate::simd::LANES;
use rustorch_core::Fault;

/// Results of a line from which on it does not matter where the line ends.
const LONG: usize = 64;
/// Taps for which a copy of the source is worth its while.
const LEAST_TAPS: usize = 4;
/// How many times as large as the source a copy may be.
const MOST_GROWTH: f64 = 8.0;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 15;

/// Calls a function with a geometry and its source, padded where that makes it faster; and with whether every tap sees something of short
/// contiguous lines. With room behind, a copy is made also where nothing is to be padded, and a vector can be read from each of its
/// elements on.
///
/// # Safety
/// The source has the elements that the geometry describes.
pub(super) unsafe fn with_padding<E: Scalar, R>(
    pool: &ThreadPool,
    geometry: &Geometry,
    source: Source<'_, E>,
    room_behind: bool,
    run: impl FnOnce(&Geometry, Source<'_, E>, bool) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let margins = geometry.axes.each_ref().map(|axis| axis.margins());
    let line = &geometry.axes[2];
    let taps: usize = geometry.axes.iter().map(|axis| axis.taps()).product();
    let whole = (margins == [(0, 0); 3] && !room_behind)
        || line.results >= LONG
        || taps < LEAST_TAPS
        || geometry.images == 0;
    // How much larger it gets.
    let growth: f64 = geometry
        .axes
        .iter()
        .zip(margins)
        .map(|(axis, (before, after))| (before as f64 + after as f64) / axis.len.max(1) as f64 + 1.0)
        .product();
    if whole || growth > MOST_GROWTH {
        let contiguous = margins == [(0, 0); 3] && line.source_stride == 1 && line.results < LONG;
        return run(geometry, source, contiguous && !room_behind);
    }
    let mut padded = geometry.clone();
    padded.pad(margins);
    let ([a, b, c], [x, y, z]) = (&geometry.axes, padded.axes.each_ref().map(|axis| axis.len));
    let (channels, plane) = (geometry.groups * geometry.channels, x * y * z);
    let mut room = Room::<E>::new(geometry.images * channels * plane + LANES)?;
    let elements = room.elements()?;
    elements[geometry.images * channels * plane..].fill(E::ZERO);
    let parts = Parts::new(elements.as_mut_ptr());
    pool.ranges(geometry.images * channels, (GRAIN / plane.max(1)).max(1), |range| {
        for i in range {
            let (image, channel) = (i / channels, i % channels);
            let (group, channel) = (channel / geometry.channels, channel % geometry.channels);
            // SAFETY: each channel has a part of its own.
            let to = unsafe { parts.part(i * plane, plane) };
            to.fill(E::ZERO);
            let steps = &geometry.source;
            let first = image * steps.image + group * steps.group + channel * steps.channel;
            for p in 0..a.len {
                for q in 0..b.len {
                    let from = first + p * a.source_stride + q * b.source_stride;
                    let start = ((p + margins[0].0) * y + q + margins[1].0) * z + margins[2].0;
                    let line = &mut to[start..start + c.len];
                    for (r, to) in line.iter_mut().enumerate() {
                        // SAFETY: a position of the source, by this function's contract.
                        *to = unsafe { *source.base().add(from + r * c.source_stride) };
                    }
                }
            }
        }
    });
    // SAFETY: the copy has what the geometry of the padded source describes, and stays while it runs.
    run(&padded, unsafe { Source::new(elements.as_ptr()) }, true)
}
