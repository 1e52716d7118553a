//! Sets of dtypes that several families have.

use super::DTypes;
use DType::{BF16, Bool, C64, C128, F16, F32, F64, I8, I16, I32, I64, U8, U32};
use rustorch_core::DType;

/// Floats that are computed in `f32`.
pub const SINGLE: DTypes = DTypes::always(&[F16, BF16, F32]);

/// Floats of which exponentials and the like are taken.
pub const SMOOTH: DTypes = SINGLE.with_doubles(&[F64]);

/// Real floats.
pub const FLOAT: DTypes = SINGLE.with_f64(&[F64]);

/// Floats and complex numbers.
pub const CONTINUOUS: DTypes = DTypes::always(&[F16, BF16, F32, C64]).with_f64(&[F64, C128]);

/// Integers, and floats that are computed in `f32`.
pub const COUNTABLE: DTypes = DTypes::always(&[U8, I8, I16, I32, U32, I64, F16, BF16, F32]);

/// Integers and real floats.
pub const REAL: DTypes = COUNTABLE.with_f64(&[F64]);

/// Everything that can be multiplied and added.
pub const NUMERIC: DTypes =
    DTypes::always(&[U8, I8, I16, I32, U32, I64, F16, BF16, F32, C64]).with_f64(&[F64, C128]);

/// [`NUMERIC`] and booleans.
pub const DENSE: DTypes =
    DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32, C64]).with_f64(&[F64, C128]);

/// What kernels move as bits: 64-bit floats everywhere.
pub const MOVED: DTypes =
    DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32, F64, C64]).with_f64(&[C128]);

/// What has an order, by keys, which 64-bit floats have everywhere.
pub const ORDERED: DTypes = DTypes::always(&[Bool, U8, I8, I16, I32, U32, I64, F16, BF16, F32, F64]);

/// All, where no arithmetic is needed for any.
pub const ALL: DTypes = DTypes::always(DType::DENSE);
