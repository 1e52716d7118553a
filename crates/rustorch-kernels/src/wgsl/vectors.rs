//! Buffers that threads read and write in runs of elements, by vectors of up to 128 bits.
//!
//! A run is as many elements as a thread handles, which are whole words. It begins where a vector may: kernels are planned so.

use super::{Elements, Module, per_word};
use crate::Hardware;
use rustorch_core::DType;
use std::fmt::Write;

/// Bytes of the widest load and store of GPUs.
pub const VECTOR_BYTES: usize = 16;

/// A buffer of a module, as vectors of elements of a dtype.
#[derive(Clone, Debug)]
pub struct Vectors {
    elements: Elements,
    /// Elements of a run.
    run: usize,
}

/// Invocations of a workgroup of kernels that compute elements one by one.
pub const WORKGROUP: u32 = 256;

/// With fewer threads some cores of a large GPU would have none.
const THREADS: usize = 1 << 15;

/// Whether threads of their own are to compute so many runs of elements. Small tensors have more threads otherwise. Software
/// renderers have caches instead, and compile a function again for each element of a run; they get these kernels where they
/// are to use subgroups, as tests want it.
pub fn suit(runs: usize, hardware: &Hardware) -> bool {
    runs >= THREADS
        && (!hardware.software || hardware.subgroups.is_some())
        && hardware.workgroup >= WORKGROUP
        && aligns(hardware)
}

/// The bytes of an element of a dense dtype.
pub fn bytes(dtype: DType) -> usize {
    dtype.size().unwrap_or(4)
}

/// The elements that a thread handles of tensors of some dtypes: of the widest a vector of 128 bits, of each whole words.
pub fn run(dtypes: impl Iterator<Item = DType> + Clone) -> usize {
    let sizes = dtypes.map(bytes);
    let (widest, narrowest) = (sizes.clone().max().unwrap_or(4), sizes.min().unwrap_or(4));
    (VECTOR_BYTES / widest).max(4 / narrowest).max(1)
}

/// The bytes at whose multiples runs of `run` elements must begin.
fn alignment(dtype: DType, run: usize) -> usize {
    (run * bytes(dtype)).min(VECTOR_BYTES)
}

/// Whether a run, a row of runs or the distance of such rows begins where a vector may.
pub fn begins(dtype: DType, run: usize, at: usize) -> bool {
    (at * bytes(dtype)).is_multiple_of(alignment(dtype, run))
}

/// Whether the device's buffers begin where vectors may, wherever a kernel sees them from.
pub fn aligns(hardware: &Hardware) -> bool {
    hardware.window.is_none_or(|window| (window as usize).is_multiple_of(VECTOR_BYTES))
}

/// The type of the parts of vectors, and its bytes: elements, words of several, or the two parts of one.
fn part(elements: &Elements) -> (&'static str, usize) {
    match elements.storage() {
        "vec2<f32>" => ("f32", 4),
        "vec2<u32>" => ("u32", 4),
        "vec2<f64>" => ("f64", 8),
        storage => (storage, bytes(elements.dtype()).max(4)),
    }
}

impl Module {
    /// Declares the next buffer as runs of elements of a dense dtype.
    pub fn vectors(
        &mut self,
        name: &str,
        dtype: DType,
        run: usize,
        writes: bool,
        hardware: &Hardware,
    ) -> Vectors {
        let elements = Elements::new(name, dtype, hardware);
        let vectors = Vectors { elements, run };
        self.buffer(name, &format!("array<{}>", vectors.ty()), writes);
        vectors
    }
}

