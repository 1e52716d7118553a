//! Kernels, transformed.

use super::super::columns::Source;
use super::super::geometry::Geometry;
use super::{GRAIN, KERNEL, POINTS, Panel, store};
use crate::ThreadPool;
use crate::kernels::matmul::{HIGHEST, Parts};
use crate::simd::{self, LANES, Level, Task};

/// Elements from one point of a transformed kernel to the next: a cache line more than it has, since what is written together would be in the same
/// few places of caches otherwise.
pub(super) fn kernel_pitch(geometry: &Geometry) -> usize {
    geometry.rows * geometry.channels + LANES
}

/// Writes the transformed kernel: for each group, point and panel `[channels][rows]`.
///
/// # Safety
/// The kernel has the elements of the geometry, which [suits](super::suits), and there is room for `POINTS` times [`kernel_pitch`] elements of each group.
pub(super) unsafe fn transform_kernel(
    pool: &ThreadPool,
    geometry: &Geometry,
    kernel: *const f32,
    panels: &[Panel],
    to: *mut f32,
) {
    let (channels, pitch) = (geometry.channels, kernel_pitch(geometry));
    let [_, b, c] = &geometry.axes;
    let (Some((_, down)), Some((_, along))) = (b.three_taps(), c.three_taps()) else { return };
    let plane = geometry.axes[0].first_tap();
    let taps: [usize; 9] = std::array::from_fn(|i| plane + down[i / 3] + along[i % 3]);
    // SAFETY: not written while threads read it.
    let kernel = unsafe { Source::new(kernel) };
    let parts = Parts::new(to);
    pool.ranges(geometry.groups * panels.len(), GRAIN / (channels * HIGHEST * KERNEL[0]).max(1), |range| {
        for i in range {
            let (group, (row, height, _)) = (i / panels.len(), panels[i % panels.len()]);
            let step = geometry.kernel.image;
            // SAFETY: panels are disjoint in what is written; and this function's contract.
            unsafe {
                simd::run(KernelPanel {
                    from: kernel.base().wrapping_add(group * geometry.kernel.group + row * step),
                    step: [step, geometry.kernel.channel],
                    taps,
                    size: [height, channels],
                    to: parts.address(group * POINTS * pitch + row * channels),
                    pitch,
                });
            }
        }
    });
}

/// Some rows of a kernel. Made only by [`transform_kernel`], whose contract it relies on.
struct KernelPanel {
    from: *const f32,
    /// From row to row, and from channel to channel.
    step: [usize; 2],
    taps: [usize; 9],
    /// Rows and channels.
    size: [usize; 2],
    to: *mut f32,
    /// From point to point.
    pitch: usize,
}

impl Task for KernelPanel {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let KernelPanel { from, step, taps, size: [rows, channels], to, pitch } = self;
        for channel in 0..channels {
            let mut g = [[0.0f32; LANES]; 9];
            for row in 0..rows {
                for (g, tap) in g.iter_mut().zip(taps) {
                    // SAFETY: the kernel has this element, by the contract.
                    g[row] = unsafe { *from.add(row * step[0] + channel * step[1] + tap) };
                }
            }
            let mut along = [[l.splat(0.0); 4]; 3];
            for i in 0..3 {
                along[i] = line(l, l.load(&g[3 * i]), l.load(&g[3 * i + 1]), l.load(&g[3 * i + 2]));
            }
            for j in 0..4 {
                for (k, value) in line(l, along[0][j], along[1][j], along[2][j]).into_iter().enumerate() {
                    // SAFETY: the panel has room for its rows of all channels; what a vector writes behind those of this one is written
                    // again.
                    unsafe {
                        let to = to.add((4 * k + j) * pitch + channel * rows);
                        if (channels - channel) * rows >= LANES {
                            store(l, value, to);
                        } else {
                            let mut lanes = [0.0; LANES];
                            l.store(value, &mut lanes);
                            std::slice::from_raw_parts_mut(to, rows).copy_from_slice(&lanes[..rows]);
                        }
                    }
                }
            }
        }
    }
}

/// Transforms three weights of a line, to four points.
#[inline(always)]
fn line<L: Level>(l: L, g0: L::F, g1: L::F, g2: L::F) -> [L::F; 4] {
    let (half, ends) = (l.splat(0.5), l.add(g0, g2));
    [g0, l.mul(l.add(ends, g1), half), l.mul(l.sub(ends, g1), half), g2]
}
