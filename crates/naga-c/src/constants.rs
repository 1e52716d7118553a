//! Module-scope constants, zero values, and the two forms of values: as such and in memory.

use std::collections::HashMap;

use naga::proc::{NameKey, TypeResolution};
use naga::{Constant, Expression, Handle, Literal, Scalar, ScalarKind, Type, TypeInner};

use crate::Error;
use crate::layout::{Field, array_padding, struct_fields};
use crate::literals::{literal, small};
use crate::program::Program;
use crate::scalars::{COMPONENTS, Shape};

/// Tables written so far.
#[derive(Default)]
pub(crate) struct Constants {
    names: HashMap<Handle<Constant>, String>,
    pub(crate) text: String,
}

impl Program<'_> {
    /// A constant as a value: its literal, or the name of its table if it is an array or a struct.
    pub(crate) fn constant(&mut self, handle: Handle<Constant>) -> Result<String, Error> {
        let constant = &self.module.constants[handle];
        if let Some(shape) = self.shape_of(&self.module.types[constant.ty].inner) {
            return self.constant_shape(constant.init, shape);
        }
        if let Some(name) = self.constants.names.get(&handle) {
            return Ok(name.clone());
        }
        let ty = self.memory_type(constant.ty)?;
        let initializer = self.initializer(constant.init, constant.ty)?;
        let name = self.names[&NameKey::Constant(handle)].clone();
        self.constants.text += &format!("{}{ty} {name} = {initializer};\n", self.target.constant());
        self.constants.names.insert(handle, name.clone());
        Ok(name)
    }

    /// A constant expression as the initializer of a variable of that type.
    pub(crate) fn initializer(
        &mut self,
        expression: Handle<Expression>,
        ty: Handle<Type>,
    ) -> Result<String, Error> {
        let module = self.module;
        if let Some(shape) = self.shape_of(&module.types[ty].inner) {
            let text = self.constant_shape(expression, shape)?;
            if self.is_packed(shape) {
                return self.packed_initializer(expression, shape);
            }
            return Ok(text);
        }
        match module.global_expressions[expression] {
            Expression::ZeroValue(_) => self.zero_initializer(ty),
            Expression::Constant(constant) => self.initializer(module.constants[constant].init, ty),
            Expression::Compose { ref components, .. } => {
                let mut parts = Vec::with_capacity(components.len());
                for (index, component) in components.iter().enumerate() {
                    let member = self.member_type(ty, index)?;
                    parts.push(self.initializer(*component, member)?);
                }
                self.braces(ty, &parts)
            }
            ref other => Err(unevaluated(self, other)),
        }
    }

    /// The literals of a constant scalar or vector as source.
    fn constant_shape(&mut self, expression: Handle<Expression>, shape: Shape) -> Result<String, Error> {
        self.shape(shape)?;
        let literals = self.literals(expression)?;
        let mut texts = Vec::with_capacity(literals.len());
        for value in literals {
            texts.push(literal(self.target, value)?);
        }
        match shape.size {
            None => texts.pop().ok_or(Error::Inconsistent("a constant without a value")),
            Some(size) => self.vector(size, shape.scalar, &texts),
        }
    }

    fn packed_initializer(&mut self, expression: Handle<Expression>, shape: Shape) -> Result<String, Error> {
        let mut literals = self.literals(expression)?;
        if let [one] = literals[..] {
            literals = vec![one; shape.components()];
        }
        let texts: Result<Vec<_>, _> =
            literals.into_iter().map(|value| literal(self.target, value)).collect();
        Ok(format!("{{{}}}", texts?.join(", ")))
    }

    /// The components of a constant scalar or vector; a splat gives all of them.
    fn literals(&self, expression: Handle<Expression>) -> Result<Vec<Literal>, Error> {
        let module = self.module;
        match module.global_expressions[expression] {
            Expression::Literal(value) => Ok(vec![value]),
            Expression::Constant(constant) => self.literals(module.constants[constant].init),
            Expression::ZeroValue(ty) => {
                let shape = self
                    .shape_of(&module.types[ty].inner)
                    .ok_or(Error::Inconsistent("a composite where a scalar was expected"))?;
                let zero =
                    Literal::zero(shape.scalar).ok_or(Error::Inconsistent("a zero of an unknown type"))?;
                Ok(vec![zero; shape.components()])
            }
            Expression::Splat { size, value } => {
                let value = self.literals(value)?;
                Ok(value.iter().copied().cycle().take(size as usize).collect())
            }
            Expression::Compose { ref components, .. } => {
                let mut literals = Vec::new();
                for component in components {
                    literals.extend(self.literals(*component)?);
                }
                Ok(literals)
            }
            ref other => Err(unevaluated(self, other)),
        }
    }

    /// The type of a member or an element.
    pub(crate) fn member_type(&self, ty: Handle<Type>, index: usize) -> Result<Handle<Type>, Error> {
        match self.module.types[ty].inner {
            TypeInner::Array { base, .. } => Ok(base),
            TypeInner::Struct { ref members, .. } => {
                Ok(members.get(index).ok_or(Error::Inconsistent("a member that does not exist"))?.ty)
            }
            _ => Err(Error::Inconsistent("a composite type was expected")),
        }
    }

    /// Initializers of all members, or of the first elements, in braces, with those of padding between them.
    pub(crate) fn braces(&mut self, ty: Handle<Type>, parts: &[String]) -> Result<String, Error> {
        Ok(match self.module.types[ty].inner {
            TypeInner::Array { .. } => {
                let padded = array_padding(self.module, ty)? != 0;
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| if padded { format!("{{{part}, {{0}}}}") } else { part.clone() })
                    .collect();
                format!("{{{{{}}}}}", parts.join(", "))
            }
            TypeInner::Struct { .. } => {
                let (fields, _) = struct_fields(self.module, ty)?;
                let parts: Vec<_> = fields
                    .into_iter()
                    .map(|field| match field {
                        Field::Padding(_) => "{0}".to_string(),
                        Field::Member(index) => parts.get(index).cloned().unwrap_or_default(),
                    })
                    .collect();
                format!("{{{}}}", parts.join(", "))
            }
            _ => return Err(Error::Inconsistent("a composite type was expected")),
        })
    }

    /// Zero as the initializer of a variable. In arrays only the first element is written: C sets the others to zero.
    pub(crate) fn zero_initializer(&mut self, ty: Handle<Type>) -> Result<String, Error> {
        let module = self.module;
        if let Some(shape) = self.shape_of(&module.types[ty].inner) {
            if self.is_packed(shape) {
                let zero = small(self.target, 0, shape.scalar)?;
                return Ok(format!("{{{zero}, {zero}, {zero}}}"));
            }
            return self.zero_shape(shape);
        }
        let count = match module.types[ty].inner {
            TypeInner::Array { .. } => 1,
            TypeInner::Struct { ref members, .. } => members.len(),
            _ => return Err(Error::UnsupportedType(crate::layout::type_name(module, ty))),
        };
        let mut parts = Vec::with_capacity(count);
        for index in 0..count {
            let member = self.member_type(ty, index)?;
            parts.push(self.zero_initializer(member)?);
        }
        self.braces(ty, &parts)
    }

    fn zero_shape(&mut self, shape: Shape) -> Result<String, Error> {
        self.shape(shape)?;
        let zero = small(self.target, 0, shape.scalar)?;
        match shape.size {
            None => Ok(zero),
            // All components where a splat would be a call: initializers of tables must be constants.
            Some(size) => {
                let count = if self.target.native_vectors() { 1 } else { size as usize };
                self.vector(size, shape.scalar, &vec![zero; count])
            }
        }
    }

    /// Zero as a value.
    pub(crate) fn zero_value(&mut self, ty: Handle<Type>) -> Result<String, Error> {
        match self.shape_of(&self.module.types[ty].inner) {
            Some(shape) => self.zero_shape(shape),
            None => {
                let initializer = self.zero_initializer(ty)?;
                self.aggregate(ty, &initializer)
            }
        }
    }

    /// A composite value of an initializer in braces.
    pub(crate) fn aggregate(&mut self, ty: Handle<Type>, initializer: &str) -> Result<String, Error> {
        let name = self.memory_type(ty)?;
        let inner = initializer.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        Ok(self.target.aggregate(&name, inner.ok_or(Error::Inconsistent("an initializer without braces"))?))
    }

    /// What lies in memory as a value.
    pub(crate) fn loaded(&mut self, ty: &TypeResolution, place: String) -> Result<String, Error> {
        match self.shape_of(ty.inner_with(&self.module.types)) {
            Some(shape) if self.is_packed(shape) => {
                let name = self.shape(shape)?;
                let parts: Vec<_> = COMPONENTS[..3].iter().map(|c| format!("v.{c}")).collect();
                let body = format!("return ({name})({});", parts.join(", "));
                self.packed_type(shape)?;
                self.helper(&format!("nc_unpack_{name}"), &format!("{name}_packed v"), &name, &body);
                Ok(format!("nc_unpack_{name}({place})"))
            }
            _ => Ok(place),
        }
    }

    /// A value as it lies in memory.
    pub(crate) fn stored(&mut self, ty: &TypeInner, value: String) -> Result<String, Error> {
        match self.shape_of(ty) {
            Some(shape) if self.is_packed(shape) => {
                let name = self.shape(shape)?;
                self.packed_type(shape)?;
                let body = format!("{name}_packed r = {{v.x, v.y, v.z}};\n    return r;");
                self.helper(
                    &format!("nc_pack_{name}"),
                    &format!("{name} v"),
                    &format!("{name}_packed"),
                    &body,
                );
                Ok(format!("nc_pack_{name}({value})"))
            }
            _ => Ok(value),
        }
    }

    /// A number in a formula.
    pub(crate) fn number(&mut self, value: u8, scalar: Scalar) -> Result<String, Error> {
        self.scalar(scalar)?;
        small(self.target, value, scalar)
    }

    /// A number of a floating-point formula: `value` rounded to the type.
    pub(crate) fn float_number(&mut self, value: f64, scalar: Scalar) -> Result<String, Error> {
        self.scalar(scalar)?;
        let value = match (scalar.kind, scalar.width) {
            (ScalarKind::Float, 8) => Literal::F64(value),
            (ScalarKind::Float, 4) => Literal::F32(value as f32),
            (ScalarKind::Float, 2) => {
                let text = literal(self.target, Literal::F32(value as f32))?;
                return self.target.convert(Scalar::F32, Scalar::F16, &text);
            }
            _ => return Err(Error::Inconsistent("a floating-point type was expected")),
        };
        literal(self.target, value)
    }
}

fn unevaluated(program: &Program<'_>, expression: &Expression) -> Error {
    match expression {
        Expression::Override(_) => program.unresolved(expression),
        Expression::Binary { .. } => Error::UnevaluatedConstant("binary operator"),
        Expression::Unary { .. } => Error::UnevaluatedConstant("unary operator"),
        Expression::Math { .. } => Error::UnevaluatedConstant("mathematical function"),
        Expression::As { .. } => Error::UnevaluatedConstant("conversion"),
        Expression::Select { .. } => Error::UnevaluatedConstant("select"),
        Expression::Access { .. } | Expression::AccessIndex { .. } => Error::UnevaluatedConstant("access"),
        _ => Error::UnevaluatedConstant("of another kind"),
    }
}
