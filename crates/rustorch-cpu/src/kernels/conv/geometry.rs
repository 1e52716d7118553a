//! Which positions of one tensor meet which of another, for a convolution and for its gradient with respect to the input.
//!
//! Both are sums over the taps of the kernel in which every *result* collects from positions of a *source*. Along an
//! axis, results are evenly spaced and so are the source positions that one tap sees from them. A convolution with
//! stride is of this form as it stands; its gradient is so for each residue of positions modulo the stride, which meets
//! its own subset of the taps. So the gradient is several such sums, without a multiplication by zero in between.

use rustorch_core::{ConvParams, Fault, Layout};
use std::ops::Range;

/// A tap of the kernel along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tap {
    /// The source position that the first result sees through it.
    source: isize,
    /// Its number in the kernel.
    kernel: usize,
}

/// One spatial axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// How many results there are.
    pub(super) results: usize,
    /// Source positions from one result to the next.
    pub(super) step: usize,
    /// Source positions that exist; others count as zero.
    pub(super) len: usize,
    taps: Vec<Tap>,
    /// Elements of the source from one position to the next.
    pub(super) source_stride: usize,
    /// Elements of the kernel from one tap to the next.
    kernel_stride: usize,
    /// Elements from one result to the next.
    pub(super) result_stride: usize,
}

impl Axis {
    /// An axis that is not there.
    fn absent() -> Axis {
        let taps = vec![Tap { source: 0, kernel: 0 }];
        Axis { results: 1, step: 1, len: 1, taps, source_stride: 0, kernel_stride: 0, result_stride: 0 }
    }

    /// How many taps there are.
    pub(super) fn taps(&self) -> usize {
        self.taps.len()
    }

    /// How many positions before the first and behind the last that exist are seen by some result.
    pub(super) fn margins(&self) -> (usize, usize) {
        let first = self.taps.iter().map(|tap| tap.source).min().unwrap_or(0);
        let last = self.taps.iter().map(|tap| tap.source).max().unwrap_or(0);
        let last = last + (self.results.max(1) - 1).saturating_mul(self.step) as isize;
        ((-first).max(0) as usize, (last + 1 - self.len as isize).max(0) as usize)
    }

    /// If each result sees three neighbouring positions: the first that the first result sees, and where the weights of the three are, in
    /// elements.
    pub(super) fn three_taps(&self) -> Option<(isize, [usize; 3])> {
        let mut taps: [Tap; 3] = self.taps.as_slice().try_into().ok()?;
        taps.sort_unstable_by_key(|tap| tap.source);
        let [a, b, c] = taps;
        let are_neighbours = self.step == 1 && b.source - a.source == 1 && c.source - b.source == 1;
        are_neighbours.then(|| (a.source, taps.map(|tap| tap.kernel * self.kernel_stride)))
    }

    /// Whether the taps are in the order of the positions that they see.
    pub(super) fn ascends(&self) -> bool {
        self.taps.is_sorted_by_key(|tap| tap.source)
    }

    /// Where the weight of the first tap is, in elements.
    pub(super) fn first_tap(&self) -> usize {
        self.taps.first().map_or(0, |tap| tap.kernel * self.kernel_stride)
    }

    /// Whether each result sees its own position alone.
    pub(super) fn is_pointwise(&self) -> bool {
        self.taps == [Tap { source: 0, kernel: 0 }] && self.step == 1 && self.results == self.len
    }
}

/// A tap of the whole kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset {
    /// The source position that the first result sees, along each axis.
    pub(super) source: [isize; 3],
    /// Where its weight is, in elements.
    pub(super) kernel: usize,
}

/// A run of results along the last axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The place of the first among the results asked for.
    pub(super) lane: usize,
    pub(super) len: usize,
    /// Where the image begins in the source.
    pub(super) image: usize,
    /// The source position that a tap at position zero shows to the first.
    pub(super) at: [isize; 3],
    /// Where the first is among the results' elements.
    pub(super) result: usize,
}

