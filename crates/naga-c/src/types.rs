//! Types of the shader as types of C, defined once each and only if they are used.
//!
//! There are two forms of a type: that of *values* and that *in memory* (variables, members, elements). They differ for vectors
//! of three where the dialect's own are as large as vectors of four: those are packed in memory (`f32x3_packed`).

use std::collections::{BTreeSet, HashMap};

use naga::proc::{NameKey, TypeResolution};
use naga::{AddressSpace, Handle, Scalar, ScalarKind, Type, TypeInner, VectorSize};

use crate::Error;
use crate::layout::{Field, array_length, array_padding, is_runtime_array, struct_fields, type_name};
use crate::program::Program;
use crate::scalars::{self, SCALARS, Shape};

/// Definitions collected so far.
#[derive(Default)]
pub(crate) struct Types {
    shapes: BTreeSet<(usize, u8)>,
    packed: BTreeSet<usize>,
    names: HashMap<Handle<Type>, String>,
    strided: HashMap<Handle<Type>, String>,
    composites: String,
}

/// How a member of a struct is reached.
pub(crate) enum MemberKind {
    /// By `.name`.
    Field(String),
    /// By its offset: the runtime-sized array at the end.
    Tail(u32),
}

impl Program<'_> {
    /// The name of a scalar or vector type as a value.
    pub(crate) fn shape(&mut self, shape: Shape) -> Result<String, Error> {
        let name = shape.name()?;
        match shape.scalar {
            Scalar::F16 => {
                self.needs.half = true;
                // Much of what is done with them is done in f32.
                self.shape(Shape::scalar(Scalar::F32))?;
            }
            Scalar::F64 => self.needs.double = true,
            _ => {}
        }
        let index = SCALARS.iter().position(|s| *s == shape.scalar).unwrap_or(0);
        self.types.shapes.insert((index, 1));
        if let Some(size) = shape.size {
            self.types.shapes.insert((index, size as u8));
        }
        Ok(name)
    }

    pub(crate) fn scalar(&mut self, scalar: Scalar) -> Result<String, Error> {
        self.shape(Shape::scalar(scalar))
    }

    /// Whether values of this shape are packed in memory.
    pub(crate) fn is_packed(&self, shape: Shape) -> bool {
        self.target.native_vectors()
            && shape.size == Some(VectorSize::Tri)
            && shape.scalar.kind != ScalarKind::Bool
    }

    /// The name of the packed form of a vector of three.
    pub(crate) fn packed_type(&mut self, shape: Shape) -> Result<String, Error> {
        let name = self.shape(shape)?;
        self.types.packed.insert(SCALARS.iter().position(|s| *s == shape.scalar).unwrap_or(0));
        Ok(format!("{name}_packed"))
    }

    /// The shape of a type, if it is a scalar, an atomic or a vector.
    pub(crate) fn shape_of(&self, inner: &TypeInner) -> Option<Shape> {
        match *inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => Some(Shape::scalar(scalar)),
            TypeInner::Vector { size, scalar } => Some(Shape { size: Some(size), scalar }),
            _ => None,
        }
    }

    /// The name of a type as a value.
    pub(crate) fn value_type(&mut self, ty: Handle<Type>) -> Result<String, Error> {
        match self.shape_of(&self.module.types[ty].inner) {
            Some(shape) => self.shape(shape),
            None => self.memory_type(ty),
        }
    }

    /// The name of an expression's type as a value.
    pub(crate) fn resolved_type(&mut self, resolution: &TypeResolution) -> Result<String, Error> {
        match *resolution {
            TypeResolution::Handle(ty) => self.value_type(ty),
            TypeResolution::Value(ref inner) => match self.shape_of(inner) {
                Some(shape) => self.shape(shape),
                None => Err(Error::UnsupportedType(format!("{inner:?}"))),
            },
        }
    }

    /// The name of a type in memory.
    pub(crate) fn memory_type(&mut self, ty: Handle<Type>) -> Result<String, Error> {
        let inner = &self.module.types[ty].inner;
        if let Some(shape) = self.shape_of(inner) {
            return if self.is_packed(shape) { self.packed_type(shape) } else { self.shape(shape) };
        }
        if let Some(name) = self.types.names.get(&ty) {
            return Ok(name.clone());
        }
        let name = match *inner {
            TypeInner::Struct { .. } => self.define_struct(ty)?,
            TypeInner::Array { size, .. } => match array_length(self.module, size)? {
                Some(count) => self.define_array(ty, count)?,
                None => return Err(Error::Inconsistent("a runtime-sized array as a whole")),
            },
            _ => return Err(Error::UnsupportedType(type_name(self.module, ty))),
        };
        self.types.names.insert(ty, name.clone());
        Ok(name)
    }

    /// The pointer's type: qualifiers, type, `*`.
    pub(crate) fn pointer_type(&mut self, base: Handle<Type>, space: AddressSpace) -> Result<String, Error> {
        let base = if is_runtime_array(self.module, base) {
            self.element_type(base)?
        } else {
            self.memory_type(base)?
        };
        Ok(format!("{}{base}*", self.target.space(space)))
    }

    /// The type of an array's elements in memory, with the padding that their distance demands.
    pub(crate) fn element_type(&mut self, array: Handle<Type>) -> Result<String, Error> {
        let TypeInner::Array { base, .. } = self.module.types[array].inner else {
            return Err(Error::Inconsistent("an array type was expected"));
        };
        let element = self.memory_type(base)?;
        let padding = array_padding(self.module, array)?;
        if padding == 0 {
            return Ok(element);
        }
        if let Some(name) = self.types.strided.get(&array) {
            return Ok(name.clone());
        }
        let name = self.namer.call(&format!("{element}_strided"));
        self.types.composites += &format!(
            "typedef struct {name} {{\n    {element} value;\n    unsigned char pad[{padding}];\n}} {name};\n"
        );
        self.types.strided.insert(array, name.clone());
        Ok(name)
    }

    /// What follows an element to get at its value: nothing, or the member of the padded element.
    pub(crate) fn element_suffix(&self, array: Handle<Type>) -> Result<&'static str, Error> {
        Ok(if array_padding(self.module, array)? == 0 { "" } else { ".value" })
    }

    fn define_array(&mut self, ty: Handle<Type>, count: u32) -> Result<String, Error> {
        let element = self.element_type(ty)?;
        let name = self.namer.call(&format!("{element}_{count}_array"));
        self.types.composites +=
            &format!("typedef struct {name} {{\n    {element} inner[{count}];\n}} {name};\n");
        Ok(name)
    }

    fn define_struct(&mut self, ty: Handle<Type>) -> Result<String, Error> {
        let TypeInner::Struct { ref members, .. } = self.module.types[ty].inner else {
            return Err(Error::Inconsistent("a struct type was expected"));
        };
        let (fields, _) = struct_fields(self.module, ty)?;
        let name = self.names[&NameKey::Type(ty)].clone();
        let mut body = String::new();
        for (place, field) in fields.into_iter().enumerate() {
            body += &match field {
                Field::Padding(bytes) => format!("    unsigned char nc_pad{place}[{bytes}];\n"),
                Field::Member(index) => {
                    let member_type = self.memory_type(members[index].ty)?;
                    format!("    {member_type} {};\n", self.names[&NameKey::StructMember(ty, index as u32)])
                }
            };
        }
        self.types.composites += &format!("typedef struct {name} {{\n{body}}} {name};\n");
        Ok(name)
    }

    /// How to reach a member.
    pub(crate) fn member(&self, ty: Handle<Type>, index: u32) -> Result<MemberKind, Error> {
        let TypeInner::Struct { ref members, .. } = self.module.types[ty].inner else {
            return Err(Error::Inconsistent("a struct type was expected"));
        };
        let member =
            members.get(index as usize).ok_or(Error::Inconsistent("a member that does not exist"))?;
        Ok(if is_runtime_array(self.module, member.ty) {
            MemberKind::Tail(member.offset)
        } else {
            MemberKind::Field(self.names[&NameKey::StructMember(ty, index)].clone())
        })
    }

    /// The definitions, in an order in which each finds what it needs.
    pub(crate) fn type_definitions(&self) -> Result<String, Error> {
        let mut text = String::new();
        for (index, size) in &self.types.shapes {
            let definition = self.target.define_scalar(SCALARS[*index]);
            if *size == 1 && !definition.is_empty() {
                text += definition;
                text.push('\n');
            }
        }
        for (index, size) in &self.types.shapes {
            let size = match size {
                2 => VectorSize::Bi,
                3 => VectorSize::Tri,
                4 => VectorSize::Quad,
                _ => continue,
            };
            let scalar = SCALARS[*index];
            let name = Shape { size: Some(size), scalar }.name()?;
            text += &self.target.define_vector(&name, scalars::name(scalar)?, scalar, size);
        }
        for index in &self.types.packed {
            let name = scalars::name(SCALARS[*index])?;
            text += &format!("typedef struct {name}x3_packed {{ {name} x, y, z; }} {name}x3_packed;\n");
        }
        Ok(text + &self.types.composites)
    }
}
