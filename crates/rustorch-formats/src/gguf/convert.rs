//! Conversions between metadata values and Rust types.

use super::{Array, ByteString, StrArray, Value};

/// Why a value is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// It has another type.
    Type,
    /// It is an integer, here shown, that does not fit.
    Range(String),
    /// It is a string that is not UTF-8.
    Utf8,
}

/// A type that metadata can be read as by [`Metadata::get`](super::Metadata::get).
///
/// - Integers (`u8`…`i64`, `usize`): from any integer type, where the value fits.
/// - `f32`, `f64`: from either; a double read as `f32` is rounded.
/// - `bool`, `&str` (must be UTF-8), [`&ByteString`](ByteString) (any bytes).
/// - [`&Array`](Array), [`&StrArray`](StrArray), and slices `&[T]` of an array whose elements are exactly `T`.
/// - `Vec` of integers: from an array of any integer type, where every value fits.
pub trait FromValue<'a>: Sized {
    /// The name of the type, for errors.
    const EXPECTED: &'static str;

    /// The value as this type.
    ///
    /// # Errors
    /// Where it is something else.
    fn from_value(value: &'a Value) -> Result<Self, Mismatch>;
}

macro_rules! integers {
    ($($rust:ty, $name:literal;)*) => {$(
        impl FromValue<'_> for $rust {
            const EXPECTED: &'static str = stringify!($rust);

            fn from_value(value: &Value) -> Result<Self, Mismatch> {
                let wide = value.as_integer().ok_or(Mismatch::Type)?;
                wide.try_into().map_err(|_| Mismatch::Range(wide.to_string()))
            }
        }

        impl FromValue<'_> for Vec<$rust> {
            const EXPECTED: &'static str = $name;

            fn from_value(value: &Value) -> Result<Self, Mismatch> {
                let Value::Array(array) = value else { return Err(Mismatch::Type) };
                let values = array.integers().ok_or(Mismatch::Type)?;
                values.map(|v| v.try_into().map_err(|_| Mismatch::Range(v.to_string()))).collect()
            }
        }
    )*};
}

integers! {
    u8, "array of integers that fit u8";
    i8, "array of integers that fit i8";
    u16, "array of integers that fit u16";
    i16, "array of integers that fit i16";
    u32, "array of integers that fit u32";
    i32, "array of integers that fit i32";
    u64, "array of integers that fit u64";
    i64, "array of integers that fit i64";
    usize, "array of integers that fit usize";
}

macro_rules! arrays {
    ($($rust:ty, $variant:ident, $name:literal;)*) => {$(
        impl<'a> FromValue<'a> for &'a [$rust] {
            const EXPECTED: &'static str = $name;

            fn from_value(value: &'a Value) -> Result<Self, Mismatch> {
                match value {
                    Value::Array(Array::$variant(v)) => Ok(v),
                    _ => Err(Mismatch::Type),
                }
            }
        }

        impl From<Vec<$rust>> for Value {
            fn from(v: Vec<$rust>) -> Self {
                Value::Array(Array::$variant(v))
            }
        }

        impl From<&[$rust]> for Value {
            fn from(v: &[$rust]) -> Self {
                Value::Array(Array::$variant(v.to_vec()))
            }
        }
    )*};
}

arrays! {
    u8, U8, "array of u8";
    i8, I8, "array of i8";
    u16, U16, "array of u16";
    i16, I16, "array of i16";
    u32, U32, "array of u32";
    i32, I32, "array of i32";
    u64, U64, "array of u64";
    i64, I64, "array of i64";
    f32, F32, "array of f32";
    f64, F64, "array of f64";
    bool, Bool, "array of bool";
}

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "f32";

    fn from_value(value: &Value) -> Result<Self, Mismatch> {
        match *value {
            Value::F32(v) => Ok(v),
            Value::F64(v) => Ok(v as f32),
            _ => Err(Mismatch::Type),
        }
    }
}

impl FromValue<'_> for f64 {
    const EXPECTED: &'static str = "f64";

    fn from_value(value: &Value) -> Result<Self, Mismatch> {
        match *value {
            Value::F32(v) => Ok(v.into()),
            Value::F64(v) => Ok(v),
            _ => Err(Mismatch::Type),
        }
    }
}

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "bool";

    fn from_value(value: &Value) -> Result<Self, Mismatch> {
        match *value {
            Value::Bool(v) => Ok(v),
            _ => Err(Mismatch::Type),
        }
    }
}

impl<'a> FromValue<'a> for &'a ByteString {
    const EXPECTED: &'static str = "string";

    fn from_value(value: &'a Value) -> Result<Self, Mismatch> {
        match value {
            Value::Str(v) => Ok(v),
            _ => Err(Mismatch::Type),
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "string";

    fn from_value(value: &'a Value) -> Result<Self, Mismatch> {
        <&ByteString>::from_value(value)?.to_str().map_err(|_| Mismatch::Utf8)
    }
}

impl<'a> FromValue<'a> for &'a Array {
    const EXPECTED: &'static str = "array";

    fn from_value(value: &'a Value) -> Result<Self, Mismatch> {
        match value {
            Value::Array(v) => Ok(v),
            _ => Err(Mismatch::Type),
        }
    }
}

impl<'a> FromValue<'a> for &'a StrArray {
    const EXPECTED: &'static str = "array of string";

    fn from_value(value: &'a Value) -> Result<Self, Mismatch> {
        match value {
            Value::Array(Array::Str(v)) => Ok(v),
            _ => Err(Mismatch::Type),
        }
    }
}

macro_rules! scalars {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl From<$rust> for Value {
            fn from(v: $rust) -> Self {
                Value::$variant(v.into())
            }
        }
    )*};
}

scalars! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
    bool => Bool, &str => Str, String => Str, ByteString => Str, Array => Array,
}

impl From<StrArray> for Value {
    fn from(v: StrArray) -> Self {
        Value::Array(Array::Str(v))
    }
}

impl From<&[&str]> for Value {
    fn from(v: &[&str]) -> Self {
        Value::Array(Array::Str(v.iter().collect()))
    }
}

impl From<Vec<String>> for Value {
    fn from(v: Vec<String>) -> Self {
        Value::Array(Array::Str(v.iter().collect()))
    }
}
