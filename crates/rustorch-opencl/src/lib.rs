//! RusTorch on OpenCL devices, of version 1.2 and later.
//!
//! The OpenCL library is opened at run time, so a program that has this crate starts on machines that have no OpenCL.
//! [`discover`] finds every device of every platform, or says what is missing; [`Candidate::open`] makes an [`OpenCl`],
//! which implements [`rustorch_kernels::Driver`]: memory, kernels in OpenCL C, launches.
//!
//! ```
//! let found = rustorch_opencl::discover();
//! for candidate in &found.devices {
//!     println!("{} is {}", candidate.hardware().device, candidate.hardware().name);
//! }
//! for reason in &found.missing {
//!     println!("{reason}");
//! }
//! ```

mod command_queue;
mod context;
mod describe;
mod discover;
mod driver;
mod event;
mod memory;
mod open_device;
mod profiler;
mod program;
mod query;
mod spans;
mod staging;
mod status;
mod sys;

pub use describe::Kind;
pub use discover::{Candidate, Discovery, discover};
pub use driver::OpenCl;
pub use memory::Memory;
pub use program::Kernel;
