//! Pointwise operations: unary, binary, comparison, selection, casts.

use super::{OpType, Operation, expect_args, float, one, same_dense};
use crate::{DType, DTypeKind, Error, Outputs, Result, Scalar, TensorMeta};

op_names! {
    /// A unary op.
    UnaryOp {
        /// −x
        Neg = "neg",
        /// |x|; real for complex numbers.
        Abs = "abs",
        /// −1, 0 or 1; 0 for NaN, as in PyTorch.
        Sign = "sign",
        /// The integer below.
        Floor = "floor",
        /// The integer above.
        Ceil = "ceil",
        /// The nearest integer, halves to even.
        Round = "round",
        /// The integer towards zero.
        Trunc = "trunc",
        /// eˣ
        Exp = "exp",
        /// eˣ − 1
        Expm1 = "expm1",
        /// Natural logarithm.
        Log = "log",
        /// Binary logarithm.
        Log2 = "log2",
        /// Decimal logarithm.
        Log10 = "log10",
        /// log(1 + x)
        Log1p = "log1p",
        /// Square root.
        Sqrt = "sqrt",
        /// 1/√x
        Rsqrt = "rsqrt",
        /// 1/x
        Reciprocal = "reciprocal",
        /// x²
        Square = "square",
        /// Sine.
        Sin = "sin",
        /// Cosine.
        Cos = "cos",
        /// Tangent.
        Tan = "tan",
        /// Inverse sine.
        Asin = "asin",
        /// Inverse cosine.
        Acos = "acos",
        /// Inverse tangent.
        Atan = "atan",
        /// Hyperbolic sine.
        Sinh = "sinh",
        /// Hyperbolic cosine.
        Cosh = "cosh",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Inverse hyperbolic sine.
        Asinh = "asinh",
        /// Inverse hyperbolic cosine.
        Acosh = "acosh",
        /// Inverse hyperbolic tangent.
        Atanh = "atanh",
        /// The error function.
        Erf = "erf",
        /// The inverse of the error function: ±∞ at ±1, NaN beyond.
        Erfinv = "erfinv",
        /// 1 − erf(x), without losing digits where erf(x) is near 1.
        Erfc = "erfc",
        /// log|Γ(x)|: +∞ at 0, at negative integers and at ±∞.
        Lgamma = "lgamma",
        /// Γ′(x)/Γ(x): −∞ at 0, +∞ at −0, NaN at negative integers.
        Digamma = "digamma",
        /// The derivative of `digamma`: +∞ at 0 and at negative integers.
        Trigamma = "trigamma",
        /// 1/(1 + e⁻ˣ)
        Sigmoid = "sigmoid",
        /// max(x, 0)
        Relu = "relu",
        /// x·Φ(x), exact.
        Gelu = "gelu",
        /// GELU by its tanh approximation.
        GeluTanh = "gelu_tanh",
        /// x·sigmoid(x)
        Silu = "silu",
        /// log(1 + eˣ), x itself above 20.
        Softplus = "softplus",
        /// Whether x is zero.
        LogicalNot = "logical_not",
        /// All bits inverted; negation of booleans.
        BitwiseNot = "bitwise_not",
        /// Whether x is NaN.
        IsNan = "isnan",
        /// Whether x is ±∞.
        IsInf = "isinf",
        /// Whether x is neither NaN nor ±∞.
        IsFinite = "isfinite",
        /// The complex conjugate.
        Conj = "conj",
        /// The real part of a complex number.
        Real = "real",
        /// The imaginary part of a complex number.
        Imag = "imag",
        /// The angle of a complex number.
        Angle = "angle",
    }
}

impl UnaryOp {
    pub(super) fn kind(self) -> UnaryOp {
        self
    }

    /// The class of the operation.
    pub fn class(self) -> OpType {
        use UnaryOp::*;
        match self {
            Sigmoid | Relu | Gelu | GeluTanh | Silu | Softplus => OpType::Activation,
            LogicalNot | IsNan | IsInf | IsFinite => OpType::Comparison,
            Conj | Real | Imag | Angle => OpType::ComplexMath,
            _ => OpType::Elementwise,
        }
    }

