//! What tests of devices and of the executor need: fake devices that fail by script, comparisons that say what differs,
//! child processes that run a test again in another environment, a server that speaks as Hugging Face's hub does, and skips that are counted.
//!
//! A [`FakeDevice`] computes by another backend but keeps its memory apart, so that code which forgets to move data
//! cannot work by luck. It declines, fails, runs out of memory and slows down as told, and compiles regions of graphs with a [`FakeCompiler`]:
//!
//! ```
//! use rustorch_core::{Backend, Device};
//! use rustorch_testkit::{Act, FakeDevice, Point, Rule};
//! # fn example(cpu: std::sync::Arc<dyn Backend>) {
//! let cuda = FakeDevice::new(Device::cuda(0), cpu).memory_limit(1 << 20);
//! // The second matmul finds the device gone.
//! cuda.script(Rule::at(Point::Run).op("matmul").after(1).act(Act::Lose));
//! # }
//! ```

pub mod allocations;
mod child;
pub mod conformance;
mod fake;
pub mod hub_server;
mod skip;
pub mod suite;
mod tolerance;

pub use child::{child, in_child, is_child};
pub use fake::{Act, Call, FakeCompiler, FakeDevice, Point, Rule};
pub use skip::{REQUIRE, Requirement, skip};
pub use tolerance::{assert_close, assert_same_bits, assert_ulps, ulps};
