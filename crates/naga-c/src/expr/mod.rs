//! Expressions: values as source.
//!
//! Texts of values bind at least as tightly as a cast or a sign: operators put parentheses around themselves. Where something
//! is appended (`.x`, `[i]`), [`postfix`] adds what is missing.

mod bake;
mod binary;
mod body;
mod convert;
mod place;
mod vectors;

use naga::{Expression, Handle, RelationalFunction, ScalarKind, TypeInner, UnaryOperator};

pub(crate) use body::{Body, Scope};

use crate::Error;
use crate::scalars::{Operand, Shape, is_float, wrapping};

impl Body<'_, '_> {
    /// The type of an expression.
    pub(crate) fn inner(&self, handle: Handle<Expression>) -> &TypeInner {
        self.info[handle].ty.inner_with(&self.program.module.types)
    }

    /// The type of an expression that is a scalar or a vector.
    pub(crate) fn shape(&self, handle: Handle<Expression>) -> Result<Shape, Error> {
        let inner = self.inner(handle);
        self.program.shape_of(inner).ok_or_else(|| Error::UnsupportedType(describe(inner)))
    }

    /// A scalar or vector as source with its type.
    pub(crate) fn operand(&mut self, handle: Handle<Expression>) -> Result<Operand, Error> {
        Ok(Operand::new(self.value(handle)?, self.shape(handle)?))
    }

    /// An expression's value as source: its name, if it was computed before, else the computation.
    pub(crate) fn value(&mut self, handle: Handle<Expression>) -> Result<String, Error> {
        if let Some(name) = self.named.get(&handle) {
            return Ok(name.clone());
        }
        if self.inner(handle).pointer_space().is_some() {
            return self.address(handle);
        }
        let function = self.function;
        match function.expressions[handle] {
            Expression::Literal(value) => {
                self.program.scalar(value.scalar())?;
                crate::literals::literal(self.program.target, value)
            }
            Expression::Constant(constant) => self.program.constant(constant),
            ref over @ Expression::Override(_) => Err(self.program.unresolved(over)),
            Expression::ZeroValue(ty) => self.program.zero_value(ty),
            Expression::Compose { ty, ref components } => self.compose(ty, components),
            Expression::Access { base, index } => self.access(base, index),
            Expression::AccessIndex { base, index } => self.access_index(base, index),
            Expression::Splat { size, value } => {
                let operand = self.operand(value)?;
                self.program.vector(size, operand.shape.scalar, &[operand.text])
            }
            Expression::Swizzle { size, vector, pattern } => self.swizzle(size, vector, &pattern),
            Expression::FunctionArgument(index) => self.argument(index),
            Expression::Load { pointer } => self.load(pointer),
            Expression::Unary { op, expr } => self.unary(op, expr),
            Expression::Binary { op, left, right } => self.binary(op, left, right),
            Expression::Select { condition, accept, reject } => self.select(condition, accept, reject),
            Expression::Relational { fun, argument } => self.relational(fun, argument),
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let arguments: Vec<_> = [Some(arg), arg1, arg2, arg3].into_iter().flatten().collect();
                self.math(handle, fun, &arguments)
            }
            Expression::As { expr, kind, convert } => self.cast(expr, kind, convert),
            Expression::ArrayLength(array) => self.array_length(array),
            Expression::GlobalVariable(_) | Expression::LocalVariable(_) => {
                Err(Error::Inconsistent("a variable that is no pointer"))
            }
            Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. } => {
                Err(Error::Inconsistent("a result is used before the statement that gives it"))
            }
            Expression::ImageSample { .. } => Err(Error::UnsupportedExpression("textureSample")),
            Expression::ImageLoad { .. } => Err(Error::UnsupportedExpression("textureLoad")),
            Expression::ImageQuery { .. } => Err(Error::UnsupportedExpression("textureDimensions")),
            Expression::Derivative { .. } => Err(Error::UnsupportedExpression("derivative")),
            Expression::RayQueryVertexPositions { .. }
            | Expression::RayQueryProceedResult
            | Expression::RayQueryGetIntersection { .. } => Err(Error::UnsupportedExpression("ray query")),
            Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => {
                Err(Error::UnsupportedExpression("cooperative matrix operation"))
            }
        }
    }

    fn unary(&mut self, op: UnaryOperator, expr: Handle<Expression>) -> Result<String, Error> {
        let operand = self.operand(expr)?;
        let scalar = operand.shape.scalar;
        let ty = self.program.scalar(scalar)?;
        if scalar.kind == ScalarKind::Sint {
            self.program.scalar(wrapping(scalar))?;
        }
        let label = match op {
            UnaryOperator::Negate => "neg",
            UnaryOperator::LogicalNot => "not",
            UnaryOperator::BitwiseNot => "bitnot",
        };
        self.program.map(label, &[operand], scalar, &mut |program, a| {
            let a = a[0];
            Ok(match op {
                // Not two signs in a row.
                UnaryOperator::Negate if is_float(scalar) && a.starts_with('-') => format!("(-({a}))"),
                UnaryOperator::Negate if is_float(scalar) => format!("(-{a})"),
                UnaryOperator::Negate => {
                    let wide = crate::scalars::name(wrapping(scalar))?;
                    let zero = program.number(0, wrapping(scalar))?;
                    format!("({ty})({zero} - ({wide}){a})")
                }
                UnaryOperator::LogicalNot => format!("(!{a})"),
                // 16-bit integers are promoted: cast back.
                UnaryOperator::BitwiseNot => format!("({ty})(~{a})"),
            })
        })
    }

    fn select(
        &mut self,
        condition: Handle<Expression>,
        accept: Handle<Expression>,
        reject: Handle<Expression>,
    ) -> Result<String, Error> {
        let condition = self.operand(condition)?;
        let (accept, reject) = (self.operand(accept)?, self.operand(reject)?);
        let scalar = accept.shape.scalar;
        if condition.shape.size.is_none() {
            return Ok(format!("({} ? {} : {})", condition.text, accept.text, reject.text));
        }
        let operands = [condition, accept, reject];
        self.program
            .map("select", &operands, scalar, &mut |_, a| Ok(format!("({} ? {} : {})", a[0], a[1], a[2])))
    }

    fn relational(&mut self, fun: RelationalFunction, argument: Handle<Expression>) -> Result<String, Error> {
        let operand = self.operand(argument)?;
        let shape = operand.shape;
        match fun {
            RelationalFunction::All | RelationalFunction::Any => {
                let (label, op) =
                    if fun == RelationalFunction::All { ("all", " && ") } else { ("any", " || ") };
                if shape.size.is_none() {
                    return Ok(operand.text);
                }
                let ty = self.program.shape(shape)?;
                let parts: Vec<_> = crate::scalars::COMPONENTS[..shape.components()]
                    .iter()
                    .map(|c| format!("v.{c}"))
                    .collect();
                let name = format!("nc_{label}_{ty}");
                self.program.helper(
                    &name,
                    &format!("{ty} v"),
                    "bool",
                    &format!("return {};", parts.join(op)),
                );
                Ok(format!("{name}({})", operand.text))
            }
            RelationalFunction::IsNan | RelationalFunction::IsInf => {
                let nan = fun == RelationalFunction::IsNan;
                let label = if nan { "isnan" } else { "isinf" };
                self.program.map(label, &[operand], naga::Scalar::BOOL, &mut |program, a| {
                    program.float_class(label, nan, shape.scalar, a[0])
                })
            }
        }
    }
}

