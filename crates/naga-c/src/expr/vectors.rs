//! Putting values together and taking them apart.

use naga::{Expression, Handle, Scalar, ScalarKind, SwizzleComponent, Type, TypeInner, VectorSize};

use super::place::component;
use super::{Body, postfix};
use crate::Error;
use crate::scalars::{COMPONENTS, Operand, Shape};
use crate::types::MemberKind;

impl Body<'_, '_> {
    pub(super) fn compose(
        &mut self,
        ty: Handle<Type>,
        components: &[Handle<Expression>],
    ) -> Result<String, Error> {
        let module = self.program.module;
        match module.types[ty].inner {
            TypeInner::Vector { size, scalar } => {
                let mut parts = Vec::new();
                for component in components {
                    let operand = self.operand(*component)?;
                    match operand.shape.size {
                        Some(size) if !self.program.target.native_vectors() => {
                            let vector = postfix(&operand.text);
                            parts.extend(COMPONENTS[..size as usize].iter().map(|c| format!("{vector}.{c}")));
                        }
                        _ => parts.push(operand.text),
                    }
                }
                self.program.vector(size, scalar, &parts)
            }
            TypeInner::Array { .. } | TypeInner::Struct { .. } => {
                let mut parts = Vec::with_capacity(components.len());
                for (index, component) in components.iter().enumerate() {
                    let member = self.program.member_type(ty, index)?;
                    let value = self.value(*component)?;
                    let text = self.program.stored(&module.types[member].inner, value)?;
                    parts.push(super::bare(&text).to_string());
                }
                let initializer = self.program.braces(ty, &parts)?;
                self.program.aggregate(ty, &initializer)
            }
            ref other => Err(Error::UnsupportedType(super::describe(other))),
        }
    }

    /// An element of a value by a computed index.
    pub(super) fn access(
        &mut self,
        base: Handle<Expression>,
        index: Handle<Expression>,
    ) -> Result<String, Error> {
        let index = self.operand(index)?;
        let text = self.value(base)?;
        match *self.inner(base) {
            TypeInner::Vector { size, scalar } => self.component_at(size, scalar, &text, &index),
            TypeInner::Array { .. } => {
                let index = self.restricted(base, &index)?;
                self.element_of(base, &text, super::bare(&index))
            }
            ref other => Err(Error::UnsupportedType(super::describe(other))),
        }
    }

    /// A component of a vector by a computed index; the last one if there is none of that index.
    pub(super) fn component_at(
        &mut self,
        size: VectorSize,
        scalar: Scalar,
        vector: &str,
        index: &Operand,
    ) -> Result<String, Error> {
        let ty = self.program.shape(Shape { size: Some(size), scalar })?;
        let element = self.program.scalar(scalar)?;
        let index_type = self.program.shape(index.shape)?;
        let (last, others) = (size as usize - 1, &COMPONENTS[..size as usize - 1]);
        let mut body = String::from("return ");
        for (number, component) in others.iter().enumerate() {
            body += &format!("i == {number} ? v.{component} : ");
        }
        body += &format!("v.{};", COMPONENTS[last]);
        let name = format!("nc_at_{ty}_{index_type}");
        self.program.helper(&name, &format!("{ty} v, {index_type} i"), &element, &body);
        Ok(format!("{name}({vector}, {})", super::bare(&index.text)))
    }

    /// A member, element or component of a value by a constant index.
    pub(super) fn access_index(&mut self, base: Handle<Expression>, index: u32) -> Result<String, Error> {
        let text = self.value(base)?;
        match *self.inner(base) {
            TypeInner::Vector { scalar, .. } => {
                let part = format!("{}.{}", postfix(&text), component(index)?);
                // Where integers stand for `bool` in vectors, make it one.
                let plain = scalar.kind != ScalarKind::Bool || self.program.target.bool_component() == "bool";
                Ok(if plain { part } else { format!("(bool){part}") })
            }
            TypeInner::Struct { .. } => {
                let ty = self.composite(base)?;
                let MemberKind::Field(name) = self.program.member(ty, index)? else {
                    return Err(Error::Inconsistent("a runtime-sized array as a value"));
                };
                let member = self.program.member_type(ty, index as usize)?;
                let place = format!("{}.{name}", postfix(&text));
                self.program.loaded(&naga::proc::TypeResolution::Handle(member), place)
            }
            TypeInner::Array { .. } => self.element_of(base, &text, &index.to_string()),
            ref other => Err(Error::UnsupportedType(super::describe(other))),
        }
    }

    fn element_of(&mut self, array: Handle<Expression>, text: &str, index: &str) -> Result<String, Error> {
        let ty = self.composite(array)?;
        let element = self.program.member_type(ty, 0)?;
        let place = format!("{}.inner[{index}]{}", postfix(text), self.program.element_suffix(ty)?);
        self.program.loaded(&naga::proc::TypeResolution::Handle(element), place)
    }

    /// The type of an array or struct: always one of the module's.
    fn composite(&self, handle: Handle<Expression>) -> Result<Handle<Type>, Error> {
        self.info[handle].ty.handle().ok_or(Error::Inconsistent("a composite of an unnamed type"))
    }

    pub(super) fn swizzle(
        &mut self,
        size: VectorSize,
        vector: Handle<Expression>,
        pattern: &[SwizzleComponent; 4],
    ) -> Result<String, Error> {
        let operand = self.operand(vector)?;
        let vector = postfix(&operand.text);
        let letters: Vec<_> =
            pattern[..size as usize].iter().map(|component| COMPONENTS[component.index() as usize]).collect();
        if self.program.target.native_vectors() {
            self.program.shape(Shape { size: Some(size), scalar: operand.shape.scalar })?;
            return Ok(format!("{vector}.{}", letters.concat()));
        }
        let parts: Vec<_> = letters.iter().map(|letter| format!("{vector}.{letter}")).collect();
        self.program.vector(size, operand.shape.scalar, &parts)
    }
}
