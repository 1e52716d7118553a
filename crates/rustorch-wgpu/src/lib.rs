//! Vulkan, Metal and Direct3D 12 for RusTorch, by [wgpu].
//!
//! [`adapters`] lists what a machine has; [`open`] makes a [`WgpuDriver`] of it, the
//! [`Driver`](rustorch_kernels::Driver) on which the kernels of `rustorch-kernels` run. Drivers are looked for at run time:
//! a program with this crate starts on machines without any.
//!
//! ```
//! use rustorch_kernels::Driver;
//!
//! match rustorch_wgpu::adapters() {
//!     Ok(adapters) => {
//!         for adapter in &adapters {
//!             println!("{}: {}, {}", adapter.device(), adapter.name(), adapter.driver());
//!         }
//!         let driver = adapters[0].open()?;
//!         let memory = driver.allocate(16)?;
//!         driver.write(&memory, 0, &[7; 16])?;
//!         let mut back = [0; 16];
//!         driver.read(&memory, 0, &mut back)?;
//!         assert_eq!(back, [7; 16]);
//!     }
//!     Err(none) => println!("{none}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On Windows GPUs are reached by Vulkan, which the drivers of most vendors bring along, and by Direct3D 12, which every
//! driver has. Its kernels are compiled by DXC, where `dxcompiler.dll` is on the `PATH`, else by the system's older compiler, which has neither
//! 16-bit nor 64-bit numbers nor subgroups.
//!
//! # Compiled kernels
//!
//! Where the driver allows it, they are kept in the folder `wgpu` of [`cache_dir`](rustorch_core::cache_dir), and loaded
//! by the next process.

mod cache;
mod discovery;
mod driver;
mod encoder;
mod faults;
mod memory;
mod parameters;
mod pipeline;
mod profiler;
mod read;
mod timestamps;
mod upload;

pub use discovery::{Adapter, OpenError, adapters, open, why_none};
pub use driver::WgpuDriver;
pub use memory::Memory;
pub use pipeline::Kernel;
