//! Chunks of rows on their way through workgroup memory: every thread loads some quads to registers, stores them, and all read.

use crate::plan::Operand;
use crate::wgsl::{Elements, KernelParam, Module};
use crate::{Hardware, library};
use rustorch_core::DType;

/// Threads that share a row of scores.
pub(in crate::family) const ACROSS: usize = 16;
/// Rows of threads.
pub(in crate::family) const DOWN: usize = 8;
/// Threads of a workgroup.
pub(in crate::family) const THREADS: usize = ACROSS * DOWN;
/// Neighbouring keys that a thread scores.
pub(in crate::family) const KEYS_EACH: usize = 4;
/// Keys of a tile.
pub(in crate::family) const KEYS: usize = ACROSS * KEYS_EACH;
/// Columns of queries and keys of a chunk.
pub(in crate::family) const DEPTH: usize = 32;
/// Numbers of a chunk of keys or values: what all threads load before they compute.
pub(in crate::family) const CHUNK: usize = KEYS * DEPTH;
/// Quads of a row of a chunk of keys in workgroup memory. That it is odd keeps threads out of each other's banks.
pub(in crate::family) const KEY_PITCH: usize = DEPTH / 4 + 1;

/// Quads of a chunk that a thread loads.
pub(in crate::family) const LOADS: usize = CHUNK / 4 / THREADS;
/// The components of a quad.
pub(in crate::family) const PARTS: [&str; 4] = ["x", "y", "z", "w"];

/// A buffer whose rows are loaded by quads.
pub(in crate::family) struct Quads {
    name: String,
    dtype: DType,
    /// None if four neighbours are aligned and are loaded at once.
    elements: Option<Elements>,
    /// The halves of the words `w.x` and `w.y`.
    halves: [String; 2],
}

impl Quads {
    /// Declares the next buffer.
    pub(in crate::family) fn declare(
        module: &mut Module,
        name: &str,
        dtype: DType,
        aligned: bool,
        hardware: &Hardware,
    ) -> Quads {
        let elements = match aligned {
            true => {
                let ty = if dtype == DType::F32 { "vec4<f32>" } else { "vec2<u32>" };
                module.buffer(name, &format!("array<{ty}>"), false);
                None
            }
            false => Some(module.elements(name, dtype, false, hardware)),
        };
        let halves = ["w.x", "w.y"].map(|word| library::halves(word, hardware));
        Quads { name: name.to_owned(), dtype, elements, halves }
    }

    /// The function `{name}_quad(at, column)`, which gives four neighbours of the row that begins at `at` as `f32`, from a
    /// column on; zeros where the row has ended.
    pub(in crate::family) fn function(&self, stride: &KernelParam, width: &KernelParam) -> String {
        let Quads { name, dtype, elements, halves } = self;
        let load = match (elements, dtype) {
            (None, DType::F32) => format!("x = {name}[i >> 2u];"),
            // Halves so small that hardware may take them for zeros are smaller than what rounding does to sums.
            (None, DType::F16) => format!("let w = {name}[i >> 2u]; x = vec4<f32>({}, {});", halves[0], halves[1]),
            (None, _) => format!(
                "let w = {name}[i >> 2u];
                x = bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, w.y & 0xffff0000u));"
            ),
            (Some(elements), _) => {
                let part = |(c, part): (usize, &str)| {
                    let load = elements.load(&format!("i + {c}u * {stride}"));
                    format!("if column + {c}u < {width} {{ x.{part} = {load}; }}\n")
                };
                PARTS.into_iter().enumerate().map(part).collect()
            }
        };
        format!(
            "fn {name}_quad(at: u32, column: u32) -> vec4<f32> {{
                var x = vec4<f32>();
                if column < {width} {{
                    let i = at + column * {stride};
                    {load}
                }}
                return x;
            }}"
        )
    }
}

/// Statements that load the thread's quads of a chunk to `staged0`, `staged1`, ..: of columns `part` of all rows of a tile where
/// a chunk is `deep`, else of rows `part`, each `width` wide. Rows of the tile begin with `first`; where row `key` begins is what
/// `at` says; those from `last` on are zeros.
pub(in crate::family) fn fetch(
    layout: ChunkLayout,
    [first, part, last]: [&str; 3],
    name: &str,
    at: &str,
) -> String {
    each_load(|load, f| {
        let (key, column) = match layout {
            ChunkLayout::Deep => {
                let quads = DEPTH / 4;
                (
                    format!("{first} + ({f}) / {quads}u"),
                    format!("({part}) * {DEPTH}u + ({f}) % {quads}u * 4u"),
                )
            }
            ChunkLayout::Wide { width } => {
                let (quads, rows) = (width / 4, CHUNK / width);
                (format!("{first} + ({part}) * {rows}u + ({f}) / {quads}u"), format!("({f}) % {quads}u * 4u"))
            }
        };
        format!(
            "staged{load} = vec4<f32>();
            {{ let key = {key}; if key < {last} {{ staged{load} = {name}_quad({at}, {column}); }} }}"
        )
    })
}

