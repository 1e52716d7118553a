//! What tests of kernels share.

pub(crate) mod lazy;
pub(crate) mod paper;
pub(crate) mod wgpu;
