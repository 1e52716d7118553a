//! The inverse of maximum pooling.

use super::options::{ExpandingArray, of_layer, spatial_name};
use crate::Module;
use rustorch_tensor::autograd::{Function, FunctionContext, Gradients};
use rustorch_tensor::{Error, Result, Tensor};

/// Elements at the positions where a [`MaxPool`](crate::MaxPool) found them, and zeros elsewhere, as `torch.nn.MaxUnpool2d`:
/// `[n, c, size..] → [n, c, (size − 1) · stride − 2 · padding + kernel, ..]`, or without `n`.
///
/// ```
/// use rustorch_nn::{MaxPool1d, MaxUnpool1d};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[1.0f32, 5.0, 4.0, 2.0]])?;
/// let (y, indices) = MaxPool1d::new(2).forward_with_indices(&x)?;
/// assert_eq!(MaxUnpool1d::new(2).forward(&y, &indices)?.to_vec::<f32>()?, [0.0, 5.0, 4.0, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]))]
pub struct MaxUnpool<const N: usize> {
    #[module(skip, repr)]
    kernel_size: [usize; N],
    #[module(skip, repr)]
    stride: [usize; N],
    #[module(skip, repr)]
    padding: [usize; N],
}

/// [`MaxUnpool`] over `[n, c, l]`, or without `n`.
pub type MaxUnpool1d = MaxUnpool<1>;
/// [`MaxUnpool`] over `[n, c, h, w]`, or without `n`.
pub type MaxUnpool2d = MaxUnpool<2>;
/// [`MaxUnpool`] over `[n, c, d, h, w]`, or without `n`.
pub type MaxUnpool3d = MaxUnpool<3>;

/// Elements written to zeros at indices. Windows that overlap write one element several times; unlike that of `scatter`, the gradient goes to
/// each of them, as in PyTorch.
struct Unpool;

impl Function for Unpool {
    const NAME: &'static str = "max_unpool";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        cx.save(&[inputs[2]]);
        Ok(vec![inputs[1].scatter(-1, inputs[2], inputs[0])?])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None; 3]) };
        Ok(vec![Some(grad.gather(-1, grads.saved(0)?)?), None, None])
    }
}

impl<const N: usize> MaxUnpool<N> {
    /// The inverse of pooling with windows of this size, one after the other.
    pub fn new(kernel_size: impl Into<ExpandingArray<N>>) -> MaxUnpool<N> {
        let kernel_size = kernel_size.into().0;
        MaxUnpool { kernel_size, stride: kernel_size, padding: [0; N] }
    }

    /// The step from one window to the next.
    #[must_use]
    pub fn stride(self, stride: impl Into<ExpandingArray<N>>) -> MaxUnpool<N> {
        MaxUnpool { stride: stride.into().0, ..self }
    }

    /// The elements added at either end.
    #[must_use]
    pub fn padding(self, padding: impl Into<ExpandingArray<N>>) -> MaxUnpool<N> {
        MaxUnpool { padding: padding.into().0, ..self }
    }

    /// The result of the default size.
    ///
    /// # Errors
    /// If there are other dimensions, the indices have another shape, or one is outside of the result.
    #[rustorch_macros::observed]
    pub fn forward(&self, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
        self.expect(x, indices)?;
        let spatial = &x.dims()[x.ndim() - N..];
        let mut size = [0; N];
        for i in 0..N {
            let steps = spatial[i].saturating_sub(1).saturating_mul(self.stride[i]);
            let reach = steps.saturating_add(self.kernel_size[i]);
            size[i] = reach.saturating_sub(self.padding[i].saturating_mul(2));
        }
        self.forward_to(x, indices, size)
    }

    /// The result of a size: that of what was pooled, where windows left elements over.
    ///
    /// # Errors
    /// If there are other dimensions, the indices have another shape, or one is outside of the result.
    #[rustorch_macros::observed]
    pub fn forward_to(&self, x: &Tensor, indices: &Tensor, output_size: [usize; N]) -> Result<Tensor> {
        self.expect(x, indices)?;
        let unpool = || {
            let first = (x.ndim() - N) as isize;
            let leading = &x.dims()[..x.ndim() - N];
            let shape = [leading, &output_size].concat();
            let zeros = Tensor::zeros(&shape, (x.dtype(), x.device()))?.flatten(first, -1)?;
            let (flat, index) = (x.flatten(first, -1)?, indices.flatten(first, -1)?);
            Unpool.apply(&[&flat, &zeros, &index])?.remove(0).reshape(shape)
        };
        unpool().map_err(of_layer(self.type_name()))
    }

    fn expect(&self, x: &Tensor, indices: &Tensor) -> Result<()> {
        if matches!(x.ndim().checked_sub(N), Some(1 | 2)) && x.shape() == indices.shape() {
            return Ok(());
        }
        let message = format!(
            "takes {} dimensions, or {} without a batch, and indices of the same shape",
            N + 2,
            N + 1
        );
        Err(Error::shape(self.type_name(), message, [x.shape(), indices.shape()]))
    }
}
