//! A bilinear form.

use super::options::{of_layer, options};
use crate::{ExtraRepr, Module, Parameter, init};
use rustorch_tensor::{Error, Result, Tensor};

options! {
    /// How a [`Bilinear`] is made: the optional arguments of `torch.nn.Bilinear` with their defaults.
    BilinearOptions {
        /// Whether it has a bias.
        bias: plain bool = true;
    }
}

/// `yₖ = x₁ᵀ · weightₖ · x₂ + biasₖ`, as `torch.nn.Bilinear`: `[.., in1_features]` and `[.., in2_features]` → `[.., out_features]`.
///
/// `weight` and `bias` start uniformly within ±1/√in1_features.
///
/// ```
/// use rustorch_nn::{Bilinear, BilinearOptions, Module};
/// use rustorch_tensor::Tensor;
/// let bilinear = Bilinear::with(2, 2, 1, BilinearOptions::default().bias(false))?;
/// let weight = Tensor::new([[[1.0f32, 2.0], [3.0, 4.0]]])?;
/// bilinear.load_state_dict(&[("weight".to_owned(), weight)].into_iter().collect())?;
/// let y = bilinear.forward(&Tensor::new([[1.0f32, 10.0]])?, &Tensor::new([[1.0f32, -1.0]])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [-11.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct Bilinear {
    /// `[out_features, in1_features, in2_features]`
    pub weight: Parameter,
    /// `[out_features]`
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// A form with a bias.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(in1_features: usize, in2_features: usize, out_features: usize) -> Result<Bilinear> {
        Bilinear::with(in1_features, in2_features, out_features, BilinearOptions::default())
    }

    /// A form.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn with(
        in1_features: usize,
        in2_features: usize,
        out_features: usize,
        options: BilinearOptions,
    ) -> Result<Bilinear> {
        let uniform = |shape: &[usize]| init::default_parameter(shape, in1_features, options.tensor);
        let weight = uniform(&[out_features, in1_features, in2_features])?;
        let bias = if options.bias { Some(uniform(&[out_features])?) } else { None };
        Ok(Bilinear { weight, bias })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let weight = self.weight.tensor();
        let [out, in1, in2] = [0, 1, 2].map(|i| weight.dims()[i]);
        extra.named("in1_features", &in1).named("in2_features", &in2).named("out_features", &out);
        extra.named("bias", &self.bias.is_some());
    }

    /// The form of two tensors of the same leading dimensions.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let weight = self.weight.tensor();
        let [out, in1, in2] = [0, 1, 2].map(|i| weight.dims()[i]);
        let leading = |x: &Tensor| x.dims().split_last().map(|(_, leading)| leading.to_vec());
        if x1.dims().last() != Some(&in1) || x2.dims().last() != Some(&in2) || leading(x1) != leading(x2) {
            let message = format!("takes [.., {in1}] and [.., {in2}] with the same leading dimensions");
            return Err(Error::shape(self.type_name(), message, [x1.shape(), x2.shape()]));
        }
        let forward = || {
            let mut shape = x1.dims().to_vec();
            shape.pop();
            let n = shape.iter().product::<usize>();
            // weightₖ · x₂ of all k is one matmul.
            let right = x2.reshape([n, in2])?.linear(&weight.reshape([out * in1, in2])?, None)?;
            let y = right.reshape([n, out, in1])?.matmul(&x1.reshape([n, in1, 1])?)?;
            shape.push(out);
            let y = y.reshape(shape)?;
            match &self.bias {
                Some(bias) => y.add(&bias.tensor()),
                None => Ok(y),
            }
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
