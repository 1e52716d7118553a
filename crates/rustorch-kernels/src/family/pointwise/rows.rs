//! What is computed of each element, in which dtypes.

use crate::table::sets::{CONTINUOUS, DENSE, FLOAT, NUMERIC, REAL, SMOOTH};
use crate::table::{DTypes, Row, row};
use DType::{BF16, Bool, C64, C128, F16, F32, F64, I8, I16, I32, I64, U8, U32};
use rustorch_core::{DType, OpType};

const ORDERED: DTypes = DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32]).with_f64(&[F64]);
const DIVISIBLE: DTypes = DTypes::always(&[U8, I8, I16, I32, U32, F16, BF16, F32]).with_i64();
const INTEGERS: DTypes = DTypes::always(&[U8, I8, I16, I32, U32]).with_i64();
const BITS: DTypes = DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64]);
const FUNCTIONS: DTypes = DTypes::always(&[F16, BF16, F32, C64]).with_doubles(&[F64, C128]);
const COMPLEX: DTypes = DTypes::always(&[C64]).with_f64(&[C128]);

/// The rows of the table.
pub const ROWS: &[Row] = &[
    row(OpType::Elementwise, &["add", "mul"], DENSE),
    row(OpType::Elementwise, &["sub", "neg", "square", "abs"], NUMERIC),
    row(OpType::Elementwise, &["div", "reciprocal"], CONTINUOUS),
    row(OpType::Elementwise, &["maximum", "minimum"], ORDERED),
    row(OpType::Elementwise, &["sign", "clamp"], REAL),
    row(OpType::Elementwise, &["floor_divide", "remainder"], DIVISIBLE.with_doubles(&[F64])),
    row(OpType::Elementwise, &["pow"], DIVISIBLE.with_doubles(&[F64, C64])),
    row(OpType::Elementwise, &["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"], BITS),
    row(OpType::Elementwise, &["bitwise_left_shift", "bitwise_right_shift"], INTEGERS),
    row(OpType::Elementwise, &["floor", "ceil", "round", "trunc"], FLOAT),
    row(
        OpType::Elementwise,
        &["sqrt", "rsqrt"],
        DTypes::always(&[F16, BF16, F32, C64]).with_f64(&[F64]).with_doubles(&[C128]),
    ),
    row(
        OpType::Elementwise,
        &[
            "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
            "tanh", "asinh", "acosh", "atanh",
        ],
        FUNCTIONS,
    ),
    row(OpType::Elementwise, &["expm1", "log1p", "atan2", "erf"], SMOOTH),
    row(OpType::Elementwise, &["chain"], DENSE)
        .check(super::chain::supports)
        .remark("of operations that the device has, each in its dtypes"),
    row(OpType::Activation, &["relu"], REAL),
    row(OpType::Activation, &["relu_gate"], FLOAT),
    row(OpType::Activation, &["sigmoid", "silu"], FUNCTIONS),
    row(OpType::Activation, &["gelu", "gelu_tanh", "softplus"], SMOOTH),
    row(OpType::Activation, &["silu_gate", "gelu_gate", "gelu_tanh_gate"], SMOOTH),
    row(OpType::Comparison, &["eq", "ne", "logical_not"], DENSE),
    row(OpType::Comparison, &["lt", "le", "gt", "ge"], ORDERED),
    row(
        OpType::Comparison,
        &["isnan", "isinf", "isfinite"],
        DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32, C64])
            .with_f64(&[F64])
            .with_doubles(&[C128]),
    ),
    row(OpType::Comparison, &["where"], DENSE).subject(1).beside(&[Bool]),
    row(OpType::ComplexMath, &["conj", "real", "imag"], COMPLEX),
    row(OpType::ComplexMath, &["angle"], DTypes::always(&[C64]).with_doubles(&[C128])),
    row(OpType::DataMovement, &["cast"], DENSE)
        .check(super::supports)
        .remark("from `f64` to integers and between `i64` and `f64` with 64-bit integers"),
];
