//! Convolutions over one to three spatial dimensions, and their two gradients.
//!
//! All three operations are one sum, read from different sides. With `x: [n, c_in, size..]`, `w: [c_out, c_in / groups,
//! kernel..]` and `y: [n, c_out, out..]`, position `o` of `y` meets position `o · stride + k · dilation − padding.0` of
//! `x` through tap `k` of `w`. None of them conjugates complex numbers.

use super::{OpType, Operation, in_elements, one, out_elements, same_dense};
use crate::{DType, Dims, Error, OutputMeta, Outputs, Result, Shape, TensorMeta, UnaryOp};
use smallvec::{SmallVec, smallvec};

/// How the kernel of a convolution moves. Lists have an entry for each spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct ConvParams {
    /// Positions of the input from one position of the output to the next.
    pub stride: Dims,
    /// Zeros that are taken to lie before and after the input.
    pub padding: SmallVec<[(usize, usize); 3]>,
    /// Positions of the input from one tap of the kernel to the next.
    pub dilation: Dims,
    /// Into how many groups channels are parted: each group of output channels sees its group of input channels only.
    pub groups: usize,
}

impl ConvParams {
    /// Stride and dilation 1, no padding, one group.
    pub fn new(spatial: usize) -> ConvParams {
        ConvParams {
            stride: smallvec![1; spatial],
            padding: smallvec![(0, 0); spatial],
            dilation: smallvec![1; spatial],
            groups: 1,
        }
    }

    /// The number of spatial dimensions.
    pub fn spatial(&self) -> usize {
        self.stride.len()
    }

    /// How many positions of the output an input of `len` positions has along a spatial dimension, for a kernel of
    /// `kernel` taps; `None` where the kernel does not fit into the padded input, or numbers overflow.
    pub fn output_len(&self, axis: usize, len: usize, kernel: usize) -> Option<usize> {
        let room = self.padded(axis, len)?.checked_sub(self.span(axis, kernel)?)?;
        Some(room / self.stride[axis] + 1)
    }

    /// The least input along a spatial dimension that has `out` positions of the output: the length that a transposed
    /// convolution has without output padding. `None` where numbers overflow, `out` is 0, or the padding covers all.
    pub fn input_len(&self, axis: usize, out: usize, kernel: usize) -> Option<usize> {
        let steps = out.checked_sub(1)?.checked_mul(self.stride[axis])?;
        let padded = steps.checked_add(self.span(axis, kernel)?)?;
        let (before, after) = self.padding[axis];
        padded.checked_sub(before.checked_add(after)?)
    }

    /// The length of the input with its padding.
    fn padded(&self, axis: usize, len: usize) -> Option<usize> {
        let (before, after) = self.padding[axis];
        let padded = len.checked_add(before)?.checked_add(after)?;
        // Devices compute positions, which may be negative, in signed numbers.
        (padded <= isize::MAX as usize).then_some(padded)
    }

