//! The WGSL type in which a dtype is computed.

use crate::Hardware;
use rustorch_core::DType;

/// The arithmetic of a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `bool`
    Bool,
    /// `u32`, of which so many bits are kept.
    Unsigned(u32),
    /// `i32`, of which so many bits are kept.
    Signed(u32),
    /// `i64`
    Long,
    /// 64-bit integers as two words.
    Pair,
    /// `f32`
    Single,
    /// `f64`
    Double,
    /// `vec2<f32>`
    Complex,
    /// `vec2<f64>`
    ComplexDouble,
}

impl Kind {
    /// That of a dense dtype.
    pub(crate) fn of(dtype: DType, hardware: &Hardware) -> Kind {
        match dtype {
            DType::Bool => Kind::Bool,
            DType::U8 => Kind::Unsigned(8),
            DType::U32 => Kind::Unsigned(32),
            DType::I8 => Kind::Signed(8),
            DType::I16 => Kind::Signed(16),
            DType::I32 => Kind::Signed(32),
            DType::I64 if hardware.i64 => Kind::Long,
            DType::I64 => Kind::Pair,
            DType::F64 => Kind::Double,
            DType::C64 => Kind::Complex,
            DType::C128 => Kind::ComplexDouble,
            _ => Kind::Single,
        }
    }
}
