//! Convolutions over one, two or three trailing dimensions, transposed ones, and the gradients of both.

use crate::args::Sizes;
use crate::dispatch::run;
use crate::{IntoShape, Tensor};
use rustorch_core::{Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, Dims, Error, Op, Result, Shape};
use smallvec::SmallVec;

/// How much is added at the ends of a convolution's input: a number for all ends, one for each dimension, `Padding::Same`,
/// or a pair for the two ends of each dimension.
#[derive(Clone, Debug)]
pub enum Padding {
    /// As many zeros at either end, one number for all dimensions or one for each.
    Zeros(Sizes),
    /// For each dimension, zeros before and after.
    Sides(Vec<(usize, usize)>),
    /// None: PyTorch's `"valid"`.
    Valid,
    /// As many as keep the length, one more at the end where their number is odd: PyTorch's `"same"`. Needs stride 1.
    Same,
}

macro_rules! padding_from {
    ($([$($generics:tt)*] $ty:ty;)*) => {$(
        impl<$($generics)*> From<$ty> for Padding {
            fn from(zeros: $ty) -> Padding {
                Padding::Zeros(zeros.into())
            }
        }
    )*};
}

padding_from! {
    [] usize;
    [] i32;
    [const N: usize] [usize; N];
    [const N: usize] [i32; N];
    [] &[usize];
    [] Vec<usize>;
    [] Sizes;
}

impl From<Vec<(usize, usize)>> for Padding {
    fn from(sides: Vec<(usize, usize)>) -> Padding {
        Padding::Sides(sides)
    }
}

impl<const N: usize> From<[(usize, usize); N]> for Padding {
    fn from(sides: [(usize, usize); N]) -> Padding {
        Padding::Sides(sides.to_vec())
    }
}

/// The optional arguments of convolutions and transposed convolutions, with PyTorch's names and defaults. Stride, padding,
/// dilation and output padding are one number, or one for each dimension.
///
/// ```
/// # use rustorch_tensor::{ConvOptions, Tensor};
/// let x = Tensor::new([[1.0f32, 2.0, 3.0, 4.0]])?;
/// let weight = Tensor::new([[[1.0f32, 10.0]]])?;
/// let y = x.conv1d(&weight, None, &ConvOptions::new().stride(2))?;
/// assert_eq!(y.to_vec::<f32>()?, [21.0, 43.0]);
/// let z = y.conv_transpose1d(&weight, None, &ConvOptions::new().stride(2))?;
/// assert_eq!(z.to_vec::<f32>()?, [21.0, 210.0, 43.0, 430.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConvOptions {
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: usize,
    output_padding: Sizes,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions::new()
    }
}

impl ConvOptions {
    /// Stride and dilation 1, no padding, one group.
    pub fn new() -> ConvOptions {
        ConvOptions {
            stride: 1usize.into(),
            padding: Padding::Valid,
            dilation: 1usize.into(),
            groups: 1,
            output_padding: 0usize.into(),
        }
    }

    /// The step of the kernel.
    pub fn stride(mut self, stride: impl Into<Sizes>) -> ConvOptions {
        self.stride = stride.into();
        self
    }

    /// Zeros at the ends of the input; for transposed convolutions, what is cut off at the ends of the output.
    pub fn padding(mut self, padding: impl Into<Padding>) -> ConvOptions {
        self.padding = padding.into();
        self
    }

    /// The distance between taps of the kernel.
    pub fn dilation(mut self, dilation: impl Into<Sizes>) -> ConvOptions {
        self.dilation = dilation.into();
        self
    }

    /// Into how many groups channels are parted, each of which sees itself only.
    pub fn groups(mut self, groups: usize) -> ConvOptions {
        self.groups = groups;
        self
    }

    /// Positions added to the end of a transposed convolution's output: fewer than the larger of stride and dilation.
    pub fn output_padding(mut self, output_padding: impl Into<Sizes>) -> ConvOptions {
        self.output_padding = output_padding.into();
        self
    }

    /// The parameters for a kernel of these lengths.
    fn params(&self, op: &'static str, kernel: &[usize]) -> Result<ConvParams> {
        let n = kernel.len();
        let (stride, dilation) =
            (per_axis(&self.stride, op, "stride", n)?, per_axis(&self.dilation, op, "dilation", n)?);
        let padding = match &self.padding {
            Padding::Valid => SmallVec::from_elem((0, 0), n),
            Padding::Zeros(zeros) => {
                per_axis(zeros, op, "padding", n)?.iter().map(|&zeros| (zeros, zeros)).collect()
            }
            Padding::Sides(sides) if sides.len() == n => sides.iter().copied().collect(),
            Padding::Sides(sides) => {
                return Err(Error::argument(
                    op,
                    format!("padding has {} pairs for {n} spatial dimensions", sides.len()),
                ));
            }
            Padding::Same => {
                if stride.iter().any(|&step| step != 1) {
                    return Err(Error::argument(
                        op,
                        format!("padding `Same` needs stride 1, not {:?}", &stride[..]),
                    ));
                }
                let total = |(&taps, &step): (&usize, &usize)| taps.saturating_sub(1).saturating_mul(step);
                let total = kernel.iter().zip(&dilation).map(total);
                total.map(|total| (total / 2, total - total / 2)).collect()
            }
        };
        Ok(ConvParams { stride, padding, dilation, groups: self.groups })
    }
}

