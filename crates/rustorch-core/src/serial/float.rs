//! Fields of floating-point numbers: `#[serde(with = "crate::serial::float")]`.
//!
//! A finite number is a number. Infinities and NaNs, which JSON does not have, are the texts `inf`, `-inf` and `nan:` with the bits
//! in hexadecimal.

use crate::C128;
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;

/// As serde's derives call it.
pub(crate) fn serialize<T: Field, S: Serializer>(field: &T, serializer: S) -> Result<S::Ok, S::Error> {
    field.to_data().serialize(serializer)
}

/// As serde's derives call it.
pub(crate) fn deserialize<'de, T: Field, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Data::deserialize(deserializer).map(T::from_data)
}

/// What a field may be.
pub(crate) trait Field: Sized {
    /// As it is in a file.
    type Data: Serialize + DeserializeOwned;
    /// For a file.
    fn to_data(&self) -> Self::Data;
    /// From a file.
    fn from_data(data: Self::Data) -> Self;
}

impl<F: Float> Field for F {
    type Data = Exact<F>;

    fn to_data(&self) -> Exact<F> {
        Exact(*self)
    }

    fn from_data(data: Exact<F>) -> F {
        data.0
    }
}

impl<F: Float> Field for Option<F> {
    type Data = Option<Exact<F>>;

    fn to_data(&self) -> Option<Exact<F>> {
        self.map(Exact)
    }

    fn from_data(data: Option<Exact<F>>) -> Option<F> {
        data.map(|exact| exact.0)
    }
}

impl<F: Float> Field for SmallVec<[Option<F>; 3]> {
    type Data = SmallVec<[Option<Exact<F>>; 3]>;

    fn to_data(&self) -> Self::Data {
        self.iter().map(Field::to_data).collect()
    }

    fn from_data(data: Self::Data) -> Self {
        data.into_iter().map(Field::from_data).collect()
    }
}

/// The real and the imaginary part.
impl Field for C128 {
    type Data = [Exact<f64>; 2];

    fn to_data(&self) -> [Exact<f64>; 2] {
        [Exact(self.re), Exact(self.im)]
    }

    fn from_data([re, im]: [Exact<f64>; 2]) -> C128 {
        C128::new(re.0, im.0)
    }
}

/// A type of real numbers.
pub(crate) trait Float: Copy {
    const NAME: &'static str;
    /// The number as one of the widest type; `None` for NaN, whose bits that may change.
    fn widen(self) -> Option<f64>;
    /// The number; `None` if this type does not have it.
    fn narrow(wide: f64) -> Option<Self>;
    /// The bits in hexadecimal.
    fn hex(self) -> String;
    /// The NaN of these bits; `None` if they are none.
    fn nan(hex: &str) -> Option<Self>;
}

macro_rules! float {
    ($($ty:ident($bits:ident): $digits:literal),*) => {$(
        impl Float for $ty {
            const NAME: &'static str = stringify!($ty);

            fn widen(self) -> Option<f64> {
                (!self.is_nan()).then(|| f64::from(self))
            }

            fn narrow(wide: f64) -> Option<$ty> {
                let number = wide as $ty;
                (f64::from(number) == wide).then_some(number)
            }

            fn hex(self) -> String {
                format!("{:0digits$x}", self.to_bits(), digits = $digits)
            }

            fn nan(hex: &str) -> Option<$ty> {
                let is_hex = hex.len() == $digits && hex.bytes().all(|b| b.is_ascii_hexdigit());
                let bits = is_hex.then(|| $bits::from_str_radix(hex, 16).ok())??;
                Some($ty::from_bits(bits)).filter(|number| number.is_nan())
            }
        }
    )*};
}

float!(f32(u32): 8, f64(u64): 16);

/// A number with all its bits.
pub(crate) struct Exact<F>(F);

impl<F: Float> Serialize for Exact<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.widen() {
            Some(f64::INFINITY) => serializer.serialize_str("inf"),
            Some(f64::NEG_INFINITY) => serializer.serialize_str("-inf"),
            Some(finite) => serializer.serialize_f64(finite),
            None => serializer.collect_str(&format_args!("nan:{}", self.0.hex())),
        }
    }
}

impl<'de, F: Float> Deserialize<'de> for Exact<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Exact<F>, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

struct Reader<F>(PhantomData<F>);

impl<F: Float> Visitor<'_> for Reader<F> {
    type Value = Exact<F>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number of {}, or \"inf\", \"-inf\" or \"nan:\" with its bits", F::NAME)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Exact<F>, E> {
        F::narrow(number).map(Exact).ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Exact<F>, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Exact<F>, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Exact<F>, E> {
        let number = match text {
            "inf" => F::narrow(f64::INFINITY),
            "-inf" => F::narrow(f64::NEG_INFINITY),
            _ => text.strip_prefix("nan:").and_then(F::nan),
        };
        number.map(Exact).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}
