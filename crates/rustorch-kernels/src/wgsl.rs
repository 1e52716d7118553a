//! Building blocks of WGSL kernels: bindings, parameters, element access for each dtype.

pub mod vectors;

use crate::Hardware;
use rustorch_core::{DType, Decline, OpKind};
use std::fmt::Write;

/// WGSL source of a kernel, and what a launch must match.
#[derive(Clone, Debug)]
pub struct Wgsl {
    /// The module, with one entry point `main`.
    pub code: String,
    /// Invocations of a workgroup.
    pub workgroup: [u32; 3],
    /// How many buffers it binds.
    pub buffers: usize,
    /// Words of its parameter block, a multiple of 4.
    pub words: usize,
    /// Whether it is a user's, see [`KernelSource::checked`](crate::KernelSource::checked).
    pub checked: bool,
}

/// Invocations of a workgroup where nothing else decides.
pub const WORKGROUP: u32 = 64;

/// The number of this workgroup in launches made by [`line`](crate::plan::line).
pub const LINEAR_GROUP: &str = "(group.x + group.y * groups.x)";

/// Builds a WGSL module: declarations in binding order, then functions, then `main`.
#[derive(Default)]
pub struct Module {
    declarations: String,
    functions: String,
    buffers: usize,
    /// The members of the parameter struct, each of a word.
    parameters: String,
    words: usize,
    asserts: bool,
    subgroups: bool,
}

/// A buffer of a module, as elements of a dtype.
#[derive(Clone, Debug)]
pub struct Elements {
    name: String,
    dtype: DType,
    i64: bool,
    /// Whether threads may write neighbours in a word.
    shared: bool,
    /// Whether elements are four words, whatever the dtype.
    four_words: bool,
}

/// A member of the parameter struct, an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParam(String);

impl std::fmt::Display for KernelParam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p.{}", self.0)
    }
}

impl Module {
    /// Nothing yet.
    pub fn new() -> Module {
        Module::default()
    }

    /// Declares the next buffer as WGSL of any type, such as `array<vec4<u32>>`.
    pub fn buffer(&mut self, name: &str, ty: &str, writes: bool) {
        let access = if writes { "read_write" } else { "read" };
        let n = self.buffers;
        let _ = writeln!(self.declarations, "@group(0) @binding({n}) var<storage, {access}> {name}: {ty};");
        self.buffers += 1;
    }

    /// Declares the next buffer as elements of a dense dtype.
    pub fn elements(&mut self, name: &str, dtype: DType, writes: bool, hardware: &Hardware) -> Elements {
        let elements = Elements::new(name, dtype, hardware);
        self.buffer(name, &format!("array<{}>", elements.storage()), writes);
        elements
    }

    /// Declares the next buffer as elements that threads write one by one with [`Elements::store_one`], even where several
    /// share a word.
    pub fn places(&mut self, name: &str, dtype: DType, hardware: &Hardware) -> Elements {
        let shared = per_word(dtype) > 1;
        let elements = Elements { shared, ..Elements::new(name, dtype, hardware) };
        let element = if shared { "atomic<u32>" } else { elements.storage() };
        self.buffer(name, &format!("array<{element}>"), true);
        elements
    }

    /// Declares the next buffer as elements of the size of a dtype's that are moved only: bits, whatever they mean.
    pub fn bits(&mut self, name: &str, dtype: DType, writes: bool) -> Elements {
        let elements = raw(name, dtype);
        self.buffer(name, &format!("array<{}>", elements.storage()), writes);
        elements
    }

    /// Declares the next buffer as elements of 128 bits in four words, which are read as they are: devices take small numbers
    /// for zeros where they compute.
    pub fn four_words(&mut self, name: &str) -> Elements {
        let elements = Elements { four_words: true, ..raw(name, DType::C128) };
        self.buffer(name, &format!("array<{}>", elements.storage()), false);
        elements
    }

    /// [`bits`](Self::bits) that threads write one by one.
    pub fn bit_places(&mut self, name: &str, dtype: DType) -> Elements {
        let elements = Elements { shared: per_word(dtype) > 1, ..raw(name, dtype) };
        let element = if elements.shared { "atomic<u32>" } else { elements.storage() };
        self.buffer(name, &format!("array<{element}>"), true);
        elements
    }

