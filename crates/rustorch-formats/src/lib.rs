//! Model file formats: [`gguf`], read through a memory mapping and written atomically.
//!
//! Files come from strangers. Every parser here checks each count, length, offset and size before it uses it, allocates
//! no more than the file's own size warrants, and reports each malformation as its own error.

mod atomic;
mod bytes;
pub mod gguf;

pub use bytes::SharedBytes;
