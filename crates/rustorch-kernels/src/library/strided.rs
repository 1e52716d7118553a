//! Offsets of elements in strided tensors: the WGSL that computes them, and its parameters.

use crate::plan::StepBuilder;
use crate::plan::parameters::{Parameter, joined};
use crate::wgsl::{Elements, KernelParam, LINEAR_GROUP, Module, WORKGROUP};
use rustorch_core::{DType, Decline, Layout, Shape};
use std::fmt::Write;
use std::ops::Range;

/// The most dimensions, after contiguous neighbours are merged.
pub const MAX_RANK: usize = 8;

/// Dimensions shared by several tensors, merged where all of them allow it; outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Lengths.
    pub dims: Vec<usize>,
    /// For each tensor, its strides.
    pub strides: Vec<Vec<usize>>,
}

impl Grid {
    /// The grid of tensors of one shape.
    pub fn new(layouts: &[&Layout]) -> Grid {
        let mut dims: Vec<usize> = Vec::new();
        let mut strides: Vec<Vec<usize>> = vec![Vec::new(); layouts.len()];
        for (d, &len) in layouts[0].dims().iter().enumerate() {
            if len == 1 {
                continue;
            }
            let mergeable = !dims.is_empty()
                && layouts
                    .iter()
                    .zip(&strides)
                    .all(|(layout, own)| own.last() == Some(&(layout.strides()[d] * len)));
            if mergeable {
                if let Some(last) = dims.last_mut() {
                    *last *= len;
                }
                for (layout, own) in layouts.iter().zip(&mut strides) {
                    if let Some(last) = own.last_mut() {
                        *last = layout.strides()[d];
                    }
                }
            } else {
                dims.push(len);
                for (layout, own) in layouts.iter().zip(&mut strides) {
                    own.push(layout.strides()[d]);
                }
            }
        }
        Grid { dims, strides }
    }

    /// Dimensions after merging.
    pub fn ndim(&self) -> usize {
        self.dims.len()
    }

    /// Whether element `i` of every tensor is its `i`-th in memory.
    pub fn is_linear(&self) -> bool {
        self.ndim() == 0 || self.ndim() == 1 && self.strides.iter().all(|s| s[0] == 1)
    }
}

impl Parameter for Grid {
    type Name = GridNames;
    /// The rank, and the number of tensors.
    type Shape = (usize, usize);

    fn declare(module: &mut Module, name: &str, (rank, tensors): (usize, usize)) -> GridNames {
        let dims = (1..rank).map(|d| module.member(&joined(name, &format!("dim_{d}")), "u32")).collect();
        let stride = |x, d| format!("stride_{x}_{d}");
        let strides = (0..tensors)
            .map(|x| (0..rank).map(|d| module.member(&joined(name, &stride(x, d)), "u32")).collect())
            .collect();
        GridNames { dims, strides }
    }

    fn write<K>(&self, launch: &mut StepBuilder<'_, K>) -> Result<(), Decline> {
        if self.ndim() > MAX_RANK {
            return Err(Decline::Rank { ndim: self.ndim(), limit: MAX_RANK });
        }
        self.dims.iter().skip(1).chain(self.strides.iter().flatten()).try_for_each(|x| x.write(launch))
    }
}

/// The layout of a tensor's rows, the last dimension left out.
pub fn rows(layout: &Layout) -> Result<Layout, Decline> {
    let outer = layout.ndim().saturating_sub(1);
    let shape = Shape::new(&layout.dims()[..outer]).map_err(|_| Decline::Attr("too large"))?;
    Layout::new(shape, &layout.strides()[..outer], 0).map_err(|_| Decline::Attr("too large"))
}

/// The bytes of a contiguous layout; `None` if it is not contiguous or not of whole blocks.
pub(crate) fn byte_range(dtype: DType, layout: &Layout) -> Option<Range<usize>> {
    if !layout.is_contiguous() {
        return None;
    }
    let len = dtype.bytes_for(layout.numel())?;
    let start = if len == 0 { 0 } else { dtype.bytes_for(layout.offset())? };
    Some(start..start + len)
}

/// One number for each of depth, height and width, of which the first may be missing.
pub(crate) fn three(list: &[usize], missing: usize) -> [usize; 3] {
    let mut three = [missing; 3];
    three[3 - list.len()..].copy_from_slice(list);
    three
}

/// The parameters of a [`Grid`] in a kernel's source: all lengths but the outermost, and the strides of each tensor.
pub(crate) struct GridNames {
    dims: Vec<KernelParam>,
    strides: Vec<Vec<KernelParam>>,
}

impl GridNames {
    /// Statements that add to each variable of `positions` (one for each tensor) the position of the element with
    /// row-major number `i`, an expression.
    pub(crate) fn positions(&self, i: &str, positions: &[&str]) -> String {
        let mut text = String::new();
        let rank = self.strides.first().map_or(0, Vec::len);
        if rank == 0 {
            return text;
        }
        let _ = writeln!(text, "{{ var grid_rest = {i};");
        for d in (1..rank).rev() {
            let len = &self.dims[d - 1];
            let _ = writeln!(
                text,
                "{{ let grid_quotient = grid_rest / {len}; let grid_at = grid_rest - grid_quotient * {len}; grid_rest = grid_quotient;"
            );
            for (own, position) in self.strides.iter().zip(positions) {
                let _ = writeln!(text, "{position} += grid_at * {};", own[d]);
            }
            text.push_str("}\n");
        }
        for (own, position) in self.strides.iter().zip(positions) {
            let _ = writeln!(text, "{position} += grid_rest * {};", own[0]);
        }
        text.push_str("}\n");
        text
    }
}

/// Statements that leave a thread's result to the chunk that has the index `name`, or make it count from the first of
/// the `len` indices that are here.
pub(crate) fn chosen(name: &str, [first, len]: &[KernelParam; 2]) -> String {
    // Below the first, the difference is beyond every length.
    format!("{name} -= {first};\nif {name} >= {len} {{ return; }}")
}

/// The body of a kernel whose threads make whole words of a contiguous result of `n` elements from `to` on: `element`
/// gives, for a suffix that keeps names apart and the row-major number of an element, statements and an expression.
pub fn each_word(
    y: &Elements,
    n: &KernelParam,
    to: &KernelParam,
    element: impl Fn(usize, &str) -> (String, String),
) -> String {
    let per_word = y.per_word();
    let mut body = format!(
        "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = t * {per_word}u;\nif first >= {n} {{ return; }}\n"
    );
    let mut values = Vec::new();
    for k in 0..per_word {
        // The last word may extend past the end.
        let _ = writeln!(body, "let i{k} = min(first + {k}u, {n} - 1u);");
        let (text, value) = element(k, &format!("i{k}"));
        let _ = writeln!(body, "{text}\nlet v{k} = {value};");
        values.push(format!("v{k}"));
    }
    body.push_str(&y.store(&format!("{to} / {per_word}u + t"), &values));
    body
}
