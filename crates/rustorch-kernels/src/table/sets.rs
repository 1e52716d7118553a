//! Sets of dtypes that several families have.

use super::DTypes;
use rustorch_core::DType;

/// Floats that are computed in `f32`.
pub const SINGLE: DTypes = DTypes::always(&[DType::F16, DType::BF16, DType::F32]);

/// Real floats.
pub const FLOAT: DTypes = SINGLE.with_f64(&[DType::F64]);

/// Floats and complex numbers.
pub const CONTINUOUS: DTypes =
    DTypes::always(&[DType::F16, DType::BF16, DType::F32, DType::C64]).with_f64(&[DType::F64, DType::C128]);

/// Everything that can be multiplied and added.
pub const NUMERIC: DTypes = DTypes::always(&[
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
])
.with_f64(&[DType::F64, DType::C128]);

/// [`NUMERIC`] and truth values.
pub const DENSE: DTypes = DTypes::always(&[
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
])
.with_f64(&[DType::F64, DType::C128]);

/// What kernels move as bits: 64-bit floats everywhere.
pub const MOVED: DTypes = DTypes::always(&[
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
    DType::F64,
    DType::C64,
])
.with_f64(&[DType::C128]);

/// What has an order, by keys, which 64-bit floats have everywhere.
pub const ORDERED: DTypes = DTypes::always(&[
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
    DType::F64,
]);
