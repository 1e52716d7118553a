//! Tests of `rustorch-nn` by its public interface.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod derive;
mod errors;
mod init;
mod module;
mod modules;
mod state_dict;