    /// The dtype of the result for elements of `dtype`; `None` where the function is not defined for it.
    ///
    /// Functions with irrational values take floats (and complex numbers, where they extend to them); integers are cast
    /// before by whoever wants the result.
    pub fn output(self, dtype: DType) -> Option<DType> {
        use DTypeKind as K;
        use UnaryOp::*;
        let kind = dtype.kind();
        let same = |accepted: &[DTypeKind]| accepted.contains(&kind).then_some(dtype);
        match self {
            Neg | Square => same(&[K::Int, K::Float, K::Complex]),
            Abs if kind == K::Complex => Some(dtype.to_real()),
            Abs | Sign | Relu => same(&[K::Int, K::Float]),
            Exp | Log | Log2 | Log10 | Sqrt | Rsqrt | Reciprocal | Sin | Cos | Tan | Asin | Acos | Atan
            | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Sigmoid | Silu => same(&[K::Float, K::Complex]),
            Floor | Ceil | Round | Trunc | Expm1 | Log1p | Erf | Erfinv | Erfc | Lgamma | Digamma
            | Trigamma | Gelu | GeluTanh | Softplus => same(&[K::Float]),
            BitwiseNot => same(&[K::Bool, K::Int]),
            LogicalNot | IsNan | IsInf | IsFinite => (kind != K::Quant).then_some(DType::Bool),
            Conj => same(&[K::Complex]),
            Real | Imag | Angle => (kind == K::Complex).then_some(dtype.to_real()),
        }
    }
}

impl Operation for UnaryOp {
    const CLASS: OpType = OpType::Elementwise;

    fn class(&self, _: &[TensorMeta<'_>]) -> OpType {
        UnaryOp::class(*self)
    }

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(self.name(), args, 1..=1)?;
        match self.output(args[0].dtype) {
            Some(dtype) => one(dtype, args[0].shape().clone()),
            None => Err(Error::dtype(self.name(), "is not defined for this dtype", [args[0].dtype])),
        }
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(1)
    }

    fn elementwise_output(&self, dtype: DType, args: usize) -> Option<DType> {
        if args == 1 { self.output(dtype) } else { None }
    }

    fn flops_per_element(&self) -> u64 {
        use UnaryOp::*;
        match self {
            Neg | Abs | Sign | Floor | Ceil | Round | Trunc | Square | Relu | LogicalNot | BitwiseNot
            | IsNan | IsInf | IsFinite | Conj | Real | Imag => 1,
            Sqrt | Rsqrt | Reciprocal => 4,
            Lgamma | Digamma | Trigamma => 200,
            _ => 15,
        }
    }
}

op_names! {
    /// A function of two elements of one dtype.
    BinaryOp {
        /// a + b; "or" of booleans.
        Add = "add",
        /// a − b
        Sub = "sub",
        /// a·b; "and" of booleans.
        Mul = "mul",
        /// a/b
        Div = "div",
        /// a/b rounded down. Integer division by zero is an error.
        FloorDiv = "floor_divide",
        /// a − b·⌊a/b⌋, with the sign of b. Integer division by zero is an error.
        Remainder = "remainder",
        /// aᵇ
        Pow = "pow",
        /// The larger; NaN if either is.
        Maximum = "maximum",
        /// The smaller; NaN if either is.
        Minimum = "minimum",
        /// The angle of the point (b, a).
        Atan2 = "atan2",
        /// log(eᵃ + eᵇ)
        LogAddExp = "logaddexp",
        /// Bitwise and.
        BitwiseAnd = "bitwise_and",
        /// Bitwise or.
        BitwiseOr = "bitwise_or",
        /// Bitwise exclusive or.
        BitwiseXor = "bitwise_xor",
        /// a·2ᵇ in the integers, 0 where b is not below the width.
        ShiftLeft = "bitwise_left_shift",
        /// a/2ᵇ rounded down; the sign fills where b is not below the width.
        ShiftRight = "bitwise_right_shift",
    }
}

impl BinaryOp {
    pub(super) fn kind(self) -> BinaryOp {
        self
    }