    /// Declares the next buffer as the assert log, and the function that records to it.
    pub fn asserts(&mut self) {
        self.buffer("m", &format!("array<atomic<u32>, {}>", crate::device_assert::WORDS), true);
        self.asserts = true;
    }

    /// Declares the next member of the parameter struct, of a type of one word: `u32`, `i32` or `f32`.
    pub fn member(&mut self, name: &str, ty: &str) -> KernelParam {
        let _ = write!(self.parameters, "{name}: {ty}, ");
        self.words += 1;
        KernelParam(name.to_owned())
    }

    /// Lets the module use subgroups; `main` then finds `sub_lane`, its number in its subgroup, `sub_size`, how many
    /// invocations that has, `sub_group`, the subgroup's number in the workgroup, and `sub_groups`, how many there are.
    pub fn use_subgroups(&mut self) {
        self.subgroups = true;
    }

    /// Adds functions, constants, shared variables.
    pub fn add(&mut self, text: &str) {
        self.functions.push_str(text);
        self.functions.push('\n');
    }

    /// The whole, with `body` as `main`'s. It finds `group`, `groups` (their number), `local` (its index in the group) and
    /// `thread` (its three-dimensional one).
    pub fn finish(self, workgroup: [u32; 3], body: &str) -> Wgsl {
        let Module { declarations, functions, buffers, mut parameters, words: own, asserts, subgroups } =
            self;
        // Drivers give whole vectors of four words.
        let words = own.next_multiple_of(4).max(4);
        for i in own..words {
            let _ = write!(parameters, "padding_{i}: u32, ");
        }
        let mut code = String::with_capacity(functions.len() + body.len() + 1024);
        code.push_str(&declarations);
        let _ = writeln!(
            code,
            "struct Parameters {{ {parameters}}}\n@group(0) @binding({buffers}) var<uniform> p: Parameters;"
        );
        code.push_str(HALF);
        code.push_str(BFLOAT);
        if asserts {
            code.push_str(&crate::device_assert::wgsl());
        }
        code.push_str(&functions);
        let [x, y, z] = workgroup;
        let (inputs, size) = if subgroups { (SUBGROUP_INPUTS, SUBGROUP_SIZE) } else { ("", "") };
        let _ = writeln!(
            code,
            "@compute @workgroup_size({x}, {y}, {z})\nfn main(@builtin(workgroup_id) group: vec3<u32>, \
             @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32, \
             @builtin(local_invocation_id) thread: vec3<u32>{inputs}) {{\n{size}{body}\n}}"
        );
        Wgsl { code, workgroup, buffers, words, checked: false }
    }
}

const SUBGROUP_INPUTS: &str = ", @builtin(subgroup_invocation_id) sub_lane: u32, @builtin(subgroup_id) sub_group: u32, \
                               @builtin(num_subgroups) sub_groups: u32";
/// The built-in size counts invocations that do not exist, too.
const SUBGROUP_SIZE: &str = "let sub_size = subgroupAdd(1u);\n";

/// Conversions of 16-bit floats that every module has; exact, whatever the hardware does with subnormals.
pub(crate) const HALF: &str = "
fn f16_value(h: u32) -> f32 {
    let sign = (h & 0x8000u) << 16u;
    let low = h & 0x7fffu;
    let scaled = select(low << 13u | 0x7f800000u, (low << 13u) + 0x38000000u, low < 0x7c00u);
    let tiny = bitcast<u32>(f32(low) * 5.9604645e-8);
    return bitcast<f32>(sign | select(scaled, tiny, low < 0x400u));
}
fn f16_bits(v: f32) -> u32 {
    let x = bitcast<u32>(v);
    let sign = (x >> 16u) & 0x8000u;
    let a = x & 0x7fffffffu;
    if a >= 0x47800000u {
        return sign | select(0x7c00u, 0x7e00u | ((a >> 13u) & 0x3ffu), a > 0x7f800000u);
    }
    if a < 0x38800000u {
        return sign | (bitcast<u32>(bitcast<f32>(a) + 0.5) - 0x3f000000u);
    }
    return sign | ((a + 0xc8000fffu + ((a >> 13u) & 1u)) >> 13u);
}
";

