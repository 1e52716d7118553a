//! See `tests/messages.rs`.
