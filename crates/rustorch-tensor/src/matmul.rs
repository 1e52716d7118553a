//! Matrix products.

use crate::Tensor;
use crate::dispatch::run;
use rustorch_core::{DType, Dims, Error, MatMul, Op, Result, Shape, UnaryOp};
use rustorch_runtime::HybridExecutor;
use std::borrow::Cow;

impl Tensor {
    /// The matrix product, as `torch.matmul`: vectors count as a row on the left and a column on the right, and leading
    /// dimensions broadcast.
    ///
    /// Both have one dtype; or this one is `F32` and the other a weight of `F16`, `BF16` or a block type, a block type
    /// as the transposed view of an `[n, k]` matrix. Products with such weights round the left operand to the weight's
    /// companion type and accumulate in `F32`; under an executor that
    /// [computes in `F32`](rustorch_runtime::HybridExecutor::with_compute) they round nothing.
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
        if self.rank() == 2 && other.rank() == 2 {
            return run(&Op::MatMul(MatMul { exact: exact(), ..MatMul::default() }), &[self, other]);
        }
        if self.rank() == 0 || other.rank() == 0 {
            return Err(Error::shape(
                "matmul",
                "a scalar is no matrix; use mul",
                [self.shape(), other.shape()],
            ));
        }
        let a = if self.rank() == 1 { Cow::Owned(self.unsqueeze(0)?) } else { Cow::Borrowed(self) };
        let b = if other.rank() == 1 { Cow::Owned(other.unsqueeze(1)?) } else { Cow::Borrowed(other) };
        let mut out = product(&a, &b, None, &MatMul { exact: exact(), ..MatMul::default() })?;
        if self.rank() == 1 {
            out = out.squeeze(-2)?;
        }
        if other.rank() == 1 {
            out = out.squeeze(-1)?;
        }
        Ok(out)
    }

    /// The product of two matrices.
    ///
    /// # Errors
    /// If they are not matrices, and as for [`matmul`](Self::matmul).
    pub fn mm(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ranks("mm", 2, other, 2)?;
        self.matmul(other)
    }

    /// The products of two equally long batches of matrices.
    ///
    /// # Errors
    /// If they are not `[b, m, k]` and `[b, k, n]`, and as for [`matmul`](Self::matmul).
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ranks("bmm", 3, other, 3)?;
        if self.dims()[0] != other.dims()[0] {
            return Err(Error::shape("bmm", "the batches differ in length", [self.shape(), other.shape()]));
        }
        self.matmul(other)
    }

    /// The product of a matrix and a vector.
    ///
    /// # Errors
    /// If they are not, and as for [`matmul`](Self::matmul).
    pub fn mv(&self, vector: &Tensor) -> Result<Tensor> {
        self.expect_ranks("mv", 2, vector, 1)?;
        self.matmul(vector)
    }

    /// The inner product of two vectors: a 0-d tensor.
    ///
    /// # Errors
    /// If they are not, and as for [`matmul`](Self::matmul).
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ranks("dot", 1, other, 1)?;
        self.matmul(other)
    }

    /// The products of each element of one vector with each of another.
    ///
    /// # Errors
    /// If they are not vectors.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        self.expect_ranks("outer", 1, other, 1)?;
        self.unsqueeze(1)?.mul(&other.unsqueeze(0)?)
    }

    /// `x · weightᵀ + bias`: a fully connected layer, for `x: [.., in]`, `weight: [out, in]`, `bias: [out]`.
    ///
    /// Weights may be of a block type, `F16` or `BF16` under `F32`; 16-bit activations go through `F32` to meet a block
    /// type, and the result has their dtype again. The bias is converted to the dtype of the product.
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
        self.fully_connected(weight, bias, &MatMul { activation, exact: exact(), batch_invariant: false })
    }

    /// As [`linear`](Self::linear), with results of which no bit depends on how many rows there are or what the others hold,
    /// and which are the same on every call: other products of dense matrices a device may leave to its vendor's library,
    /// which promises neither.
    ///
    /// # Errors
    /// As for [`linear`](Self::linear).
    pub fn linear_batch_invariant(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.fully_connected(
            weight,
            bias,
            &MatMul { activation: None, exact: exact(), batch_invariant: true },
        )
    }

    fn fully_connected(&self, weight: &Tensor, bias: Option<&Tensor>, op: &MatMul) -> Result<Tensor> {
        if weight.rank() != 2 || self.rank() == 0 {
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
        let x = if self.rank() == 1 { Cow::Owned(self.unsqueeze(0)?) } else { Cow::Borrowed(self) };
        let out = product(&x, &weight.t()?, bias.as_deref(), op)?;
        if self.rank() == 1 { out.squeeze(0) } else { Ok(out) }
    }

    /// Rows times the matrices that they chose: for `x: [t, k or 1, in]`, `weights: [experts, out, in]` and integer
    /// `ids: [t, k]`, row `(t, k)` of the result `[t, k, out]` is `x[t, k] · weights[ids[t, k]]ᵀ`. Experts that nobody
    /// chose are not touched.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit, or an id is out of range.
    pub fn expert_matmul(&self, weights: &Tensor, ids: &Tensor) -> Result<Tensor> {
        run(&Op::ExpertMatMul { exact: exact() }, &[self, weights, &*ids.to_index("expert_matmul")?])
    }

    fn expect_ranks(&self, op: &'static str, rank: usize, other: &Tensor, other_rank: usize) -> Result<()> {
        if self.rank() == rank && other.rank() == other_rank {
            return Ok(());
        }
        Err(Error::shape(
            op,
            format!("takes tensors of {rank} and {other_rank} dimensions; matmul takes others"),
            [self.shape(), other.shape()],
        ))
    }
}

/// Whether the current executor wants everything computed in `f32`.
#[inline]
fn exact() -> bool {
    HybridExecutor::with_current(HybridExecutor::compute) == Some(DType::F32)
}

/// The product of tensors of two dimensions or more. Against one matrix, leading dimensions are more rows of it.
fn product(a: &Tensor, b: &Tensor, bias: Option<&Tensor>, op: &MatMul) -> Result<Tensor> {
    let op = Op::MatMul(op.clone());
    let multiply = |a: &Tensor| match bias {
        Some(bias) => run(&op, &[a, b, bias]),
        None => run(&op, &[a, b]),
    };
    if a.rank() > 2 && b.rank() == 2 {
        let (k, lead) = a.dims().split_last().expect("more than two dimensions");
        let rows = lead.iter().product::<usize>();
        let flat = Shape::new([rows, *k].as_slice())?;
        if let Some(layout) = a.layout().reshape(&flat)? {
            let out = multiply(&a.with_layout(layout))?;
            let mut dims: Dims = lead.into();
            dims.push(out.dims()[1]);
            return out.reshape_to(&Shape::new(dims)?);
        }
    }
    multiply(a)
}
