//! Sources with their padding, for images of short lines: every tap then sees something from every result.

use super::columns::Source;
use super::geometry::Geometry;
use super::number::Room;
use crate::ThreadPool;
use crate::kernels::matmul::{Parts, Scalar};
use crate::simd::LANES;
use rustorch_core::Fault;

/// Results of a line from which on it does not matter where the line ends, unless many taps see a position.
const LONG: usize = 64;
/// Taps that see a position for which a copy of the source takes little of the time.
const MANY: usize = 8;
/// Taps for which a copy of the source is worth its while.
const LEAST_TAPS: usize = 4;
/// How many times as large as the source a copy may be.
const MOST_GROWTH: f64 = 8.0;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 15;

/// Who uses a source.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reader {
    /// Whoever reads what exists, faster where lines are not interrupted.
    Any,
    /// One for whom every tap of every result has to see an element of contiguous lines.
    Lines {
        /// Whether it reads a vector from each element on.
        past: bool,
    },
}

/// Calls a function with a geometry and its source, padded where the reader needs that or it makes it faster; and with whether it is what
/// [`Reader::Lines`] needs.
///
/// # Safety
/// The source has the elements that the geometry describes.
pub(super) unsafe fn with_padding<E: Scalar, R>(
    pool: &ThreadPool,
    geometry: &Geometry,
    source: Source<'_, E>,
    reader: Reader,
    run: impl FnOnce(&Geometry, Source<'_, E>, bool) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let margins = geometry.axes.each_ref().map(|axis| axis.margins());
    let line = &geometry.axes[2];
    let taps: usize = geometry.axes.iter().map(|axis| axis.taps()).product();
    // How many taps see a position.
    let seen = taps / geometry.axes.iter().map(|axis| axis.step).product::<usize>();
    let whole = match reader {
        Reader::Lines { past } => margins == [(0, 0); 3] && line.source_stride == 1 && !past,
        Reader::Any => margins == [(0, 0); 3] || (line.results >= LONG && seen < MANY) || taps < LEAST_TAPS,
    };
    // How much larger it gets.
    let growth: f64 = geometry
        .axes
        .iter()
        .zip(margins)
        .map(|(axis, (before, after))| (before as f64 + after as f64) / axis.len.max(1) as f64 + 1.0)
        .product();
    if whole || growth > MOST_GROWTH || geometry.images == 0 {
        return run(geometry, source, whole && reader != Reader::Any);
    }
    let mut padded = geometry.clone();
    padded.pad(margins);
    let (channels, plane) = (geometry.groups * geometry.channels, padded.source.channel);
    let mut room = Room::<E>::new(geometry.images * channels * plane + LANES)?;
    let elements = room.elements()?;
    elements[geometry.images * channels * plane..].fill(E::ZERO);
    let parts = Parts::new(elements.as_mut_ptr());
    pool.ranges(geometry.images * channels, (GRAIN / plane.max(1)).max(1), |range| {
        for i in range {
            let (image, channel) = (i / channels, i % channels);
            let (group, channel) = (channel / geometry.channels, channel % geometry.channels);
            let steps = &geometry.source;
            let first = image * steps.image + group * steps.group + channel * steps.channel;
            // SAFETY: each channel has a part of its own; and this function's contract.
            unsafe { copy_plane(geometry, source, first, &padded, parts.part(i * plane, plane)) };
        }
    });
    // SAFETY: the copy has what the geometry of the padded source describes, and stays while it runs.
    run(&padded, unsafe { Source::new(elements.as_ptr()) }, reader != Reader::Any)
}

/// Copies what a channel's positions show, which begin at element `first` of the source, to where they are in the padded one.
///
/// # Safety
/// The source has them.
pub(super) unsafe fn copy_plane<E: Scalar>(
    geometry: &Geometry,
    source: Source<'_, E>,
    first: usize,
    padded: &Geometry,
    to: &mut [E],
) {
    let [a, b, c] = &geometry.axes;
    let before = geometry.axes.each_ref().map(|axis| axis.margins().0);
    let strides = padded.axes.each_ref().map(|axis| axis.source_stride);
    to.fill(E::ZERO);
    for p in 0..a.len {
        for q in 0..b.len {
            let from = first + p * a.source_stride + q * b.source_stride;
            let start = (p + before[0]) * strides[0] + (q + before[1]) * strides[1] + before[2];
            let line = &mut to[start..start + c.len];
            // SAFETY: positions of the source, by this function's contract.
            unsafe {
                let from = source.base().add(from);
                if c.source_stride == 1 {
                    line.copy_from_slice(std::slice::from_raw_parts(from, c.len));
                } else {
                    for (r, to) in line.iter_mut().enumerate() {
                        *to = *from.add(r * c.source_stride);
                    }
                }
            }
        }
    }
}
