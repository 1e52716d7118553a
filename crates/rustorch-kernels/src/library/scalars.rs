//! Scalars that kernels get as parameters: three words each, whatever the dtype.

use super::kind::Kind;
use crate::plan::StepBuilder;
use crate::plan::parameters::{Parameter, joined};
use crate::wgsl::Module;
use rustorch_core::{DType, Decline, FromScalar, Scalar, bf16, f16};

/// A scalar in three words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words([u32; 3]);

impl Parameter for Words {
    /// Its value.
    type Name = String;
    /// In what it is computed.
    type Shape = Kind;

    fn declare(module: &mut Module, name: &str, kind: Kind) -> String {
        let [x, y, z] = [0, 1, 2].map(|i: usize| module.member(&joined(name, &i.to_string()), "u32"));
        match kind {
            Kind::Signed(_) => format!("bitcast<i32>({x})"),
            Kind::Long => format!("long_of_pair(vec2<u32>({x}, {y}))"),
            Kind::Pair => format!("vec2<u32>({x}, {y})"),
            Kind::Single => format!("bitcast<f32>({x})"),
            Kind::Double => format!("double_of(bitcast<i32>({x}), {y}, bitcast<i32>({z}))"),
            _ => x.to_string(),
        }
    }

    fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline> {
        self.0.write(launch)
    }
}

/// The words of a real number that is rounded to a dtype; integers keep their low bits.
pub(crate) fn words(value: Scalar, dtype: DType) -> Words {
    match dtype {
        DType::F16 => single(f16::from_scalar(value).to_f32()),
        DType::BF16 => single(bf16::from_scalar(value).to_f32()),
        DType::F32 => single(f32::from_scalar(value)),
        DType::F64 => double(value.to_f64()),
        _ => integer(value.to_i64()),
    }
}

/// The dtype in which floats of a dtype are computed.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The words of an integer.
pub(crate) fn integer(x: i64) -> Words {
    Words([x as u32, (x >> 32) as u32, 0])
}

/// The words of a single.
pub(crate) fn single(x: f32) -> Words {
    Words([x.to_bits(), 0, 0])
}

/// The mantissa of a double as two words, and its exponent: see `double_of` in the library.
pub(crate) fn double(x: f64) -> Words {
    if !x.is_finite() {
        let one = if x > 0.0 { 1 } else { u32::MAX };
        return Words(if x.is_nan() { [0, 0, 9999] } else { [one, 0, 4000] });
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let signed = if x.is_sign_negative() { -mantissa } else { mantissa };
    Words([(signed >> 32) as u32, signed as u32, (exponent.max(1) - 1075) as u32])
}
