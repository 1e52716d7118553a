//! How the two dialects spell what they both have.
//!
//! The writer works with names that are the same everywhere (`u32`, `f32x4`, `fmin`, ...). A [`Target`] says how such a name
//! is defined or called; it holds no logic about shaders.

mod cuda;
mod cuda_text;
mod opencl;

use naga::{AddressSpace, AtomicFunction, Barrier, BuiltIn, Scalar, VectorSize};

pub(crate) use cuda::Cuda;
pub(crate) use opencl::OpenCl;

use crate::{Dialect, Error};

/// What a program needs from the top of its source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) half: bool,
    pub(crate) double: bool,
    pub(crate) long_atomics: bool,
    pub(crate) long_extended_atomics: bool,
    pub(crate) subgroups: bool,
    pub(crate) subgroup_ballot: bool,
    pub(crate) subgroup_shuffle: bool,
    pub(crate) subgroup_shuffle_relative: bool,
    pub(crate) subgroup_arithmetic: bool,
    pub(crate) subgroup_extended_types: bool,
}

/// An atomic operation to spell.
pub(crate) struct Atomic<'a> {
    pub(crate) fun: AtomicFunction,
    pub(crate) scalar: Scalar,
    pub(crate) pointer: &'a str,
    pub(crate) value: &'a str,
    /// The value to compare with, for `Exchange { compare: Some(_) }`.
    pub(crate) compare: &'a str,
}

/// A subgroup operation that is one function of one operand, or of an operand and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    First,
    Broadcast,
    Shuffle,
    Up,
    Down,
    Xor,
    Quad,
}

/// The operators of reductions and scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collective {
    pub(crate) op: naga::SubgroupOperation,
    pub(crate) scope: naga::CollectiveOperation,
}

