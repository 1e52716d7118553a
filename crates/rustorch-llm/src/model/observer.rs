//! Seeing what linear layers are given, while a model runs.

use crate::Result;
use rustorch_tensor::Tensor;

/// Is shown the input of each linear layer before it runs. A layer whose weight is one tensor of the file with those of others shows it once.
pub(crate) trait LinearObserver {
    /// # Errors
    /// An error ends the forward pass.
    fn observe(&self, input: &LinearInput<'_>) -> Result<()>;
}

/// The input of a linear layer.
pub(crate) struct LinearInput<'a> {
    /// The weight's name in the file.
    pub(crate) weight: &'a str,
    /// `[rows, in]`; of several matrices `[rows, matrices of a row or 1, in]`.
    pub(crate) x: &'a Tensor,
    /// The matrices that rows are multiplied with.
    pub(crate) matrices: Matrices<'a>,
}

/// Which of a weight's matrices a row is multiplied with.
#[derive(Clone, Copy)]
pub(crate) enum Matrices<'a> {
    /// The only one.
    One,
    /// Each of so many, with a vector of its own or a shared one.
    Each(usize),
    /// Those of the experts `[rows, used]`, of so many.
    Chosen(&'a Tensor, usize),
}
