//! Scalars and vectors of them: the values on which helpers and operators work.

use naga::{Scalar, ScalarKind, VectorSize};

use crate::Error;

/// All scalar types, in the order in which they are defined in the source.
pub(crate) const SCALARS: [Scalar; 10] = [
    Scalar::BOOL,
    Scalar::I16,
    Scalar::U16,
    Scalar::I32,
    Scalar::U32,
    Scalar::I64,
    Scalar::U64,
    Scalar::F16,
    Scalar::F32,
    Scalar::F64,
];

/// Names of vector components.
pub(crate) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// The name of a scalar in both dialects.
pub(crate) fn name(scalar: Scalar) -> Result<&'static str, Error> {
    Ok(match scalar {
        Scalar::BOOL => "bool",
        Scalar::I16 => "i16",
        Scalar::U16 => "u16",
        Scalar::I32 => "i32",
        Scalar::U32 => "u32",
        Scalar::I64 => "i64",
        Scalar::U64 => "u64",
        Scalar::F16 => "f16",
        Scalar::F32 => "f32",
        Scalar::F64 => "f64",
        other => {
            return Err(Error::UnsupportedType(format!(
                "a scalar of {} bytes {:?}",
                other.width, other.kind
            )));
        }
    })
}

/// A scalar (`size` is `None`) or a vector type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) size: Option<VectorSize>,
    pub(crate) scalar: Scalar,
}

impl Shape {
    pub(crate) const fn scalar(scalar: Scalar) -> Self {
        Self { size: None, scalar }
    }

    /// The same number of components of another type.
    pub(crate) const fn of(self, scalar: Scalar) -> Self {
        Self { size: self.size, scalar }
    }

    pub(crate) fn components(self) -> usize {
        self.size.map_or(1, |size| size as usize)
    }

    /// The type's name without a definition for it: see `Program::shape` for that.
    pub(crate) fn name(self) -> Result<String, Error> {
        let scalar = name(self.scalar)?;
        Ok(match self.size {
            None => scalar.into(),
            Some(size) => format!("{scalar}x{}", size as u8),
        })
    }
}

/// A text together with its type.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) text: String,
    pub(crate) shape: Shape,
}

impl Operand {
    pub(crate) fn new(text: impl Into<String>, shape: Shape) -> Self {
        Self { text: text.into(), shape }
    }
}

pub(crate) fn is_float(scalar: Scalar) -> bool {
    scalar.kind == ScalarKind::Float
}

/// The unsigned type in which integers of this type wrap without undefined behaviour: 16-bit ones are promoted to `int` by
/// C, where a product could overflow, so they are computed in 32 bits.
pub(crate) fn wrapping(scalar: Scalar) -> Scalar {
    if scalar.width == 8 { Scalar::U64 } else { Scalar::U32 }
}