/// A dialect as a table of spellings.
pub(crate) trait Target: Sync {
    /// Its name in messages.
    fn name(&self) -> &'static str;
    /// The start of the source: pragmas, fixed definitions.
    fn header(&self, needs: &Needs) -> String;
    /// The extensions that the device must have.
    fn extensions(&self, needs: &Needs) -> Vec<&'static str>;
    /// The definition of a scalar type, empty if it is built in.
    fn define_scalar(&self, scalar: Scalar) -> &'static str;
    /// The definition of a vector type called `name`.
    fn define_vector(&self, name: &str, scalar_name: &str, scalar: Scalar, size: VectorSize) -> String;
    /// Whether vectors have operators, swizzles and functions of their own. Their 3-vectors are then as large as 4-vectors
    /// and are packed in memory.
    fn native_vectors(&self) -> bool;
    /// The type of the components of vectors in memory, where that differs from the scalar type.
    fn bool_component(&self) -> &'static str;
    /// A vector of the given components; of one component, if there is only one, in all places.
    fn vector(&self, ty: &str, size: VectorSize, components: &[String]) -> String;
    /// A value of a struct type of the given members.
    fn aggregate(&self, ty: &str, members: &str) -> String;
    /// The qualifier of pointers to an address space, with a space after it.
    fn space(&self, space: AddressSpace) -> &'static str;
    /// The qualifiers of a table of constants, with a space after them.
    fn constant(&self) -> &'static str;
    /// The qualifiers of a function, with a space after them.
    fn function(&self) -> &'static str;
    /// The qualifiers of a small function that should vanish, with a space after them.
    fn helper(&self) -> &'static str;
    /// The start of a kernel up to its name, with a space after it.
    fn kernel(&self, workgroup_size: [u32; 3]) -> String;
    /// The qualifier of variables in workgroup memory, with a space after it.
    fn workgroup(&self) -> &'static str;
    /// The qualifiers of a kernel's parameter that is a struct, with a space after them.
    fn by_value(&self) -> &'static str;
    /// The `restrict` qualifier, with a space before it.
    fn restrict(&self) -> &'static str;
    /// The suffix of 64-bit integers.
    fn long_suffix(&self) -> &'static str;
    /// A 32-bit float of the given bits.
    fn f32_from_bits(&self, bits: u32) -> String;
    /// A 64-bit float of the given bits.
    fn f64_from_bits(&self, bits: u64) -> String;
    /// A 16-bit float of the given bits and value.
    fn half_literal(&self, bits: u16, value: &str) -> String;
    /// A conversion between number types (not from or to `bool`), without saturation.
    fn convert(&self, from: Scalar, to: Scalar, text: &str) -> Result<String, Error>;
    /// The same bits as another type of the same width.
    fn bitcast(&self, from: Scalar, to: Scalar, text: &str) -> String;
    /// A function on floats by its name in C (`fabs`, `exp2`, ...).
    fn float_function(&self, name: &str, scalar: Scalar, arguments: &[&str]) -> String;
    /// Bits set in an unsigned number of 32 or 64 bits.
    fn popcount(&self, scalar: Scalar, text: &str) -> String;
    /// Leading zeros of an unsigned number of 32 or 64 bits; the width for 0.
    fn leading_zeros(&self, scalar: Scalar, text: &str) -> String;
    /// The body of a function of `u32 x` or `u64 x` that reverses its bits.
    fn reverse_bits(&self, scalar: Scalar) -> &'static str;
    /// The body of a function of `f32 x` that gives the bits of the nearest 16-bit float as `u32`.
    fn half_bits(&self) -> &'static str;
    /// The body of a function of `u32 x` that gives the value of the 16-bit float in the low half as `f32`.
    fn half_value(&self) -> &'static str;
    /// The body of a function of `u32 a, u32 b` that gives the dot product of four bytes each.
    fn dot4(&self, signed: bool) -> &'static str;
    /// A built-in value: one source, or three for vectors.
    fn builtin(&self, builtin: BuiltIn, workgroup_size: [u32; 3]) -> Option<Vec<String>>;
    /// A barrier for control (`control`) or for memory only.
    fn barrier(&self, barrier: Barrier, control: bool) -> Vec<&'static str>;
    /// An atomic operation; what was there before is its value. `None` where the dialect has none.
    fn atomic(&self, atomic: &Atomic<'_>, needs: &mut Needs) -> Option<String>;
    /// The preprocessor's condition for `collective`, where not all devices have it.
    fn collective_condition(&self) -> Option<&'static str>;
    /// A ballot as four words.
    fn ballot(&self, predicate: &str, needs: &mut Needs) -> String;
    /// `all` (or `any`) of a predicate over the subgroup.
    fn vote(&self, all: bool, predicate: &str, needs: &mut Needs) -> String;
    /// The value of another invocation of the subgroup.
    fn gather(&self, gather: Gather, scalar: Scalar, text: &str, index: &str, needs: &mut Needs) -> String;
    /// A reduction or scan in one call, where the dialect has it. `None`: to be built of shuffles.
    fn collective(
        &self,
        collective: Collective,
        text: &str,
        scalar: Scalar,
        needs: &mut Needs,
    ) -> Option<String>;
}

/// The table for a dialect.
pub(crate) fn target(dialect: Dialect) -> &'static dyn Target {
    match dialect {
        Dialect::OpenCl => &OpenCl,
        Dialect::Cuda => &Cuda,
    }
}

/// The name of an operation in messages.
pub(crate) fn atomic_name(fun: AtomicFunction) -> &'static str {
    match fun {
        AtomicFunction::Add => "add",
        AtomicFunction::Subtract => "subtract",
        AtomicFunction::And => "and",
        AtomicFunction::ExclusiveOr => "exclusive or",
        AtomicFunction::InclusiveOr => "or",
        AtomicFunction::Min => "minimum",
        AtomicFunction::Max => "maximum",
        AtomicFunction::Exchange { compare: None } => "exchange",
        AtomicFunction::Exchange { compare: Some(_) } => "compare-exchange",
    }
}

/// A type's name in calls of conversions; the caller has checked that it exists.
fn scalar_name(scalar: Scalar) -> &'static str {
    crate::scalars::name(scalar).unwrap_or("f32")
}
