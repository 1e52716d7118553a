//! Pooling: windows over the trailing, spatial dimensions, one to three of them. All leading dimensions are batch.

use super::{OpType, Operation, expect_args, float, in_elements, one, out_elements, same_dense};
use crate::{DType, Dims, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;

/// A window that slides over the spatial dimensions; every list has one number for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct PoolWindow {
    /// Elements of the window.
    pub kernel: Dims,
    /// The step from one window to the next.
    pub stride: Dims,
    /// Elements added at either end: −∞ to a maximum, 0 to a mean. At most half the window.
    pub padding: Dims,
    /// Whether a last window may stick out, which must yet start inside the input or the padding before it.
    pub ceil_mode: bool,
}

impl PoolWindow {
    /// How many windows there are along each of these spatial dimensions.
    fn outputs(
        &self,
        op: &'static str,
        shape: &Shape,
        dilation: &[usize],
        spatial: &[usize],
    ) -> Result<Dims> {
        let n = spatial.len();
        for (name, list) in [
            ("kernel", &self.kernel[..]),
            ("stride", &self.stride),
            ("padding", &self.padding),
            ("dilation", dilation),
        ] {
            if list.len() != n {
                return Err(Error::argument(
                    op,
                    format!("{name} has {} numbers for {n} spatial dimensions", list.len()),
                ));
            }
            if name != "padding" && list.contains(&0) {
                return Err(Error::argument(op, format!("{name} {list:?} must be positive")));
            }
        }
        (0..n).map(|i| self.output(op, shape, spatial[i], dilation[i], i)).collect()
    }

    fn output(
        &self,
        op: &'static str,
        shape: &Shape,
        len: usize,
        dilation: usize,
        i: usize,
    ) -> Result<usize> {
        let (kernel, stride, padding) = (self.kernel[i], self.stride[i], self.padding[i]);
        let huge = || Error::argument(op, format!("a window of {kernel} elements is too large"));
        let reach = (kernel - 1).checked_mul(dilation).and_then(|n| n.checked_add(1)).ok_or_else(huge)?;
        if padding > reach / 2 {
            return Err(Error::argument(
                op,
                format!("padding {padding} is more than half of the window, which spans {reach} elements"),
            ));
        }
        let padded = len.checked_add(2 * padding).ok_or_else(huge)?;
        // A window that sticks out needs no more than one stride beyond the end.
        let room = if self.ceil_mode { padded.checked_add(stride - 1).ok_or_else(huge)? } else { padded };
        if room < reach {
            return Err(Error::shape(
                op,
                format!("a window that spans {reach} elements does not fit into {padded} (with padding)"),
                [shape],
            ));
        }
        let outputs = (room - reach) / stride + 1;
        // Where the last window would start behind the input, there is none.
        let outside = self.ceil_mode && (outputs - 1) * stride >= len + padding;
        Ok(outputs - usize::from(outside))
    }
}

/// The largest of each window, and where it is: NaN if any is, of several NaN the last.
///
/// Integers and floats. The index (`I64`) counts in the flattened spatial dimensions of the input; of equals it is the
/// first. Where dilation steps over all of the input, the value is the least of the dtype and the index −1.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct MaxPool {
    /// The window.
    pub window: PoolWindow,
    /// The distance between elements of a window, for each spatial dimension.
    pub dilation: Dims,
}

impl MaxPool {
    /// The operation's name.
    pub const NAME: &'static str = "max_pool";
}

impl Operation for MaxPool {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = Self::NAME;
        let dtype = ordered(name, args)?;
        let shape = args[0].shape();
        let spatial = spatial(name, self.window.kernel.len(), shape)?;
        let outputs = self.window.outputs(name, shape, &self.dilation, spatial)?;
        with_indices(dtype, pooled(shape, &outputs)?)
    }

    /// Comparisons.
    fn flops(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        taps(&self.window) * out_elements(outs)
    }
}

/// The mean of each window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AvgPool {
    /// The window.
    pub window: PoolWindow,
    /// Whether padding counts among the elements by whose number the sum is divided. What sticks out of the padding,
    /// too, never does.
    pub count_include_pad: bool,
    /// Divide by this instead.
    pub divisor: Option<usize>,
}

