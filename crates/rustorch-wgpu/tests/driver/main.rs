//! The driver on every adapter of the machine, by kernels of its own. One program, for linking wgpu takes long.

mod cache;
mod common;
mod faults;
mod order;
mod swiftshader;
mod timestamps;