/// A type in words, for messages.
pub(crate) fn describe(inner: &TypeInner) -> String {
    match *inner {
        TypeInner::Matrix { columns, rows, .. } => {
            format!("a matrix of {} columns and {} rows", columns as u8, rows as u8)
        }
        TypeInner::CooperativeMatrix { .. } => "a cooperative matrix".into(),
        TypeInner::Image { .. } => "a texture".into(),
        TypeInner::Sampler { .. } => "a sampler".into(),
        TypeInner::AccelerationStructure { .. } => "an acceleration structure".into(),
        TypeInner::RayQuery { .. } => "a ray query".into(),
        TypeInner::BindingArray { .. } => "a binding array".into(),
        ref other => format!("{other:?}"),
    }
}

/// A text to which `.x` or `[i]` can be appended.
pub(crate) fn postfix(text: &str) -> String {
    let plain = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']'))
            && !text.starts_with('-')
    };
    // A call `name(...)` can be followed by anything, if its closing parenthesis is the one of its opening.
    if plain(text) || encloses(text) { text.into() } else { format!("({text})") }
}

/// Whether the source is `(...)` or `name(...)` with a pair of parentheses that encloses all the rest.
pub(crate) fn encloses(text: &str) -> bool {
    let Some(open) = text.find('(') else { return false };
    if !text.ends_with(')') || !text[..open].chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return false;
    }
    let mut depth = 0;
    for (index, c) in text[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + index + 1 == text.len();
        }
    }
    false
}

/// The source without parentheses around all of it: where nothing stands beside it.
pub(crate) fn bare(text: &str) -> &str {
    if text.starts_with('(') && encloses(text) { &text[1..text.len() - 1] } else { text }
}
