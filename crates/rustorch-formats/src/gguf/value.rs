//! Metadata values: the thirteen types of GGUF.

use super::{ByteString, StrArray};
use std::fmt;

macro_rules! value_types {
    ($($variant:ident = $id:literal, $name:literal, $doc:literal;)*) => {
        /// The type of a metadata value or of an array's elements; the discriminant is its number in files.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum ValueType { $(#[doc = $doc] $variant = $id,)* }

        impl ValueType {
            /// Every type, by number.
            pub const ALL: &'static [ValueType] = &[$(ValueType::$variant),*];

            /// The type that files name by `id`.
            pub const fn from_id(id: u32) -> Option<ValueType> {
                match id { $($id => Some(ValueType::$variant),)* _ => None }
            }

            /// The name, as Rust spells it where it has the type: `"u32"`, `"f32"`, `"string"`, `"array"`.
            pub const fn name(self) -> &'static str {
                match self { $(ValueType::$variant => $name,)* }
            }
        }
    };
}

value_types! {
    U8 = 0, "u8", "Unsigned 8-bit integer.";
    I8 = 1, "i8", "Signed 8-bit integer.";
    U16 = 2, "u16", "Unsigned 16-bit integer.";
    I16 = 3, "i16", "Signed 16-bit integer.";
    U32 = 4, "u32", "Unsigned 32-bit integer.";
    I32 = 5, "i32", "Signed 32-bit integer.";
    F32 = 6, "f32", "Single-precision number.";
    Bool = 7, "bool", "Boolean, one byte.";
    Str = 8, "string", "String of bytes, UTF-8 by convention.";
    Array = 9, "array", "Array of values of one type.";
    U64 = 10, "u64", "Unsigned 64-bit integer.";
    I64 = 11, "i64", "Signed 64-bit integer.";
    F64 = 12, "f64", "Double-precision number.";
}

impl ValueType {
    /// The number by which files name the type.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The fewest bytes that a value of the type takes in a file: all of them but for strings and arrays.
    pub(super) const fn min_bytes(self) -> usize {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::Str => 8,
            ValueType::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A metadata value.
///
/// Displayed, strings are quoted and arrays show their length and first elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unsigned 8-bit integer.
    U8(u8),
    /// Signed 8-bit integer.
    I8(i8),
    /// Unsigned 16-bit integer.
    U16(u16),
    /// Signed 16-bit integer.
    I16(i16),
    /// Unsigned 32-bit integer.
    U32(u32),
    /// Signed 32-bit integer.
    I32(i32),
    /// Unsigned 64-bit integer.
    U64(u64),
    /// Signed 64-bit integer.
    I64(i64),
    /// Single-precision number.
    F32(f32),
    /// Double-precision number.
    F64(f64),
    /// Boolean.
    Bool(bool),
    /// String of bytes.
    Str(ByteString),
    /// Array.
    Array(Array),
}

/// An array of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Unsigned 8-bit integers.
    U8(Vec<u8>),
    /// Signed 8-bit integers.
    I8(Vec<i8>),
    /// Unsigned 16-bit integers.
    U16(Vec<u16>),
    /// Signed 16-bit integers.
    I16(Vec<i16>),
    /// Unsigned 32-bit integers.
    U32(Vec<u32>),
    /// Signed 32-bit integers.
    I32(Vec<i32>),
    /// Unsigned 64-bit integers.
    U64(Vec<u64>),
    /// Signed 64-bit integers.
    I64(Vec<i64>),
    /// Single-precision floats.
    F32(Vec<f32>),
    /// Double-precision floats.
    F64(Vec<f64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Strings of bytes.
    Str(StrArray),
    /// Arrays, each with its own element type. llama.cpp does not read these.
    Array(Vec<Array>),
}

impl Value {
    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// The type in words, with that of an array's elements: `"u32"`, `"array of string"`.
    pub fn type_name(&self) -> String {
        match self {
            Value::Array(array) => format!("array of {}", array.element_type()),
            other => other.value_type().name().to_owned(),
        }
    }

    /// The value as an integer, whatever its integer type.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::Str(_) | Value::Array(_) => return None,
        })
    }
}

impl Array {
    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F32(_) => ValueType::F32,
            Array::F64(_) => ValueType::F64,
            Array::Bool(_) => ValueType::Bool,
            Array::Str(_) => ValueType::Str,
            Array::Array(_) => ValueType::Array,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::F64(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::Str(v) => v.len(),
            Array::Array(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as integers, whatever their integer type; `None` for arrays of anything else.
    pub fn integers(&self) -> Option<Box<dyn ExactSizeIterator<Item = i128> + '_>> {
        fn widen<T: Copy + Into<i128>>(v: &[T]) -> Option<Box<dyn ExactSizeIterator<Item = i128> + '_>> {
            Some(Box::new(v.iter().map(|&x| x.into())))
        }
        match self {
            Array::U8(v) => widen(v),
            Array::I8(v) => widen(v),
            Array::U16(v) => widen(v),
            Array::I16(v) => widen(v),
            Array::U32(v) => widen(v),
            Array::I32(v) => widen(v),
            Array::U64(v) => widen(v),
            Array::I64(v) => widen(v),
            Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::Str(_) | Array::Array(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(v) => v.fmt(f),
            Value::I8(v) => v.fmt(f),
            Value::U16(v) => v.fmt(f),
            Value::I16(v) => v.fmt(f),
            Value::U32(v) => v.fmt(f),
            Value::I32(v) => v.fmt(f),
            Value::U64(v) => v.fmt(f),
            Value::I64(v) => v.fmt(f),
            // Debug, for its exponents: 1e-5 rather than 0.00001.
            Value::F32(v) => write!(f, "{v:?}"),
            Value::F64(v) => write!(f, "{v:?}"),
            Value::Bool(v) => v.fmt(f),
            Value::Str(v) => write!(f, "{v:?}"),
            Value::Array(v) => v.fmt(f),
        }
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        fn some<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, v: impl Iterator<Item = T>) -> fmt::Result {
            for (i, x) in v.take(SHOWN).enumerate() {
                write!(f, "{}{x:?}", if i == 0 { "" } else { ", " })?;
            }
            Ok(())
        }
        write!(f, "{}[{}] [", self.element_type(), self.len())?;
        match self {
            Array::U8(v) => some(f, v.iter())?,
            Array::I8(v) => some(f, v.iter())?,
            Array::U16(v) => some(f, v.iter())?,
            Array::I16(v) => some(f, v.iter())?,
            Array::U32(v) => some(f, v.iter())?,
            Array::I32(v) => some(f, v.iter())?,
            Array::U64(v) => some(f, v.iter())?,
            Array::I64(v) => some(f, v.iter())?,
            Array::F32(v) => some(f, v.iter())?,
            Array::F64(v) => some(f, v.iter())?,
            Array::Bool(v) => some(f, v.iter())?,
            Array::Str(v) => some(f, v.iter().map(String::from_utf8_lossy))?,
            Array::Array(v) => {
                for (i, x) in v.iter().take(SHOWN).enumerate() {
                    write!(f, "{}{x}", if i == 0 { "" } else { ", " })?;
                }
            }
        }
        f.write_str(if self.len() > SHOWN { ", …]" } else { "]" })
    }
}