    /// Positions from the first tap to the last, both included.
    fn span(&self, axis: usize, kernel: usize) -> Option<usize> {
        kernel.checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)
    }

    /// Checks the parameters by themselves.
    fn check(&self, op: &'static str, spatial: usize) -> Result<()> {
        let lists = [self.stride.len(), self.padding.len(), self.dilation.len()];
        if lists.iter().any(|&len| len != spatial) {
            return Err(Error::argument(
                op,
                format!(
                    "stride, padding and dilation need an entry for each of the {spatial} spatial dimensions, \
                     but have {}, {} and {}",
                    lists[0], lists[1], lists[2]
                ),
            ));
        }
        if self.stride.contains(&0) || self.dilation.contains(&0) || self.groups == 0 {
            return Err(Error::argument(op, "stride, dilation and groups must be at least 1"));
        }
        Ok(())
    }

    /// Checks that an input of these dimensions, channels first, has an output of those.
    ///
    /// Beyond the last position that the output sees, the input may have as many more as a transposed convolution may
    /// have output padding: fewer than the larger of stride and dilation.
    fn check_sizes(&self, op: &'static str, x: &[usize], kernel: &[usize], y: &[usize]) -> Result<()> {
        for axis in 0..kernel.len() {
            let (len, taps, out) = (x[axis], kernel[axis], y[axis]);
            let more = self.stride[axis].max(self.dilation[axis]);
            let fits = self.padded(axis, len).is_some_and(|padded| {
                let seen = out.checked_sub(1).and_then(|n| n.checked_mul(self.stride[axis]));
                let seen = seen.and_then(|n| n.checked_add(self.span(axis, taps)?));
                seen.and_then(|seen| padded.checked_sub(seen)).is_some_and(|rest| rest < more)
            });
            if !fits {
                return Err(Error::argument(
                    op,
                    format!(
                        "along spatial dimension {axis}, {out} positions of the output do not belong to {len} of the \
                         input with a kernel of {taps}, stride {}, padding {:?} and dilation {}{}",
                        self.stride[axis],
                        self.padding[axis],
                        self.dilation[axis],
                        match self.input_len(axis, out, taps) {
                            Some(least) => format!(", but to {least} to {}", least.saturating_add(more - 1)),
                            None => String::new(),
                        }
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks that the channels of input, weight and output fit each other and the groups.
    fn check_channels(&self, op: &'static str, c_in: usize, w: &[usize], shapes: &[&Shape]) -> Result<()> {
        let (c_out, per_group) = (w[0], w[1]);
        if per_group.checked_mul(self.groups) != Some(c_in) {
            return Err(Error::shape(
                op,
                format!(
                    "with {} groups, a weight of {per_group} input channels needs {} channels, not {c_in}",
                    self.groups,
                    per_group.saturating_mul(self.groups)
                ),
                shapes.iter().copied(),
            ));
        }
        if !c_out.is_multiple_of(self.groups) {
            return Err(Error::shape(
                op,
                format!("{c_out} output channels cannot be parted into {} groups", self.groups),
                shapes.iter().copied(),
            ));
        }
        Ok(())
    }
}

/// `(x: [n, c_in, size..], weight: [c_out, c_in / groups, kernel..][, bias: [c_out]]) → [n, c_out, out..]`, with `out =
/// (size + padding − dilation · (kernel − 1) − 1) / stride + 1`, rounded down.
///
/// As in PyTorch a cross-correlation: the kernel is not flipped. Operands have one dtype of floats or complex numbers;
/// 16-bit floats accumulate in `f32` and round once, after the bias. No result depends on the others in the call.
///
/// The CPU takes fewer products where kernels are 3 × 3 and have no stride (Winograd): rounding errors are those of the largest inputs in the 4 × 4
/// positions around a result.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Conv {
    /// How the kernel moves.
    pub params: ConvParams,
    /// A function applied to each element at the end, after the bias.
    pub activation: Option<UnaryOp>,
}

/// `(dy: [n, c_out, out..], weight: [c_out, c_in / groups, kernel..][, bias: [c_in]]) → [n, c_in, size..]`: the gradient
/// of a convolution with respect to its input, which is also the transposed convolution of `dy`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct ConvBackwardData {
    /// How the kernel of the convolution moves.
    pub params: ConvParams,
    /// The spatial lengths of the result: for each dimension [`ConvParams::input_len`], or more by less than the larger
    /// of stride and dilation.
    pub size: Dims,
}

/// `(x: [n, c_in, size..], dy: [n, c_out, out..]) → [c_out, c_in / groups, kernel..]`: the gradient of a convolution with
/// respect to its weight.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct ConvBackwardWeight {
    /// How the kernel of the convolution moves.
    pub params: ConvParams,
    /// The spatial lengths of the result.
    pub kernel: Dims,
}

impl Conv {
    /// The operation's name.
    pub const NAME: &'static str = "conv";
}

impl Operation for Conv {
    const CLASS: OpType = OpType::Convolution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = numeric(Self::NAME, args, 2..=3)?;
        let (x, w) = (&args[0], &args[1]);
        let shapes = [x.shape(), w.shape()];
        let spatial =
            spatial(Self::NAME, shapes, "x [n, c_in, size..] and weight [c_out, c_in / groups, kernel..]")?;
        self.params.check(Self::NAME, spatial)?;
        self.params.check_channels(Self::NAME, x.dims()[1], w.dims(), &shapes)?;
        check_bias(Self::NAME, args.get(2), w.dims()[0])?;
        if let Some(activation) = self.activation
            && activation.output(dtype) != Some(dtype)
        {
            return Err(Error::dtype(
                activation.name(),
                "is not defined for the convolution's dtype",
                [dtype],
            ));
        }
        let mut dims: Dims = smallvec![x.dims()[0], w.dims()[0]];
        for axis in 0..spatial {
            let (len, taps) = (x.dims()[axis + 2], w.dims()[axis + 2]);
            dims.push(self.params.output_len(axis, len, taps).ok_or_else(|| {
                let padding = self.params.padding[axis];
                Error::shape(
                    Self::NAME,
                    format!(
                        "along spatial dimension {axis}, a kernel of {taps} with dilation {} does not fit into {len} \
                         positions with padding {padding:?}",
                        self.params.dilation[axis]
                    ),
                    shapes,
                )
            })?);
        }
        one(dtype, Shape::new(dims)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        flops(out_elements(outs), args[1].dims())
    }
}

impl ConvBackwardData {
    /// The operation's name.
    pub const NAME: &'static str = "conv_backward_data";
}

impl Operation for ConvBackwardData {
    const CLASS: OpType = OpType::Convolution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = numeric(Self::NAME, args, 2..=3)?;
        let (dy, w) = (&args[0], &args[1]);
        let shapes = [dy.shape(), w.shape()];
        let spatial =
            spatial(Self::NAME, shapes, "dy [n, c_out, out..] and weight [c_out, c_in / groups, kernel..]")?;
        self.params.check(Self::NAME, spatial)?;
        check_len(Self::NAME, "size", &self.size, spatial)?;
        if dy.dims()[1] != w.dims()[0] {
            return Err(Error::shape(
                Self::NAME,
                format!("dy has {} channels, the weight gives {}", dy.dims()[1], w.dims()[0]),
                shapes,
            ));
        }
        let c_in = w.dims()[1].checked_mul(self.params.groups);
        let c_in = c_in.ok_or_else(|| Error::argument(Self::NAME, "there are too many groups"))?;
        self.params.check_channels(Self::NAME, c_in, w.dims(), &shapes)?;
        check_bias(Self::NAME, args.get(2), c_in)?;
        self.params.check_sizes(Self::NAME, &self.size, &w.dims()[2..], &dy.dims()[2..])?;
        let mut dims: Dims = smallvec![dy.dims()[0], c_in];
        dims.extend_from_slice(&self.size);
        one(dtype, Shape::new(dims)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        flops(in_elements(args), args[1].dims())
    }
}

impl ConvBackwardWeight {
    /// The operation's name.
    pub const NAME: &'static str = "conv_backward_weight";
}

impl Operation for ConvBackwardWeight {
    const CLASS: OpType = OpType::Convolution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = numeric(Self::NAME, args, 2..=2)?;
        let (x, dy) = (&args[0], &args[1]);
        let shapes = [x.shape(), dy.shape()];
        let spatial = spatial(Self::NAME, shapes, "x [n, c_in, size..] and dy [n, c_out, out..]")?;
        self.params.check(Self::NAME, spatial)?;
        check_len(Self::NAME, "kernel", &self.kernel, spatial)?;
        if x.dims()[0] != dy.dims()[0] {
            return Err(Error::shape(Self::NAME, "x and dy differ in the number of images", shapes));
        }
        let (c_in, groups) = (x.dims()[1], self.params.groups);
        if !c_in.is_multiple_of(groups) {
            return Err(Error::shape(
                Self::NAME,
                format!("{c_in} input channels cannot be parted into {groups} groups"),
                shapes,
            ));
        }
        let mut dims: Dims = smallvec![dy.dims()[1], c_in / groups];
        self.params.check_channels(Self::NAME, c_in, &dims, &shapes)?;
        self.params.check_sizes(Self::NAME, &x.dims()[2..], &self.kernel, &dy.dims()[2..])?;
        dims.extend_from_slice(&self.kernel);
        one(dtype, Shape::new(dims)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        flops(args[1].layout.numel() as u64, outs[0].shape.dims())
    }
}

/// Two operations for every tap that an output position meets.
fn flops(out_elements: u64, weight: &[usize]) -> u64 {
    let taps = weight[1..].iter().fold(2u64, |n, &len| n.saturating_mul(len as u64));
    out_elements.saturating_mul(taps)
}

/// The one dtype of floats or complex numbers that all arguments have.
fn numeric(
    op: &'static str,
    args: &[TensorMeta<'_>],
    counts: std::ops::RangeInclusive<usize>,
) -> Result<DType> {
    let dtype = same_dense(op, args, counts)?;
    if dtype.is_float() || dtype.is_complex() {
        return Ok(dtype);
    }
    Err(Error::dtype(op, "needs a floating-point or complex dtype; cast the operands", [dtype]))
}

/// The number of spatial dimensions of two operands that must agree in it.
fn spatial(op: &'static str, [a, b]: [&Shape; 2], takes: &str) -> Result<usize> {
    match a.ndim() {
        ndim @ 3..=5 if ndim == b.ndim() => Ok(ndim - 2),
        _ => Err(Error::shape(op, format!("takes {takes} with one to three spatial dimensions"), [a, b])),
    }
}

fn check_len(op: &'static str, what: &str, list: &[usize], spatial: usize) -> Result<()> {
    if list.len() == spatial {
        return Ok(());
    }
    Err(Error::argument(op, format!("{what} has {} entries for {spatial} spatial dimensions", list.len())))
}

fn check_bias(op: &'static str, bias: Option<&TensorMeta<'_>>, channels: usize) -> Result<()> {
    match bias {
        Some(bias) if bias.dims() != [channels] => {
            Err(Error::shape(op, format!("the bias must have {channels} elements"), [bias.shape()]))
        }
        _ => Ok(()),
    }
}
