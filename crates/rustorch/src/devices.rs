//! The devices of this build on this machine.

#[cfg(feature = "gguf")]
mod fastest;

#[cfg(feature = "gguf")]
pub use fastest::fastest_for_weights;
#[cfg(feature = "coreml")]
#[doc(inline)]
pub use rustorch_runtime::coreml::{model_cache, set_options as set_coreml};
#[doc(inline)]
pub use rustorch_runtime::registry::{
    DeviceCandidate, DiscoveredDevice, Discovery, Provider, backend, discover, executor, register,
    set_cpu_threads, target,
};
