//! Deep learning in Rust with hybrid execution.
