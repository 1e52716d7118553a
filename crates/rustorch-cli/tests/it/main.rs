//! Tests of `rustorch-cli` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod architectures;
mod arguments;
#[cfg(unix)]
mod chat;
#[cfg(unix)]
mod chat_context;
#[cfg(unix)]
mod chat_input;
mod common;
mod completions;
mod coreml;
mod device_report;
mod devices;
mod embed;
mod environment;
mod errors;
mod evaluate;
mod export;
mod files;
mod generate;
mod graph;
mod hub;
mod inspect;
#[cfg(unix)]
mod interrupts;
mod measure;
mod plan;
mod reference;
mod tokenize;
#[cfg(target_os = "linux")]
mod without_devices;
