//! Scalars.

use crate::{C128, DType, DTypeKind};
use half::{bf16, f16};
use std::fmt;

/// A scalar given by a person or taken out of a tensor, of no particular width.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Scalar {
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Real.
    Float(#[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))] f64),
    /// Complex.
    Complex(#[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))] C128),
}

impl Scalar {
    /// Whether all bits of it are zero, in any dtype: not of `-0.0`.
    pub fn is_zero_bits(self) -> bool {
        match self {
            Scalar::Bool(value) => !value,
            Scalar::Int(value) => value == 0,
            Scalar::Float(value) => value.to_bits() == 0,
            Scalar::Complex(value) => value.re.to_bits() == 0 && value.im.to_bits() == 0,
        }
    }

    /// The family that a tensor is promoted to at least when it meets this scalar.
    pub const fn kind(self) -> DTypeKind {
        match self {
            Scalar::Bool(_) => DTypeKind::Bool,
            Scalar::Int(_) => DTypeKind::Int,
            Scalar::Float(_) => DTypeKind::Float,
            Scalar::Complex(_) => DTypeKind::Complex,
        }
    }

    /// The dtype of a tensor made from this scalar alone: PyTorch's defaults.
    pub const fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
            Scalar::Complex(_) => DType::C64,
        }
    }

    /// The real part as `f64`.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(x) => x,
            Scalar::Complex(z) => z.re,
        }
    }

    /// The real part as `i64`, towards zero and saturating.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(x) => x as i64,
            Scalar::Complex(z) => z.re as i64,
        }
    }

    /// The scalar as a complex one.
    pub fn to_complex(self) -> C128 {
        match self {
            Scalar::Complex(z) => z,
            other => C128::new(other.to_f64(), 0.0),
        }
    }

    /// Whether the scalar is not zero (NaN is not).
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(x) => x != 0.0,
            Scalar::Complex(z) => z != C128::new(0.0, 0.0),
        }
    }
}

macro_rules! from {
    ($($variant:ident($target:ty): $($ty:ty),*;)*) => {$($(
        impl From<$ty> for Scalar {
            fn from(value: $ty) -> Scalar {
                Scalar::$variant(<$target>::from(value))
            }
        }
    )*)*};
}

from! {
    Bool(bool): bool;
    Int(i64): u8, i8, i16, i32, u32, i64;
    Float(f64): f16, bf16, f32, f64;
    Complex(C128): C128;
}

impl From<crate::C64> for Scalar {
    fn from(z: crate::C64) -> Scalar {
        Scalar::Complex(C128::new(z.re.into(), z.im.into()))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => b.fmt(f),
            Scalar::Int(i) => i.fmt(f),
            Scalar::Float(x) => x.fmt(f),
            Scalar::Complex(z) => z.fmt(f),
        }
    }
}

/// An [`crate::Element`] that converts to and from [`Scalar`], numerically, as casting does.
pub trait FromScalar: crate::Element + Into<Scalar> {
    /// The scalar in this type: rounded, truncated towards zero, or reduced to its real part.
    fn from_scalar(value: Scalar) -> Self;
}

macro_rules! from_scalar {
    ($($ty:ty: $v:ident => $expr:expr;)*) => {$(
        impl FromScalar for $ty {
            fn from_scalar($v: Scalar) -> $ty {
                $expr
            }
        }
    )*};
}

from_scalar! {
    bool: v => v.to_bool();
    u8: v => v.to_i64() as u8;
    i8: v => v.to_i64() as i8;
    i16: v => v.to_i64() as i16;
    i32: v => v.to_i64() as i32;
    u32: v => v.to_i64() as u32;
    i64: v => v.to_i64();
    f16: v => f16::from_f64(v.to_f64());
    bf16: v => bf16::from_f64(v.to_f64());
    f32: v => v.to_f64() as f32;
    f64: v => v.to_f64();
    crate::C64: v => { let z = v.to_complex(); crate::C64::new(z.re as f32, z.im as f32) };
    C128: v => v.to_complex();
}