    /// Whether the function is defined for elements of `dtype`. The result has the same dtype.
    pub fn accepts(self, dtype: DType) -> bool {
        use BinaryOp::*;
        use DTypeKind as K;
        match self {
            Add | Mul => dtype.kind() != K::Quant,
            Maximum | Minimum => matches!(dtype.kind(), K::Bool | K::Int | K::Float),
            Sub | Pow => matches!(dtype.kind(), K::Int | K::Float | K::Complex),
            Div => matches!(dtype.kind(), K::Float | K::Complex),
            FloorDiv | Remainder => matches!(dtype.kind(), K::Int | K::Float),
            Atan2 | LogAddExp => dtype.kind() == K::Float,
            BitwiseAnd | BitwiseOr | BitwiseXor => matches!(dtype.kind(), K::Bool | K::Int),
            ShiftLeft | ShiftRight => dtype.kind() == K::Int,
        }
    }
}

impl Operation for BinaryOp {
    const CLASS: OpType = OpType::Elementwise;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(self.name(), args, 2..=2)?;
        if !self.accepts(dtype) {
            return Err(Error::dtype(self.name(), "is not defined for this dtype", [dtype]));
        }
        one(dtype, args[0].shape().broadcast(args[1].shape(), self.name())?)
    }

    /// Of integers, by zero.
    fn fails_on_values(&self) -> bool {
        matches!(self, BinaryOp::FloorDiv | BinaryOp::Remainder)
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(2)
    }

    /// Of integers, division fails where a divisor is zero.
    fn may_overwrite(&self, _arg: usize, _out: usize) -> bool {
        !matches!(self, BinaryOp::FloorDiv | BinaryOp::Remainder)
    }

    fn elementwise_output(&self, dtype: DType, args: usize) -> Option<DType> {
        (args == 2 && self.accepts(dtype)).then_some(dtype)
    }

    fn flops_per_element(&self) -> u64 {
        1
    }
}

op_names! {
    /// A comparison of two elements of one dtype. Comparisons with NaN are false, but for "not equal".
    CompareOp {
        /// a = b
        Eq = "eq",
        /// a ≠ b
        Ne = "ne",
        /// a < b
        Lt = "lt",
        /// a ≤ b
        Le = "le",
        /// a > b
        Gt = "gt",
        /// a ≥ b
        Ge = "ge",
    }
}

impl CompareOp {
    pub(super) fn kind(self) -> CompareOp {
        self
    }

    /// Whether the comparison is defined for elements of `dtype`: complex numbers have no order.
    pub fn accepts(self, dtype: DType) -> bool {
        match dtype.kind() {
            DTypeKind::Quant => false,
            DTypeKind::Complex => matches!(self, CompareOp::Eq | CompareOp::Ne),
            _ => true,
        }
    }
}

impl Operation for CompareOp {
    const CLASS: OpType = OpType::Comparison;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(self.name(), args, 2..=2)?;
        if !self.accepts(dtype) {
            return Err(Error::dtype(self.name(), "complex numbers have no order", [dtype]));
        }
        one(DType::Bool, args[0].shape().broadcast(args[1].shape(), self.name())?)
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(2)
    }

    fn elementwise_output(&self, dtype: DType, args: usize) -> Option<DType> {
        (args == 2 && self.accepts(dtype)).then_some(DType::Bool)
    }

    fn flops_per_element(&self) -> u64 {
        1
    }
}

op_names! {
    /// The activation of a gated linear unit.
    GluOp {
        /// SwiGLU.
        Silu = "swiglu",
        /// GEGLU, exact.
        Gelu = "geglu",
        /// GEGLU by the tanh approximation.
        GeluTanh = "geglu_tanh",
        /// ReGLU.
        Relu = "reglu",
    }
}

impl GluOp {
    pub(super) fn kind(self) -> GluOp {
        self
    }
}

impl Operation for GluOp {
    const CLASS: OpType = OpType::Activation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(self.name(), args, 2..=2)?;
        float(self.name(), dtype)?;
        one(dtype, args[0].shape().broadcast(args[1].shape(), self.name())?)
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(2)
    }

    fn flops_per_element(&self) -> u64 {
        10
    }
}

