//! Supported dtypes of pointwise operations.

use crate::table::sets::{CONTINUOUS, DENSE, FLOAT, NUMERIC, REAL, SMOOTH};
use crate::table::{DTypes, Row, row};
use DType::{BF16, Bool, C64, C128, F16, F32, F64, I8, I16, I32, I64, U8, U32};
use rustorch_core::{BinaryOp::*, CompareOp::*, DType, GluOp, OpKind::*, OpType, UnaryOp::*};

const ORDERED: DTypes = DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32]).with_f64(&[F64]);
const DIVISIBLE: DTypes = DTypes::always(&[U8, I8, I16, I32, U32, F16, BF16, F32]).with_i64();
const INTEGERS: DTypes = DTypes::always(&[U8, I8, I16, I32, U32]).with_i64();
const BITS: DTypes = DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64]);
const FUNCTIONS: DTypes = DTypes::always(&[F16, BF16, F32, C64]).with_doubles(&[F64, C128]);
const COMPLEX: DTypes = DTypes::always(&[C64]).with_f64(&[C128]);

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Elementwise, &[Binary(Add), Binary(Mul)], DENSE),
    row(OpType::Elementwise, &[Binary(Sub), Unary(Neg), Unary(Square), Unary(Abs)], NUMERIC),
    row(OpType::Elementwise, &[Binary(Div), Unary(Reciprocal)], CONTINUOUS),
    row(OpType::Elementwise, &[Binary(Maximum), Binary(Minimum)], ORDERED),
    row(OpType::Elementwise, &[Unary(Sign), Clamp], REAL),
    row(OpType::Elementwise, &[Binary(FloorDiv), Binary(Remainder)], DIVISIBLE.with_doubles(&[F64])),
    row(OpType::Elementwise, &[Binary(Pow)], DIVISIBLE.with_doubles(&[F64, C64])),
    row(
        OpType::Elementwise,
        &[Binary(BitwiseAnd), Binary(BitwiseOr), Binary(BitwiseXor), Unary(BitwiseNot)],
        BITS,
    ),
    row(OpType::Elementwise, &[Binary(ShiftLeft), Binary(ShiftRight)], INTEGERS),
    row(OpType::Elementwise, &[Unary(Floor), Unary(Ceil), Unary(Round), Unary(Trunc)], FLOAT),
    row(
        OpType::Elementwise,
        &[Unary(Sqrt), Unary(Rsqrt)],
        DTypes::always(&[F16, BF16, F32, C64]).with_f64(&[F64]).with_doubles(&[C128]),
    ),
    row(
        OpType::Elementwise,
        &[
            Unary(Exp),
            Unary(Log),
            Unary(Log2),
            Unary(Log10),
            Unary(Sin),
            Unary(Cos),
            Unary(Tan),
            Unary(Asin),
            Unary(Acos),
            Unary(Atan),
            Unary(Sinh),
            Unary(Cosh),
            Unary(Tanh),
            Unary(Asinh),
            Unary(Acosh),
            Unary(Atanh),
        ],
        FUNCTIONS,
    ),
    row(
        OpType::Elementwise,
        &[Unary(Expm1), Unary(Log1p), Binary(Atan2), Binary(LogAddExp), Unary(Erf)],
        SMOOTH,
    ),
    row(OpType::Elementwise, &[FusedPointwise], DENSE)
        .check(super::fused::supports)
        .remark("of operations that the device has, each in its dtypes"),
    row(OpType::Activation, &[Unary(Relu)], REAL),
    row(OpType::Activation, &[Glu(GluOp::Relu)], FLOAT),
    row(OpType::Activation, &[Unary(Sigmoid), Unary(Silu)], FUNCTIONS),
    row(OpType::Activation, &[Unary(Gelu), Unary(GeluTanh), Unary(Softplus)], SMOOTH),
    row(OpType::Activation, &[Glu(GluOp::Silu), Glu(GluOp::Gelu), Glu(GluOp::GeluTanh)], SMOOTH),
    row(OpType::Comparison, &[Compare(Eq), Compare(Ne), Unary(LogicalNot)], DENSE),
    row(OpType::Comparison, &[Compare(Lt), Compare(Le), Compare(Gt), Compare(Ge)], ORDERED),
    row(
        OpType::Comparison,
        &[Unary(IsNan), Unary(IsInf), Unary(IsFinite)],
        DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32, C64])
            .with_f64(&[F64])
            .with_doubles(&[C128]),
    ),
    row(OpType::Comparison, &[Where], DENSE).subject(1).beside(&[Bool]),
    row(OpType::ComplexMath, &[Unary(Conj), Unary(Real), Unary(Imag)], COMPLEX),
    row(OpType::ComplexMath, &[Unary(Angle)], DTypes::always(&[C64]).with_doubles(&[C128])),
    row(OpType::DataMovement, &[Cast], DENSE)
        .check(super::supports)
        .remark("from `f64` to integers and between `i64` and `f64` with 64-bit integers"),
];