/// Elements from one image, group and channel to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) image: usize,
    pub(super) group: usize,
    pub(super) channel: usize,
}

/// A sum over taps: result `(n, g, row, position)` is `Σ kernel[g, row, channel, tap] · source[n, g, channel, seen]`.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) images: usize,
    pub(super) groups: usize,
    /// Channels of the results in a group.
    pub(super) rows: usize,
    /// Channels of the source in a group.
    pub(super) channels: usize,
    pub(super) axes: [Axis; 3],
    pub(super) source: Steps,
    /// Of the kernel, `image` is the step from row to row.
    pub(super) kernel: Steps,
    /// Of the results, `channel` is the step from row to row.
    pub(super) result: Steps,
    /// Where the first result is.
    pub(super) first: usize,
}

impl Geometry {
    /// A convolution, of `x` by `w` to `y`.
    pub(super) fn forward(params: &ConvParams, x: &Layout, w: &Layout, y: &Layout) -> Geometry {
        let spatial = params.spatial();
        let axes = std::array::from_fn(|i| {
            // Absent axes come first.
            let Some(axis) = (i + spatial).checked_sub(3) else { return Axis::absent() };
            let dim = axis + 2;
            let tap = |kernel| Tap {
                source: (kernel * params.dilation[axis]) as isize - params.padding[axis].0 as isize,
                kernel,
            };
            Axis {
                results: y.dims()[dim],
                step: params.stride[axis],
                len: x.dims()[dim],
                taps: (0..w.dims()[dim]).map(tap).collect(),
                source_stride: x.strides()[dim],
                kernel_stride: w.strides()[dim],
                result_stride: y.strides()[dim],
            }
        });
        let (rows, channels) = (w.dims()[0] / params.groups, w.dims()[1]);
        let mut geometry = Geometry {
            images: x.dims()[0],
            groups: params.groups,
            rows,
            channels,
            axes,
            source: steps(x, channels),
            kernel: Steps {
                image: w.strides()[0],
                group: rows.saturating_mul(w.strides()[0]),
                channel: w.strides()[1],
            },
            result: steps(y, rows),
            first: 0,
        };
        geometry.merge();
        geometry
    }

    /// The gradient of a convolution with respect to its input, from `dy` by `w` to `dx`: calls `each` with sums that
    /// together have every element of `dx` once.
    pub(super) fn backward(
        params: &ConvParams,
        dy: &Layout,
        w: &Layout,
        dx: &Layout,
        each: &mut dyn FnMut(&Geometry) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let spatial = params.spatial();
        // For each axis, the residues: where their positions begin, and the sum along the axis.
        let residues: [Vec<(usize, Axis)>; 3] = std::array::from_fn(|i| {
            let Some(axis) = (i + spatial).checked_sub(3) else { return vec![(0, Axis::absent())] };
            let dim = axis + 2;
            let (stride, dilation, before) =
                (params.stride[axis], params.dilation[axis], params.padding[axis].0);
            let (size, step) = (dx.dims()[dim], dx.strides()[dim]);
            let residue = |first: usize| {
                // Position `first` meets output `o` through tap `k` where first + before = o · stride + k · dilation.
                let seen = |kernel: usize| {
                    let distance = (first + before) as isize - (kernel * dilation) as isize;
                    (distance % stride as isize == 0)
                        .then(|| Tap { source: distance / stride as isize, kernel })
                };
                let axis = Axis {
                    results: (size - first).div_ceil(stride),
                    step: 1,
                    len: dy.dims()[dim],
                    taps: (0..w.dims()[dim]).filter_map(seen).collect(),
                    source_stride: dy.strides()[dim],
                    kernel_stride: w.strides()[dim],
                    result_stride: step.saturating_mul(stride),
                };
                (first * step, axis)
            };
            (0..stride.min(size)).map(residue).collect()
        });
        let (rows, channels) = (w.dims()[1], w.dims()[0] / params.groups);
        let kernel = Steps {
            image: w.strides()[1],
            group: channels.saturating_mul(w.strides()[0]),
            channel: w.strides()[0],
        };
        for (z, a) in &residues[0] {
            for (y, b) in &residues[1] {
                for (x, c) in &residues[2] {
                    let mut geometry = Geometry {
                        images: dy.dims()[0],
                        groups: params.groups,
                        rows,
                        channels,
                        axes: [a.clone(), b.clone(), c.clone()],
                        source: steps(dy, channels),
                        kernel,
                        result: steps(dx, rows),
                        first: z + y + x,
                    };
                    geometry.merge();
                    each(&geometry)?;
                }
            }
        }
        Ok(())
    }

