//! Interpolation.

use super::options::of_layer;
use crate::{ExtraRepr, Layer, Module};
use rustorch_tensor::{InterpolateOptions, InterpolationTarget, Result, Tensor};

/// Spatial dimensions of another size, as `torch.nn.Upsample`: `[n, c, l]`, `[n, c, h, w]` or `[n, c, d, h, w]`.
///
/// ```
/// use rustorch_nn::{Layer, Upsample};
/// use rustorch_tensor::{InterpolateOptions, Interpolation, Tensor};
/// let x = Tensor::new([[[0.0f32, 2.0]]])?;
/// let nearest = Upsample::new(InterpolateOptions::scale_factor(2.0));
/// assert_eq!(nearest.forward(&x)?.to_vec::<f32>()?, [0.0, 0.0, 2.0, 2.0]);
/// let linear = Upsample::new(InterpolateOptions::size(4).mode(Interpolation::Linear));
/// assert_eq!(linear.forward(&x)?.to_vec::<f32>()?, [0.0, 0.5, 1.5, 2.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct Upsample(#[module(skip)] InterpolateOptions);

impl Upsample {
    /// To a size or by a factor, with PyTorch's modes.
    pub fn new(options: InterpolateOptions) -> Upsample {
        Upsample(options)
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        match &self.0.target {
            InterpolationTarget::Size(size) => extra.named("size", size),
            InterpolationTarget::Factors(factors) => match factors.as_slice() {
                [one] => extra.named("scale_factor", one),
                each => extra.named("scale_factor", each),
            },
        };
        extra.named("mode", self.0.mode.name());
    }
}

impl Layer for Upsample {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.interpolate(&self.0).map_err(of_layer(self.type_name()))
    }
}
