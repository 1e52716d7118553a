//! Checks of values.

use crate::Tensor;
use crate::dispatch::run;
use rustorch_core::{Assert, Op, Result};

impl Tensor {
    /// A copy of this condition, a `Bool`, if all of it is true, as `torch._assert_async`. In a captured function it stands where Rust would branch: a
    /// run in which the condition does not hold is an error, and leaves states as they were.
    ///
    /// ```
    /// use rustorch_tensor::{DType, Tensor, TensorSpec, capture};
    /// let program = capture(&[TensorSpec::new([2], DType::F32)?], |x| {
    ///     x[0].isfinite()?.assert("the input is not finite")?;
    ///     Ok(vec![x[0].exp()?])
    /// })?;
    /// assert!(program.run(&[&Tensor::new([1.0f32, 2.0])?]).is_ok());
    /// let error = program.run(&[&Tensor::new([1.0, f32::NAN])?]).unwrap_err();
    /// assert!(error.to_string().contains("the input is not finite"));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// One with the message if an element is false; and if the condition is of another dtype.
    pub fn assert(&self, message: &str) -> Result<Tensor> {
        run(&Op::Assert(Assert { message: message.into() }), &[self])
    }
}