impl Vectors {
    /// The WGSL type of an element in computations.
    pub fn value_type(&self) -> &'static str {
        self.elements.value()
    }

    /// Parts of a vector.
    fn lanes(&self) -> usize {
        alignment(self.elements.dtype, self.run) / part(&self.elements).1
    }

    /// Vectors of a run.
    fn count(&self) -> usize {
        (self.run * bytes(self.elements.dtype)).div_ceil(VECTOR_BYTES)
    }

    /// The WGSL type of a vector.
    fn ty(&self) -> String {
        let (part, lanes) = (part(&self.elements).0, self.lanes());
        if lanes == 1 { part.to_owned() } else { format!("vec{lanes}<{part}>") }
    }

    /// Part `i` of the run in the variables of [`declare`](Self::declare).
    fn part(&self, variable: &str, i: usize) -> String {
        let lanes = self.lanes();
        format!("{variable}_{}{}", i / lanes, lane(i % lanes, lanes))
    }

    /// The place in the buffer of vector `j` of the run that begins at element `at`, an expression.
    fn place(&self, at: &str, j: usize) -> String {
        let elements = alignment(self.elements.dtype, self.run) / bytes(self.elements.dtype);
        format!("{}[({at}) / {elements}u + {j}u]", self.elements.name)
    }

    /// The parts of vector `j`: each lane, and the first element of the run that it has some of.
    fn lanes_of(&self, j: usize) -> impl Iterator<Item = (&'static str, usize)> {
        let (lanes, size) = (self.lanes(), part(&self.elements).1);
        let dtype = self.elements.dtype;
        (0..lanes).map(move |c| (lane(c, lanes), (j * lanes + c) * size / bytes(dtype)))
    }

    /// Statements that declare variables for the vectors of a run, named after `variable`; zeros.
    pub fn declare(&self, variable: &str) -> String {
        let ty = self.ty();
        (0..self.count()).map(|j| format!("var {variable}_{j}: {ty};\n")).collect()
    }

    /// Statements that read the run from element `at` on.
    pub fn read(&self, variable: &str, at: &str) -> String {
        (0..self.count()).map(|j| format!("{variable}_{j} = {};\n", self.place(at, j))).collect()
    }

    /// The same of its first `rest` elements (an expression), and of no word behind them.
    pub fn read_some(&self, variable: &str, at: &str, rest: &str) -> String {
        let mut text = String::new();
        for j in 0..self.count() {
            let place = self.place(at, j);
            for (lane, element) in self.lanes_of(j) {
                let _ = writeln!(text, "if {element}u < {rest} {{ {variable}_{j}{lane} = {place}{lane}; }}");
            }
        }
        text
    }

    /// The value of element `k` of a run that was read.
    pub fn value(&self, variable: &str, k: usize) -> String {
        let n = per_word(self.elements.dtype);
        if n > 1 {
            let at = k % n * 32 / n;
            return self.elements.decode(&self.part(variable, k / n), &format!("{at}u"));
        }
        match self.elements.value() {
            pair @ ("vec2<f32>" | "vec2<u32>" | "vec2<f64>") => {
                format!("{pair}({}, {})", self.part(variable, 2 * k), self.part(variable, 2 * k + 1))
            }
            _ => self.part(variable, k),
        }
    }

    /// Statements that declare the variables of [`declare`](Self::declare) with these values of a run.
    pub fn pack(&self, variable: &str, values: &[String]) -> String {
        let n = per_word(self.elements.dtype);
        let parts: Vec<String> = match self.elements.value() {
            _ if n > 1 => values.chunks(n).map(|values| self.elements.word(values)).collect(),
            "vec2<f32>" | "vec2<u32>" | "vec2<f64>" => {
                values.iter().flat_map(|v| [format!("{v}.x"), format!("{v}.y")]).collect()
            }
            _ => values.to_vec(),
        };
        let (ty, mut text) = (self.ty(), String::new());
        for (j, parts) in parts.chunks(self.lanes()).enumerate() {
            let _ = writeln!(text, "let {variable}_{j} = {ty}({});", parts.join(", "));
        }
        text
    }

    /// Statements that write the run from element `at` on.
    pub fn write(&self, variable: &str, at: &str) -> String {
        (0..self.count()).map(|j| format!("{} = {variable}_{j};\n", self.place(at, j))).collect()
    }

    /// The same of its first `rest` elements (an expression), and of no word behind them.
    pub fn write_some(&self, variable: &str, at: &str, rest: &str) -> String {
        let mut text = String::new();
        for j in 0..self.count() {
            let place = self.place(at, j);
            for (lane, element) in self.lanes_of(j) {
                let _ = writeln!(text, "if {element}u < {rest} {{ {place}{lane} = {variable}_{j}{lane}; }}");
            }
        }
        text
    }
}

/// A part of a vector of so many, or of a scalar.
fn lane(i: usize, lanes: usize) -> &'static str {
    if lanes == 1 { "" } else { [".x", ".y", ".z", ".w"][i] }
}
