//! Sizes and offsets: where C would put members, where WGSL says they are, and the padding in between.

use naga::proc::{Alignment, IndexableLength};
use naga::{ArraySize, Handle, Module, ScalarKind, Type, TypeInner};

use crate::Error;

/// Size and alignment of a type as the C compiler sees the type that we write for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CLayout {
    pub(crate) size: u32,
    pub(crate) align: u32,
}

/// A member of a C struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The member of this index.
    Member(usize),
    /// So many bytes of nothing.
    Padding(u32),
}

/// The type's name for messages.
pub(crate) fn type_name(module: &Module, ty: Handle<Type>) -> String {
    module.types[ty].name.clone().unwrap_or_else(|| crate::expr::describe(&module.types[ty].inner))
}

/// Layout of a type in memory.
///
/// Vectors of three are packed (see `types`). Types with `bool` in them never meet the host: their layout is the compiler's
/// own, which is not known here, and `None` is returned.
pub(crate) fn c_layout(module: &Module, ty: Handle<Type>) -> Result<Option<CLayout>, Error> {
    Ok(match module.types[ty].inner {
        TypeInner::Scalar(s) | TypeInner::Atomic(s) | TypeInner::Vector { scalar: s, .. }
            if s.kind == ScalarKind::Bool =>
        {
            None
        }
        TypeInner::Scalar(s) | TypeInner::Atomic(s) => {
            Some(CLayout { size: u32::from(s.width), align: u32::from(s.width) })
        }
        TypeInner::Vector { size, scalar } => {
            let (n, width) = (size as u32, u32::from(scalar.width));
            Some(CLayout { size: n * width, align: if n == 3 { width } else { n * width } })
        }
        TypeInner::Array { base, size, .. } => {
            let stride = array_stride(module, ty)?;
            let count = array_length(module, size)?.unwrap_or(0);
            match (c_layout(module, base)?, stride) {
                (Some(element), Some(stride)) => {
                    let size =
                        stride.checked_mul(count).ok_or_else(|| Error::Layout(type_name(module, ty)))?;
                    Some(CLayout { size, align: element.align })
                }
                _ => None,
            }
        }
        TypeInner::Struct { .. } => struct_fields(module, ty)?.1,
        _ => return Err(Error::UnsupportedType(type_name(module, ty))),
    })
}

/// The number of an array's elements, `None` if it is runtime-sized.
///
/// An override's value stands in the module once overrides were processed.
pub(crate) fn array_length(module: &Module, size: ArraySize) -> Result<Option<u32>, Error> {
    match size.resolve(module.to_ctx()) {
        Ok(IndexableLength::Known(length)) => Ok(Some(length)),
        Ok(IndexableLength::Dynamic) => Ok(None),
        Err(_) => Err(match size {
            ArraySize::Pending(over) => {
                Error::UnresolvedOverride(module.overrides[over].name.clone().unwrap_or_default())
            }
            _ => Error::Inconsistent("an array without a length"),
        }),
    }
}

/// The distance of an array's elements, if the layout is ours to say.
fn array_stride(module: &Module, array: Handle<Type>) -> Result<Option<u32>, Error> {
    let TypeInner::Array { base, stride, .. } = module.types[array].inner else {
        return Err(Error::Inconsistent("an array type was expected"));
    };
    Ok(c_layout(module, base)?.map(|_| stride))
}

/// Bytes to add to each element of an array so that elements lie `stride` apart.
pub(crate) fn array_padding(module: &Module, array: Handle<Type>) -> Result<u32, Error> {
    let TypeInner::Array { base, stride, .. } = module.types[array].inner else {
        return Err(Error::Inconsistent("an array type was expected"));
    };
    let Some(element) = c_layout(module, base)? else { return Ok(0) };
    if stride < element.size || !stride.is_multiple_of(element.align) {
        return Err(Error::Layout(type_name(module, array)));
    }
    Ok(stride - element.size)
}

/// The members of a struct with explicit padding between them, and the layout of the whole.
///
/// A runtime-sized array at the end is left out: it is reached by its offset.
pub(crate) fn struct_fields(
    module: &Module,
    ty: Handle<Type>,
) -> Result<(Vec<Field>, Option<CLayout>), Error> {
    let TypeInner::Struct { ref members, span } = module.types[ty].inner else {
        return Err(Error::Inconsistent("a struct type was expected"));
    };
    let overlap = || Error::Layout(type_name(module, ty));
    let sized = members.iter().enumerate().filter(|(_, m)| !is_runtime_array(module, m.ty));
    let mut layouts = Vec::with_capacity(members.len());
    for (index, member) in sized {
        match c_layout(module, member.ty)? {
            Some(layout) => layouts.push((index, member.offset, layout)),
            // The compiler lays out the whole.
            None => return Ok(((0..members.len()).map(Field::Member).collect(), None)),
        }
    }
    let mut fields = Vec::new();
    let (mut end, mut align) = (0, 1);
    for (index, offset, layout) in layouts {
        let natural = round_up(end, layout.align);
        if offset < natural || !offset.is_multiple_of(layout.align) {
            return Err(overlap());
        }
        if offset > natural {
            fields.push(Field::Padding(offset - end));
        }
        fields.push(Field::Member(index));
        end = offset + layout.size;
        align = align.max(layout.align);
    }
    if end == 0 {
        // Only a runtime-sized array: C has no empty structs.
        fields.push(Field::Padding(span.max(1)));
        end = span.max(1);
    }
    if span < end || !span.is_multiple_of(align) {
        return Err(overlap());
    }
    if span > round_up(end, align) {
        fields.push(Field::Padding(span - end));
    }
    Ok((fields, Some(CLayout { size: span, align })))
}

/// Whether a type is `array<T>` without a length.
pub(crate) fn is_runtime_array(module: &Module, ty: Handle<Type>) -> bool {
    matches!(module.types[ty].inner, TypeInner::Array { size: ArraySize::Dynamic, .. })
}

pub(crate) fn round_up(value: u32, align: u32) -> u32 {
    Alignment::new(align).map_or(value, |align| align.round_up(value))
}