/// Elements of one tensor where a condition holds, else of another.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Where;

impl Where {
    /// The operation's name.
    pub const NAME: &'static str = "where";
}

impl Operation for Where {
    const CLASS: OpType = OpType::Comparison;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 3..=3)?;
        if args[0].dtype != DType::Bool {
            return Err(Error::dtype(Self::NAME, "the condition must be bool", [args[0].dtype]));
        }
        let dtype = same_dense(Self::NAME, &args[1..], 2..=2)?;
        let shape = args[1].shape().broadcast(args[2].shape(), Self::NAME)?;
        one(dtype, args[0].shape().broadcast(&shape, Self::NAME)?)
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(3)
    }

    fn flops_per_element(&self) -> u64 {
        1
    }

    fn leading_argument(&self) -> usize {
        1
    }
}

/// Elements kept within bounds.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Clamp {
    /// The lower bound.
    pub min: Option<Scalar>,
    /// The upper bound, which wins where it is below the lower.
    pub max: Option<Scalar>,
}

impl Clamp {
    /// The operation's name.
    pub const NAME: &'static str = "clamp";
}

impl Operation for Clamp {
    const CLASS: OpType = OpType::Elementwise;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = same_dense(Self::NAME, args, 1..=1)?;
        if !dtype.is_int() && !dtype.is_float() {
            return Err(Error::dtype(Self::NAME, "needs numbers with an order", [dtype]));
        }
        if self.min.is_none() && self.max.is_none() {
            return Err(Error::argument(Self::NAME, "needs a lower or an upper bound"));
        }
        one(dtype, args[0].shape().clone())
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(1)
    }

    fn flops_per_element(&self) -> u64 {
        1
    }
}

/// Conversion to another dtype.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Cast {
    /// The dtype of the result.
    pub to: DType,
}

impl Cast {
    /// The operation's name.
    pub const NAME: &'static str = "cast";
}

impl Operation for Cast {
    const CLASS: OpType = OpType::DataMovement;

    fn class(&self, args: &[TensorMeta<'_>]) -> OpType {
        let blocks = self.to.is_quant() || args.first().is_some_and(|x| x.dtype.is_quant());
        if blocks { OpType::Quantization } else { OpType::DataMovement }
    }

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 1..=1)?;
        let (x, to) = (&args[0], self.to);
        let allowed = match (x.dtype, to) {
            (from, to) if from == to => true,
            (DType::Quant(_), to) => matches!(to, DType::F32 | DType::F16 | DType::BF16),
            (from, DType::Quant(_)) => from == DType::F32,
            _ => true,
        };
        if !allowed {
            return Err(Error::dtype(
                Self::NAME,
                "block types convert to f32, f16, bf16 and from f32",
                [x.dtype, to],
            ));
        }
        x.check(Self::NAME)?;
        let row = x.shape().last().copied().unwrap_or(1);
        if !row.is_multiple_of(to.block_len()) {
            return Err(Error::shape(
                Self::NAME,
                format!(
                    "{to} packs blocks of {} along the last dimension, which does not divide",
                    to.block_len()
                ),
                [x.shape()],
            ));
        }
        one(to, x.shape().clone())
    }

    /// To a block type: numbers that are not finite.
    fn fails_on_values(&self) -> bool {
        self.to.is_quant()
    }

    fn pointwise_arity(&self) -> Option<usize> {
        Some(1)
    }

    fn flops_per_element(&self) -> u64 {
        1
    }

    fn dtype_parameter(&self) -> Option<DType> {
        Some(self.to)
    }
}

/// A copy of the elements.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct CopyOp;

impl CopyOp {
    /// The operation's name.
    pub const NAME: &'static str = "copy";
}

impl Operation for CopyOp {
    const CLASS: OpType = OpType::DataMovement;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 1..=1)?;
        args[0].check(Self::NAME)?;
        one(args[0].dtype, args[0].shape().clone())
    }

    fn may_overwrite(&self, _arg: usize, _out: usize) -> bool {
        true
    }
}
