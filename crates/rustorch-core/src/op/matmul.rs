//! Matrix multiplication.

use super::{OpType, Operation, expect_args, float, index_dtype, one, out_elements};
use crate::{DType, Dims, Error, OutputMeta, Outputs, Result, Shape, TensorMeta, UnaryOp};
use std::fmt;
use std::str::FromStr;

op_names! {
    /// How an operation rounds `F32` activations that meet operands of fewer bits: weights of a matmul, keys and values of
    /// attention. Without effect where the operands have one dtype.
    ///
    /// ```
    /// # use rustorch_core::Numerics;
    /// assert_eq!("fast".parse::<Numerics>()?, Numerics::Fast);
    /// # Ok::<(), rustorch_core::Error>(())
    /// ```
    #[derive(Default)]
    Numerics {
        /// ggml's roundings. A matmul with a block-type weight quantizes the activations to ggml's `vec_dot_type` of that type
        /// (`Q8_0`, `Q8_1` or `Q8_K`), one with an `F16` or `BF16` weight rounds them to that dtype; sums are `F32`. Attention
        /// over an `F16` cache rounds queries and the running sums of weighted values to `F16`. On the CPU the bits equal
        /// llama.cpp's, but for weights in `F16` and `BF16`, whose sums have another order.
        #[default]
        Ggml = "ggml",
        /// Activations of matmuls are rounded as by `Ggml`, sums are in the order that is fastest; attention is `F32`'s. Results do not
        /// depend on threads and batches, but their last bits may differ between versions of this library. A device without
        /// kernels of its own for it computes as for `Ggml`.
        Fast = "fast",
        /// Dequantized values multiplied and summed in `F32`; activations are not rounded. Slower, and more precise.
        F32 = "f32",
    }
}

impl Numerics {
    /// Whether activations that meet a weight of fewer bits are rounded first.
    pub const fn rounds_activations(self) -> bool {
        !matches!(self, Numerics::F32)
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Numerics {
    type Err = Error;

    fn from_str(text: &str) -> Result<Numerics> {
        let name = text.trim();
        let found = Numerics::ALL.iter().find(|numerics| numerics.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Numerics::ALL.iter().map(|numerics| numerics.name()).collect();
            Error::argument("numerics", format!("`{name}` is unknown; there are {}", names.join(", ")))
        })
    }
}

/// `a: [.., m, k] × b: [.., k, n] (+ bias: [n]) → [.., m, n]`; the leading dimensions broadcast.
///
/// `a` and `b` have one dtype of floats, integers or complex numbers; or `a` is `F32` and `b` a *weight* of a block
/// type, `F16` or `BF16`, whose columns are contiguous (the transposed view of an `[n, k]` matrix), multiplied by the op's
/// [`numerics`](Self::numerics). The result has the dtype of `a`. On the CPU, with a weight, each of its elements depends on its own
/// row and column only: not on `m`, the other rows, or the number of threads. Other devices, and matmuls of two matrices of one
/// dtype, promise that where they are asked to be [`batch_invariant`](Self::batch_invariant); otherwise a device may have
/// other kernels for few rows than for many, or leave them to its vendor's library.
#[derive(Clone, Debug, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct MatMul {
    /// A function applied to each element at the end, after the bias.
    pub activation: Option<UnaryOp>,
    /// Whether `a` is rounded before it meets a weight of another dtype.
    pub numerics: Numerics,
    /// Makes each row of the result the same, to the last bit, whatever `m` and the other rows are, and the same on every call: a
    /// language model needs that to read a prompt in chunks of any size. Without effect with a weight on the CPU, where those
    /// matmuls are so always.
    pub batch_invariant: bool,
}

impl MatMul {
    /// The operation's name.
    pub const NAME: &'static str = "matmul";

    /// Whether the order of its sums is free for operands of these dtypes, so that a device may leave it to a library of its
    /// vendor: both of one float dtype, and not [`batch_invariant`](Self::batch_invariant).
    pub fn allows_reassociation(&self, a: DType, b: DType) -> bool {
        a == b && a.is_float() && !self.batch_invariant
    }
}

impl Operation for MatMul {
    const CLASS: OpType = OpType::LinearAlgebra;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 2..=3)?;
        let (a, b) = (&args[0], &args[1]);
        let shape = product(Self::NAME, a, b)?;
        let weight = is_weight(a.dtype, b.dtype);
        let numeric = a.dtype == b.dtype && (a.dtype.is_float() || a.dtype.is_int() || a.dtype.is_complex());
        if !weight && !numeric {
            return Err(Error::dtype(
                Self::NAME,
                "operands must have one numeric dtype, or be f32 and a weight of f16, bf16 or a block type",
                [a.dtype, b.dtype],
            ));
        }
        b.check(Self::NAME)?;
        let [k, n] = last_two(b.shape());
        if b.dtype.is_quant() {
            let ndim = b.shape().ndim();
            if b.layout.strides()[ndim - 2] != 1 && k != 1 {
                return Err(Error::shape(
                    Self::NAME,
                    "a block-quantized right operand must be the transposed view of a row-major [n, k] matrix",
                    [a.shape(), b.shape()],
                ));
            }
        }
        if let Some(bias) = args.get(2) {
            if bias.dims() != [n] {
                return Err(Error::shape(
                    Self::NAME,
                    format!("the bias must have {n} elements"),
                    [bias.shape()],
                ));
            }
            if bias.dtype != a.dtype {
                return Err(Error::dtype(
                    Self::NAME,
                    "the bias must have the left operand's dtype",
                    [a.dtype, bias.dtype],
                ));
            }
        }
        if let Some(activation) = self.activation
            && activation.output(a.dtype) != Some(a.dtype)
        {
            return Err(Error::dtype(activation.name(), "is not defined for the matmul's dtype", [a.dtype]));
        }
        one(a.dtype, shape)
    }

    fn leading_argument(&self) -> usize {
        1
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        2 * out_elements(outs) * args[0].dims().last().copied().unwrap_or(0) as u64
    }
}