/// Statements that store them.
pub(in crate::family) fn store(layout: ChunkLayout) -> String {
    let quads = DEPTH / 4;
    each_load(|load, f| {
        match layout {
        // Neighbouring rows, which one thread takes, are as far apart as lets threads read neighbours.
        ChunkLayout::Deep => format!(
            "{{ let key = ({f}) / {quads}u;
            chunk[(key % {KEYS_EACH}u * {ACROSS}u + key / {KEYS_EACH}u) * {KEY_PITCH}u + ({f}) % {quads}u] = staged{load}; }}"
        ),
        ChunkLayout::Wide { .. } => format!("chunk[{f}] = staged{load};"),
    }
    })
}

/// What a chunk is of a tile of rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::family) enum ChunkLayout {
    /// Some columns of all rows: what scores are made with.
    Deep,
    /// All columns of some rows: what is weighted.
    Wide {
        /// How many columns.
        width: usize,
    },
}

fn each_load(statement: impl Fn(usize, &str) -> String) -> String {
    (0..LOADS).map(|load| statement(load, &format!("local + {}u", load * THREADS)) + "\n").collect()
}

/// Statements that add products of four columns of a chunk of rows to `{sum}{i}_{j}`; row `i` of the thread's comes from
/// `rows`, which has `row_quads` quads in each row.
pub(in crate::family) fn add_dots(count: usize, sum: &str, rows: &str, row_quads: usize) -> String {
    let mut text = String::new();
    for j in 0..KEYS_EACH {
        text += &format!("let k{j} = chunk[({}u + across) * {KEY_PITCH}u + c];\n", j * ACROSS);
    }
    for i in 0..count {
        text += &format!(
            "let q{i} = {rows}[(down + {}u) * {row_quads}u + part * {}u + c];\n",
            i * DOWN,
            DEPTH / 4
        );
        for j in 0..KEYS_EACH {
            let value = PARTS
                .into_iter()
                .fold(format!("{sum}{i}_{j}"), |sum, part| format!("fma(q{i}.{part}, k{j}.{part}, {sum})"));
            text += &format!("{sum}{i}_{j} = {value};\n");
        }
    }
    text
}

/// Statements that add four rows of a chunk, `width` wide, with the weights of the thread's rows to `{sum}{i}_{c}`.
pub(in crate::family) fn add_weighted(count: usize, sum: &str, width: usize) -> String {
    let mut text = String::new();
    for i in 0..count {
        text += &format!(
            "let w{i} = weights[(down + {}u) * {ACROSS}u + part * {}u + c];\n",
            i * DOWN,
            CHUNK / width / 4
        );
    }
    for c in 0..width / (4 * ACROSS) {
        for j in 0..4 {
            text += &format!(
                "let v{c}_{j} = chunk[(c * 4u + {j}u) * {}u + {}u + across];\n",
                width / 4,
                c * ACROSS
            );
        }
        for i in 0..count {
            let value = PARTS.into_iter().enumerate().fold(format!("{sum}{i}_{c}"), |sum, (j, part)| {
                format!("fma(vec4<f32>(w{i}.{part}), v{c}_{j}, {sum})")
            });
            text += &format!("{sum}{i}_{c} = {value};\n");
        }
    }
    text
}

/// The pairs of a thread's rows and columns.
pub(in crate::family) fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}

/// Whether four neighbours of a row's elements are aligned, wherever the row is.
pub(in crate::family) fn loads_quads(x: &Operand<'_>, hardware: &Hardware) -> bool {
    let (dims, strides) = (x.layout.dims(), x.layout.strides());
    let last = dims.len() - 1;
    let outer = dims[..last].iter().zip(strides).filter(|(len, _)| **len > 1);
    strides[last] == 1
        && dims[last].is_multiple_of(4)
        && x.layout.offset().is_multiple_of(4)
        && outer.into_iter().all(|(_, stride)| stride.is_multiple_of(4))
        && hardware.window.is_none_or(|window| window.is_multiple_of(16))
}

/// Statements that store those of four neighbours that are columns of a row: from column `column` on, at `at`. Rows of 16-bit
/// dtypes are whole words.
pub(in crate::family) fn store_quad(
    y: &Elements,
    at: &str,
    column: &str,
    width: impl std::fmt::Display,
    values: &[String; 4],
) -> String {
    let each = y.per_word();
    let store = |c: usize| {
        let word = format!("({at} + {c}u) / {each}u");
        format!("if {column} + {c}u < {width} {{ {} }}\n", y.store(&word, &values[c..c + each]))
    };
    (0..4).step_by(each).map(store).collect()
}
