//! Binary operators with WGSL's meaning where C leaves it open.

use naga::{BinaryOperator as Op, Expression, Handle, Literal, Scalar, ScalarKind};

use super::Body;
use crate::Error;
use crate::program::Program;
use crate::scalars::{Operand, is_float, wrapping};

impl Body<'_, '_> {
    pub(super) fn binary(
        &mut self,
        op: Op,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<String, Error> {
        let literal = match self.function.expressions[right] {
            Expression::Literal(value) => Some(value),
            _ => None,
        };
        if self.program.shape_of(self.inner(left)).is_none()
            || self.program.shape_of(self.inner(right)).is_none()
        {
            let inner = if self.program.shape_of(self.inner(left)).is_none() { left } else { right };
            return Err(Error::UnsupportedType(super::describe(self.inner(inner))));
        }
        let (mut left, mut right) = (self.operand(left)?, self.operand(right)?);
        let scalar = left.shape.scalar;
        // Vector times scalar: the scalar in all places.
        match (left.shape.size, right.shape.size) {
            (Some(size), None) => right = self.splat(right, size)?,
            (None, Some(size)) => left = self.splat(left, size)?,
            _ => {}
        }
        if left.shape.size.is_some() && is_infix(op, scalar) {
            return self.program.infix(symbol(op), &left, &right);
        }
        let result = match op {
            Op::Equal | Op::NotEqual | Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual => {
                Scalar::BOOL
            }
            _ => scalar,
        };
        // The divisor or shift is known not to need a check, so its helper is another one.
        let safe = left.shape.size.is_none() && literal.is_some_and(|value| is_safe(op, value, scalar));
        self.program.map(label(op), &[left, right], result, &mut |program, a| {
            program.scalar_binary(op, scalar, safe, a[0], a[1])
        })
    }

    fn splat(&mut self, operand: Operand, size: naga::VectorSize) -> Result<Operand, Error> {
        let scalar = operand.shape.scalar;
        let text = self.program.vector(size, scalar, &[operand.text])?;
        Ok(Operand::new(text, crate::scalars::Shape { size: Some(size), scalar }))
    }
}

impl Program<'_> {
    /// An operator on two scalars of the same type (shifts: by a `u32`).
    pub(crate) fn scalar_binary(
        &mut self,
        op: Op,
        scalar: Scalar,
        safe: bool,
        a: &str,
        b: &str,
    ) -> Result<String, Error> {
        let ty = self.scalar(scalar)?;
        let symbol = symbol(op);
        let plain = format!("({a} {symbol} {b})");
        if scalar.kind == ScalarKind::Bool {
            // Of values that are 0 or 1.
            return Ok(match op {
                Op::And => format!("({a} && {b})"),
                Op::InclusiveOr => format!("({a} || {b})"),
                _ => plain,
            });
        }
        if is_float(scalar) {
            return match op {
                Op::Modulo => Ok(self.target.float_function("fmod", scalar, &[a, b])),
                _ => Ok(plain),
            };
        }
        let wide = wrapping(scalar);
        Ok(match op {
            Op::Add | Op::Subtract | Op::Multiply if wide == scalar => plain,
            Op::Add | Op::Subtract | Op::Multiply => {
                let wide = self.scalar(wide)?;
                format!("({ty})(({wide}){a} {symbol} ({wide}){b})")
            }
            Op::And | Op::InclusiveOr | Op::ExclusiveOr if scalar.width == 2 => format!("({ty}){plain}"),
            Op::Divide | Op::Modulo if safe && scalar.width == 2 => format!("({ty}){plain}"),
            Op::Divide | Op::Modulo if safe => plain,
            Op::Divide => self.division("div", scalar, a, b)?,
            Op::Modulo => self.division("rem", scalar, a, b)?,
            Op::ShiftLeft | Op::ShiftRight => {
                let bits = u32::from(scalar.width) * 8 - 1;
                let by = if safe { b.to_string() } else { format!("({b} & {bits}u)") };
                match (op, scalar.kind) {
                    (Op::ShiftLeft, _) if wide != scalar => {
                        let wide = self.scalar(wide)?;
                        format!("({ty})(({wide}){a} << {by})")
                    }
                    // The sign is copied in by both compilers.
                    _ if scalar.width == 2 => format!("({ty})({a} {symbol} {by})"),
                    _ => format!("({a} {symbol} {by})"),
                }
            }
            _ => plain,
        })
    }

