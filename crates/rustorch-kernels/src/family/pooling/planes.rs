//! Planes of arguments and results: shapes, and the WGSL that addresses them.

use crate::family::matmul::leading;
use crate::library::strided::{Grid, three};
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Corner, Operand, Request};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::Decline;
use std::fmt::Write;

/// The planes of an argument and of the result, or parts of them, whose positions are those of the whole.
pub(super) struct Planes {
    /// Lengths of the argument's.
    pub(super) source: [usize; 3],
    /// Lengths of the result's.
    pub(super) target: [usize; 3],
    /// Lengths of the part of the result's that is here.
    here: [usize; 3],
    corner: Corner,
    strides: [usize; 3],
    lead: Grid,
}

impl Planes {
    /// Of the first argument, whose last `n` dimensions are spatial.
    pub(super) fn of(request: &Request<'_>, n: usize) -> Result<Planes, Decline> {
        let (x, y) = (request.args[0].layout, request.outs[0].layout);
        let outer = x.ndim() - n;
        let lead = leading(x, n)?;
        let whole = request.whole();
        Ok(Planes {
            source: three(&whole.args[0].dims()[outer..], 1),
            target: three(&whole.outs[0].dims()[outer..], 1),
            here: three(&y.dims()[outer..], 1),
            corner: request.part.corner,
            strides: three(&x.strides()[outer..], 0),
            lead: Grid::new(&[&lead]),
        })
    }

    /// Dimensions of what is not spatial.
    pub(super) fn ndim(&self) -> usize {
        self.lead.ndim()
    }

    /// Parameters of them: `x_start` is where the argument's elements begin, `y_start` where the result's do.
    pub(super) fn params(self, out: &Operand<'_>, x_start: u32, y_start: u32) -> PlaneParams {
        // Where the first position of all would be, modulo 2³²: what is counted from there wraps, too.
        let before = self.corner.source.iter().zip(self.strides);
        let before = before.fold(0usize, |sum, (&at, step)| at.wrapping_mul(step).wrapping_add(sum));
        PlaneParams {
            n: out.layout.numel(),
            x_start: x_start.wrapping_sub(before as u32),
            y_start,
            source: self.source,
            result: self.target,
            here: self.here,
            first: self.corner.target,
            strides: self.strides,
            lead: self.lead,
        }
    }
}

parameters! {
    /// Parameters of planes.
    pub(super) struct PlaneParams(rank: usize) {
        /// How many elements the result has.
        n: usize,
        x_start: u32,
        y_start: u32,
        /// Lengths of the argument's.
        source: [usize; 3],
        /// Lengths of the result's.
        result: [usize; 3],
        here: [usize; 3],
        first: [usize; 3],
        strides: [usize; 3],
        lead: Grid = (rank, 1),
    }
}

impl PlaneParams<Names> {
    /// The kernel whose threads make whole words of the result, by the function `element(i)`.
    pub(super) fn finish(&self, module: Module, y: &Elements) -> Wgsl {
        let per_word = y.per_word();
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = word * {per_word}u;\n\
             if first >= {} {{ return; }}\n",
            self.n
        );
        // The last word may extend past the end.
        let values: Vec<String> =
            (0..per_word).map(|e| format!("element(min(first + {e}u, {} - 1u))", self.n)).collect();
        body.push_str(&y.store(&format!("{} / {per_word}u + word", self.y_start), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }

    /// Statements that part `i`, the number of an element of the result, into `o0`, `o1`, `o2` in its plane, and leave in
    /// `base` where the argument's plane begins.
    pub(super) fn parts(&self, i: &str) -> String {
        let [d, h, w] = &self.here;
        let [front, top, left] = &self.first;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "let rows_i = {i} / {w};
            let o2 = {left} + {i} - rows_i * {w};
            let slices_i = rows_i / {h};
            let o1 = {top} + rows_i - slices_i * {h};
            let plane = slices_i / {d};
            let o0 = {front} + slices_i - plane * {d};
            var base = {};",
            self.x_start
        );
        text.push_str(&self.lead.positions("plane", &["base"]));
        text
    }

    /// Where the argument's element at `q0`, `q1`, `q2` of the plane at `base` is.
    pub(super) fn at(&self) -> String {
        format!("base + q0 * {} + q1 * {} + q2 * {}", self.strides[0], self.strides[1], self.strides[2])
    }
}
