//! A matrix of weights.

use crate::{ExtraRepr, Layer, Module, Parameter, init};
use rustorch_tensor::{Error, Result, Tensor, TensorOptions};

/// `x · weightᵀ + bias`, as `torch.nn.Linear`: `[.., in_features] → [.., out_features]`.
///
/// `weight: [out_features, in_features]` and `bias: [out_features]` start uniformly within ±1/√in_features.
///
/// ```
/// use rustorch_nn::{Layer, Linear, Module, StateDict};
/// use rustorch_tensor::Tensor;
/// let linear = Linear::new(2, 1)?;
/// let state = [("weight", Tensor::new([[3.0f32, 4.0]])?), ("bias", Tensor::new([0.5f32])?)];
/// linear.load_state_dict(&state.map(|(name, tensor)| (name.to_owned(), tensor)).into_iter().collect())?;
/// let y = linear.forward(&Tensor::new([[1.0f32, 1.0], [2.0, -1.0]])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [7.5, 2.5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct Linear {
    /// `[out_features, in_features]`
    pub weight: Parameter,
    /// `[out_features]`
    pub bias: Option<Parameter>,
}

/// How a [`Linear`] is made. By default it has a bias, and the default dtype on the device of new tensors.
#[derive(Clone, Copy, Debug)]
pub struct LinearOptions {
    bias: bool,
    tensor: TensorOptions,
}

impl Default for LinearOptions {
    fn default() -> LinearOptions {
        LinearOptions { bias: true, tensor: TensorOptions::default() }
    }
}

impl LinearOptions {
    /// Whether it has a bias.
    pub fn bias(self, bias: bool) -> LinearOptions {
        LinearOptions { bias, ..self }
    }

    /// Dtype and device of its parameters.
    pub fn tensor(self, options: impl Into<TensorOptions>) -> LinearOptions {
        LinearOptions { tensor: options.into(), ..self }
    }
}

impl Linear {
    /// A linear layer with a bias, of the default dtype on the device of new tensors.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(in_features: usize, out_features: usize) -> Result<Linear> {
        Linear::with(in_features, out_features, LinearOptions::default())
    }

    /// A linear layer.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn with(in_features: usize, out_features: usize, options: LinearOptions) -> Result<Linear> {
        let LinearOptions { bias, tensor } = options;
        let weight = init::default_parameter([out_features, in_features], in_features, tensor)?;
        let bias = match bias {
            true => Some(init::default_parameter([out_features], in_features, tensor)?),
            false => None,
        };
        Ok(Linear { weight, bias })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        extra.named("in_features", &weight.dims()[1]).named("out_features", &weight.dims()[0]);
        extra.named("bias", &self.bias.is_some());
    }
}

impl Layer for Linear {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.tensor();
        let in_features = weight.dims()[1];
        if x.dims().last() != Some(&in_features) {
            let message = format!("its last dimension must have {in_features} features");
            return Err(Error::shape(self.type_name(), message, [x.shape(), weight.shape()]));
        }
        x.linear(&weight, self.bias.as_ref().map(Parameter::tensor).as_ref())
    }
}
