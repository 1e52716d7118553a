//! Positions of elements in strided tensors: the text that computes them, and the numbers that it needs.

use crate::plan::StepBuilder;
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Word};
use rustorch_core::{Decline, Layout};
use std::fmt::Write;

/// The most dimensions, after neighbours that lie together are merged.
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
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Whether element `i` of every tensor is its `i`-th in memory.
    pub fn is_linear(&self) -> bool {
        self.rank() == 0 || self.rank() == 1 && self.strides.iter().all(|s| s[0] == 1)
    }

    /// Adds the numbers that [`positions`](Parameters::positions) reads: all lengths but the outermost, then the strides of each tensor.
    pub fn describe(&self, step: &mut StepBuilder<'_>) -> Result<(), Decline> {
        if self.rank() > MAX_RANK {
            return Err(Decline::Rank { rank: self.rank(), limit: MAX_RANK });
        }
        for &len in self.dims.iter().skip(1) {
            step.number(len)?;
        }
        for &stride in self.strides.iter().flatten() {
            step.number(stride)?;
        }
        Ok(())
    }
}

/// One number for each of depth, height and width, of which the first may be missing.
pub(super) fn three(list: &[usize], missing: usize) -> [usize; 3] {
    let mut three = [missing; 3];
    three[3 - list.len()..].copy_from_slice(list);
    three
}

/// Declares the parameters of a grid of `rank` dimensions and `tensors` tensors.
pub fn parameters(module: &mut Module, rank: usize, tensors: usize) -> Parameters {
    let dims = module.take(rank.saturating_sub(1));
    let strides = (0..tensors).map(|_| module.take(rank)).collect();
    Parameters { dims, strides }
}

/// See [`parameters`].
pub struct Parameters {
    dims: Vec<Word>,
    strides: Vec<Vec<Word>>,
}

impl Parameters {
    /// Statements that add to each variable of `positions` (one for each tensor) the position of the element with
    /// row-major number `i`, an expression.
    pub fn positions(&self, i: &str, positions: &[&str]) -> String {
        let mut text = String::new();
        let rank = self.strides.first().map_or(0, Vec::len);
        if rank == 0 {
            return text;
        }
        let _ = writeln!(text, "{{ var grid_rest = {i};");
        for d in (1..rank).rev() {
            let len = self.dims[d - 1];
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

/// Statements that leave a thread's result to the piece that has the index `name`, or make it count from the first of
/// the `len` indices that are here.
pub(super) fn chosen(name: &str, first: Word, len: Word) -> String {
    // Below the first, the difference is beyond every length.
    format!("{name} -= {first};\nif {name} >= {len} {{ return; }}")
}

/// The body of a kernel whose threads make whole words of a contiguous result of `n` elements from `to` on: `element`
/// gives, for a suffix that keeps names apart and the row-major number of an element, statements and an expression.
pub fn each_word(
    y: &Elements,
    n: Word,
    to: Word,
    element: impl Fn(usize, &str) -> (String, String),
) -> String {
    let per_word = y.per_word();
    let mut body = format!(
        "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = t * {per_word}u;\nif first >= {n} {{ return; }}\n"
    );
    let mut values = Vec::new();
    for k in 0..per_word {
        // The last word may reach beyond the end.
        let _ = writeln!(body, "let i{k} = min(first + {k}u, {n} - 1u);");
        let (text, value) = element(k, &format!("i{k}"));
        let _ = writeln!(body, "{text}\nlet v{k} = {value};");
        values.push(format!("v{k}"));
    }
    body.push_str(&y.store(&format!("{to} / {per_word}u + t"), &values));
    body
}