impl AvgPool {
    fn outputs(&self, name: &'static str, shape: &Shape, spatial: &[usize]) -> Result<Dims> {
        if self.divisor == Some(0) {
            return Err(Error::argument(name, "the divisor must not be zero"));
        }
        self.window.outputs(name, shape, &Dims::from_elem(1, spatial.len()), spatial)
    }
}

impl AvgPool {
    /// The operation's name.
    pub const NAME: &'static str = "avg_pool";
}

impl Operation for AvgPool {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = Self::NAME;
        let dtype = same_dense(name, args, 1..=1)?;
        float(name, dtype)?;
        let shape = args[0].shape();
        let spatial = spatial(name, self.window.kernel.len(), shape)?;
        one(dtype, pooled(shape, &self.outputs(name, shape, spatial)?)?)
    }

    /// Additions.
    fn flops(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        taps(&self.window) * out_elements(outs)
    }
}

/// The gradient of the input of [`AvgPool`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AvgPoolBackward {
    /// The pooling.
    pub pool: AvgPool,
    /// The spatial dimensions of the input.
    pub spatial: Dims,
}

impl AvgPoolBackward {
    /// The operation's name.
    pub const NAME: &'static str = "avg_pool_backward";
}

impl Operation for AvgPoolBackward {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let shape = input_of(Self::NAME, &self.spatial, args)?;
        let outputs = self.pool.outputs(Self::NAME, &shape, &self.spatial)?;
        gradient(Self::NAME, &outputs, shape, args)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        taps(&self.pool.window) * in_elements(args)
    }
}

/// The largest of each of a given number of windows: output `i` of `n` along a dimension of length `len` covers the
/// elements from `⌊i·len/n⌋` to below `⌈(i + 1)·len/n⌉`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AdaptiveMaxPool {
    /// The lengths of the spatial dimensions of the result.
    pub size: Dims,
}

impl AdaptiveMaxPool {
    /// The operation's name.
    pub const NAME: &'static str = "adaptive_max_pool";
}

impl Operation for AdaptiveMaxPool {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = ordered(Self::NAME, args)?;
        spatial(Self::NAME, self.size.len(), args[0].shape())?;
        with_indices(dtype, shares(Self::NAME, args[0].shape(), &self.size)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        in_elements(args)
    }
}

/// The mean of each of a given number of windows, those of [`AdaptiveMaxPool`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AdaptiveAvgPool {
    /// The lengths of the spatial dimensions of the result.
    pub size: Dims,
}

impl AdaptiveAvgPool {
    /// The operation's name.
    pub const NAME: &'static str = "adaptive_avg_pool";
}

impl Operation for AdaptiveAvgPool {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(Self::NAME, args, 1..=1)?;
        float(Self::NAME, dtype)?;
        spatial(Self::NAME, self.size.len(), args[0].shape())?;
        one(dtype, shares(Self::NAME, args[0].shape(), &self.size)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        in_elements(args)
    }
}

/// The gradient of the input of [`AdaptiveAvgPool`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AdaptiveAvgPoolBackward {
    /// The spatial dimensions of the input.
    pub spatial: Dims,
}

impl AdaptiveAvgPoolBackward {
    /// The operation's name.
    pub const NAME: &'static str = "adaptive_avg_pool_backward";
}

impl Operation for AdaptiveAvgPoolBackward {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let shape = input_of(Self::NAME, &self.spatial, args)?;
        let outputs = Dims::from_slice(&args[0].dims()[shape.ndim() - self.spatial.len()..]);
        shares(Self::NAME, &shape, &outputs)?;
        gradient(Self::NAME, &outputs, shape, args)
    }

    fn flops(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        out_elements(outs)
    }
}

/// The gradient of the input of [`MaxPool`] and [`AdaptiveMaxPool`]: gradients are added where the indices say.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct MaxPoolBackward {
    /// The spatial dimensions of the input.
    pub spatial: Dims,
}

impl MaxPoolBackward {
    /// The operation's name.
    pub const NAME: &'static str = "max_pool_backward";
}

