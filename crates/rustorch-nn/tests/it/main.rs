//! Tests of `rustorch-nn` by its public interface.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod activations;
mod amp;
mod average;
mod capture;
mod capture_loaded;
mod common;
mod curves;
mod derive;
mod display;
mod errors;
mod faults;
mod init;
mod key_value_cache;
mod lbfgs;
mod losses;
mod lstm;
mod module;
mod modules;
mod optimizers;
mod packed;
mod schedules;
mod state_dict;
mod summary;
mod vision;