/// One number for each of `n` dimensions.
fn per_axis(sizes: &Sizes, op: &'static str, what: &str, n: usize) -> Result<Dims> {
    let list: Option<Dims> = sizes.0.iter().map(|&size| usize::try_from(size).ok()).collect();
    match list {
        Some(list) if list.len() == n => Ok(list),
        Some(list) if list.len() == 1 => Ok(Dims::from_elem(list[0], n)),
        Some(list) => {
            Err(Error::argument(op, format!("{what} has {} entries for {n} spatial dimensions", list.len())))
        }
        None => Err(Error::argument(op, format!("{what} {:?} must not be negative", &sizes.0[..]))),
    }
}

macro_rules! convolutions {
    ($($n:literal, $dims:literal: $conv:ident $transposed:ident;)*) => {$(
        impl Tensor {
            #[doc = concat!("The convolution over ", $dims, ", as `torch.nn.functional.", stringify!($conv), "`.")]
            ///
            /// For `x: [n, c_in, size..]` (or without `n`), `weight: [c_out, c_in / groups, kernel..]` and `bias: [c_out]`
            /// the result is `[n, c_out, (size + padding − dilation · (kernel − 1) − 1) / stride + 1, ..]`. As in PyTorch the
            /// kernel is not flipped. Floats and complex numbers; 16-bit floats are summed in `f32`.
            ///
            /// # Errors
            /// If shapes, dtypes or options do not fit.
            pub fn $conv(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Result<Tensor> {
                self.convolve(stringify!($conv), $n, weight, bias, options)
            }

            #[doc = concat!("The transposed convolution over ", $dims, ", as `torch.nn.functional.", stringify!($transposed), "`: the gradient of a convolution with respect to its input.")]
            ///
            /// For `x: [n, c_in, size..]` (or without `n`), `weight: [c_in, c_out / groups, kernel..]` and `bias: [c_out]`
            /// the result is `[n, c_out, (size − 1) · stride − padding + dilation · (kernel − 1) + output_padding + 1, ..]`.
            ///
            /// # Errors
            /// If shapes, dtypes or options do not fit.
            pub fn $transposed(
                &self,
                weight: &Tensor,
                bias: Option<&Tensor>,
                options: &ConvOptions,
            ) -> Result<Tensor> {
                self.convolve_transposed(stringify!($transposed), $n, weight, bias, options)
            }
        }
    )*};
}

convolutions! {
    1, "one dimension": conv1d conv_transpose1d;
    2, "two dimensions": conv2d conv_transpose2d;
    3, "three dimensions": conv3d conv_transpose3d;
}

impl Tensor {
    /// The gradient of a convolution with respect to its input, as `torch.nn.grad.conv2d_input`: for an input of shape
    /// `input_size: [n, c_in, size..]`, from the weight and the gradient of the convolution's result.
    ///
    /// ```
    /// # use rustorch_tensor::{ConvOptions, DType, Tensor};
    /// let weight = Tensor::new([[[1.0f32, 10.0]]])?;
    /// let grad = Tensor::ones([1, 1, 2], DType::F32)?;
    /// let dx = Tensor::conv_input_gradient([1, 1, 3], &weight, &grad, &ConvOptions::new())?;
    /// assert_eq!(dx.to_vec::<f32>()?, [1.0, 11.0, 10.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes, dtypes or options do not fit.
    pub fn conv_input_gradient(
        input_size: impl IntoShape,
        weight: &Tensor,
        grad_output: &Tensor,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        const NAME: &str = "conv_input_gradient";
        let size = input_size.into_shape()?;
        let params = gradient_params(NAME, &size, weight.shape(), grad_output, options)?;
        let op = Op::from(ConvBackwardData { params, size: size[2..].into() });
        let out = run(&op, &[grad_output, &weight.conj()?])?;
        if out.shape() == &size {
            return Ok(out);
        }
        Err(Error::shape(
            NAME,
            "weight and gradient do not belong to an input of the first shape",
            [&size, weight.shape(), grad_output.shape()],
        ))
    }

    /// The gradient of a convolution with respect to its weight, as `torch.nn.grad.conv2d_weight`: for a weight of shape
    /// `weight_size: [c_out, c_in / groups, kernel..]`, from the input and the gradient of the convolution's result.
    ///
    /// ```
    /// # use rustorch_tensor::{ConvOptions, DType, Tensor};
    /// let x = Tensor::new([[[1.0f32, 2.0, 3.0]]])?;
    /// let grad = Tensor::ones([1, 1, 2], DType::F32)?;
    /// let dw = Tensor::conv_weight_gradient(&x, [1, 1, 2], &grad, &ConvOptions::new())?;
    /// assert_eq!(dw.to_vec::<f32>()?, [3.0, 5.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes, dtypes or options do not fit.
    pub fn conv_weight_gradient(
        input: &Tensor,
        weight_size: impl IntoShape,
        grad_output: &Tensor,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        const NAME: &str = "conv_weight_gradient";
        let size = weight_size.into_shape()?;
        let params = gradient_params(NAME, input.shape(), &size, grad_output, options)?;
        let op = Op::from(ConvBackwardWeight { params, kernel: size[2..].into() });
        let out = run(&op, &[&input.conj()?, grad_output])?;
        if out.shape() == &size {
            return Ok(out);
        }
        Err(Error::shape(
            NAME,
            "input and gradient do not belong to a weight of the second shape",
            [input.shape(), &size, grad_output.shape()],
        ))
    }

    fn convolve(
        &self,
        name: &'static str,
        n: usize,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        let kernel = self.kernel(name, n, weight)?;
        if options.output_padding.0.iter().any(|&more| more != 0) {
            return Err(Error::argument(name, "output_padding is for transposed convolutions"));
        }
        let params = options.params(name, kernel)?;
        self.batched(n, |x| call(&Op::from(Conv { params, activation: None }), x, weight, bias))
    }

    fn convolve_transposed(
        &self,
        name: &'static str,
        n: usize,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        let kernel = self.kernel(name, n, weight)?;
        if matches!(options.padding, Padding::Same) {
            return Err(Error::argument(name, "padding `Same` is for convolutions that are not transposed"));
        }
        let params = options.params(name, kernel)?;
        let more = per_axis(&options.output_padding, name, "output_padding", n)?;
        let full = ConvParams { padding: SmallVec::from_elem((0, 0), n), ..params.clone() };
        let mut size = Dims::new();
        for axis in 0..n {
            let len = self.dims()[self.ndim() - n + axis];
            if more[axis] >= params.stride[axis].max(params.dilation[axis]) {
                return Err(Error::argument(
                    name,
                    format!(
                        "output_padding {} must be smaller than stride {} or dilation {}",
                        more[axis], params.stride[axis], params.dilation[axis]
                    ),
                ));
            }
            let (before, after) = params.padding[axis];
            let out = full.input_len(axis, len, kernel[axis]).and_then(|out| out.checked_add(more[axis]));
            let out = out.and_then(|out| out.checked_sub(before.checked_add(after)?)).filter(|&out| out != 0);
            size.push(out.ok_or_else(|| {
                Error::shape(
                    name,
                    format!("along spatial dimension {axis}, the result would have no positions"),
                    [self.shape(), weight.shape()],
                )
            })?);
        }
        let op = Op::from(ConvBackwardData { params, size });
        self.batched(n, |x| call(&op, x, weight, bias))
    }

    /// The lengths of a kernel, after checking the ranks of an input and its weight.
    fn kernel<'w>(&self, name: &'static str, n: usize, weight: &'w Tensor) -> Result<&'w [usize]> {
        if weight.ndim() == n + 2 && (self.ndim() == n + 2 || self.ndim() == n + 1) {
            return Ok(&weight.dims()[2..]);
        }
        Err(Error::shape(
            name,
            format!(
                "takes an input of {} dimensions, or {} for a single one, and a weight of {}",
                n + 2,
                n + 1,
                n + 2
            ),
            [self.shape(), weight.shape()],
        ))
    }

    /// Runs on a batch, which a single input makes alone.
    fn batched(&self, n: usize, run: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        if self.ndim() == n + 2 { run(self) } else { run(&self.unsqueeze(0)?)?.squeeze(0) }
    }
}

/// The parameters of a convolution of these shapes, whose ranks are checked.
fn gradient_params(
    name: &'static str,
    input: &Shape,
    weight: &Shape,
    grad_output: &Tensor,
    options: &ConvOptions,
) -> Result<ConvParams> {
    let ndim = input.ndim();
    if !(3..=5).contains(&ndim) || weight.ndim() != ndim || grad_output.ndim() != ndim {
        return Err(Error::shape(
            name,
            "takes an input [n, c_in, size..], a weight [c_out, c_in / groups, kernel..] and a gradient [n, c_out, out..] \
             with one to three spatial dimensions",
            [input, weight, grad_output.shape()],
        ));
    }
    options.params(name, &weight[2..])
}

fn call(op: &Op, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    match bias {
        Some(bias) => run(op, &[x, weight, bias]),
        None => run(op, &[x, weight]),
    }
}
