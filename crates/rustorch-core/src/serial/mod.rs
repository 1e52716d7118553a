//! What serde's derives cannot do by themselves: floats that JSON has no word for, names, and types whose constructors check something.
//!
//! The data is for formats that describe themselves, such as JSON. A number comes back with its bits if the format's reader rounds
//! correctly (of `serde_json`: its feature `float_roundtrip`).

pub(crate) mod float;
mod layout;

use crate::{CustomOp, DType, Device, Error, Result};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{self, Serialize, Serializer};
use std::fmt;

/// Whether a number is its default.
pub(crate) fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// Reads text as a value.
struct FromText<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T>,
}

impl<T> Visitor<'_> for FromText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

impl Serialize for DType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        let parse = |name: &str| {
            let unknown = || Error::argument("dtype", format!("`{name}` is the name of none"));
            DType::from_name(name).ok_or_else(unknown)
        };
        deserializer.deserialize_str(FromText { expected: "the name of a dtype", parse })
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Device, D::Error> {
        deserializer.deserialize_str(FromText { expected: "the name of a device", parse: str::parse })
    }
}

/// Custom operations are known to the process that made them, and to nobody else.
impl Serialize for CustomOp {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom(format_args!(
            "the custom operation {self} is made of Rust functions, which cannot be saved; use built-in operations in its place"
        )))
    }
}

impl<'de> Deserialize<'de> for CustomOp {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<CustomOp, D::Error> {
        Err(de::Error::custom("custom operations are made of Rust functions, which no file has"))
    }
}
