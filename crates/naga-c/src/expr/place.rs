//! Pointers: what they point to as a place in C, loads, addresses.

use naga::proc::NameKey;
use naga::{
    AddressSpace, ArraySize, Expression, GlobalVariable, Handle, Scalar, ScalarKind, Type, TypeInner,
};

use super::Body;
use crate::Error;
use crate::layout::array_length;
use crate::scalars::{COMPONENTS, Operand, Shape, wrapping};
use crate::types::MemberKind;

impl Body<'_, '_> {
    /// What a pointer expression points to, and where.
    fn pointee(
        &self,
        pointer: Handle<Expression>,
    ) -> Result<(Option<Handle<Type>>, TypeInner, AddressSpace), Error> {
        match *self.inner(pointer) {
            TypeInner::Pointer { base, space } => {
                Ok((Some(base), self.program.module.types[base].inner.clone(), space))
            }
            TypeInner::ValuePointer { size: Some(size), scalar, space } => {
                Ok((None, TypeInner::Vector { size, scalar }, space))
            }
            TypeInner::ValuePointer { size: None, scalar, space } => {
                Ok((None, TypeInner::Scalar(scalar), space))
            }
            _ => Err(Error::Inconsistent("a pointer was expected")),
        }
    }

    /// The type that a pointer points to.
    pub(crate) fn pointee_type(&self, pointer: Handle<Expression>) -> Result<TypeInner, Error> {
        Ok(self.pointee(pointer)?.1)
    }

    fn global_name(&self, global: Handle<GlobalVariable>) -> String {
        self.program.names[&NameKey::GlobalVariable(global)].clone()
    }

    /// What the pointer points to, as an lvalue of the type in memory.
    pub(crate) fn place(&mut self, pointer: Handle<Expression>) -> Result<String, Error> {
        match self.function.expressions[pointer] {
            Expression::GlobalVariable(global) => {
                let name = self.global_name(global);
                let variable = &self.program.module.global_variables[global];
                Ok(if self.is_pointer(variable) { format!("(*{name})") } else { name })
            }
            Expression::LocalVariable(local) => Ok(self.local_name(local)),
            Expression::FunctionArgument(index) => Ok(format!("(*{})", self.argument(index)?)),
            Expression::Access { base, index } => {
                let index = self.operand(index)?;
                let index = self.restricted(base, &index)?;
                self.element(base, super::bare(&index))
            }
            Expression::AccessIndex { base, index } => match self.pointee(base)? {
                (_, TypeInner::Vector { .. }, _) => {
                    let component = component(index)?;
                    Ok(member_of(&self.place(base)?, component))
                }
                (Some(ty), TypeInner::Struct { .. }, _) => match self.program.member(ty, index)? {
                    MemberKind::Field(name) => Ok(member_of(&self.place(base)?, &name)),
                    MemberKind::Tail(_) => Err(Error::Inconsistent("a runtime-sized array as a whole")),
                },
                // The validator has compared it with lengths that it knows.
                (_, TypeInner::Array { size: ArraySize::Dynamic, .. }, _)
                    if self.program.options.bounds_checks =>
                {
                    let index = Operand::new(format!("{index}u"), Shape::scalar(Scalar::U32));
                    let index = self.restricted(base, &index)?;
                    self.element(base, super::bare(&index))
                }
                _ => self.element(base, &index.to_string()),
            },
            _ => Err(Error::Inconsistent("a pointer of an unknown kind")),
        }
    }

    /// A computed index into what the pointer `base` points to, or into the value `base`; with bounds checks the last one at most.
    pub(super) fn restricted(&mut self, base: Handle<Expression>, index: &Operand) -> Result<String, Error> {
        if !self.program.options.bounds_checks {
            return Ok(index.text.clone());
        }
        let inner = match self.inner(base).pointer_space() {
            Some(_) => self.pointee_type(base)?,
            None => self.inner(base).clone(),
        };
        let length = match inner {
            TypeInner::Vector { size, .. } => format!("{}u", size as u32),
            TypeInner::Array { size, .. } => match array_length(self.program.module, size)? {
                Some(length) => format!("{length}u"),
                None => self.array_length(base)?,
            },
            other => return Err(Error::UnsupportedType(super::describe(&other))),
        };
        let (scalar, u32_ty) = (index.shape.scalar, self.program.scalar(Scalar::U32)?);
        let (ty, unsigned) = (self.program.scalar(scalar)?, self.program.scalar(wrapping(scalar))?);
        let name = format!("nc_restrict_{ty}");
        let body = format!("return ({unsigned})i < n ? ({u32_ty})i : n - 1u;");
        self.program.helper(&name, &format!("{ty} i, {u32_ty} n"), &u32_ty, &body);
        Ok(format!("{name}({}, {})", super::bare(&index.text), super::bare(&length)))
    }

    /// An element of what the pointer `base` points to.
    fn element(&mut self, base: Handle<Expression>, index: &str) -> Result<String, Error> {
        match self.pointee(base)? {
            (_, TypeInner::Vector { scalar, .. }, space) => {
                let component = self.component_type(scalar)?;
                let place = self.place(base)?;
                Ok(format!("(({}{component}*)&{place})[{index}]", self.program.target.space(space)))
            }
            (Some(ty), TypeInner::Array { size: ArraySize::Dynamic, .. }, _) => {
                let start = self.array_start(base)?;
                Ok(format!("{start}[{index}]{}", self.program.element_suffix(ty)?))
            }
            (Some(ty), TypeInner::Array { .. }, _) => {
                let place = member_of(&self.place(base)?, "inner");
                Ok(format!("{place}[{index}]{}", self.program.element_suffix(ty)?))
            }
            (_, other, _) => Err(Error::UnsupportedType(super::describe(&other))),
        }
    }

