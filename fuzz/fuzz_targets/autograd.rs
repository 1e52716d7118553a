//! Any bytes are a small program of smooth operations, whose gradients are those that finite differences give.
#![no_main]

#[path = "../../crates/rustorch-tensor/tests/it/smooth_programs.rs"]
mod smooth_programs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = smooth_programs::check(data) {
        panic!("{error}");
    }
});