/// Whether a matmul of `a` and `b` is one of activations with a weight of another dtype.
fn is_weight(a: DType, b: DType) -> bool {
    a == DType::F32 && matches!(b, DType::Quant(_) | DType::F16 | DType::BF16)
}

/// The shape of a matmul's result.
fn product(op: &'static str, a: &TensorMeta<'_>, b: &TensorMeta<'_>) -> Result<Shape> {
    let shapes = [a.shape(), b.shape()];
    if a.shape().ndim() < 2 || b.shape().ndim() < 2 {
        return Err(Error::shape(op, "operands need two dimensions at least", shapes));
    }
    let [m, k] = last_two(a.shape());
    let [k2, n] = last_two(b.shape());
    if k != k2 {
        return Err(Error::shape(op, format!("the inner dimensions {k} and {k2} differ"), shapes));
    }
    let batch = batch(a.shape())?.broadcast(&batch(b.shape())?, op)?;
    let mut dims: Dims = batch.dims().into();
    dims.extend([m, n]);
    Shape::new(dims)
}

fn last_two(shape: &Shape) -> [usize; 2] {
    let n = shape.ndim();
    [shape[n - 2], shape[n - 1]]
}

fn batch(shape: &Shape) -> Result<Shape> {
    Shape::new(&shape[..shape.ndim() - 2])
}

/// `a: [.., m, k] × b: [.., k, n] → [.., m, n]` of `I8`, summed in `I32`, wrapping; the leading dimensions broadcast. [`MatMul`] of two `I8`
/// operands wraps to `I8` instead.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IntMm;

impl IntMm {
    /// The operation's name.
    pub const NAME: &'static str = "int_mm";
}

impl Operation for IntMm {
    const CLASS: OpType = OpType::LinearAlgebra;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 2..=2)?;
        let (a, b) = (&args[0], &args[1]);
        if (a.dtype, b.dtype) != (DType::I8, DType::I8) {
            return Err(Error::dtype(Self::NAME, "operands must be i8", [a.dtype, b.dtype]));
        }
        one(DType::I32, product(Self::NAME, a, b)?)
    }

    fn leading_argument(&self) -> usize {
        1
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        2 * out_elements(outs) * args[0].dims().last().copied().unwrap_or(0) as u64
    }
}

/// Matmuls of activations with matrices that are chosen for each row among those of a mixture of experts.
#[derive(Clone, Debug, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct MulMatId {
    /// As [`MatMul::numerics`].
    pub numerics: Numerics,
}

impl MulMatId {
    /// The operation's name.
    pub const NAME: &'static str = "mul_mat_id";
}

impl Operation for MulMatId {
    const CLASS: OpType = OpType::LinearAlgebra;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 3..=3)?;
        let (x, w, ids) = (&args[0], &args[1], &args[2]);
        let shapes = [x.shape(), w.shape(), ids.shape()];
        index_dtype(Self::NAME, ids)?;
        float(Self::NAME, x.dtype)?;
        if w.dtype != x.dtype && !is_weight(x.dtype, w.dtype) {
            return Err(Error::dtype(
                Self::NAME,
                "weights must have the dtype of x, or be f16, bf16 or blocks with x f32",
                [x.dtype, w.dtype],
            ));
        }
        let (&[t, k, inner], &[_, out, inner2], &[t2, k2]) = (x.dims(), w.dims(), ids.dims()) else {
            return Err(Error::shape(
                Self::NAME,
                "takes x [t, k, in], weights [e, out, in] and ids [t, k]",
                shapes,
            ));
        };
        if t != t2 || (k != k2 && k != 1) || inner != inner2 {
            return Err(Error::shape(
                Self::NAME,
                "x [t, k or 1, in], weights [e, out, in] and ids [t, k] do not agree",
                shapes,
            ));
        }
        w.check(Self::NAME)?;
        let strides = w.layout.strides();
        if inner != 1 && strides[2] != 1 {
            return Err(Error::shape(Self::NAME, "the rows of the weights must be contiguous", [w.shape()]));
        }
        one(x.dtype, Shape::new([t, k2, out].as_slice())?)
    }

    fn fails_on_values(&self) -> bool {
        true
    }

    fn leading_argument(&self) -> usize {
        1
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        2 * out_elements(outs) * args[0].dims()[2] as u64
    }

    /// The activations, the ids, and at most one matrix per chosen expert.
    fn bytes_read(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> usize {
        let (x, w, ids) = (&args[0], &args[1], &args[2]);
        let experts = w.dims()[0].max(1);
        let chosen = ids.layout.numel().min(experts);
        x.packed_bytes() + ids.packed_bytes() + w.packed_bytes() / experts * chosen
    }
}