/// The same where the hardware's own are exact.
pub(crate) const HALF_OF_HARDWARE: &str = "
fn f16_value(h: u32) -> f32 {
    return unpack2x16float(h).x;
}
fn f16_bits(v: f32) -> u32 {
    return pack2x16float(vec2<f32>(v, 0.0));
}
";

/// Exact conversions of `bf16` that every module has.
const BFLOAT: &str = "
fn bf16_value(h: u32) -> f32 {
    return bitcast<f32>(h << 16u);
}
fn bf16_bits(v: f32) -> u32 {
    let x = bitcast<u32>(v);
    let rounded = (x + 0x7fffu + ((x >> 16u) & 1u)) >> 16u;
    return select(rounded, (x >> 16u) | 0x40u, (x & 0x7fffffffu) > 0x7f800000u);
}
";

impl Elements {
    fn new(name: &str, dtype: DType, hardware: &Hardware) -> Elements {
        Elements { name: name.to_owned(), dtype, i64: hardware.i64, shared: false, four_words: false }
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements share a word; 1 for those that fill one or more.
    pub fn per_word(&self) -> usize {
        per_word(self.dtype)
    }

    /// The WGSL type of what the buffer's array holds.
    pub fn storage(&self) -> &'static str {
        match self.dtype {
            _ if self.four_words => "vec4<u32>",
            DType::F32 => "f32",
            DType::I32 => "i32",
            DType::I64 if self.i64 => "i64",
            DType::I64 => "vec2<u32>",
            DType::C64 => "vec2<f32>",
            DType::F64 => "f64",
            DType::C128 => "vec2<f64>",
            _ => "u32",
        }
    }