    /// The type of a vector's components in memory.
    fn component_type(&mut self, scalar: Scalar) -> Result<String, Error> {
        match scalar.kind {
            ScalarKind::Bool => Ok(self.program.target.bool_component().into()),
            _ => self.program.scalar(scalar),
        }
    }

    /// A pointer to the first element of a runtime-sized array.
    fn array_start(&mut self, array: Handle<Expression>) -> Result<String, Error> {
        match self.function.expressions[array] {
            Expression::GlobalVariable(global) => Ok(self.global_name(global)),
            Expression::FunctionArgument(index) => self.argument(index),
            Expression::AccessIndex { base, index } => {
                let ((Some(ty), _, space), (Some(array), ..)) = (self.pointee(base)?, self.pointee(array)?)
                else {
                    return Err(Error::Inconsistent("a runtime-sized array outside of a struct"));
                };
                let MemberKind::Tail(offset) = self.program.member(ty, index)? else {
                    return Err(Error::Inconsistent("a runtime-sized array that is not the last member"));
                };
                let element = self.program.element_type(array)?;
                let space = self.program.target.space(space);
                let start = self.address(base)?;
                Ok(format!("(({space}{element}*)(({space}unsigned char*){start} + {offset}))"))
            }
            _ => Err(Error::Inconsistent("a runtime-sized array of an unknown kind")),
        }
    }

    /// The pointer itself, to be passed to a function.
    pub(crate) fn address(&mut self, pointer: Handle<Expression>) -> Result<String, Error> {
        if matches!(self.pointee(pointer)?.1, TypeInner::Array { size: ArraySize::Dynamic, .. }) {
            return self.array_start(pointer);
        }
        Ok(address_of(&self.place(pointer)?))
    }

    /// The space that a pointer points into.
    pub(crate) fn space(&self, pointer: Handle<Expression>) -> Result<AddressSpace, Error> {
        Ok(self.pointee(pointer)?.2)
    }

    /// The value at a pointer.
    pub(crate) fn load(&mut self, pointer: Handle<Expression>) -> Result<String, Error> {
        // A component of a variable that is ours alone is picked from its value, so that it can stay in registers.
        if let Expression::Access { base, index } = self.function.expressions[pointer]
            && let (_, TypeInner::Vector { size, scalar }, space) = self.pointee(base)?
            && matches!(space, AddressSpace::Function | AddressSpace::Private)
        {
            let vector = self.load(base)?;
            let index = self.operand(index)?;
            return self.component_at(size, scalar, &vector, &index);
        }
        let (ty, inner, space) = self.pointee(pointer)?;
        let place = self.place(pointer)?;
        if let TypeInner::Atomic(scalar) = inner {
            return self.volatile(&place, scalar, space);
        }
        let resolution = match ty {
            Some(ty) => naga::proc::TypeResolution::Handle(ty),
            None => naga::proc::TypeResolution::Value(inner),
        };
        self.program.loaded(&resolution, place)
    }

    /// A place through a volatile pointer: each load and store is one access of the whole word.
    pub(crate) fn volatile(
        &mut self,
        place: &str,
        scalar: Scalar,
        space: AddressSpace,
    ) -> Result<String, Error> {
        let ty = self.program.scalar(scalar)?;
        Ok(format!("(*(volatile {}{ty}*){})", self.program.target.space(space), address_of(place)))
    }

    pub(super) fn array_length(&mut self, array: Handle<Expression>) -> Result<String, Error> {
        let (Some(ty), TypeInner::Array { stride, .. }, _) = self.pointee(array)? else {
            return Err(Error::Inconsistent("the length of something that is no array"));
        };
        let module = self.program.module;
        let (global, offset) = match self.function.expressions[array] {
            Expression::GlobalVariable(global) => (global, 0),
            Expression::AccessIndex { base, index } => {
                let Expression::GlobalVariable(global) = self.function.expressions[base] else {
                    return Err(Error::ArrayLengthOfArgument);
                };
                match self.program.member(module.global_variables[global].ty, index)? {
                    MemberKind::Tail(offset) => (global, offset),
                    MemberKind::Field(_) => return Err(Error::Inconsistent("the length of a sized array")),
                }
            }
            _ => return Err(Error::ArrayLengthOfArgument),
        };
        debug_assert!(crate::layout::is_runtime_array(module, ty));
        self.program.scalar(Scalar::U32)?;
        let size = self.program.size_names[&global].clone();
        let size = if offset == 0 { size } else { format!("({size} - {offset}u)") };
        Ok(format!("({size} / {stride}u)"))
    }
}

/// The name of a vector's component.
pub(super) fn component(index: u32) -> Result<&'static str, Error> {
    COMPONENTS.get(index as usize).copied().ok_or(Error::Inconsistent("a component that does not exist"))
}

/// `place.name`, or `pointer->name` if the place is what a pointer points to.
fn member_of(place: &str, name: &str) -> String {
    match dereferenced(place) {
        Some(pointer) => format!("{pointer}->{name}"),
        None => format!("{place}.{name}"),
    }
}

/// `&place`, or the pointer if the place is what a pointer points to.
fn address_of(place: &str) -> String {
    dereferenced(place).map_or_else(|| format!("&{place}"), str::to_string)
}

/// The name in `(*name)`.
fn dereferenced(place: &str) -> Option<&str> {
    let name = place.strip_prefix("(*")?.strip_suffix(')')?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}
