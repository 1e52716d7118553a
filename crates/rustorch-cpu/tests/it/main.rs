//! Tests of `rustorch-cpu` by its public interface, and of the modules below it that need nothing of the rest.
//!
//! The library has no unit tests (`test = false` in the manifest): with them its kernels would be compiled twice, which takes
//! longer than running all of these. A test of `xtask` fails where a test in `src` is in none of the modules below.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a step that fails fails the test"
)]

mod allocations;
mod attention;
mod attention_backward;
mod backend;
mod channel_norm;
mod channel_norm_backward;
mod conv;
mod cross_entropy;
mod divided;
mod dropout;
#[cfg(feature = "fft")]
mod fft;
mod foreach;
mod fused_pointwise;
mod ggml;
mod instruction_sets;
mod large;
mod layer_norm;
mod linalg;
mod matmul;
mod norm_backward;
mod operations;
mod optimizer_step;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod softmax_backward;
#[cfg(feature = "linalg")]
mod spectral;
mod testing;
mod untouched;

// Modules with tests of their own, and what they need.
#[path = "../../src/fused.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod fused;
#[path = "../../src/isa.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod isa;
#[path = "../../src/math/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod math;
#[path = "../../src/simd.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod simd;
#[path = "../../src/sync.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod sync;
#[path = "../../src/kernels/matmul/tasks.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod tasks;
#[path = "../../src/thread_pool.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the tests use a part")]
mod thread_pool;

use isa::Isa;