    /// Division and remainder of integers without a trap: `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN`, `MIN % -1 = 0`.
    fn division(&mut self, label: &str, scalar: Scalar, a: &str, b: &str) -> Result<String, Error> {
        let ty = self.scalar(scalar)?;
        let zero = self.number(0, scalar)?;
        let one = self.number(1, scalar)?;
        let symbol = if label == "div" { "/" } else { "%" };
        let unsafe_divisor = if scalar.kind == ScalarKind::Sint {
            let min = match scalar.width {
                2 => Literal::I16(i16::MIN),
                4 => Literal::I32(i32::MIN),
                _ => Literal::I64(i64::MIN),
            };
            let min = crate::literals::literal(self.target, min)?;
            let minus = Literal::minus_one(scalar).ok_or(Error::Inconsistent("a signed type without -1"))?;
            let minus = crate::literals::literal(self.target, minus)?;
            format!("b == {zero} || (a == {min} && b == {minus})")
        } else {
            format!("b == {zero}")
        };
        let body = format!("return ({ty})(a {symbol} ({unsafe_divisor} ? {one} : b));");
        self.scalar_helper(label, scalar, scalar, &[a, b], &body)
    }
}

/// Whether C's operator does the same for each component of vectors, without promotion or undefined behaviour.
fn is_infix(op: Op, scalar: Scalar) -> bool {
    match op {
        Op::Add | Op::Subtract | Op::Multiply => {
            is_float(scalar) || (scalar.kind == ScalarKind::Uint && scalar.width >= 4)
        }
        Op::Divide => is_float(scalar),
        Op::And | Op::InclusiveOr | Op::ExclusiveOr => {
            matches!(scalar.kind, ScalarKind::Sint | ScalarKind::Uint) && scalar.width >= 4
        }
        _ => false,
    }
}

/// Whether a right operand of this value makes the plain operator defined.
fn is_safe(op: Op, value: Literal, scalar: Scalar) -> bool {
    match (op, value) {
        (Op::ShiftLeft | Op::ShiftRight, Literal::U32(by)) => by < u32::from(scalar.width) * 8,
        (Op::Divide | Op::Modulo, Literal::U32(v)) => v != 0,
        (Op::Divide | Op::Modulo, Literal::U64(v)) => v != 0,
        (Op::Divide | Op::Modulo, Literal::U16(v)) => v != 0,
        (Op::Divide | Op::Modulo, Literal::I32(v)) => v != 0 && v != -1,
        (Op::Divide | Op::Modulo, Literal::I64(v)) => v != 0 && v != -1,
        (Op::Divide | Op::Modulo, Literal::I16(v)) => v != 0 && v != -1,
        _ => false,
    }
}

fn symbol(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Subtract => "-",
        Op::Multiply => "*",
        Op::Divide => "/",
        Op::Modulo => "%",
        Op::Equal => "==",
        Op::NotEqual => "!=",
        Op::Less => "<",
        Op::LessEqual => "<=",
        Op::Greater => ">",
        Op::GreaterEqual => ">=",
        Op::And => "&",
        Op::ExclusiveOr => "^",
        Op::InclusiveOr => "|",
        Op::LogicalAnd => "&&",
        Op::LogicalOr => "||",
        Op::ShiftLeft => "<<",
        Op::ShiftRight => ">>",
    }
}

fn label(op: Op) -> &'static str {
    match op {
        Op::Add => "add",
        Op::Subtract => "sub",
        Op::Multiply => "mul",
        Op::Divide => "div",
        Op::Modulo => "rem",
        Op::Equal => "eq",
        Op::NotEqual => "ne",
        Op::Less => "lt",
        Op::LessEqual => "le",
        Op::Greater => "gt",
        Op::GreaterEqual => "ge",
        Op::And => "and",
        Op::ExclusiveOr => "xor",
        Op::InclusiveOr => "or",
        Op::LogicalAnd => "land",
        Op::LogicalOr => "lor",
        Op::ShiftLeft => "shl",
        Op::ShiftRight => "shr",
    }
}
