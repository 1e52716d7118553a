//! Convolutions.

use super::options::{
    ExpandingArray, expect_channels, expect_groups, kernel_shape, of_layer, options, spatial, spatial_name,
};
use super::padding::{PaddingMode, pad};
use crate::{ExtraRepr, Layer, Module, Parameter, init};
use rustorch_tensor::{ConvOptions, Error, Result, Tensor, TensorOptions};

/// How much is added at the ends of a convolution's argument: `1`, `[1, 2]`, `Same` or `Valid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvPadding<const N: usize> {
    /// As many elements at either end of each spatial dimension.
    Each(ExpandingArray<N>),
    /// None, PyTorch's `"valid"`.
    Valid,
    /// As many as keep the lengths, one more at the end where their number is odd: PyTorch's `"same"`. Needs stride 1.
    Same,
}

impl<const N: usize, T: Into<ExpandingArray<N>>> From<T> for ConvPadding<N> {
    fn from(each: T) -> ConvPadding<N> {
        ConvPadding::Each(each.into())
    }
}

options! {
    /// How a [`Conv`] or a [`ConvTranspose`](crate::ConvTranspose) is made: the optional arguments of `torch.nn.Conv2d` and
    /// `torch.nn.ConvTranspose2d` with their defaults.
    ConvNdOptions<const N> {
        /// The step of the kernel.
        stride: into ExpandingArray<N> = 1.into();
        /// Elements added at the ends of the argument; for transposed convolutions, what is cut off at the ends of the result.
        padding: into ConvPadding<N> = 0.into();
        /// The distance between the kernel's elements.
        dilation: into ExpandingArray<N> = 1.into();
        /// Into how many groups channels are parted, each of which sees itself only.
        groups: plain usize = 1;
        /// Whether it has a bias.
        bias: plain bool = true;
        /// What is added at the ends; transposed convolutions know zeros only.
        padding_mode: plain PaddingMode = PaddingMode::Zeros;
        /// Positions added to the end of a transposed convolution's result, which other convolutions do not have.
        output_padding: into ExpandingArray<N> = 0.into();
    }
}

impl<const N: usize> ConvNdOptions<N> {
    /// Arguments of the operation, without padding.
    pub(super) fn call(&self) -> ConvOptions {
        ConvOptions::new().stride(self.stride.0).dilation(self.dilation.0).groups(self.groups)
    }
}

impl<const N: usize> ConvNdOptions<N> {
    /// What PyTorch's convolutions say of themselves.
    pub(super) fn describe(&self, extra: &mut ExtraRepr, channels: [usize; 2], kernel: &[usize]) {
        extra.value(&channels[0]).value(&channels[1]).named("kernel_size", kernel);
        extra.named("stride", &self.stride.0);
        match self.padding {
            ConvPadding::Each(each) => extra.named_unless("padding", &each.0, &[0; N]),
            ConvPadding::Valid => extra.text("padding=valid"),
            ConvPadding::Same => extra.text("padding=same"),
        };
        extra.named_unless("dilation", &self.dilation.0, &[1; N]);
        extra.named_unless("output_padding", &self.output_padding.0, &[0; N]);
        extra.named_unless("groups", &self.groups, &1).named_unless("bias", &self.bias, &true);
        if self.padding_mode != PaddingMode::Zeros {
            extra.text(format_args!("padding_mode={}", self.padding_mode.name()));
        }
    }
}

/// Weight and bias, uniform within ±1/√fan_in, where fan_in is the number of weights behind the first dimension.
pub(super) fn parameters(
    shape: &rustorch_tensor::Shape,
    out_channels: usize,
    bias: bool,
    options: TensorOptions,
) -> Result<(Parameter, Option<Parameter>)> {
    let fan_in: usize = shape.dims()[1..].iter().product();
    let weight = init::default_parameter(shape, fan_in, options)?;
    let bias = match bias {
        true => Some(init::default_parameter([out_channels], fan_in, options)?),
        false => None,
    };
    Ok((weight, bias))
}

