//! Softmax and normalisation.

use crate::binary::DEFAULT_FLOAT;
use crate::dispatch::{run, run_pair};
use crate::{IntoShape, Tensor};
use rustorch_core::{AddRmsNorm, DTypeKind, Error, LayerNorm, Op, Result, RmsNorm, Shape, Softmax};
use std::borrow::Cow;

impl Tensor {
    /// eˣ / Σ eˣ along a dimension. Integers give `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let y = Tensor::new([0.0f32, 0.0])?.softmax(-1)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn softmax(&self, dim: isize) -> Result<Tensor> {
        self.soft("softmax", dim, false)
    }

    /// The logarithm of [`softmax`](Self::softmax), computed without it.
    pub fn log_softmax(&self, dim: isize) -> Result<Tensor> {
        self.soft("log_softmax", dim, true)
    }

    fn soft(&self, name: &'static str, dim: isize, log: bool) -> Result<Tensor> {
        let axis = self.axis(name, dim)?;
        let x = match self.dtype().kind() {
            DTypeKind::Bool | DTypeKind::Int => Cow::Owned(self.to_dtype(DEFAULT_FLOAT)?),
            _ => Cow::Borrowed(self),
        };
        run(&Op::Softmax(Softmax { axis, log }), &[&x])
    }

    /// `(x − mean) / √(variance + eps) · weight + bias` over the trailing dimensions of `normalized_shape`, which is also
    /// the shape of weight and bias.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1.0f32, 3.0], [2.0, 2.0]])?;
    /// let y = x.layer_norm([2], None, None, 0.0)?;
    /// assert_eq!(y.narrow(0, 0, 1)?.to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the trailing dimensions are others, or the dtypes differ.
    pub fn layer_norm(
        &self,
        normalized_shape: impl IntoShape,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let shape = self.trailing("layer_norm", normalized_shape)?;
        let op = Op::LayerNorm(LayerNorm { dims: shape.ndim(), eps });
        match (weight, bias) {
            (None, None) => run(&op, &[self]),
            (Some(weight), None) => run(&op, &[self, weight]),
            (Some(weight), Some(bias)) => run(&op, &[self, weight, bias]),
            (None, Some(bias)) => run(&op, &[self, &bias.ones_like()?, bias]),
        }
    }

    /// `x / √(mean(x²) + eps) · weight` over the trailing dimensions of `normalized_shape`.
    ///
    /// # Errors
    /// As for [`layer_norm`](Self::layer_norm).
    pub fn rms_norm(
        &self,
        normalized_shape: impl IntoShape,
        weight: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let shape = self.trailing("rms_norm", normalized_shape)?;
        let op = Op::RmsNorm(RmsNorm { eps });
        if shape.ndim() == 1 {
            return match weight {
                Some(weight) => run(&op, &[self, weight]),
                None => run(&op, &[self]),
            };
        }
        // Several dimensions are normalised as one.
        let weight = flat_weight("rms_norm", self, &shape, weight)?;
        let flat = self.flatten((self.ndim() - shape.ndim()) as isize, -1)?;
        let out = match &weight {
            Some(weight) => run(&op, &[&flat, weight])?,
            None => run(&op, &[&flat])?,
        };
        out.reshape_to(self.shape().clone())
    }

    /// `self + other` and its [`rms_norm`](Self::rms_norm) in one pass, bit for bit what the two are one after the other:
    /// what a transformer does between its layers.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let (x, y) = (Tensor::new([[1.0f32, 6.0]])?, Tensor::new([[2.0f32, -2.0]])?);
    /// let (sum, normed) = x.add_rms_norm(&y, [2], None, 0.0)?;
    /// assert_eq!(sum.to_vec::<f32>()?, [3.0, 4.0]);
    /// assert_eq!(normed.to_vec::<f32>()?, sum.rms_norm([2], None, 0.0)?.to_vec::<f32>()?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`layer_norm`](Self::layer_norm), and if the two that are added differ in shape or dtype.
    pub fn add_rms_norm(
        &self,
        other: &Tensor,
        normalized_shape: impl IntoShape,
        weight: Option<&Tensor>,
        eps: f64,
    ) -> Result<(Tensor, Tensor)> {
        const NAME: &str = "add_rms_norm";
        let shape = self.trailing(NAME, normalized_shape)?;
        let op = Op::AddRmsNorm(AddRmsNorm { eps });
        if shape.ndim() == 1 {
            return match weight {
                Some(weight) => run_pair(&op, &[self, other, weight]),
                None => run_pair(&op, &[self, other]),
            };
        }
        // Several dimensions are normalised as one.
        let weight = flat_weight(NAME, self, &shape, weight)?;
        if other.shape() != self.shape() {
            let message = "what is added must have the same shape; expand it";
            return Err(Error::shape(NAME, message, [self.shape(), other.shape()]));
        }
        let first = (self.ndim() - shape.ndim()) as isize;
        let [x, y] = [self.flatten(first, -1)?, other.flatten(first, -1)?];
        let (sum, normed) = match &weight {
            Some(weight) => run_pair(&op, &[&x, &y, weight])?,
            None => run_pair(&op, &[&x, &y])?,
        };
        Ok((sum.reshape_to(self.shape().clone())?, normed.reshape_to(self.shape().clone())?))
    }

    /// Checks that a shape is that of the trailing dimensions.
    fn trailing(&self, op: &'static str, shape: impl IntoShape) -> Result<Shape> {
        let shape = shape.into_shape()?;
        if shape.ndim() != 0 && self.dims().ends_with(shape.dims()) {
            return Ok(shape);
        }
        Err(Error::shape(
            op,
            format!("the trailing dimensions are not {shape}, over which to normalise"),
            [self.shape()],
        ))
    }
}

/// A weight over several dimensions as one over a single one, after a look at its shape.
fn flat_weight(
    op: &'static str,
    x: &Tensor,
    shape: &Shape,
    weight: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    let Some(weight) = weight else { return Ok(None) };
    if weight.shape() != shape {
        let message = format!("the weight must have shape {shape}");
        return Err(Error::shape(op, message, [x.shape(), weight.shape()]));
    }
    weight.flatten(0, -1).map(Some)
}
