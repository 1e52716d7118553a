//! Layers that change the shape only, or nothing.

use super::options::of_layer;
use crate::{Layer, Module};
use rustorch_tensor::{Result, Sizes, Tensor};

/// Dimensions joined to one, as `torch.nn.Flatten`: by default all but the first.
///
/// ```
/// use rustorch_nn::{Flatten, Layer};
/// use rustorch_tensor::{DType, Tensor};
/// let x = Tensor::ones([2, 3, 4, 5], DType::F32)?;
/// assert_eq!(Flatten::default().forward(&x)?.dims(), [2, 60]);
/// assert_eq!(Flatten::new(0, -2).forward(&x)?.dims(), [24, 5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct Flatten {
    #[module(repr)]
    start_dim: isize,
    #[module(repr)]
    end_dim: isize,
}

impl Flatten {
    /// Joins a dimension, all up to another, and that one. Both may count from the end.
    pub fn new(start_dim: isize, end_dim: isize) -> Flatten {
        Flatten { start_dim, end_dim }
    }
}

impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new(1, -1)
    }
}

impl Layer for Flatten {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.flatten(self.start_dim, self.end_dim).map_err(of_layer(self.type_name()))
    }
}

/// A dimension parted into several, as `torch.nn.Unflatten`. One length may be −1, to be found out.
///
/// ```
/// use rustorch_nn::{Layer, Unflatten};
/// use rustorch_tensor::{DType, Tensor};
/// let x = Tensor::ones([2, 60], DType::F32)?;
/// assert_eq!(Unflatten::new(1, [3, -1, 5]).forward(&x)?.dims(), [2, 3, 4, 5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct Unflatten {
    #[module(repr)]
    dim: isize,
    #[module(skip, repr)]
    unflattened_size: Sizes,
}

impl Unflatten {
    /// Parts a dimension, which may count from the end.
    pub fn new(dim: isize, unflattened_size: impl Into<Sizes>) -> Unflatten {
        Unflatten { dim, unflattened_size: unflattened_size.into() }
    }
}

impl Layer for Unflatten {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.unflatten(self.dim, self.unflattened_size.clone()).map_err(of_layer(self.type_name()))
    }
}

/// The argument itself, as `torch.nn.Identity`.
///
/// ```
/// use rustorch_nn::{Identity, Layer};
/// use rustorch_tensor::Tensor;
/// assert_eq!(Identity.forward(&Tensor::new([1i64, 2])?)?.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, rustorch_macros::Module)]
pub struct Identity;

impl Layer for Identity {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}
