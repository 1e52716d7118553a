//! What is computed of each element, in which dtypes.

use crate::table::{DTypes, Row, row};
use rustorch_core::{DType, OpType};

const SINGLE: &[DType] = &[DType::F16, DType::BF16, DType::F32];
const REAL: &[DType] =
    &[DType::U8, DType::I8, DType::I16, DType::I32, DType::U32, DType::F16, DType::BF16, DType::F32];
const DENSE: &[DType] = &[
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::C64,
];
const ORDERED: &[DType] = &[
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::U32,
    DType::F16,
    DType::BF16,
    DType::F32,
];
const F64: &[DType] = &[DType::F64];

/// The rows of the table.
pub const ROWS: &[Row] = &[
    row(OpType::Elementwise, &["neg", "sub"], DTypes::always(REAL).with_i64().with_f64(F64)),
    row(OpType::Elementwise, &["abs", "square"], DTypes::always(SINGLE)),
    row(OpType::Elementwise, &["add", "mul"], DTypes::always(ORDERED).with_i64().with_f64(F64)),
    row(OpType::Elementwise, &["div"], DTypes::always(SINGLE).with_f64(F64)),
    row(OpType::Activation, &["relu", "silu_gate", "relu_gate"], DTypes::always(SINGLE)),
    row(
        OpType::Comparison,
        &["eq", "ne", "lt", "le", "gt", "ge"],
        DTypes::always(ORDERED).with_i64().with_f64(F64),
    ),
    row(OpType::Comparison, &["where"], DTypes::always(DENSE).with_f64(&[DType::F64, DType::C128]))
        .subject(1)
        .beside(&[DType::Bool]),
    row(OpType::DataMovement, &["cast"], DTypes::always(SINGLE)).check(super::supports),
];
