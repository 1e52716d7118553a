//! Conversions and reinterpretations.

use naga::proc::min_max_float_representable_by;
use naga::{Bytes, Expression, Handle, Scalar, ScalarKind};

use super::Body;
use crate::Error;
use crate::literals::literal;
use crate::program::Program;
use crate::scalars::{is_float, name};

impl Body<'_, '_> {
    pub(super) fn cast(
        &mut self,
        expr: Handle<Expression>,
        kind: ScalarKind,
        convert: Option<Bytes>,
    ) -> Result<String, Error> {
        let operand = self.operand(expr)?;
        let from = operand.shape.scalar;
        let to = Scalar { kind, width: convert.unwrap_or(from.width) };
        let target_name = self.program.shape(operand.shape.of(to))?;
        if from == to {
            return Ok(operand.text);
        }
        let bits = if convert.is_some() { "to" } else { "as" };
        let label = format!("{bits}_{target_name}");
        self.program.map(&label, &[operand], to, &mut |program, a| match convert {
            Some(_) => program.convert(from, to, a[0]),
            None => Ok(program.target.bitcast(from, to, a[0])),
        })
    }
}

impl Program<'_> {
    /// A scalar as another type.
    pub(crate) fn convert(&mut self, from: Scalar, to: Scalar, a: &str) -> Result<String, Error> {
        self.scalar(from)?;
        self.scalar(to)?;
        if from == to {
            return Ok(a.into());
        }
        if to.kind == ScalarKind::Bool {
            let zero = self.number(0, from)?;
            return Ok(format!("({a} != {zero})"));
        }
        if from.kind == ScalarKind::Bool {
            let (one, zero) = (self.number(1, to)?, self.number(0, to)?);
            return Ok(format!("({a} ? {one} : {zero})"));
        }
        if is_float(from) && !is_float(to) {
            let (low, high) = min_max_float_representable_by(from, to);
            let (low, high) = (literal(self.target, low)?, literal(self.target, high)?);
            // In this order a NaN becomes the lower bound.
            let lower = self.target.float_function("fmax", from, &["a", &low]);
            let inside = self.target.float_function("fmin", from, &[&lower, &high]);
            let body = format!("return {};", self.target.convert(from, to, &inside)?);
            return self.scalar_helper(&format!("to_{}", name(to)?), from, to, &[a], &body);
        }
        self.target.convert(from, to, a)
    }

    /// Whether a float is a NaN (or infinite), by its bits, so that no compiler flag changes it.
    pub(crate) fn float_class(
        &mut self,
        label: &str,
        nan: bool,
        scalar: Scalar,
        a: &str,
    ) -> Result<String, Error> {
        let (bits, mask, infinity) = match scalar.width {
            2 => (Scalar::U16, "0x7fff".to_string(), "0x7c00".to_string()),
            4 => (Scalar::U32, "0x7fffffffu".to_string(), "0x7f800000u".to_string()),
            _ => {
                let suffix = self.target.long_suffix();
                (Scalar::U64, format!("0x7fffffffffffffffU{suffix}"), format!("0x7ff0000000000000U{suffix}"))
            }
        };
        self.scalar(bits)?;
        let op = if nan { ">" } else { "==" };
        let body = format!("return ({} & {mask}) {op} {infinity};", self.target.bitcast(scalar, bits, "a"));
        self.scalar_helper(label, scalar, Scalar::BOOL, &[a], &body)
    }
}
