//! Matrix multiplication.

use crate::Tensor;
use crate::autograd::autocast;
use crate::dispatch::{run, run_into};
use rustorch_core::{DType, Dims, Error, IntMm, MatMul, MulMatId, Numerics, Op, Result, Shape, UnaryOp};
use std::borrow::Cow;

/// The matmul that rounds neither operand.
const MATMUL: MatMul = MatMul { activation: None, numerics: Numerics::F32, batch_invariant: false };

impl Tensor {
    /// The matmul, as `torch.matmul`: vectors count as a row on the left and a column on the right, and leading
    /// dimensions broadcast.
    ///
    /// Both have one dtype; or this one is `F32` and the other, as the transposed view of an `[n, k]` matrix, of a block type,
    /// whose dequantized values are multiplied and summed in `F32`. Neither operand is rounded; [`linear`](Self::linear) and
    /// [`linear_with`](Self::linear_with) take weights by ggml's roundings.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let v = Tensor::new([1.0f32, -1.0])?;
    /// assert_eq!(a.matmul(&v)?.to_vec::<f32>()?, [-1.0, -1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the inner dimensions differ, an operand is a scalar, or the dtypes do not fit.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_one_dtype("matmul", other, "convert one with to_dtype")?;
        if self.ndim() == 2 && other.ndim() == 2 {
            return run(&Op::MatMul(MATMUL), &[self, other]);
        }
        let (a, b) = matrices(self, other)?;
        let mut out = matmul_of_matrices(&a, &b, None, &MATMUL)?;
        if self.ndim() == 1 {
            out = out.squeeze(-2)?;
        }
        if other.ndim() == 1 {
            out = out.squeeze(-1)?;
        }
        Ok(out)
    }

    /// The matmul of two tensors of `I8`, summed in `I32`, as `torch._int_mm`; leading dimensions broadcast. Sums beyond `I32` wrap.
    /// ([`matmul`](Self::matmul) gives `I8`, wrapping.) There are kernels for the CPU only.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let a = Tensor::new([[100i8, 100], [-128, 127]])?;
    /// let product = a.int_mm(&a.t()?)?;
    /// assert_eq!(product.dtype(), DType::I32);
    /// assert_eq!(product.to_vec::<i32>()?, [20000, -100, -100, 32513]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the inner dimensions differ, an operand has fewer than two dimensions, or another dtype than `I8`.
    pub fn int_mm(&self, other: &Tensor) -> Result<Tensor> {
        run(&Op::IntMm(IntMm), &[self, other])
    }

    /// As [`matmul`](Self::matmul), written to `out`, which has the result's shape and dtype.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let out = Tensor::zeros([2, 2, 2], DType::F32)?;
    /// a.matmul_into(&a, &out.select(0, 1)?)?;
    /// assert_eq!(out.to_vec::<f32>()?, [0.0, 0.0, 0.0, 0.0, 7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`matmul`](Self::matmul); and if `out` has another shape or dtype, is read-only, or reaches an element twice.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn matmul_into(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        self.expect_one_dtype("matmul", other, "convert one with to_dtype")?;
        let (a, b) = matrices(self, other)?;
        let mut place = Cow::Borrowed(out);
        if other.ndim() == 1 {
            place = Cow::Owned(place.unsqueeze(-1)?);
        }
        if self.ndim() == 1 {
            place = Cow::Owned(place.unsqueeze(-2)?);
        }
        let op = Op::MatMul(MATMUL);
        if let Some(rows) = as_rows(&a, &b)?
            && let Some((n, lead)) = place.dims().split_last()
            && *lead == a.dims()[..a.ndim() - 1]
        {
            let flat = Shape::new([rows[0], *n].as_slice())?;
            if place.has_view(&flat)? {
                return run_into(&op, &[&a.reshape_to(rows)?, &b], &place.reshape_to(flat)?);
            }
        }
        run_into(&op, &[&a, &b], &place)
    }

    /// The product of two matrices.
    ///
    /// # Errors
    /// If they are not matrices, and as for [`matmul`](Self::matmul).
    pub fn mm(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ndims("mm", 2, other, 2)?;
        self.matmul(other)
    }

    /// Batched matmul of two equally long batches of matrices.
    ///
    /// # Errors
    /// If they are not `[b, m, k]` and `[b, k, n]`, and as for [`matmul`](Self::matmul).
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ndims("bmm", 3, other, 3)?;
        if self.dims()[0] != other.dims()[0] {
            return Err(Error::shape("bmm", "the batches differ in length", [self.shape(), other.shape()]));
        }
        self.matmul(other)
    }

    /// Matrix-vector multiplication.
    ///
    /// # Errors
    /// If they are not, and as for [`matmul`](Self::matmul).
    pub fn mv(&self, vector: &Tensor) -> Result<Tensor> {
        self.expect_ndims("mv", 2, vector, 1)?;
        self.matmul(vector)
    }

    /// The inner product of two vectors: a 0-d tensor.
    ///
    /// # Errors
    /// If they are not, and as for [`matmul`](Self::matmul).
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ndims("dot", 1, other, 1)?;
        self.matmul(other)
    }

    /// The products of each element of one vector with each of another.
    ///
    /// # Errors
    /// If they are not vectors.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ndims("outer", 1, other, 1)?;
        self.unsqueeze(1)?.mul(&other.unsqueeze(0)?)
    }

    /// `x · weightᵀ + bias`: a fully connected layer, for `x: [.., in]`, `weight: [out, in]`, `bias: [out]`.
    ///
    /// `x` and the weight have one dtype; or the weight is of a block type, and `x` is rounded as ggml rounds it
    /// ([`Numerics::Ggml`]). 16-bit activations go through `F32` to meet a block type, and the result has their dtype again.
    /// The bias is converted to the dtype of the result.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, QuantType, Tensor};
    /// let weight = Tensor::ones([2, 32], DType::F32)?.to_dtype(DType::Quant(QuantType::Q8_0))?;
    /// let y = Tensor::ones(32, DType::F32)?.linear(&weight, None)?;
    /// assert!(y.allclose(&Tensor::new([32.0f32, 32.0])?, 1e-2, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes or dtypes do not fit.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.linear_activated(weight, bias, None)
    }

    /// As [`linear`](Self::linear), with a function applied to each element of the result in the same pass.
    pub fn linear_activated(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        activation: Option<UnaryOp>,
    ) -> Result<Tensor> {
        self.expect_one_dtype(
            "linear",
            weight,
            "convert one with to_dtype, or say by linear_with how to round",
        )?;
        self.fully_connected(
            weight,
            bias,
            &MatMul { activation, numerics: Numerics::Ggml, batch_invariant: false },
        )
    }

    /// As [`linear`](Self::linear), with weights of `F16`, `BF16` or a block type under `F32` multiplied by the numerics that
    /// are given.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Numerics, Tensor};
    /// let weight = Tensor::ones([2, 32], DType::F16)?;
    /// let x = Tensor::full(32, 1.0 + 1.0 / 65536.0, DType::F32)?;
    /// assert_eq!(x.linear_with(&weight, None, Numerics::Ggml)?.to_vec::<f32>()?, [32.0, 32.0]);
    /// assert!(x.linear_with(&weight, None, Numerics::F32)?.to_vec::<f32>()?[0] > 32.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`linear`](Self::linear).
    pub fn linear_with(&self, weight: &Tensor, bias: Option<&Tensor>, numerics: Numerics) -> Result<Tensor> {
        self.fully_connected(weight, bias, &MatMul { numerics, ..MatMul::default() })
    }

    /// As [`linear_with`](Self::linear_with), with results of which no bit depends on how many rows there are or what the others hold,
    /// and which are the same on every call: other matmuls of dense matrices a device may leave to its vendor's library,
    /// which promises neither.
    ///
    /// # Errors
    /// As for [`linear`](Self::linear).
    pub fn linear_batch_invariant(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        numerics: Numerics,
    ) -> Result<Tensor> {
        self.fully_connected(weight, bias, &MatMul { activation: None, numerics, batch_invariant: true })
    }

    fn fully_connected(&self, weight: &Tensor, bias: Option<&Tensor>, op: &MatMul) -> Result<Tensor> {
        if weight.ndim() != 2 || self.ndim() == 0 {
            return Err(Error::shape(
                "linear",
                "takes x [.., in] and a weight [out, in]",
                [self.shape(), weight.shape()],
            ));
        }
        if weight.dtype().is_quant() && matches!(self.dtype(), DType::F16 | DType::BF16) {
            let wide = self.to_dtype(DType::F32)?;
            return wide.fully_connected(weight, bias, op)?.to_dtype(self.dtype());
        }
        let bias = match bias {
            Some(bias) if bias.dtype() != self.dtype() => Some(Cow::Owned(bias.to_dtype(self.dtype())?)),
            other => other.map(Cow::Borrowed),
        };
        let x = if self.ndim() == 1 { Cow::Owned(self.unsqueeze(0)?) } else { Cow::Borrowed(self) };
        let out = matmul_of_matrices(&x, &weight.t()?, bias.as_deref(), op)?;
        if self.ndim() == 1 { out.squeeze(0) } else { Ok(out) }
    }

    /// Rows times the matrices that they chose: for `x: [t, k or 1, in]`, `weights: [experts, out, in]` and integer
    /// `ids: [t, k]`, row `(t, k)` of the result `[t, k, out]` is `x[t, k] · weights[ids[t, k]]ᵀ`. Experts that nobody
    /// chose are not touched. `numerics` as for [`linear_with`](Self::linear_with).
    ///
    /// # Errors
    /// If shapes or dtypes do not fit, or an id is out of range.
    pub fn mul_mat_id(&self, weights: &Tensor, ids: &Tensor, numerics: Numerics) -> Result<Tensor> {
        run(&Op::MulMatId(MulMatId { numerics }), &[self, weights, &*ids.to_index("mul_mat_id")?])
    }

    /// Refuses two different dense dtypes.
    #[inline]
    pub(crate) fn expect_one_dtype(
        &self,
        op: &'static str,
        other: &Tensor,
        advice: &'static str,
    ) -> Result<()> {
        let dtypes = [self.dtype(), other.dtype()];
        if dtypes[0] == dtypes[1] || dtypes[1].is_quant() || autocast::is_active() {
            return Ok(());
        }
        Err(Error::dtype(op, format!("the operands' dtypes differ; {advice}"), dtypes))
    }

    pub(crate) fn expect_ndims(
        &self,
        op: &'static str,
        ndim: usize,
        other: &Tensor,
        other_ndim: usize,
    ) -> Result<()> {
        if self.ndim() == ndim && other.ndim() == other_ndim {
            return Ok(());
        }
        Err(Error::shape(
            op,
            format!("takes tensors of {ndim} and {other_ndim} dimensions; matmul takes others"),
            [self.shape(), other.shape()],
        ))
    }
}

