//! Functions that integers and floats share: absolute value, minimum, maximum, clamp, sign.

use naga::{MathFunction as Mf, Scalar, ScalarKind};

use crate::Error;
use crate::program::Program;
use crate::scalars::{Operand, is_float, name, wrapping};

impl Program<'_> {
    pub(super) fn comparison(&mut self, fun: Mf, operands: &[Operand]) -> Result<String, Error> {
        let scalar = operands[0].shape.scalar;
        let label = match fun {
            Mf::Abs => "abs",
            Mf::Min => "min",
            Mf::Max => "max",
            Mf::Clamp => "clamp",
            _ => "sign",
        };
        self.map(label, operands, scalar, &mut |program, a| match fun {
            Mf::Abs => program.absolute(scalar, a[0]),
            Mf::Min => program.minimum(scalar, a[0], a[1]),
            Mf::Max => program.maximum(scalar, a[0], a[1]),
            // Lower bound first: with bounds in the wrong order the upper one wins, as in `min(max(e, low), high)`.
            Mf::Clamp => {
                let above = program.maximum(scalar, a[0], a[1])?;
                program.minimum(scalar, &above, a[2])
            }
            _ => program.sign(scalar, a[0]),
        })
    }

    fn absolute(&mut self, scalar: Scalar, a: &str) -> Result<String, Error> {
        match scalar.kind {
            ScalarKind::Float => Ok(self.target.float_function("fabs", scalar, &[a])),
            ScalarKind::Sint => {
                let (ty, wide) = (self.scalar(scalar)?, self.scalar(wrapping(scalar))?);
                let zero = self.number(0, wrapping(scalar))?;
                self.scalar_helper(
                    "abs",
                    scalar,
                    scalar,
                    &[a],
                    &format!("return a < 0 ? ({ty})({zero} - ({wide})a) : a;"),
                )
            }
            _ => Ok(a.into()),
        }
    }

    pub(crate) fn minimum(&mut self, scalar: Scalar, a: &str, b: &str) -> Result<String, Error> {
        if is_float(scalar) {
            return Ok(self.target.float_function("fmin", scalar, &[a, b]));
        }
        self.scalar_helper("min", scalar, scalar, &[a, b], "return b < a ? b : a;")
    }

    pub(crate) fn maximum(&mut self, scalar: Scalar, a: &str, b: &str) -> Result<String, Error> {
        if is_float(scalar) {
            return Ok(self.target.float_function("fmax", scalar, &[a, b]));
        }
        self.scalar_helper("max", scalar, scalar, &[a, b], "return a < b ? b : a;")
    }

    fn sign(&mut self, scalar: Scalar, a: &str) -> Result<String, Error> {
        let (zero, one) = (self.number(0, scalar)?, self.number(1, scalar)?);
        if scalar.kind == ScalarKind::Uint {
            return self.scalar_helper(
                "sign",
                scalar,
                scalar,
                &[a],
                &format!("return a == {zero} ? {zero} : {one};"),
            );
        }
        let ty = name(scalar)?;
        let body = format!("return a > {zero} ? {one} : a < {zero} ? ({ty})(-{one}) : {zero};");
        // A cast from a float to the same float is nothing, but the type of CUDA's half has no casts.
        let body = if is_float(scalar) {
            body.replace(&format!("({ty})(-{one})"), &format!("-{one}"))
        } else {
            body
        };
        self.scalar_helper("sign", scalar, scalar, &[a], &body)
    }
}
