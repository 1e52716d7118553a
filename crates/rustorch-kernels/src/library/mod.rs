//! Functions in WGSL that several families call.

use crate::Hardware;

/// `fused(a, b, c)`: a·b + c rounded once. `divide(a, b)` and `root(a)`: quotient and square root, correctly rounded.
///
/// Where the hardware does not do so by itself, they are computed by hand, because results that are rounded to 8 bits
/// afterwards show every deviation.
pub fn exact(hardware: &Hardware) -> String {
    let fused = match (hardware.arithmetic.fused, hardware.f64) {
        (true, _) => "fn fused(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }\n",
        (false, true) => include_str!("fused_f64.wgsl"),
        (false, false) => include_str!("fused_f32.wgsl"),
    };
    let rest = match hardware.arithmetic.divides {
        true => {
            "fn divide(a: f32, b: f32) -> f32 { return a / b; }\nfn root(a: f32) -> f32 { return sqrt(a); }\n"
        }
        false => include_str!("divide.wgsl"),
    };
    format!("{fused}{rest}")
}

/// Reading a buffer `w` of words by bytes: `half_at(byte)`, `word_at(byte)` at even addresses, `byte_at(byte)`.
pub const BYTES: &str = include_str!("bytes.wgsl");
