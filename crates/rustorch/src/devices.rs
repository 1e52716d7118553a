//! The devices of this build on this machine.

#[cfg(feature = "gguf")]
mod fastest;

#[cfg(feature = "gguf")]
pub use fastest::fastest_for_weights;
#[doc(inline)]
pub use rustorch_runtime::registry::{
    DeviceCandidate, DiscoveredDevice, Discovery, Provider, backend, discover, executor, register,
    set_cpu_threads, target,
};
