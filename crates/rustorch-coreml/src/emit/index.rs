//! Lookups, concatenation, padding, triangles.

use super::{Emit, Emitter, MAX_MADE, Reason, range};
use crate::builder::{Data, Var};
use crate::support::Condition;
use rustorch_core::{Concat, DType, Gather, Node, Pad, SliceUpdate, Tri};

impl Emitter<'_> {
    /// Slices along an axis, chosen by indices.
    pub(super) fn take(&mut self, node: &Node, axis: usize) -> Emit {
        let x = self.arg(node, 0)?;
        let indices = self.index_arg(node, 1, x.dims[axis])?;
        let y = self.take_along(&x, &indices, axis);
        // Ids without dimensions have one here.
        let dims = self.result_dims(node, 0);
        let y = self.reshape(&y, &dims);
        // Rows of a table of 16 bits or blocks may be `f32`.
        let dtype = self.result_dtype(node);
        Ok(if y.dtype.is_float() { self.float_as(&y, dtype) } else { y })
    }

    /// `gather` in MIL. Booleans go through integers.
    pub(super) fn take_along(&mut self, x: &Var, indices: &Var, axis: usize) -> Var {
        if x.dtype == DType::Bool {
            let x = self.convert(x, DType::I32, "int32");
            let y = self.take_along(&x, indices, axis);
            return self.convert(&y, DType::Bool, "bool");
        }
        let mut dims = x.dims[..axis].to_vec();
        dims.extend_from_slice(&indices.dims);
        dims.extend_from_slice(&x.dims[axis + 1..]);
        let axis = self.b.int(axis);
        let inputs = [("x", x), ("indices", indices), ("axis", &axis)];
        self.b.op("gather", &inputs, x.dtype, &dims).with_range(x.range)
    }

    pub(super) fn gather(&mut self, op: &Gather, node: &Node) -> Emit {
        let mut x = self.arg(node, 0)?;
        let indices = self.index_arg(node, 1, x.dims[op.axis])?;
        // MIL has the index as large as the tensor outside the axis.
        for i in 0..x.ndim() {
            if i != op.axis {
                x = self.narrow(&x, i, 0, indices.dims[i]);
            }
        }
        let axis = self.b.int(op.axis);
        let inputs = [("x", &x), ("indices", &indices), ("axis", &axis)];
        Ok(self.b.op("gather_along_axis", &inputs, x.dtype, &indices.dims).with_range(x.range))
    }

    pub(super) fn concat(&mut self, op: &Concat, node: &Node) -> Emit {
        let mut parts = Vec::with_capacity(node.args.len());
        for i in 0..node.args.len() {
            parts.push(self.arg(node, i)?);
        }
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let dims = self.result_dims(node, 0);
        let bounds = parts.iter().map(|part| part.range).reduce(range::either).flatten();
        let (axis, no) = (self.b.int(op.axis), self.b.bool(false));
        let mut inputs: Vec<(&'static str, &Var)> = parts.iter().map(|part| ("values", part)).collect();
        inputs.extend([("axis", &axis), ("interleave", &no)]);
        Ok(self.b.op("concat", &inputs, parts[0].dtype, &dims).with_range(bounds))
    }

    /// Elements along an axis in place of others, from a place on that is data.
    pub(super) fn slice_update(&mut self, op: &SliceUpdate, node: &Node) -> Emit {
        let (x, update) = (self.arg(node, 0)?, self.arg(node, 1)?);
        let update = if update.dtype == x.dtype { update } else { self.cast(&update, x.dtype)? };
        let start = self.index_arg(node, 2, x.dims[op.axis])?;
        let (zero, last) = (self.int(0), self.b.int(x.dims[op.axis] - update.dims[op.axis]));
        let start = self.bin("maximum", &start, &zero);
        let start = self.bin("minimum", &start, &last);
        let len = self.b.int(update.dims[op.axis]);
        let stop = self.bin("add", &start, &len);
        let (before, after) = (vec![0; op.axis], vec![0; x.ndim() - op.axis - 1]);
        let begin = self.place(&before, &start, &after);
        let end = self.place(&x.dims[..op.axis], &stop, &x.dims[op.axis + 1..]);
        let inputs = [("x", &x), ("update", &update), ("begin", &begin), ("end", &end)];
        Ok(self.b.op("slice_update", &inputs, x.dtype, &x.dims))
    }

    /// Constants, a value, and constants as one vector of integers.
    fn place(&mut self, before: &[usize], at: &Var, after: &[usize]) -> Var {
        let mut ints = |values: &[usize]| (!values.is_empty()).then(|| self.b.ints(values));
        let (first, last) = (ints(before), ints(after));
        let (axis, no) = (self.int(0), self.b.bool(false));
        let mut inputs = Vec::with_capacity(5);
        inputs.extend(first.iter().map(|values| ("values", values)));
        inputs.push(("values", at));
        inputs.extend(last.iter().map(|values| ("values", values)));
        inputs.extend([("axis", &axis), ("interleave", &no)]);
        self.b.op("concat", &inputs, DType::I32, &[before.len() + 1 + after.len()])
    }

    pub(super) fn pad(&mut self, op: &Pad, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        if op.widths.is_empty() {
            return Ok(x);
        }
        let widths: Vec<usize> = op.widths.iter().flat_map(|&(before, after)| [before, after]).collect();
        let (value, _) = self.scalar(op.value, x.dtype)?;
        let (pad, mode) = (self.b.ints(&widths), self.b.str("constant"));
        let dims = self.result_dims(node, 0);
        let inputs = [("x", &x), ("pad", &pad), ("mode", &mode), ("constant_val", &value)];
        Ok(self.b.op("pad", &inputs, x.dtype, &dims))
    }

    pub(super) fn tri(&mut self, op: &Tri, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        let (rows, columns) = (x.dims[x.ndim() - 2], x.dims[x.ndim() - 1]);
        let mask = self.mask(rows, columns, |i, j| {
            let above = j as i64 - i as i64;
            if op.upper { above >= op.diagonal } else { above <= op.diagonal }
        })?;
        if x.dtype == DType::Bool {
            return Ok(self.bin("logical_and", &x, &mask));
        }
        let zero = if x.dtype.is_float() { self.b.float(0.0, &x) } else { self.int(0) };
        let y = self.select(&mask, &x, &zero, &x.dims);
        Ok(y.with_range(range::either(x.range, Some((0, 0)))))
    }

    /// A constant matrix of booleans.
    pub(super) fn mask(&mut self, rows: usize, columns: usize, at: impl Fn(usize, usize) -> bool) -> Emit {
        if rows * columns > MAX_MADE {
            return Err(Reason::Unmet(Condition::MadeConstant, format!("a mask of {rows} x {columns}")));
        }
        let values = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        let values = values.map(|(i, j)| at(i, j)).collect();
        Ok(self.b.tensor(Data::Bool(values), &[rows, columns]))
    }
}
