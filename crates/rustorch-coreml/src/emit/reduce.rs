//! Reductions and scans.

use super::{Emit, Emitter, Reason, range};
use crate::builder::Var;
use crate::support::Condition;
use rustorch_core::{DType, Node, Reduce, ReduceOp, Scan, ScanOp};

impl Emitter<'_> {
    /// A reduction in MIL. What has no dimension left has one of length 1.
    pub(super) fn reduced(&mut self, ty: &str, x: &Var, axes: &[usize], keepdim: bool) -> Var {
        let keep = keepdim || axes.len() == x.ndim();
        let length = |(i, &dim): (usize, &usize)| {
            let is_reduced = axes.contains(&i);
            if is_reduced { keep.then_some(1) } else { Some(dim) }
        };
        let dims: Vec<usize> = x.dims.iter().enumerate().filter_map(length).collect();
        let (axes, keep_dims) = (self.b.ints(axes), self.b.bool(keep));
        let y = self.b.op(ty, &[("x", x), ("axes", &axes), ("keep_dims", &keep_dims)], x.dtype, &dims);
        if keep && !keepdim { self.reshape(&y, &[]) } else { y }
    }

    pub(super) fn reduce(&mut self, op: &Reduce, node: &Node) -> Emit {
        let given = self.arg(node, 0)?;
        let x = match op.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::Max | ReduceOp::Min => given.clone(),
            _ if given.dtype.is_float() => self.as_f32(&given),
            _ => given.clone(),
        };
        let y = match op.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => self.arg_reduce(op, &x),
            _ if op.axes.is_empty() => self.of_none(op, &x),
            _ => self.reduce_axes(op, &x),
        }?;
        let y = if y.dtype.is_float() { self.float_as(&y, given.dtype) } else { y };
        // A scalar is reduced over no axis, and has one here.
        let dims = self.result_dims(node, 0);
        Ok(self.reshape(&y, &dims))
    }

    /// Over no axis: of each element alone.
    fn of_none(&mut self, op: &Reduce, x: &Var) -> Emit {
        match op.op {
            ReduceOp::Sum if !x.dtype.is_float() => self.cast(x, DType::I64),
            ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Mean | ReduceOp::Max | ReduceOp::Min => Ok(x.clone()),
            _ => Err(Condition::ReducesAnAxis.into()),
        }
    }

    fn arg_reduce(&mut self, op: &Reduce, x: &Var) -> Emit {
        let ty = if op.op == ReduceOp::ArgMax { "reduce_argmax" } else { "reduce_argmin" };
        // Over all dimensions, the index is into the flat tensor.
        let (x, axis) = match &op.axes[..] {
            &[axis] => (x.clone(), axis),
            _ => (self.reshape(x, &[x.numel()]), 0),
        };
        let mut dims = x.dims.clone();
        dims[axis] = 1;
        let (at, keep_dims) = (self.b.int(axis), self.b.bool(true));
        let inputs = [("x", &x), ("axis", &at), ("keep_dims", &keep_dims)];
        let last = x.dims[axis] as i64 - 1;
        Ok(self.b.op(ty, &inputs, DType::I64, &dims).with_range(Some((0, last))))
    }

    fn reduce_axes(&mut self, op: &Reduce, x: &Var) -> Emit {
        let (axes, keepdim) = (&op.axes[..], op.keepdim);
        let n: usize = axes.iter().map(|&axis| x.dims[axis]).product();
        Ok(match op.op {
            ReduceOp::Sum if x.dtype.is_float() => self.reduced("reduce_sum", x, axes, keepdim),
            ReduceOp::Sum => {
                let x = self.cast(x, DType::I64)?;
                let range = x.range.and_then(|each| range::sum(n, each));
                let sum = self.reduced("reduce_sum", &x, axes, keepdim).with_range(range);
                if !sum.fits() {
                    return Err(Condition::SumFits.into());
                }
                sum
            }
            ReduceOp::Prod => self.reduced("reduce_prod", x, axes, keepdim),
            ReduceOp::Mean => self.reduced("reduce_mean", x, axes, keepdim),
            ReduceOp::Max | ReduceOp::Min => {
                let ty = if op.op == ReduceOp::Max { "reduce_max" } else { "reduce_min" };
                if x.dtype == DType::Bool {
                    let x = self.convert(x, DType::I32, "int32");
                    let y = self.reduced(ty, &x, axes, keepdim);
                    return self.cast(&y, DType::Bool);
                }
                self.reduced(ty, x, axes, keepdim).with_range(x.range)
            }
            ReduceOp::Any | ReduceOp::All => {
                let ty = if op.op == ReduceOp::Any { "reduce_max" } else { "reduce_min" };
                let truth = self.cast(x, DType::Bool)?;
                let x = self.convert(&truth, DType::I32, "int32");
                let y = self.reduced(ty, &x, axes, keepdim);
                self.cast(&y, DType::Bool)?
            }
            ReduceOp::LogSumExp => {
                let most = self.reduced("reduce_max", x, axes, true);
                // Of infinities the difference would be NaN.
                let (size, infinity) = (self.un("abs", &most), self.b.f32(f32::INFINITY));
                let dims = most.dims.clone();
                let finite = self.b.op("less", &[("x", &size), ("y", &infinity)], DType::Bool, &dims);
                let zero = self.b.f32(0.0);
                let most = self.select(&finite, &most, &zero, &dims);
                let below = self.bin("sub", x, &most);
                let exp = self.un("exp", &below);
                let sum = self.reduced("reduce_sum", &exp, axes, true);
                let log = self.log(&sum);
                let y = self.bin("add", &log, &most);
                self.dropped(&y, axes, keepdim)
            }
            ReduceOp::Norm => self.reduced("reduce_l2_norm", x, axes, keepdim),
            ReduceOp::Var { correction } => self.variance(x, axes, keepdim, correction)?,
            ReduceOp::Std { correction } => {
                let variance = self.variance(x, axes, keepdim, correction)?;
                self.un("sqrt", &variance)
            }
            ReduceOp::ArgMax | ReduceOp::ArgMin => self.arg_reduce(op, x)?,
        })
    }

    /// Without the axes, which have length 1, unless they stay.
    fn dropped(&mut self, x: &Var, axes: &[usize], keepdim: bool) -> Var {
        if keepdim {
            return x.clone();
        }
        let kept = x.dims.iter().enumerate().filter(|(i, _)| !axes.contains(i));
        let dims: Vec<usize> = kept.map(|(_, &dim)| dim).collect();
        self.reshape(x, &dims)
    }

    fn variance(&mut self, x: &Var, axes: &[usize], keepdim: bool, correction: f64) -> Emit {
        let n = axes.iter().map(|&axis| x.dims[axis]).product::<usize>() as f64;
        if n - correction <= 0.0 {
            let detail = format!("{n} elements, correction {correction}");
            return Err(Reason::Unmet(Condition::FiniteVariance, detail));
        }
        let mean = self.reduced("reduce_mean", x, axes, true);
        let centred = self.bin("sub", x, &mean);
        let square = self.un("square", &centred);
        let sum = self.reduced("reduce_sum", &square, axes, keepdim);
        Ok(self.bin_float("mul", &sum, (1.0 / (n - correction)) as f32))
    }

    pub(super) fn scan(&mut self, op: &Scan, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        if op.op != ScanOp::Sum {
            return Err(super::no_emitter(op.op.name()));
        }
        let n = x.dims[op.axis];
        let given = x.dtype;
        let x = if given.is_float() { self.as_f32(&x) } else { self.cast(&x, DType::I64)? };
        let range = x.range.and_then(|each| range::sum(n, each));
        let (axis, no) = (self.b.int(op.axis), self.b.bool(false));
        let inputs = [("x", &x), ("axis", &axis), ("exclusive", &no), ("reverse", &no)];
        let y = self.b.op("cumsum", &inputs, x.dtype, &x.dims).with_range(range);
        if !y.fits() {
            return Err(Condition::SumFits.into());
        }
        Ok(if given.is_float() { self.float_as(&y, given) } else { y })
    }
}
