//! Reductions and scans.

use super::{OpType, Operation, axis_in, in_elements, one, same_dense};
use crate::{DType, DTypeKind, Dims, Error, OutputMeta, Outputs, Result, TensorMeta};
use smallvec::smallvec;

op_kinds! {
    /// What a reduction computes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    ReduceOp, ReduceKind {
        /// Sum. Integers and booleans sum in `I64`; 16-bit floats accumulate in `f32`.
        Sum = "sum",
        /// Mean of floats or complex numbers.
        Mean = "mean",
        /// Product, with the dtypes of the sum.
        Prod = "prod",
        /// Largest; NaN if any is. Not of nothing.
        Max = "amax",
        /// Smallest; NaN if any is. Not of nothing.
        Min = "amin",
        /// Index (`I64`) of the largest, the first of equals; over one axis, or over all as an index into the flat tensor.
        ArgMax = "argmax",
        /// Index (`I64`) of the smallest, as above.
        ArgMin = "argmin",
        /// Whether any is non-zero.
        Any = "any",
        /// Whether all are non-zero.
        All = "all",
        /// log Σ eˣ, without overflow.
        LogSumExp = "logsumexp",
        /// Euclidean norm √Σx².
        Norm = "norm",
        /// Variance, divided by n − correction.
        Var {
            /// 1 for the unbiased estimate, 0 for the population's.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            correction: f64,
        } = "var",
        /// Square root of the variance.
        Std {
            /// As in `Var`.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            correction: f64,
        } = "std",
    }
}

impl ReduceOp {
    /// The dtype of the result for elements of `dtype`; `None` where the reduction is not defined for it.
    pub fn output(self, dtype: DType) -> Option<DType> {
        use DTypeKind as K;
        let kind = dtype.kind();
        match self {
            ReduceOp::Sum | ReduceOp::Prod => match kind {
                K::Bool | K::Int => Some(DType::I64),
                K::Float | K::Complex => Some(dtype),
                K::Quant => None,
            },
            ReduceOp::Mean => matches!(kind, K::Float | K::Complex).then_some(dtype),
            ReduceOp::Max | ReduceOp::Min => matches!(kind, K::Bool | K::Int | K::Float).then_some(dtype),
            ReduceOp::ArgMax | ReduceOp::ArgMin => matches!(kind, K::Int | K::Float).then_some(DType::I64),
            ReduceOp::Any | ReduceOp::All => (kind != K::Quant).then_some(DType::Bool),
            ReduceOp::LogSumExp | ReduceOp::Norm | ReduceOp::Var { .. } | ReduceOp::Std { .. } => {
                (kind == K::Float).then_some(dtype)
            }
        }
    }

    /// Whether the reduction of no elements has no value.
    pub const fn needs_elements(self) -> bool {
        matches!(self, ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin)
    }
}

/// A reduction over some axes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Reduce {
    /// What it computes.
    pub op: ReduceOp,
    /// The axes, ascending and without repetition. None leaves the shape as it is.
    pub axes: Dims,
    /// Whether reduced axes stay with length 1.
    pub keepdim: bool,
}

impl Reduce {
    pub(super) fn kind(&self) -> ReduceKind {
        self.op.kind()
    }
}

impl Operation for Reduce {
    const CLASS: OpType = OpType::Reduction;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.op.name();
        let dtype = same_dense(name, args, 1..=1)?;
        let shape = args[0].shape();
        let Some(out) = self.op.output(dtype) else {
            return Err(Error::dtype(name, "is not defined for this dtype", [dtype]));
        };
        for &axis in &self.axes {
            // A scalar is reduced over no axis; the tensor layer drops its axis 0.
            if axis >= shape.ndim() {
                return Err(Error::Axis { op: name, axis: axis as isize, ndim: shape.ndim() });
            }
        }
        if self.axes.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Error::argument(
                name,
                format!("axes {:?} are not ascending and distinct", &self.axes[..]),
            ));
        }
        let arg = matches!(self.op, ReduceOp::ArgMax | ReduceOp::ArgMin);
        if arg && self.axes.len() != 1 && self.axes.len() != shape.ndim() {
            return Err(Error::argument(name, "takes one axis, or all of them"));
        }
        let result = shape.reduced(&self.axes, self.keepdim);
        let reduced: usize = self.axes.iter().map(|&a| shape[a]).product();
        if self.op.needs_elements() && reduced == 0 && result.numel() != 0 {
            return Err(Error::shape(name, "no elements have neither a largest nor a smallest", [shape]));
        }
        one(out, result)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        in_elements(args)
    }
}

op_names! {
    /// What a scan accumulates.
    ScanOp {
        /// Running sum, with the dtypes of [`ReduceOp::Sum`].
        Sum = "cumsum",
        /// Running product, likewise.
        Prod = "cumprod",
        /// Largest so far, with the dtypes of [`ReduceOp::Max`], and where it is (`I64`), of equals the last. NaN from the first NaN on,
        /// and the place of the last NaN.
        Max = "cummax",
        /// Smallest so far, likewise.
        Min = "cummin",
    }
}

impl ScanOp {
    /// The dtype of the (first) result for elements of `dtype`; `None` where the scan is not defined for it.
    pub fn output(self, dtype: DType) -> Option<DType> {
        match self {
            ScanOp::Sum => ReduceOp::Sum.output(dtype),
            ScanOp::Prod => ReduceOp::Prod.output(dtype),
            ScanOp::Max => ReduceOp::Max.output(dtype),
            ScanOp::Min => ReduceOp::Min.output(dtype),
        }
    }

    /// Whether the scan also returns where each result is.
    pub const fn has_places(self) -> bool {
        matches!(self, ScanOp::Max | ScanOp::Min)
    }
}

/// Running sums, products or extrema along an axis.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Scan {
    /// What accumulates.
    pub op: ScanOp,
    /// The axis.
    pub axis: usize,
}

impl Scan {
    pub(super) fn kind(&self) -> ScanOp {
        self.op
    }
}

impl Operation for Scan {
    const CLASS: OpType = OpType::Reduction;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.op.name();
        let dtype = same_dense(name, args, 1..=1)?;
        axis_in(name, self.axis, args[0].shape())?;
        let Some(out) = self.op.output(dtype) else {
            return Err(Error::dtype(name, "takes real numbers: complex ones have no order", [dtype]));
        };
        let result = |dtype| OutputMeta { dtype, shape: args[0].shape().clone() };
        Ok(match self.op.has_places() {
            true => smallvec![result(out), result(DType::I64)],
            false => smallvec![result(out)],
        })
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        in_elements(args)
    }
}
