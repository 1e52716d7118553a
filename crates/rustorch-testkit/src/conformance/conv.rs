//! Cases of convolutions and their gradients.

use super::cases::{ARRANGEMENTS, Arrangement, Cases};
use rustorch_core::{Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, DType, Op, UnaryOp};

/// A convolution: shapes of input and weight, and what of each dimension is not the default.
struct Layer {
    x: &'static [usize],
    w: &'static [usize],
    stride: &'static [usize],
    padding: &'static [(usize, usize)],
    dilation: &'static [usize],
    groups: usize,
}

impl Layer {
    const fn new(x: &'static [usize], w: &'static [usize]) -> Layer {
        Layer { x, w, stride: &[], padding: &[], dilation: &[], groups: 1 }
    }

    fn params(&self) -> ConvParams {
        let mut params = ConvParams::new(self.x.len() - 2);
        for axis in 0..params.spatial() {
            params.stride[axis] = self.stride.get(axis).copied().unwrap_or(1);
            params.padding[axis] = self.padding.get(axis).copied().unwrap_or((0, 0));
            params.dilation[axis] = self.dilation.get(axis).copied().unwrap_or(1);
        }
        params.groups = self.groups;
        params
    }
}

/// Of every number of dimensions; grouped, depthwise, pointwise; about the edges of tiles; and of nothing.
///
/// No sum has more than 72 terms. As they are products of numbers below 1 of either sign, what rounding does to a sum of
/// `k` of them, √k · ε · √k · ⅓ in any order, stays within the tolerance of sums.
const LAYERS: &[Layer] = &[
    Layer::new(&[2, 3, 7], &[4, 3, 3]),
    Layer { stride: &[2], padding: &[(2, 1)], dilation: &[2], ..Layer::new(&[1, 3, 9], &[5, 3, 3]) },
    Layer { groups: 4, ..Layer::new(&[2, 4, 6], &[8, 1, 3]) },
    Layer::new(&[2, 3, 5, 6], &[4, 3, 3, 2]),
    Layer { padding: &[(1, 1), (1, 1)], ..Layer::new(&[1, 5, 4, 5], &[3, 5, 3, 3]) },
    Layer {
        stride: &[2, 1],
        padding: &[(1, 0), (2, 1)],
        dilation: &[1, 2],
        ..Layer::new(&[2, 2, 6, 5], &[3, 2, 3, 3])
    },
    Layer { groups: 2, ..Layer::new(&[1, 4, 5, 5], &[6, 2, 3, 3]) },
    Layer { groups: 3, padding: &[(1, 1), (1, 1)], ..Layer::new(&[2, 3, 6, 5], &[3, 1, 3, 3]) },
    Layer { stride: &[3, 4], ..Layer::new(&[1, 3, 7, 9], &[4, 3, 2, 2]) },
    Layer::new(&[2, 5, 3, 4], &[3, 5, 1, 1]),
    Layer::new(&[1, 17, 4, 6], &[33, 17, 1, 2]),
    Layer::new(&[1, 2, 3, 4, 3], &[3, 2, 2, 2, 2]),
    Layer {
        stride: &[1, 2, 1],
        dilation: &[2, 1, 1],
        groups: 2,
        ..Layer::new(&[1, 2, 4, 4, 3], &[4, 1, 2, 2, 3])
    },
    Layer::new(&[0, 3, 5, 5], &[4, 3, 3, 3]),
    Layer::new(&[2, 3, 5, 5], &[0, 3, 3, 3]),
    Layer { padding: &[(2, 2), (0, 0)], ..Layer::new(&[1, 3, 0, 5], &[4, 3, 3, 3]) },
];

impl Cases {
    pub(super) fn convolutions(&mut self) {
        for &dtype in DType::DENSE {
            for layer in LAYERS {
                for how in ARRANGEMENTS {
                    self.convolution(dtype, layer, how);
                }
            }
        }
    }

    fn convolution(&mut self, dtype: DType, layer: &Layer, how: Arrangement) {
        let params = layer.params();
        let mut argument = |dims: &[usize]| self.within(dtype, dims, how, -1.0, 1.0);
        let mut y = vec![layer.x[0], layer.w[0]];
        let lens = (0..params.spatial()).map(|axis| {
            params.output_len(axis, layer.x[axis + 2], layer.w[axis + 2]).expect("kernels of cases fit")
        });
        y.extend(lens);
        let (x, w, dy) = (argument(layer.x), argument(layer.w), argument(&y));
        let (bias, dx_bias) = (argument(&layer.w[..1]), argument(&layer.x[1..2]));

        let conv = |activation| Op::from(Conv { params: params.clone(), activation });
        self.add(conv(None), vec![x.clone(), w.clone()]);
        self.add(conv(None), vec![x.clone(), w.clone(), bias.clone()]);
        self.add(conv(Some(UnaryOp::Relu)), vec![x.clone(), w.clone(), bias]);

        let data = |size: &[usize]| Op::from(ConvBackwardData { params: params.clone(), size: size.into() });
        self.add(data(&layer.x[2..]), vec![dy.clone(), w.clone()]);
        self.add(data(&layer.x[2..]), vec![dy.clone(), w.clone(), dx_bias.clone()]);
        // A transposed convolution with output padding, where there is room for it.
        let mut longer = layer.x[2..].to_vec();
        longer[0] += 1;
        self.add(data(&longer), vec![dy.clone(), w, dx_bias]);

        let weight = ConvBackwardWeight { params, kernel: layer.w[2..].into() };
        self.add(Op::from(weight), vec![x, dy]);
    }
}