/// Operands of two dimensions or more: a vector on the left is a row, one on the right a column.
fn matrices<'a>(a: &'a Tensor, b: &'a Tensor) -> Result<(Cow<'a, Tensor>, Cow<'a, Tensor>)> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(Error::shape("matmul", "a scalar is no matrix; use mul", [a.shape(), b.shape()]));
    }
    let row = if a.ndim() == 1 { Cow::Owned(a.unsqueeze(0)?) } else { Cow::Borrowed(a) };
    let column = if b.ndim() == 1 { Cow::Owned(b.unsqueeze(1)?) } else { Cow::Borrowed(b) };
    Ok((row, column))
}

/// The shape of all rows of the left operand in one matrix, where the right one is one matrix and no copy is needed.
fn as_rows(a: &Tensor, b: &Tensor) -> Result<Option<Shape>> {
    let Some((k, lead)) = a.dims().split_last().filter(|_| a.ndim() > 2 && b.ndim() == 2) else {
        return Ok(None);
    };
    let rows = Shape::new([lead.iter().product(), *k].as_slice())?;
    Ok(a.has_view(&rows)?.then_some(rows))
}

/// The matmul of tensors of two dimensions or more. Against one matrix, leading dimensions are more rows of it.
fn matmul_of_matrices(a: &Tensor, b: &Tensor, bias: Option<&Tensor>, op: &MatMul) -> Result<Tensor> {
    let op = Op::MatMul(op.clone());
    let multiply = |a: &Tensor| match bias {
        Some(bias) => run(&op, &[a, b, bias]),
        None => run(&op, &[a, b]),
    };
    let Some(rows) = as_rows(a, b)? else { return multiply(a) };
    let out = multiply(&a.reshape_to(rows)?)?;
    let mut dims: Dims = a.dims()[..a.ndim() - 1].into();
    dims.push(out.dims()[1]);
    out.reshape_to(Shape::new(dims)?)
}