    /// The WGSL type of an element in computations.
    pub fn value(&self) -> &'static str {
        if self.four_words { "vec4<u32>" } else { value_type(self.dtype, self.i64) }
    }

    /// The value of element `i`, an expression of type `u32`.
    pub fn load(&self, i: &str) -> String {
        let x = &self.name;
        let shift = self.per_word().trailing_zeros();
        let word = match self.shared {
            true => format!("atomicLoad(&{x}[({i}) >> {shift}u])"),
            false => format!("{x}[({i}) >> {shift}u]"),
        };
        match self.per_word() {
            1 => format!("{x}[{i}]"),
            n => self.decode(&word, &format!("(({i}) & {}u) * {}u", n - 1, 32 / n)),
        }
    }

    /// The value of the element of a dtype that shares words in a word, from a bit on; both are expressions.
    fn decode(&self, word: &str, bit: &str) -> String {
        match self.dtype {
            DType::Bool => format!("(extractBits({word}, {bit}, 8u) != 0u)"),
            DType::U8 => format!("extractBits({word}, {bit}, 8u)"),
            DType::I8 => format!("extractBits(bitcast<i32>({word}), {bit}, 8u)"),
            DType::I16 => format!("extractBits(bitcast<i32>({word}), {bit}, 16u)"),
            DType::F16 => format!("f16_value(extractBits({word}, {bit}, 16u))"),
            _ => format!("bf16_value(extractBits({word}, {bit}, 16u))"),
        }
    }

    /// Statements that store `values`, expressions for the elements of word `w` (or, for dtypes that fill words, for
    /// element `w` alone). Neighbours in a word are overwritten: they must be given, or be padding.
    pub fn store(&self, w: &str, values: &[String]) -> String {
        let x = &self.name;
        match per_word(self.dtype) {
            1 => format!("{x}[{w}] = {};", values[0]),
            _ => format!("{x}[{w}] = {};", self.word(values)),
        }
    }

    /// The word of these elements of a dtype that shares words.
    fn word(&self, values: &[String]) -> String {
        let n = self.per_word();
        let parts: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(i, v)| match i {
                0 => self.bits(v),
                _ => format!("({} << {}u)", self.bits(v), i * 32 / n),
            })
            .collect();
        parts.join(" | ")
    }

    /// The bits of a value of a dtype that shares words.
    fn bits(&self, v: &str) -> String {
        match self.dtype {
            DType::Bool => format!("select(0u, 1u, {v})"),
            DType::U8 => format!("({v} & 255u)"),
            DType::I8 => format!("(bitcast<u32>({v}) & 255u)"),
            DType::I16 => format!("(bitcast<u32>({v}) & 65535u)"),
            DType::F16 => format!("f16_bits({v})"),
            _ => format!("bf16_bits({v})"),
        }
    }

    /// Statements that store the value of element `i` and leave its neighbours alone; the buffer was declared by
    /// [`Module::places`].
    pub fn store_one(&self, i: &str, v: &str) -> String {
        let x = &self.name;
        if !self.shared {
            return format!("{x}[{i}] = {v};\n");
        }
        let n = self.per_word();
        let (shift, bits) = (n.trailing_zeros(), 32 / n);
        format!(
            "{{ let place = {i}; let low = (place & {}u) * {bits}u; let value = {} << low;
            atomicAnd(&{x}[place >> {shift}u], ~({:#x}u << low)); atomicOr(&{x}[place >> {shift}u], value); }}\n",
            n - 1,
            self.bits(v),
            (1u64 << bits) - 1,
        )
    }

    /// For indices (`I32` or `I64`): statements that leave in `name: u32` index `i`, and fail an
    /// assert and take 0 where it is negative or not below `length` (an expression).
    pub fn load_index(&self, name: &str, i: &str, length: &str, op: impl Into<OpKind>) -> String {
        let words = self.index_words(name, i);
        let code = crate::device_assert::code(op);
        format!(
            "{words}\n    var {name} = {name}_l;\n    if {name}_h != 0u || {name} >= {length} {{ \
             device_assert({code}u, {name}_l, {name}_h, {length}); {name} = 0u; }}"
        )
    }

    /// For indices: statements that leave in `{name}_l` and `{name}_h` the words of index `i` as one of 64 bits.
    pub fn index_words(&self, name: &str, i: &str) -> String {
        let x = &self.name;
        match (self.dtype, self.i64) {
            (DType::I64, true) => format!(
                "let {name}_l = u32({x}[{i}] & 0xffffffffli); let {name}_h = u32(({x}[{i}] >> 32u) & 0xffffffffli);"
            ),
            (DType::I64, false) => format!("let {name}_l = {x}[{i}].x; let {name}_h = {x}[{i}].y;"),
            _ => format!(
                "let {name}_l = bitcast<u32>({x}[{i}]); let {name}_h = bitcast<u32>({x}[{i}] >> 31u);"
            ),
        }
    }

    /// The expression of type [`value`](Self::value) of an index or count, for results of dtype `I64`.
    pub fn from_u32(&self, v: &str) -> String {
        match (self.dtype, self.i64) {
            (DType::I64, true) => format!("(i64({v}) & 0xffffffffli)"),
            (DType::I64, false) => format!("vec2<u32>({v}, 0u)"),
            _ => format!("{}({v})", self.value()),
        }
    }
}

/// Elements that stand for those of a dtype of the same size.
fn raw(name: &str, dtype: DType) -> Elements {
    let dtype = match dtype.size() {
        Some(1) => DType::U8,
        Some(2) => DType::I16,
        Some(8) => DType::I64,
        Some(16) => DType::C128,
        _ => DType::U32,
    };
    // 64 bits as two words.
    Elements { name: name.to_owned(), dtype, i64: false, shared: false, four_words: false }
}

/// How many elements of a dense dtype share a word.
pub fn per_word(dtype: DType) -> usize {
    4usize.checked_div(dtype.size().unwrap_or(4)).unwrap_or(0).max(1)
}

/// The WGSL type in which elements of a dtype are computed; `i64` says whether the device has it.
pub fn value_type(dtype: DType, i64: bool) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 | DType::U32 => "u32",
        DType::I8 | DType::I16 | DType::I32 => "i32",
        DType::I64 if i64 => "i64",
        DType::I64 => "vec2<u32>",
        DType::F64 => "f64",
        DType::C64 => "vec2<f32>",
        DType::C128 => "vec2<f64>",
        _ => "f32",
    }
}

/// Whether kernels of a device can hold elements of a dtype: the 64-bit types need its arithmetic.
pub fn holds(dtype: DType, hardware: &Hardware) -> Result<(), Decline> {
    match dtype {
        DType::F64 | DType::C128 if !hardware.f64 => Err(Decline::DType(dtype)),
        _ => Ok(()),
    }
}
