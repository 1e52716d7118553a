//! Sums and products of elements of any dtype, in the type in which they accumulate.

use crate::Hardware;
use crate::wgsl::value_type;
use rustorch_core::DType;

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

    /// The type of sums of products. Complex ones keep the four sums of products of parts apart, as `rustorch-cpu` does.
    pub fn sum(self) -> &'static str {
        match self.ty {
            "vec2<f32>" => "vec4<f32>",
            "vec2<f64>" => "vec4<f64>",
            ty => ty,
        }
    }

    /// Function `ring_add(a, b)`. Calls functions of the library.
    pub fn add(self) -> String {
        let ty = self.ty;
        let sum = if self.kind == Kind::Long { "pair_add(a, b)" } else { "a + b" };
        format!("fn ring_add(a: {ty}, b: {ty}) -> {ty} {{ return {sum}; }}\n")
    }

    /// Functions `ring_step(a, b, c)`: a·b + c, of reals rounded once; and `ring_end(c)`, the number that a sum is.
    /// Calls functions of the library.
    pub fn step(self) -> String {
        let (ty, sum) = (self.ty, self.sum());
        let long = if self.fuses { "fma" } else { "fused_long" };
        let parts = |f: &str| {
            format!("{sum}({f}(a.x, b.x, c.x), {f}(a.y, b.y, c.y), {f}(a.x, b.y, c.z), {f}(a.y, b.x, c.w))")
        };
        let step = match self.kind {
            Kind::Half => "fma(a, b, c)".to_owned(),
            Kind::Single => "fused(a, b, c)".to_owned(),
            Kind::Double => format!("{long}(a, b, c)"),
            Kind::Whole => "a * b + c".to_owned(),
            Kind::Long => "pair_add(pair_product(a, b), c)".to_owned(),
            Kind::Complex if self.long() => parts(long),
            Kind::Complex => parts("fused"),
        };
        let library = if self.needs_one() { include_str!("fused_long.wgsl") } else { "" };
        let end = if self.kind == Kind::Complex { "vec2(c.x - c.y, c.z + c.w)" } else { "c" };
        format!(
            "{library}fn ring_step(a: {ty}, b: {ty}, c: {sum}) -> {sum} {{ return {step}; }}
fn ring_end(c: {sum}) -> {ty} {{ return {end}; }}
"
        )
    }

    fn long(self) -> bool {
        matches!(self.ty, "f64" | "vec2<f64>")
    }

    /// Whether `main` has to begin by setting `ring_one: f64` to 1, from a parameter.
    pub fn needs_one(self) -> bool {
        self.long() && !self.fuses
    }
}
