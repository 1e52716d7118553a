//! Order-preserving unsigned keys of elements, NaN last: integer comparisons are exact on every device.

use crate::Hardware;
use crate::wgsl::{Elements, Module};
use rustorch_core::{DType, DTypeKind};

/// Keys of the elements of a dtype.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    dtype: DType,
}

impl Order {
    /// Of a dtype that has an order.
    pub fn of(dtype: DType) -> Order {
        Order { dtype }
    }

    fn long(self) -> bool {
        self.dtype.size() == Some(8)
    }

    /// The type of keys.
    pub fn key(self) -> &'static str {
        if self.long() { "vec2<u32>" } else { "u32" }
    }

    /// Declares the next buffer as elements that have keys: of 8 bytes, as bits.
    pub fn elements(self, module: &mut Module, name: &str, hardware: &Hardware) -> Elements {
        match self.long() {
            true => module.bits(name, self.dtype, false),
            false => module.elements(name, self.dtype, false, hardware),
        }
    }

    /// Functions `order_least()`, the key of the least value of all, and `order_nan(key)`.
    pub fn least(self) -> String {
        let key = self.key();
        let (least, nan) = match self.dtype {
            DType::F64 => ("vec2<u32>(0xffffffffu, 0x000fffffu)", "k.x == 0xffffffffu && k.y == 0xffffffffu"),
            DType::F16 | DType::BF16 | DType::F32 => ("0x007fffffu", "k == 0xffffffffu"),
            DType::I64 => ("vec2<u32>(0u, 0u)", "false"),
            // The order of 32 bits, also of fewer.
            DType::I8 => ("0x7fffff80u", "false"),
            DType::I16 => ("0x7fff8000u", "false"),
            _ => ("0u", "false"),
        };
        format!(
            "fn order_least() -> {key} {{ return {least}; }}\nfn order_nan(k: {key}) -> bool {{ return {nan}; }}\n"
        )
    }

    /// Functions `order_key(v)` and `order_value(key)`, its inverse; `order_flip(key)`, which turns the order round but
    /// leaves NaN the last; `order_less(a, b)` of keys.
    pub fn text(self) -> String {
        let float = self.dtype.kind() == DTypeKind::Float;
        let (key, value) = match self.dtype {
            DType::F64 => (include_str!("key_f64.wgsl"), ""),
            DType::I64 => (
                "fn order_key(v: vec2<u32>) -> vec2<u32> { return vec2<u32>(v.x, v.y ^ 0x80000000u); }\n",
                "fn order_value(k: vec2<u32>) -> vec2<u32> { return vec2<u32>(k.x, k.y ^ 0x80000000u); }\n",
            ),
            DType::Bool => (
                "fn order_key(v: bool) -> u32 { return select(0u, 1u, v); }\n",
                "fn order_value(k: u32) -> bool { return k != 0u; }\n",
            ),
            DType::U8 | DType::U32 => (
                "fn order_key(v: u32) -> u32 { return v; }\n",
                "fn order_value(k: u32) -> u32 { return k; }\n",
            ),
            DType::I8 | DType::I16 | DType::I32 => (
                "fn order_key(v: i32) -> u32 { return bitcast<u32>(v) ^ 0x80000000u; }\n",
                "fn order_value(k: u32) -> i32 { return bitcast<i32>(k ^ 0x80000000u); }\n",
            ),
            _ => (include_str!("key_f32.wgsl"), ""),
        };
        let rest = match (self.long(), float) {
            (false, true) => "fn order_flip(k: u32) -> u32 { return select(~k, k, k == 0xffffffffu); }\n",
            (false, false) => "fn order_flip(k: u32) -> u32 { return ~k; }\n",
            (true, true) => {
                "fn order_flip(k: vec2<u32>) -> vec2<u32> { return select(~k, k, k.x == 0xffffffffu && k.y == 0xffffffffu); }\n"
            }
            (true, false) => "fn order_flip(k: vec2<u32>) -> vec2<u32> { return ~k; }\n",
        };
        let less = match self.long() {
            true => {
                "fn order_less(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || a.y == b.y && a.x < b.x; }\n"
            }
            false => "fn order_less(a: u32, b: u32) -> bool { return a < b; }\n",
        };
        [key, value, rest, less].concat()
    }
}
