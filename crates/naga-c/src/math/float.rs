//! Functions on floats, component by component.

use naga::{MathFunction as Mf, Scalar};

use crate::Error;
use crate::program::Program;
use crate::scalars::Operand;

impl Program<'_> {
    pub(super) fn float(&mut self, fun: Mf, operands: &[Operand]) -> Result<String, Error> {
        let scalar = operands[0].shape.scalar;
        let vector = operands.iter().any(|operand| operand.shape.size.is_some());
        if let Some(name) = same_in_c(fun) {
            if vector && !self.target.native_vectors() {
                return self.map(name, operands, scalar, &mut |program, a| {
                    Ok(program.target.float_function(name, scalar, a))
                });
            }
            let texts: Vec<_> =
                operands.iter().map(|operand| super::super::expr::bare(&operand.text)).collect();
            return Ok(self.target.float_function(name, scalar, &texts));
        }
        let label = match fun {
            Mf::Saturate => "saturate",
            Mf::Radians => "radians",
            Mf::Degrees => "degrees",
            Mf::Fract => "fract",
            Mf::InverseSqrt => "inverse_sqrt",
            Mf::Mix => "mix",
            Mf::Step => "step",
            Mf::SmoothStep => "smoothstep",
            Mf::Ldexp => "ldexp",
            Mf::QuantizeToF16 => "quantize",
            other => return Err(Error::UnsupportedMath(other)),
        };
        self.map(label, operands, scalar, &mut |program, a| program.float_formula(fun, label, scalar, a))
    }

    fn float_formula(&mut self, fun: Mf, label: &str, scalar: Scalar, a: &[&str]) -> Result<String, Error> {
        let (zero, one) = (self.number(0, scalar)?, self.number(1, scalar)?);
        let target = self.target;
        match fun {
            Mf::Saturate => {
                let above = target.float_function("fmax", scalar, &[a[0], &zero]);
                Ok(target.float_function("fmin", scalar, &[&above, &one]))
            }
            Mf::Radians => {
                Ok(format!("({} * {})", a[0], self.float_number(std::f64::consts::PI / 180.0, scalar)?))
            }
            Mf::Degrees => {
                Ok(format!("({} * {})", a[0], self.float_number(180.0 / std::f64::consts::PI, scalar)?))
            }
            Mf::Fract => {
                let floor = target.float_function("floor", scalar, &["a"]);
                self.scalar_helper(label, scalar, scalar, a, &format!("return a - {floor};"))
            }
            // Two roundings that every device does alike, rather than an approximation of its own.
            Mf::InverseSqrt => Ok(format!("({one} / {})", target.float_function("sqrt", scalar, &[a[0]]))),
            Mf::Mix => {
                self.scalar_helper(label, scalar, scalar, a, &format!("return a * ({one} - c) + b * c;"))
            }
            Mf::Step => Ok(format!("({} <= {} ? {one} : {zero})", a[0], a[1])),
            Mf::SmoothStep => {
                let ty = self.scalar(scalar)?;
                let above = target.float_function("fmax", scalar, &["t", &zero]);
                let inside = target.float_function("fmin", scalar, &[&above, &one]);
                let (two, three) = (self.number(2, scalar)?, self.number(3, scalar)?);
                let body = format!(
                    "{ty} t = (c - a) / (b - a);\n    t = {inside};\n    return t * t * ({three} - {two} * t);"
                );
                self.scalar_helper(label, scalar, scalar, a, &body)
            }
            Mf::Ldexp => {
                self.scalar(Scalar::I32)?;
                if scalar == Scalar::F16 {
                    // In f32, whose exponents reach farther, and rounded once.
                    let wide = target.convert(Scalar::F16, Scalar::F32, a[0])?;
                    let scaled = target.float_function("ldexp", Scalar::F32, &[&wide, a[1]]);
                    return target.convert(Scalar::F32, Scalar::F16, &scaled);
                }
                Ok(target.float_function("ldexp", scalar, a))
            }
            Mf::QuantizeToF16 => {
                let bits = self.half_bits(a[0])?;
                self.half_value(&bits)
            }
            other => Err(Error::UnsupportedMath(other)),
        }
    }

    /// The bits of the nearest 16-bit float in the low half of a `u32`.
    pub(super) fn half_bits(&mut self, a: &str) -> Result<String, Error> {
        let (result, parameter) = (self.scalar(Scalar::U32)?, self.scalar(Scalar::F32)?);
        let body = self.target.half_bits();
        self.helper("nc_half_bits", &format!("{parameter} x"), &result, body);
        Ok(format!("nc_half_bits({a})"))
    }

    /// The value of the 16-bit float in the low half of a `u32`.
    pub(super) fn half_value(&mut self, a: &str) -> Result<String, Error> {
        let (parameter, result) = (self.scalar(Scalar::U32)?, self.scalar(Scalar::F32)?);
        let body = self.target.half_value();
        self.helper("nc_half_value", &format!("{parameter} x"), &result, body);
        Ok(format!("nc_half_value({a})"))
    }
}

/// C's name of a function that both dialects have, with the same meaning.
fn same_in_c(fun: Mf) -> Option<&'static str> {
    Some(match fun {
        Mf::Cos => "cos",
        Mf::Cosh => "cosh",
        Mf::Sin => "sin",
        Mf::Sinh => "sinh",
        Mf::Tan => "tan",
        Mf::Tanh => "tanh",
        Mf::Acos => "acos",
        Mf::Asin => "asin",
        Mf::Atan => "atan",
        Mf::Atan2 => "atan2",
        Mf::Asinh => "asinh",
        Mf::Acosh => "acosh",
        Mf::Atanh => "atanh",
        Mf::Ceil => "ceil",
        Mf::Floor => "floor",
        // Ties go to even.
        Mf::Round => "rint",
        Mf::Trunc => "trunc",
        Mf::Exp => "exp",
        Mf::Exp2 => "exp2",
        Mf::Log => "log",
        Mf::Log2 => "log2",
        Mf::Pow => "pow",
        Mf::Fma => "fma",
        Mf::Sqrt => "sqrt",
        _ => return None,
    })
}
