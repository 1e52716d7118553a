//! What can be wrong with a module, as far as this writer is concerned.

use naga::{BuiltIn, MathFunction, ShaderStage};

/// Why a module could not be written. The module may well be valid: not all of it has a counterpart in C.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No compute entry point has the name asked for.
    #[error("the module has no entry point named `{0}`")]
    UnknownEntryPoint(String),
    /// The module has no compute entry point at all.
    #[error("the module has no compute entry point")]
    NoEntryPoint,
    /// The entry point asked for belongs to another stage.
    #[error("entry point `{name}` is for {stage:?}; only compute entry points can be written")]
    NotCompute {
        /// The entry point.
        name: String,
        /// Its stage.
        stage: ShaderStage,
    },
    /// An `override` has no value yet.
    #[error("the override {0} has no value: call naga::back::pipeline_constants::process_overrides first")]
    UnresolvedOverride(String),
    /// A type without counterpart: textures, samplers, matrices, acceleration structures, ...
    #[error("{0} cannot be written as C")]
    UnsupportedType(String),
    /// An expression without counterpart.
    #[error("the expression {0} cannot be written as C")]
    UnsupportedExpression(&'static str),
    /// A statement without counterpart.
    #[error("the statement {0} cannot be written as C")]
    UnsupportedStatement(&'static str),
    /// A built-in value that compute kernels do not have.
    #[error("the built-in value {0:?} does not exist in compute kernels")]
    UnsupportedBuiltIn(BuiltIn),
    /// A mathematical function without counterpart: those on matrices.
    #[error("the function {0:?} cannot be written as C")]
    UnsupportedMath(MathFunction),
    /// A global variable in an address space without counterpart.
    #[error("the global variable `{name}` is in the address space {space}, which cannot be written as C")]
    UnsupportedAddressSpace {
        /// The variable.
        name: String,
        /// Its address space.
        space: String,
    },
    /// A storage variable decorated with `@coherent` or `@volatile`.
    #[error("the global variable `{0}` is decorated as coherent or volatile, which cannot be written as C")]
    UnsupportedDecoration(String),
    /// An atomic operation that the dialect does not have.
    #[error("{dialect} has no atomic {operation} on {scalar}")]
    UnsupportedAtomic {
        /// The dialect's name.
        dialect: &'static str,
        /// The operation.
        operation: &'static str,
        /// The type of the atomic, as this crate writes it.
        scalar: &'static str,
    },
    /// `arrayLength` is used, but [`Options::buffer_sizes`](crate::Options::buffer_sizes) is off.
    #[error(
        "arrayLength of `{0}` needs the size of its buffer: set Options::buffer_sizes and pass the arguments \
         of kind StorageSize"
    )]
    BufferSizesNeeded(String),
    /// `arrayLength` of a pointer that a function received as an argument.
    #[error("arrayLength of a pointer argument cannot be written as C: name the global variable instead")]
    ArrayLengthOfArgument,
    /// A resource without `@group` and `@binding`.
    #[error("the global variable `{0}` has no @group and @binding")]
    MissingBinding(String),
    /// Offsets or strides that C's rules for structures cannot express.
    #[error("the layout of `{0}` has overlapping or misaligned members, which C cannot express")]
    Layout(String),
    /// A constant expression that naga should have evaluated was left unevaluated.
    #[error("the constant expression {0} was not evaluated by naga's front end")]
    UnevaluatedConstant(&'static str),
    /// The module breaks a rule that naga's validator checks, or the module info belongs to another module.
    #[error("the module does not agree with its validation info: {0}")]
    Inconsistent(&'static str),
}