    /// Gives the source positions around those that exist, and the layout of a contiguous tensor.
    pub(super) fn pad(&mut self, margins: [(usize, usize); 3]) {
        let mut stride = 1;
        for (axis, (before, after)) in self.axes.iter_mut().zip(margins).rev() {
            axis.len += before + after;
            for tap in &mut axis.taps {
                tap.source += before as isize;
            }
            axis.source_stride = stride;
            stride *= axis.len;
        }
        let group = stride * self.channels;
        self.source = Steps { image: group * self.groups, group, channel: stride };
    }

    /// Makes one axis of neighbours along which results see their own position only, where one step leads through both.
    fn merge(&mut self) {
        for _ in 0..2 {
            let [_, a, b] = &mut self.axes;
            let joined = a.is_pointwise()
                && b.is_pointwise()
                && (a.len == 1
                    || b.source_stride.checked_mul(b.len) == Some(a.source_stride)
                        && b.result_stride.checked_mul(b.len) == Some(a.result_stride));
            if !joined {
                return;
            }
            b.len *= a.len;
            b.results = b.len;
            self.axes[1] = std::mem::replace(&mut self.axes[0], Axis::absent());
        }
    }

    /// Positions of the results in an image.
    pub(super) fn positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.results).product()
    }

    /// The taps of the kernel, in its order.
    pub(super) fn taps(&self) -> Vec<Offset> {
        let [a, b, c] = &self.axes;
        let mut taps = Vec::with_capacity(a.taps.len() * b.taps.len() * c.taps.len());
        for z in &a.taps {
            for y in &b.taps {
                for x in &c.taps {
                    taps.push(Offset {
                        source: [z.source, y.source, x.source],
                        kernel: z.kernel * a.kernel_stride
                            + y.kernel * b.kernel_stride
                            + x.kernel * c.kernel_stride,
                    });
                }
            }
        }
        taps
    }

    /// Results, counted through positions and images, as runs along the last axis.
    pub(super) fn segments(&self, range: Range<usize>, to: &mut Vec<Segment>) {
        to.clear();
        let [a, b, c] = &self.axes;
        let mut i = range.start;
        while i < range.end {
            let (line, x) = (i / c.results, i % c.results);
            let (plane, y) = (line / b.results, line % b.results);
            let (image, z) = (plane / a.results, plane % a.results);
            let len = (c.results - x).min(range.end - i);
            to.push(Segment {
                lane: i - range.start,
                len,
                image: image * self.source.image,
                at: [(z * a.step) as isize, (y * b.step) as isize, (x * c.step) as isize],
                result: self.first
                    + image * self.result.image
                    + z * a.result_stride
                    + y * b.result_stride
                    + x * c.result_stride,
            });
            i += len;
        }
    }
}

/// The steps of a tensor `[n, c, ..]` whose groups have `channels` each.
fn steps(layout: &Layout, channels: usize) -> Steps {
    let channel = layout.strides()[1];
    Steps { image: layout.strides()[0], group: channels.saturating_mul(channel), channel }
}
