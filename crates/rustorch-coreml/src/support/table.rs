//! The table: a row or a reason for each operation.

use super::{Condition, Row, Source, Support};
use crate::builder::Specification;
use crate::layout::MAX_RANK;
use rustorch_core::DTypeKind::{self, Bool, Float, Int, Quant};
use rustorch_core::{BinaryOp, OpKind, ReduceKind, ScanOp, UnaryOp};

/// What Core ML has at all.
const MIL: Source = Source {
    url: "https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html",
    date: "2026-11-26",
};
pub(super) const CONV: Source = source(
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/iOS15/conv.py",
);
pub(super) const POOL: Source = source(
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/iOS15/pool.py",
);
const REDUCTION: Source = source(
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/iOS15/reduction.py",
);
const GATHER: Source = source(
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/iOS15/scatter_gather.py",
);
const TENSOR: Source = source(
    "https://github.com/apple/coremltools/blob/9.0/coremltools/converters/mil/mil/ops/defs/iOS15/tensor_operation.py",
);

/// A page as it was when the table was written.
const fn source(url: &'static str) -> Source {
    Source { url, date: "2026-11-26" }
}

const FLOATS: &[DTypeKind] = &[Float];
const FLOATS_AND_INTEGERS: &[DTypeKind] = &[Float, Int];
const BOOLEANS: &[DTypeKind] = &[Bool];
const ALL: &[DTypeKind] = &[Float, Int, Bool];

const ROW: Row = Row {
    dtypes: FLOATS,
    rank: (0, MAX_RANK),
    conditions: &[],
    specification: Specification::V6,
    source: None,
};

/// A form of some dtypes, on no condition.
const fn of(dtypes: &'static [DTypeKind]) -> Support {
    Support::Form(Row { dtypes, ..ROW })
}

/// A form of some dtypes, on conditions.
const fn if_all(dtypes: &'static [DTypeKind], conditions: &'static [Condition]) -> Support {
    Support::Form(Row { dtypes, conditions, ..ROW })
}

/// A form of floats of at least so many dimensions, on conditions.
const fn of_rank(least: usize, conditions: &'static [Condition]) -> Support {
    Support::Form(Row { rank: (least, MAX_RANK), conditions, ..ROW })
}

/// No form, since Core ML has none.
const fn lacking(reason: &'static str) -> Support {
    Support::Missing { reason, source: Some(MIL) }
}

/// No form here.
const fn not_built(reason: &'static str) -> Support {
    Support::Missing { reason, source: None }
}

const NO_FUNCTION: Support = lacking("MIL has no such function");
const RANDOM: Support =
    not_built("draws random numbers, which a program cannot draw from RusTorch's generator");
const TRAINING: Support = not_built("is an operation of training; capture the function without gradients");

