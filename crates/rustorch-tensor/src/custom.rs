//! Custom operations on tensors.

use crate::{Tensor, dispatch};
use rustorch_core::{CustomOp, Op, Result};

impl Tensor {
    /// Runs a [custom op](CustomOp) and returns its results. It is placed like any operation: where its arguments are, unless the
    /// placement says otherwise, and on the next device where one cannot run it. Where a gradient is asked for it needs
    /// [one of its own](crate::autograd::CustomBackward).
    ///
    /// ```
    /// use rustorch_tensor::{CustomOp, OutputMeta, Tensor};
    /// let reverse = CustomOp::builder("reverse", 1)
    ///     .infer(|args, _| {
    ///         let [x] = args else { return Err("takes one tensor".into()) };
    ///         Ok(vec![OutputMeta { dtype: x.dtype, shape: x.shape().clone() }])
    ///     })
    ///     .cpu(|args, outs, _| {
    ///         let reversed = args[0].slice::<f32>()?.iter().rev();
    ///         outs[0].slice_mut::<f32>()?.iter_mut().zip(reversed).for_each(|(out, x)| *out = *x);
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// let [y] = &Tensor::custom(&reverse, &[&Tensor::new([1.0f32, 2.0, 3.0])?])?[..] else { unreachable!() };
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the op's `infer` refuses the arguments, if its CPU kernel fails or panics, if no device runs it, or if it would lose a gradient.
    pub fn custom(op: &CustomOp, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        dispatch::run_all(&Op::Custom(op.clone()), args).map(|results| results.into_iter().collect())
    }
}
