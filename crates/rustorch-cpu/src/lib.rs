//! The CPU device of RusTorch: complete, the reference for every other device, and an engine of the first class.
//!
//! ```
//! use rustorch_core::{Backend, BinaryOp, Buffer, DType, Layout, Op, Shape, View, ViewMut};
//! use rustorch_cpu::CpuBackend;
//!
//! let cpu = CpuBackend::new(2);
//! let layout = Layout::contiguous(Shape::new([3].as_slice())?);
//! let (mut x, mut y) = (cpu.alloc(12)?, cpu.alloc(12)?);
//! // SAFETY: twelve bytes are three f32 values.
//! let mut dst = unsafe { ViewMut::new(&mut x, DType::F32, &layout) };
//! cpu.copy_in(&[1f32, 2.0, 3.0].map(f32::to_ne_bytes).concat(), &mut dst)?;
//! // SAFETY: as above, and `x` was written.
//! let arg = unsafe { View::new(&x, DType::F32, &layout) };
//! let mut out = unsafe { ViewMut::new(&mut y, DType::F32, &layout) };
//! cpu.run(&Op::Binary(BinaryOp::Add), &[arg, arg], &mut [out])?;
//! // SAFETY: as above.
//! assert_eq!(unsafe { View::new(&y, DType::F32, &layout) }.as_slice::<f32>(), Some(&[2.0, 4.0, 6.0][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod fused;
mod isa;
mod kernels;
mod math;
mod memory;
mod simd;
mod sync;
mod thread_pool;

pub use backend::CpuBackend;
pub use isa::Isa;
pub use thread_pool::ThreadPool;
