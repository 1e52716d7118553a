//! Sums and products of elements of any dtype, in the type in which they accumulate.

use crate::Hardware;
use crate::wgsl::value_type;
use rustorch_core::DType;

/// 64-bit integers of two words, for devices that have none: `long_add`, `long_mul`, wrapping.
pub const LONG: &str = include_str!("long.wgsl");

/// The type in which elements of a dtype accumulate.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// The type, which is that of a loaded element.
    pub ty: &'static str,
    /// Bytes of a number in memory.
    pub size: usize,
    kind: Kind,
    /// Whether `fma` rounds once.
    fuses: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// 16-bit floats, whose products are exact in `f32`.
    Half,
    Single,
    Double,
    Whole,
    Long,
    Complex,
}

impl Ring {
    /// Of the numbers of a dtype: 16-bit floats accumulate in `f32`, integers in 32 or 64 bits, wrapping.
    pub fn of(dtype: DType, hardware: &Hardware) -> Ring {
        let kind = match dtype {
            DType::F16 | DType::BF16 => Kind::Half,
            DType::F32 => Kind::Single,
            DType::F64 => Kind::Double,
            DType::C64 | DType::C128 => Kind::Complex,
            DType::I64 if !hardware.i64 => Kind::Long,
            _ => Kind::Whole,
        };
        let size = dtype.size().unwrap_or(4).max(4);
        Ring { ty: value_type(dtype, hardware.i64), size, kind, fuses: hardware.arithmetic.fused }
    }

    /// Zero.
    pub fn zero(self) -> String {
        format!("{}()", self.ty)
    }

    /// Functions `ring_add(a, b)`, and `ring_step(a, b, c)`: a·b + c, of reals rounded once. Needs [`exact`](super::exact).
    pub fn text(self) -> String {
        let ty = self.ty;
        let (add, step, library) = match self.kind {
            Kind::Half => ("a + b", "fma(a, b, c)", ""),
            Kind::Single => ("a + b", "fused(a, b, c)", ""),
            Kind::Double if self.fuses => ("a + b", "fma(a, b, c)", ""),
            Kind::Double => ("a + b", "fused_long(a, b, c)", include_str!("fused_long.wgsl")),
            Kind::Whole => ("a + b", "a * b + c", ""),
            Kind::Long => ("long_add(a, b)", "long_add(long_mul(a, b), c)", LONG),
            Kind::Complex => ("a + b", "vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x) + c", ""),
        };
        format!(
            "{library}fn ring_add(a: {ty}, b: {ty}) -> {ty} {{ return {add}; }}
fn ring_step(a: {ty}, b: {ty}, c: {ty}) -> {ty} {{ return {step}; }}
"
        )
    }
}
