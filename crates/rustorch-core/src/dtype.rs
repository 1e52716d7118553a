//! Data types of tensor elements.

use crate::QuantType;
use half::{bf16, f16};
use num_complex::Complex;
use std::fmt;

/// Single-precision complex number.
pub type C64 = Complex<f32>;
/// Double-precision complex number.
pub type C128 = Complex<f64>;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Boolean, one byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer: the type of indices.
    I64,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16: the upper half of an `F32`.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Complex number of two `F32`.
    C64,
    /// Complex number of two `F64`.
    C128,
    /// A ggml block type; see [`QuantType`].
    Quant(QuantType),
}

/// The families of dtypes that promotion and capability tables speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DTypeKind {
    /// `Bool`.
    Bool,
    /// Signed and unsigned integers.
    Int,
    /// Real floating-point numbers.
    Float,
    /// Complex floating-point numbers.
    Complex,
    /// Block-quantized numbers.
    Quant,
}

impl DType {
    /// Every dtype whose elements stand alone, that is all but the block types.
    pub const DENSE: &'static [DType] = &[
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
        DType::C128,
    ];

    /// The bytes of one element, or `None` for block types.
    #[inline]
    pub const fn size(self) -> Option<usize> {
        Some(match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
            DType::Quant(_) => return None,
        })
    }

    /// Values in the smallest unit that can be addressed: 1, or the block length of a block type.
    #[inline]
    pub const fn block_len(self) -> usize {
        match self {
            DType::Quant(q) => q.block_len(),
            _ => 1,
        }
    }

    /// Bytes of the smallest unit that can be addressed: the element, or the block of a block type.
    #[inline]
    pub const fn block_bytes(self) -> usize {
        match self {
            DType::Quant(q) => q.block_bytes(),
            _ => match self.size() {
                Some(size) => size,
                None => unreachable!(),
            },
        }
    }

    /// The bytes that `values` consecutive values take; `None` where they do not fill whole blocks or overflow.
    #[inline]
    pub const fn bytes_for(self, values: usize) -> Option<usize> {
        match self {
            DType::Quant(q) => q.bytes_for(values),
            _ => values.checked_mul(self.block_bytes()),
        }
    }

    /// The family of the dtype.
    #[inline]
    pub const fn kind(self) -> DTypeKind {
        match self {
            DType::Bool => DTypeKind::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::U32 | DType::I64 => DTypeKind::Int,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => DTypeKind::Float,
            DType::C64 | DType::C128 => DTypeKind::Complex,
            DType::Quant(_) => DTypeKind::Quant,
        }
    }

    /// Whether the dtype is a real floating-point type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), DTypeKind::Float)
    }

    /// Whether the dtype is complex.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), DTypeKind::Complex)
    }

    /// Whether the dtype is an integer type (`Bool` is not).
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self.kind(), DTypeKind::Int)
    }

    /// Whether the dtype is a block type.
    #[inline]
    pub const fn is_quant(self) -> bool {
        matches!(self, DType::Quant(_))
    }

    /// The real dtype of a complex dtype's parts; every other dtype is its own.
    pub const fn to_real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex dtype that holds this dtype's values as real parts.
    pub const fn to_complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// The short name, for example `"f32"` or `"Q4_K"`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
            DType::Quant(q) => q.name(),
        }
    }

    /// The dtype of this [name](Self::name).
    pub fn from_name(name: &str) -> Option<DType> {
        DType::DENSE
            .iter()
            .copied()
            .find(|dtype| dtype.name() == name)
            .or_else(|| QuantType::from_name(name).map(DType::Quant))
    }

    /// The dtype that GGUF files name by `id`.
    pub const fn from_ggml_id(id: u32) -> Option<DType> {
        Some(match id {
            0 => DType::F32,
            1 => DType::F16,
            24 => DType::I8,
            25 => DType::I16,
            26 => DType::I32,
            27 => DType::I64,
            28 => DType::F64,
            30 => DType::BF16,
            _ => match QuantType::from_ggml_id(id) {
                Some(q) => DType::Quant(q),
                None => return None,
            },
        })
    }

    /// The number by which GGUF files name the dtype, where they can.
    pub const fn ggml_id(self) -> Option<u32> {
        Some(match self {
            DType::F32 => 0,
            DType::F16 => 1,
            DType::I8 => 24,
            DType::I16 => 25,
            DType::I32 => 26,
            DType::I64 => 27,
            DType::F64 => 28,
            DType::BF16 => 30,
            DType::Quant(q) => q.ggml_id(),
            DType::Bool | DType::U8 | DType::U32 | DType::C64 | DType::C128 => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A Rust type that stands for one [`DType`].
///
/// Sealed: the set of dtypes is fixed, and kernels rely on `DTYPE` telling the truth about the memory layout.
pub trait Element: Copy + Send + Sync + PartialEq + fmt::Debug + 'static + sealed::Sealed {
    /// The dtype that this Rust type stands for.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    bool => Bool, u8 => U8, i8 => I8, i16 => I16, i32 => I32, u32 => U32, i64 => I64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, C64 => C64, C128 => C128,
}