/// What programs have of an operation.
///
/// ```
/// use rustorch_core::{OpKind, UnaryOp};
/// use rustorch_coreml::support::{Support, support};
///
/// let Support::Form(row) = support(OpKind::Softmax(rustorch_core::SoftmaxKind::Softmax)) else { unreachable!("it has one") };
/// assert_eq!(row.specification.number(), 6);
/// assert!(matches!(support(OpKind::Unary(UnaryOp::Lgamma)), Support::Missing { .. }));
/// ```
pub fn support(op: OpKind) -> Support {
    use Condition::*;
    match op {
        OpKind::Unary(op) => unary(op),
        OpKind::Binary(op) => binary(op),
        OpKind::Compare(_) | OpKind::Where | OpKind::Copy => of(ALL),
        OpKind::Glu(_) => of(FLOATS),
        OpKind::Clamp => if_all(FLOATS_AND_INTEGERS, &[ParametersFit]),
        OpKind::Cast => of(&[Float, Int, Bool, Quant]),
        OpKind::FusedPointwise => if_all(&[], &[HasForm, ParametersFit]),
        OpKind::Fill => if_all(ALL, &[ParametersFit]),
        OpKind::Arange => if_all(FLOATS_AND_INTEGERS, &[MadeConstant, ParametersFit]),
        OpKind::MatMul => of_rank(2, &[ExactNumerics, HasForm]),
        OpKind::Reduce(op) => reduce(op),
        OpKind::Scan(ScanOp::Sum) => if_all(ALL, &[SumFits]),
        OpKind::Scan(ScanOp::Prod) => lacking("MIL has no running products"),
        OpKind::Scan(ScanOp::Max | ScanOp::Min) => lacking("MIL has no running extrema"),
        OpKind::Softmax(_) | OpKind::LayerNorm | OpKind::RmsNorm | OpKind::AddRmsNorm => of_rank(1, &[]),
        OpKind::BatchNorm => of_rank(2, &[Evaluation]),
        OpKind::GroupNorm => of_rank(2, &[]),
        OpKind::Attention => of_rank(3, &[NoDropout, NoLogSumExp, ExactNumerics, MadeConstant]),
        OpKind::CachedAttention => of_rank(3, &[NoLogSumExp, ExactNumerics, MadeConstant]),
        OpKind::SliceUpdate => {
            Support::Form(Row { rank: (1, MAX_RANK), specification: Specification::V9, ..ROW })
        }
        OpKind::Rope => of_rank(2, &[NoYarn, MadeConstant]),
        OpKind::Conv => of_rank(3, &[DilatedWeightIsConstant, ParametersFit, HasForm]),
        OpKind::ConvBackwardData => of_rank(3, &[WeightIsConstant, NoOutputPadding, ParametersFit]),
        OpKind::MaxPool => Support::Form(pool(&[NoIndices, NoDilation, ParametersFit])),
        OpKind::AvgPool => Support::Form(pool(&[WindowsInside, ParametersFit])),
        OpKind::AdaptiveMaxPool => Support::Form(pool(&[NoIndices, EqualWindows, ParametersFit])),
        OpKind::AdaptiveAvgPool => Support::Form(pool(&[EqualWindows, ParametersFit])),
        OpKind::Embedding => {
            Support::Form(Row { dtypes: &[Float, Int, Quant], rank: (2, 2), source: Some(GATHER), ..ROW })
        }
        OpKind::IndexSelect | OpKind::Gather => Support::Form(Row {
            dtypes: FLOATS_AND_INTEGERS,
            rank: (1, MAX_RANK),
            source: Some(GATHER),
            ..ROW
        }),
        OpKind::GatherSum => not_built("weighted sums of elements at indices are not built"),
        OpKind::Concat => Support::Form(Row { dtypes: ALL, rank: (1, MAX_RANK), ..ROW }),
        OpKind::Pad => Support::Form(Row { source: Some(TENSOR), conditions: &[ParametersFit], ..ROW }),
        OpKind::Tri(_) => {
            Support::Form(Row { dtypes: ALL, rank: (2, MAX_RANK), conditions: &[MadeConstant], ..ROW })
        }
        OpKind::Assert => lacking("checks values, and a program has no errors"),
        OpKind::IntMm => not_built("matmuls of i8 are not built"),
        OpKind::MulMatId => not_built("experts chosen by data are not built"),
        OpKind::CausalConv1d | OpKind::GatedDeltaRule | OpKind::SsmScan | OpKind::RwkvWkv7 => {
            not_built("recurrences are not built")
        }
        OpKind::ScatterReduce | OpKind::Scatter(_) => not_built("scattering is not built"),
        OpKind::Sort | OpKind::TopK => not_built(
            "sorting is not built: the order of equal elements and of NaN would have to be RusTorch's",
        ),
        OpKind::Interpolate => not_built("interpolation is not built"),
        OpKind::RnnGates(_) => not_built("the gates of LSTM and GRU are not built"),
        OpKind::Fft(_) => lacking("MIL has no Fourier transforms, and no complex numbers"),
        OpKind::Linalg(_) => lacking("MIL has no linear algebra but matmul"),
        OpKind::Custom(_) => not_built("is not built in, so MIL has no form of it"),
        OpKind::Random(_) | OpKind::Sample(_) | OpKind::LogGammaGrad | OpKind::Dropout => RANDOM,
        OpKind::GatherSumBackward
        | OpKind::LayerNormBackward
        | OpKind::RmsNormBackward
        | OpKind::AttentionBackward
        | OpKind::MaxPoolBackward
        | OpKind::AdaptiveAvgPoolBackward
        | OpKind::BatchNormBackward
        | OpKind::GroupNormBackward
        | OpKind::TotalNorm
        | OpKind::ForeachMul
        | OpKind::CrossEntropy
        | OpKind::CrossEntropyBackward
        | OpKind::ConvBackwardWeight
        | OpKind::AvgPoolBackward
        | OpKind::InterpolateBackward
        | OpKind::SoftmaxBackward(_)
        | OpKind::RnnGatesBackward(_)
        | OpKind::OptimizerStep(_) => TRAINING,
    }
}

