//! Tests of `rustorch` by its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod architectures_on_devices;
mod benchmark;
mod captured_on_devices;
mod checkpoint;
mod common;
mod custom_op;
mod devices;
mod devices_at_work;
mod files;
mod hybrid;
mod hybrid_f32_on_devices;
mod launches;
mod models_on_devices;
#[cfg(target_os = "linux")]
mod nvml;
mod policies_on_devices;
mod profile_devices;
mod program_files;
mod programs_on_devices;
mod torch_optimizers;
mod train_on_devices;
