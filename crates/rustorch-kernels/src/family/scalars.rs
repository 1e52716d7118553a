//! Numbers that kernels get as parameters: three words each, whatever the dtype.

use super::kind::Kind;
use crate::plan::StepBuilder;
use crate::wgsl::Module;
use rustorch_core::{DType, FromScalar, Scalar, bf16, f16};

/// Declares the words of a number: its value, an expression.
pub(super) fn declare(module: &mut Module, kind: Kind) -> String {
    let [x, y, z] = [module.word(), module.word(), module.word()];
    match kind {
        Kind::Signed(_) => format!("bitcast<i32>({x})"),
        Kind::Long => format!("long_of_pair(vec2<u32>({x}, {y}))"),
        Kind::Pair => format!("vec2<u32>({x}, {y})"),
        Kind::Single => format!("bitcast<f32>({x})"),
        Kind::Double => format!("double_of(bitcast<i32>({x}), {y}, bitcast<i32>({z}))"),
        _ => x.to_string(),
    }
}

/// Adds the words of a number.
pub(super) fn give(step: &mut StepBuilder<'_>, words: [u32; 3]) {
    for word in words {
        step.word(word);
    }
}

/// The words of a real number that is rounded to a dtype; integers keep their low bits.
pub(super) fn words(value: Scalar, dtype: DType) -> [u32; 3] {
    match dtype {
        DType::F16 => single(f16::from_scalar(value).to_f32()),
        DType::BF16 => single(bf16::from_scalar(value).to_f32()),
        DType::F32 => single(f32::from_scalar(value)),
        DType::F64 => double(value.to_f64()),
        _ => integer(value.to_i64()),
    }
}

/// The dtype in which floats of a dtype are computed.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The words of an integer.
pub(super) fn integer(x: i64) -> [u32; 3] {
    [x as u32, (x >> 32) as u32, 0]
}

/// The words of a single.
pub(super) fn single(x: f32) -> [u32; 3] {
    [x.to_bits(), 0, 0]
}

/// The mantissa of a double as two words, and its exponent: see `double_of` in the library.
pub(super) fn double(x: f64) -> [u32; 3] {
    if !x.is_finite() {
        let one = if x > 0.0 { 1 } else { u32::MAX };
        return if x.is_nan() { [0, 0, 9999] } else { [one, 0, 4000] };
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let signed = if x.is_sign_negative() { -mantissa } else { mantissa };
    [(signed >> 32) as u32, signed as u32, (exponent.max(1) - 1075) as u32]
}