/// The cross-correlation of a kernel with `N` spatial dimensions, plus a bias, as `torch.nn.Conv2d`:
/// `[n, in_channels, size..] → [n, out_channels, (size + 2·padding − dilation·(kernel − 1) − 1) / stride + 1, ..]`, or without `n`.
///
/// `weight` and `bias` start uniformly within ±1/√(in_channels / groups · kernel).
///
/// ```
/// use rustorch_nn::{Conv2d, Conv2dOptions, Layer, Module};
/// use rustorch_tensor::{DType, Tensor};
/// let conv = Conv2d::with(1, 1, 2, Conv2dOptions::default().stride([1, 2]).bias(false))?;
/// let weight = Tensor::new([[[[1.0f32, 2.0], [3.0, 4.0]]]])?;
/// conv.load_state_dict(&[("weight".to_owned(), weight)].into_iter().collect())?;
/// let x = Tensor::new([[[[1.0f32, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]]])?;
/// assert_eq!(conv.forward(&x)?.to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(conv.type_name(), "Conv2d");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["Conv1d", "Conv2d", "Conv3d"]))]
#[module(extra_repr = Self::describe)]
pub struct Conv<const N: usize> {
    /// `[out_channels, in_channels / groups, kernel..]`
    pub weight: Parameter,
    /// `[out_channels]`
    pub bias: Option<Parameter>,
    in_channels: usize,
    #[module(skip)]
    options: ConvNdOptions<N>,
    #[module(skip)]
    call: ConvOptions,
    /// What the operation does not pad itself.
    #[module(skip)]
    pad: Option<(PaddingMode, Vec<(isize, isize)>)>,
}

/// A [`Conv`] over sequences.
pub type Conv1d = Conv<1>;
/// A [`Conv`] over images.
pub type Conv2d = Conv<2>;
/// A [`Conv`] over volumes.
pub type Conv3d = Conv<3>;
/// [`ConvNdOptions`] of [`Conv1d`].
pub type Conv1dOptions = ConvNdOptions<1>;
/// [`ConvNdOptions`] of [`Conv2d`].
pub type Conv2dOptions = ConvNdOptions<2>;
/// [`ConvNdOptions`] of [`Conv3d`].
pub type Conv3dOptions = ConvNdOptions<3>;

impl<const N: usize> Conv<N> {
    /// A convolution with stride 1, a bias and no padding.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<ExpandingArray<N>>,
    ) -> Result<Conv<N>> {
        Conv::with(in_channels, out_channels, kernel_size, ConvNdOptions::default())
    }

    /// A convolution.
    ///
    /// # Errors
    /// If channels are no multiple of groups, options are those of transposed convolutions, padding is `Same` with another stride than 1,
    /// the dtype is none of floats, or memory does not suffice.
    pub fn with(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<ExpandingArray<N>>,
        options: ConvNdOptions<N>,
    ) -> Result<Conv<N>> {
        let name = spatial_name::<N>(["Conv1d", "Conv2d", "Conv3d"]);
        let kernel = kernel_size.into().0;
        let groups = options.groups;
        expect_groups(name, "in_channels", in_channels, groups)?;
        expect_groups(name, "out_channels", out_channels, groups)?;
        if options.output_padding != 0.into() {
            return Err(Error::argument(name, "output_padding is for transposed convolutions"));
        }
        if options.padding == ConvPadding::Same && options.stride != 1.into() {
            let message = format!("padding `Same` needs stride 1, not {:?}", options.stride.0);
            return Err(Error::argument(name, message));
        }
        let sides: Vec<(usize, usize)> = match options.padding {
            ConvPadding::Valid => vec![(0, 0); N],
            ConvPadding::Each(each) => each.0.iter().map(|&n| (n, n)).collect(),
            ConvPadding::Same => (0..N)
                .map(|i| {
                    let total = options.dilation.0[i].saturating_mul(kernel[i].saturating_sub(1));
                    (total / 2, total - total / 2)
                })
                .collect(),
        };
        let (call, pad) = match options.padding_mode {
            PaddingMode::Zeros => (options.call().padding(sides), None),
            mode => {
                let sides = sides.iter().map(|&(before, after)| (before as isize, after as isize)).collect();
                (options.call(), Some((mode, sides)))
            }
        };
        let shape = kernel_shape([out_channels, in_channels / groups], kernel)?;
        let (weight, bias) = parameters(&shape, out_channels, options.bias, options.tensor)?;
        Ok(Conv { weight, bias, in_channels, options, call, pad })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        self.options.describe(extra, [self.in_channels, weight.dims()[0]], &weight.dims()[2..]);
    }
}

impl<const N: usize> Layer for Conv<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let name = self.type_name();
        expect_channels(name, x, self.in_channels, N)?;
        let padded = self.pad.as_ref().map(|(mode, sides)| pad(name, x, *mode, sides)).transpose()?;
        let x = padded.as_ref().unwrap_or(x);
        let (weight, bias) = (self.weight.tensor(), self.bias.as_ref().map(Parameter::tensor));
        spatial!(N, x, conv1d, conv2d, conv3d, (&weight, bias.as_ref(), &self.call)).map_err(of_layer(name))
    }
}
