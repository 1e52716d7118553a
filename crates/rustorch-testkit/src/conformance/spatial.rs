//! Cases of operations on images and their kin: pooling, normalisation of channels, interpolation.

use super::cases::{ARRANGEMENTS, Arrangement, Cases, FLOATS};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, BatchNorm, DType,
    Dims, GroupNorm, Interpolate, InterpolateBackward, InterpolateMode, MaxPool, MaxPoolBackward, Op,
    PoolWindow,
};

/// Shapes, and how many of their dimensions are spatial.
const SHAPES: &[(&[usize], usize)] = &[
    (&[9], 1),
    (&[3, 33], 1),
    (&[2, 3, 6, 5], 2),
    (&[0, 3, 6, 5], 2),
    (&[3, 17, 19], 2),
    (&[2, 1, 4, 5, 3], 3),
];

/// Kernel, stride, padding and dilation, the same in every dimension.
const WINDOWS: &[[usize; 4]] = &[[2, 2, 0, 1], [3, 1, 1, 1], [3, 2, 1, 1], [2, 3, 1, 2], [1, 1, 0, 1]];

impl Cases {
    pub(super) fn pooling(&mut self) {
        for &(dims, n) in SHAPES {
            let (lead, spatial) = dims.split_at(dims.len() - n);
            let each = |k: usize| Dims::from_elem(k, n);
            let joined = |outputs: &[usize]| [lead, outputs].concat();
            for how in ARRANGEMENTS {
                for &[kernel, stride, padding, dilation] in WINDOWS {
                    for ceil_mode in [false, true] {
                        let window = PoolWindow {
                            kernel: each(kernel),
                            stride: each(stride),
                            padding: each(padding),
                            ceil_mode,
                        };
                        for &dtype in DType::DENSE {
                            let x = self.argument(dtype, dims, how);
                            let op = MaxPool { window: window.clone(), dilation: each(dilation) };
                            self.add(Op::from(op), vec![x]);
                        }
                        for &dtype in FLOATS {
                            for (count_include_pad, divisor) in [(true, None), (false, None), (true, Some(5))]
                            {
                                let pool = AvgPool { window: window.clone(), count_include_pad, divisor };
                                let x = self.argument(dtype, dims, how);
                                self.add(Op::from(pool.clone()), vec![x]);
                                // Without dilation; what does not fit is left out.
                                let outputs: Vec<usize> = spatial
                                    .iter()
                                    .map(|len| outputs(*len, kernel, stride, padding, ceil_mode))
                                    .collect();
                                let grad = self.argument(dtype, &joined(&outputs), how);
                                let spatial = Dims::from_slice(spatial);
                                self.add(Op::from(AvgPoolBackward { pool, spatial }), vec![grad]);
                            }
                        }
                    }
                }
                for size in [1, 3, 7] {
                    for &dtype in DType::DENSE {
                        let x = self.argument(dtype, dims, how);
                        let size = each(size);
                        self.add(
                            Op::AdaptiveMaxPool(AdaptiveMaxPool { size: size.clone() }),
                            vec![x.clone()],
                        );
                        self.add(Op::AdaptiveAvgPool(AdaptiveAvgPool { size: size.clone() }), vec![x]);
                        let grad = self.argument(dtype, &joined(&size), how);
                        let spatial = Dims::from_slice(spatial);
                        let op =
                            Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial: spatial.clone() });
                        self.add(op, vec![grad.clone()]);
                        let plane = spatial.iter().product();
                        let indices = self.indices(DType::I64, &joined(&size), plane);
                        self.add(Op::MaxPoolBackward(MaxPoolBackward { spatial }), vec![grad, indices]);
                    }
                }
            }
        }
    }

    pub(super) fn channel_norms(&mut self) {
        const SHAPES: &[&[usize]] = &[&[4, 6], &[2, 6, 5], &[0, 6, 5], &[3, 2, 17, 9], &[1, 4, 2, 3, 5]];
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    let x = self.argument(dtype, dims, how);
                    // Parameters may be wider than 16 bits.
                    for parameters in [dtype, DType::F32] {
                        let channels = &dims[1..2];
                        let weight = self.argument(parameters, channels, how);
                        let bias = self.argument(parameters, channels, Arrangement::Packed);
                        let mean = self.argument(parameters, channels, how);
                        let variance = self.within(parameters, channels, how, 0.5, 2.0);
                        let affine = [weight, bias];
                        for n in 0..=2 {
                            let with = |first: &[_]| [first, &affine[..n]].concat();
                            for groups in [1, 2, dims[1]] {
                                let norm = GroupNorm { groups, eps: 1e-5 };
                                self.add(Op::GroupNorm(norm), with(std::slice::from_ref(&x)));
                            }
                            // Nothing to learn from: mean and variance would be NaN on one device and not on another.
                            if dims[0] != 0 {
                                let norm = BatchNorm { training: true, eps: 1e-5 };
                                self.add(Op::BatchNorm(norm), with(std::slice::from_ref(&x)));
                            }
                            let norm = BatchNorm { training: false, eps: 1e-5 };
                            let given = [x.clone(), mean.clone(), variance.clone()];
                            self.add(Op::BatchNorm(norm), with(&given));
                        }
                    }
                }
            }
        }
    }

    pub(super) fn interpolation(&mut self) {
        const MODES: [(InterpolateMode, bool); 6] = [
            (InterpolateMode::Nearest, false),
            (InterpolateMode::NearestExact, false),
            (InterpolateMode::Linear, false),
            (InterpolateMode::Linear, true),
            (InterpolateMode::Cubic, false),
            (InterpolateMode::Cubic, true),
        ];
        for &dtype in FLOATS {
            for &(dims, n) in SHAPES {
                let (lead, spatial) = dims.split_at(dims.len() - n);
                for how in ARRANGEMENTS {
                    for (mode, align_corners) in MODES {
                        for (size, factor) in [(1, None), (4, None), (8, Some(1.3)), (11, Some(0.7))] {
                            let interpolate = Interpolate {
                                mode,
                                size: Dims::from_elem(size, n),
                                factors: std::iter::repeat_n(factor, n).collect(),
                                align_corners,
                            };
                            let x = self.argument(dtype, dims, how);
                            self.add(Op::from(interpolate.clone()), vec![x]);
                            let grad = self.argument(dtype, &[lead, &interpolate.size].concat(), how);
                            let spatial = Dims::from_slice(spatial);
                            self.add(Op::from(InterpolateBackward { interpolate, spatial }), vec![grad]);
                        }
                    }
                }
            }
        }
    }
}

/// How many windows there are along a dimension: counted, not computed. 0 where none fits.
pub(super) fn outputs(len: usize, kernel: usize, stride: usize, padding: usize, ceil_mode: bool) -> usize {
    (0..)
        .map(|o| o * stride)
        .take_while(|start| {
            let whole = start + kernel <= len + 2 * padding;
            let sticks_out = start + kernel < len + 2 * padding + stride && *start < len + padding;
            whole || ceil_mode && sticks_out
        })
        .count()
}
