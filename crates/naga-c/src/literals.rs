//! Numbers as source, exactly.

use naga::{Literal, Scalar, ScalarKind};

use crate::Error;
use crate::dialect::Target;

/// A literal of the given value in the dialect. Negative ones stand without parentheses: they are unary expressions.
pub(crate) fn literal(target: &dyn Target, value: Literal) -> Result<String, Error> {
    let long = target.long_suffix();
    Ok(match value {
        Literal::Bool(v) => v.to_string(),
        Literal::I32(i32::MIN) => "(-2147483647 - 1)".into(),
        Literal::I32(v) => v.to_string(),
        Literal::U32(v) => format!("{v}u"),
        Literal::I64(i64::MIN) => format!("(-9223372036854775807{long} - 1)"),
        Literal::I64(v) => format!("{v}{long}"),
        Literal::U64(v) => format!("{v}U{long}"),
        Literal::I16(v) => format!("((i16){v})"),
        Literal::U16(v) => format!("((u16){v}u)"),
        Literal::F32(v) if v.is_finite() => format!("{}f", float(v.into(), || format!("{v:?}"))),
        Literal::F32(v) => target.f32_from_bits(v.to_bits()),
        Literal::F64(v) if v.is_finite() => float(v, || format!("{v:?}")),
        Literal::F64(v) => target.f64_from_bits(v.to_bits()),
        Literal::F16(v) => {
            target.half_literal(v.to_bits(), &float(v.to_f64(), || format!("{:?}", v.to_f64())))
        }
        Literal::AbstractInt(_) | Literal::AbstractFloat(_) => {
            return Err(Error::Inconsistent("a literal of abstract type was left"));
        }
    })
}

/// A small number in the given type: for the constants of formulas.
pub(crate) fn small(target: &dyn Target, value: u8, scalar: Scalar) -> Result<String, Error> {
    if scalar.kind == ScalarKind::Bool {
        return Ok(if value == 0 { "false" } else { "true" }.into());
    }
    literal(target, Literal::new(value, scalar).ok_or(Error::Inconsistent("a number of an unknown type"))?)
}

/// Decimal text where that is exact and short, else hexadecimal: no reader's rounding can change either.
fn float(value: f64, decimal: impl Fn() -> String) -> String {
    // Multiples of 2^-10 below 2^20 have at most 17 digits, all of them written.
    let scaled = value * 1024.0;
    if scaled == scaled.trunc() && value.abs() < 1_048_576.0 {
        return decimal();
    }
    hexadecimal(value)
}

/// C99's hexadecimal notation of a finite number that is not zero.
fn hexadecimal(value: f64) -> String {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let mut mantissa = bits & ((1 << 52) - 1);
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    if exponent == -1023 {
        // Subnormal: shift the leading one to the place where it is implied.
        let shift = mantissa.leading_zeros() - 11;
        mantissa = (mantissa << shift) & ((1 << 52) - 1);
        exponent = -1022 - i64::from(shift);
    }
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x1{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Cuda, OpenCl};

    #[test]
    fn floats_are_exact() {
        let text = |v: f32| literal(&OpenCl, Literal::F32(v)).unwrap();
        assert_eq!(text(1.0), "1.0f");
        assert_eq!(text(-0.5), "-0.5f");
        assert_eq!(text(-0.0), "-0.0f");
        assert_eq!(text(0.1), "0x1.99999ap-4f");
        assert_eq!(text(f32::MAX), "0x1.fffffep+127f");
        assert_eq!(text(f32::from_bits(1)), "0x1p-149f");
        assert_eq!(text(f32::NAN), "as_float(0x7fc00000u)");
        assert_eq!(literal(&Cuda, Literal::F32(f32::NEG_INFINITY)).unwrap(), "__int_as_float(0xff800000)");
        let text = |v: f64| literal(&OpenCl, Literal::F64(v)).unwrap();
        assert_eq!(text(0.1), "0x1.999999999999ap-4");
        assert_eq!(text(f64::from_bits(3)), "0x1.8p-1073");
        assert_eq!(text(-f64::MAX), "-0x1.fffffffffffffp+1023");
    }

    #[test]
    fn integers_are_exact() {
        assert_eq!(literal(&OpenCl, Literal::I32(i32::MIN)).unwrap(), "(-2147483647 - 1)");
        assert_eq!(literal(&OpenCl, Literal::U64(u64::MAX)).unwrap(), "18446744073709551615UL");
        assert_eq!(literal(&Cuda, Literal::U64(u64::MAX)).unwrap(), "18446744073709551615ULL");
        assert_eq!(literal(&Cuda, Literal::I64(-1)).unwrap(), "-1LL");
    }
}