const fn pool(conditions: &'static [Condition]) -> Row {
    Row { rank: (1, MAX_RANK), conditions, source: Some(POOL), ..ROW }
}

fn unary(op: UnaryOp) -> Support {
    use UnaryOp::*;
    match op {
        Neg | Abs | Sign | Relu | Square => of(FLOATS_AND_INTEGERS),
        Floor | Ceil | Round | Trunc | Exp | Expm1 | Log | Log2 | Log10 | Log1p | Sqrt | Rsqrt
        | Reciprocal | Sin | Cos | Tan | Asin | Acos | Atan | Sinh | Cosh | Tanh | Atanh | Erf | Sigmoid
        | Gelu | GeluTanh | Silu | Softplus | IsNan | IsInf | IsFinite => of(FLOATS),
        LogicalNot => of(ALL),
        BitwiseNot => Support::Form(Row { dtypes: BOOLEANS, source: Some(MIL), ..ROW }),
        Asinh | Acosh | Erfinv | Erfc | Lgamma | Digamma | Trigamma => NO_FUNCTION,
        Conj | Real | Imag | Angle => lacking("MIL has no complex numbers"),
    }
}

fn binary(op: BinaryOp) -> Support {
    use BinaryOp::*;
    match op {
        Add | Mul | Maximum | Minimum => of(ALL),
        Sub | FloorDiv | Remainder => of(FLOATS_AND_INTEGERS),
        Div | Pow => of(FLOATS),
        BitwiseAnd | BitwiseOr | BitwiseXor => {
            Support::Form(Row { dtypes: BOOLEANS, source: Some(MIL), ..ROW })
        }
        Atan2 | LogAddExp => NO_FUNCTION,
        ShiftLeft | ShiftRight => lacking("MIL has no functions of bits"),
    }
}

fn reduce(op: ReduceKind) -> Support {
    use Condition::*;
    match op {
        ReduceKind::Sum => if_all(ALL, &[SumFits]),
        ReduceKind::Mean | ReduceKind::Prod => of(FLOATS),
        ReduceKind::Max | ReduceKind::Min => of(ALL),
        ReduceKind::ArgMax | ReduceKind::ArgMin => {
            Support::Form(Row { dtypes: FLOATS_AND_INTEGERS, source: Some(REDUCTION), ..ROW })
        }
        ReduceKind::Any | ReduceKind::All => if_all(ALL, &[ReducesAnAxis]),
        ReduceKind::LogSumExp | ReduceKind::Norm => if_all(FLOATS, &[ReducesAnAxis]),
        ReduceKind::Var | ReduceKind::Std => if_all(FLOATS, &[ReducesAnAxis, FiniteVariance]),
    }
}