impl Operation for MaxPoolBackward {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = Self::NAME;
        expect_args(name, args, 2..=2)?;
        let shape = input_of(name, &self.spatial, &args[..1])?;
        if args[1].dtype != DType::I64 {
            return Err(Error::dtype(name, "indices must be i64, as pooling returns them", [args[1].dtype]));
        }
        if args[0].shape() != args[1].shape() {
            return Err(Error::shape(
                name,
                "gradient and indices must have one shape",
                args.iter().map(TensorMeta::shape),
            ));
        }
        one(args[0].dtype, shape)
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        in_elements(args)
    }
}

/// The shape of adaptive pooling to a given size.
fn shares(name: &'static str, shape: &Shape, size: &[usize]) -> Result<Shape> {
    // Start and end of a window are computed from the product of the lengths.
    let spatial = &shape[shape.ndim() - size.len()..];
    let fits = |(len, n): (&usize, &usize)| n.checked_add(1).is_some_and(|n| len.checked_mul(n).is_some());
    if !spatial.iter().zip(size).all(fits) {
        return Err(Error::shape(name, format!("size {size:?} is too large"), [shape]));
    }
    pooled(shape, size)
}

/// The shape of the input with these spatial dimensions, given the only argument, the gradient of the output.
fn input_of(name: &'static str, dims: &[usize], args: &[TensorMeta<'_>]) -> Result<Shape> {
    let dtype = same_dense(name, args, 1..=1)?;
    float(name, dtype)?;
    let grad = args[0].shape();
    if dims.is_empty() || dims.len() > 3 || dims.len() > grad.ndim() || dims.contains(&0) {
        return Err(Error::shape(
            name,
            format!(
                "{dims:?} cannot be the spatial dimensions of the input; there are one to three, not empty"
            ),
            [grad],
        ));
    }
    pooled(grad, dims)
}

/// The input's shape, if the gradient has these spatial dimensions.
fn gradient(name: &'static str, outputs: &[usize], input: Shape, args: &[TensorMeta<'_>]) -> Result<Outputs> {
    let grad = args[0].shape();
    if !grad.ends_with(outputs) {
        return Err(Error::shape(
            name,
            format!("for an input of {input}, the gradient's spatial dimensions must be {outputs:?}"),
            [grad],
        ));
    }
    one(args[0].dtype, input)
}

/// The last `n` lengths, all of which must be positive.
fn spatial<'a>(name: &'static str, n: usize, shape: &'a Shape) -> Result<&'a [usize]> {
    if !(1..=3).contains(&n) {
        return Err(Error::argument(name, format!("takes one to three spatial dimensions, {n} were given")));
    }
    let spatial = shape.ndim().checked_sub(n).map(|at| &shape[at..]);
    match spatial {
        Some(spatial) if !spatial.contains(&0) => Ok(spatial),
        Some(_) => Err(Error::shape(name, "a spatial dimension is empty", [shape])),
        None => Err(Error::shape(name, format!("needs {n} spatial dimensions"), [shape])),
    }
}

/// The shape with its last dimensions replaced.
fn pooled(shape: &Shape, outputs: &[usize]) -> Result<Shape> {
    let mut dims = Dims::from_slice(&shape[..shape.ndim() - outputs.len()]);
    dims.extend_from_slice(outputs);
    Shape::new(dims)
}

/// The dtype of the only argument, an integer or a float.
fn ordered(name: &'static str, args: &[TensorMeta<'_>]) -> Result<DType> {
    let dtype = same_dense(name, args, 1..=1)?;
    if dtype.is_int() || dtype.is_float() {
        Ok(dtype)
    } else {
        Err(Error::dtype(name, "takes integers and floats", [dtype]))
    }
}

fn with_indices(dtype: DType, shape: Shape) -> Result<Outputs> {
    Ok(smallvec![OutputMeta { dtype, shape: shape.clone() }, OutputMeta { dtype: DType::I64, shape }])
}

fn taps(window: &PoolWindow) -> u64 {
    window.kernel.iter().fold(1u64, |n, &k| n.saturating_mul(k as u64))
}
