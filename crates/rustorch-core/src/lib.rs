//! The vocabulary of RusTorch: no tensor, no threads, no device code, only the types that every other crate speaks.

mod dtype;
mod quant_type;

pub use dtype::{C64, C128, DType, DTypeKind, Element};
pub use quant_type::QuantType;
