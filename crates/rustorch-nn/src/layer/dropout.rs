//! Dropout.

use crate::{Layer, Training};
use rustorch_tensor::{Error, Result, Tensor};

/// While training, elements become zero with probability `p` and the others are divided by 1 − p, as `torch.nn.Dropout`.
///
/// Srivastava et al.: *Dropout: A Simple Way to Prevent Neural Networks from Overfitting*, 2014.
///
/// ```
/// use rustorch_nn::{Dropout, Layer, Module};
/// use rustorch_tensor::{DType, Tensor};
/// let (dropout, x) = (Dropout::new(0.5)?, Tensor::ones([100], DType::F32)?);
/// assert!(dropout.forward(&x)?.to_vec::<f32>()?.iter().all(|y| [0.0, 2.0].contains(y)));
/// dropout.eval();
/// assert_eq!(dropout.forward(&x)?.to_vec::<f32>()?, [1.0; 100]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct Dropout {
    p: f64,
    training: Training,
}

impl Dropout {
    /// # Errors
    /// If `p` is no probability.
    pub fn new(p: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument(
                "Dropout",
                format!("p must be a probability, from 0 to 1, and is {p}"),
            ));
        }
        Ok(Dropout { p, training: Training::default() })
    }
}

impl Layer for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.dropout(self.p, self.training.get())
    }
}
