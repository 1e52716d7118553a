//! Tests of `rustorch-cli` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod architectures;
#[cfg(unix)]
mod chat;
mod common;
mod device_report;
mod devices;
mod environment;
mod errors;
mod generate;
mod inspect;
mod measure;
mod reference;
mod tokenize;
#[cfg(target_os = "linux")]
mod without_devices;
