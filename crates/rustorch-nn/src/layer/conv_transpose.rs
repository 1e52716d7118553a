//! Transposed convolutions.

use super::conv::{ConvNdOptions, ConvPadding, parameters};
use super::options::{
    ExpandingArray, expect_channels, expect_groups, kernel_shape, of_layer, spatial, spatial_name,
};
use super::padding::PaddingMode;
use crate::{ExtraRepr, Layer, Module, Parameter};
use rustorch_tensor::{ConvOptions, Error, Result, Tensor};

/// The gradient of a convolution with respect to its argument, plus a bias, as `torch.nn.ConvTranspose2d`: `[n, in_channels, size..] →
/// [n, out_channels, (size − 1)·stride − 2·padding + dilation·(kernel − 1) + output_padding + 1, ..]`, or without `n`.
///
/// `weight` and `bias` start uniformly within ±1/√(out_channels / groups · kernel).
///
/// Zeiler et al.: *Deconvolutional Networks*, 2010.
///
/// ```
/// use rustorch_nn::{ConvTranspose1d, ConvTranspose1dOptions, Layer, Module};
/// use rustorch_tensor::Tensor;
/// let conv = ConvTranspose1d::with(1, 1, 2, ConvTranspose1dOptions::default().stride(2).bias(false))?;
/// let weight = Tensor::new([[[1.0f32, 10.0]]])?;
/// conv.load_state_dict(&[("weight".to_owned(), weight)].into_iter().collect())?;
/// assert_eq!(conv.forward(&Tensor::new([[[2.0f32, 3.0]]])?)?.to_vec::<f32>()?, [2.0, 20.0, 3.0, 30.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(NAMES))]
#[module(extra_repr = Self::describe)]
pub struct ConvTranspose<const N: usize> {
    /// `[in_channels, out_channels / groups, kernel..]`
    pub weight: Parameter,
    /// `[out_channels]`
    pub bias: Option<Parameter>,
    #[module(skip)]
    options: ConvNdOptions<N>,
    #[module(skip)]
    call: ConvOptions,
}

const NAMES: [&str; 3] = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"];

/// A [`ConvTranspose`] over sequences.
pub type ConvTranspose1d = ConvTranspose<1>;
/// A [`ConvTranspose`] over images.
pub type ConvTranspose2d = ConvTranspose<2>;
/// A [`ConvTranspose`] over volumes.
pub type ConvTranspose3d = ConvTranspose<3>;
/// [`ConvNdOptions`] of [`ConvTranspose1d`].
pub type ConvTranspose1dOptions = ConvNdOptions<1>;
/// [`ConvNdOptions`] of [`ConvTranspose2d`].
pub type ConvTranspose2dOptions = ConvNdOptions<2>;
/// [`ConvNdOptions`] of [`ConvTranspose3d`].
pub type ConvTranspose3dOptions = ConvNdOptions<3>;

impl<const N: usize> ConvTranspose<N> {
    /// A transposed convolution with stride 1, a bias and no padding.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<ExpandingArray<N>>,
    ) -> Result<ConvTranspose<N>> {
        ConvTranspose::with(in_channels, out_channels, kernel_size, ConvNdOptions::default())
    }

    /// A transposed convolution.
    ///
    /// # Errors
    /// If channels are no multiple of groups, padding is `Same` or of another mode than zeros, the dtype is none of floats, or memory does
    /// not suffice.
    pub fn with(
        in_channels: usize,
        out_channels: usize,
        kernel_size: impl Into<ExpandingArray<N>>,
        options: ConvNdOptions<N>,
    ) -> Result<ConvTranspose<N>> {
        let name = spatial_name::<N>(NAMES);
        let groups = options.groups;
        expect_groups(name, "in_channels", in_channels, groups)?;
        expect_groups(name, "out_channels", out_channels, groups)?;
        let cut = match (options.padding, options.padding_mode) {
            (ConvPadding::Each(each), PaddingMode::Zeros) => each.0,
            (padding, mode) => {
                let message = format!("padding is a length and of zeros, not {padding:?} of {mode:?}");
                return Err(Error::argument(name, message));
            }
        };
        let shape = kernel_shape([in_channels, out_channels / groups], kernel_size.into().0)?;
        let (weight, bias) = parameters(&shape, out_channels, options.bias, options.tensor)?;
        let call = options.call().padding(cut).output_padding(options.output_padding.0);
        Ok(ConvTranspose { weight, bias, options, call })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        let channels = [weight.dims()[0], weight.dims()[1] * self.options.groups];
        self.options.describe(extra, channels, &weight.dims()[2..]);
    }
}

impl<const N: usize> Layer for ConvTranspose<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let name = self.type_name();
        let (weight, bias) = (self.weight.tensor(), self.bias.as_ref().map(Parameter::tensor));
        expect_channels(name, x, weight.dims()[0], N)?;
        let call = &self.call;
        spatial!(N, x, conv_transpose1d, conv_transpose2d, conv_transpose3d, (&weight, bias.as_ref(), call))
            .map_err(of_layer(name))
    }
}
