//! Operands: constants of the graph, and views of values.

use super::{
    Emit, Emitter, MAX_MADE, Reason, at_least_one, constant_index, expressible, expressible_constant,
};
use crate::QuantWeights;
use crate::blob::{self, Elements};
use crate::blocks::BlockForm;
use crate::builder::{Builder, Data, Var};
use crate::float::{self, FloatDtype, words};
use crate::layout::{self, Step};
use rustorch_core::{DType, GraphOperand, Layout, Node, ValueId};

impl Emitter<'_> {
    /// Argument `i` of a node, as many as it has being checked.
    pub(super) fn arg(&mut self, node: &Node, i: usize) -> Emit {
        let var = self.operand(&node.args[i])?;
        super::known(&var, &format!("argument {i}"))?;
        Ok(var)
    }

    /// Argument `i` of a node, if it has so many.
    pub(super) fn optional_arg(&mut self, node: &Node, i: usize) -> Emit<Option<Var>> {
        if i < node.args.len() { self.arg(node, i).map(Some) } else { Ok(None) }
    }

    /// Argument `i`, which names places along a dimension: only values that fit an `i32` are valid.
    pub(super) fn index_arg(&mut self, node: &Node, i: usize, len: usize) -> Emit {
        if i32::try_from(len).is_err() {
            return Err(format!("indices into a dimension of {len} do not fit i32").into());
        }
        self.operand(&node.args[i])
    }

    /// Argument `i` for an operation that broadcasts: repeated dimensions have length 1.
    pub(super) fn broadcast_arg(&mut self, node: &Node, i: usize) -> Emit {
        let operand = &node.args[i];
        let mut layout = operand.layout.clone();
        for axis in 0..layout.ndim() {
            if layout.dims()[axis] > 1 && layout.strides()[axis] == 0 {
                layout = layout.slice(axis, 0, 1, 1)?;
            }
        }
        let var = self.view(operand.value, operand.dtype, &layout)?;
        super::known(&var, &format!("argument {i}"))?;
        Ok(var)
    }

    pub(super) fn operand(&mut self, operand: &GraphOperand) -> Emit {
        self.view(operand.value, operand.dtype, &operand.layout)
    }

    /// Elements of a value.
    pub(super) fn view(&mut self, id: ValueId, dtype: DType, layout: &Layout) -> Emit {
        let value = &self.graph.values[id.index()];
        if value.dtype != dtype {
            return Err(format!("reads a value of {:?} as {dtype:?}", value.dtype).into());
        }
        let constant = constant_index(self.graph, id);
        match constant {
            Some(_) => expressible_constant(dtype, layout.dims())?,
            None => expressible(dtype, layout.dims())?,
        }
        if self.values[id.index()].is_none() && constant.is_none() {
            return Err(Reason::Operand);
        }
        let key = (id, layout.clone());
        if let Some(have) = self.views.get(&key) {
            return Ok(have.clone());
        }
        if let Some(index) = constant.filter(|_| layout.is_contiguous()) {
            let var = self.constant(index, id, layout)?;
            self.views.insert(key, var.clone());
            return Ok(var);
        }
        let base = self.value(id)?;
        let steps = layout::chain(&base.dims, layout, MAX_MADE).ok_or_else(|| {
            format!("the view {layout:?} is no slice, and has too many elements to be gathered by index")
        })?;
        let mut var = base;
        for step in steps {
            var = self.step(var, step);
        }
        self.views.insert(key, var.clone());
        Ok(var)
    }

    fn value(&mut self, id: ValueId) -> Emit {
        if let Some(var) = &self.values[id.index()] {
            return Ok(var.clone());
        }
        let Some(index) = constant_index(self.graph, id) else { return Err(Reason::Operand) };
        let whole = Layout::contiguous(self.graph.values[id.index()].shape.clone());
        let var = self.constant(index, id, &whole)?;
        self.values[id.index()] = Some(var.clone());
        Ok(var)
    }

    /// Elements of a constant of the graph that follow each other.
    fn constant(&mut self, index: usize, id: ValueId, layout: &Layout) -> Emit {
        let value = &self.graph.values[id.index()];
        expressible_constant(value.dtype, layout.dims()).map_err(|reason| match reason {
            Reason::Because(reason) => format!("constant {index}: {reason}").into(),
            other => other,
        })?;
        let dims = at_least_one(layout.dims());
        let (start, count) = (layout.offset(), layout.numel());
        let float = self.float_dtype(value.dtype);
        if let Some(float) = float.filter(|_| Builder::is_weight(count)) {
            let block = value.dtype.block_len();
            if !start.is_multiple_of(block) || !count.is_multiple_of(block) {
                return Err(format!(
                    "constant {index}: a view that begins or ends within a block has no form"
                )
                .into());
            }
            let index = self.function.constants[index];
            let elements = Elements { index, from: value.dtype, start, count };
            return Ok(self.weight(elements, float, &dims));
        }
        if value.dtype.is_quant() {
            return Err(
                format!("constant {index}: a view that begins or ends within a block has no form").into()
            );
        }
        // The layout stays within the constant, as `verify` says.
        let bytes =
            blob::constant(self.constants, self.function.constants[index], value.dtype, start..start + count)
                .map_err(Reason::Failed)?;
        if let Some(float) = float {
            let values = float::decode(value.dtype, &bytes)?;
            return Ok(self.b.tensor(Data::Float(float, values), &dims));
        }
        let (data, range) = match value.dtype {
            DType::Bool => (Data::Bool(bytes.iter().map(|&byte| byte != 0).collect()), None),
            DType::I64 => {
                let wide = words(&bytes, i64::from_ne_bytes);
                let range = wide.iter().min().copied().zip(wide.iter().max().copied());
                let narrow = wide.into_iter().map(i32::try_from).collect::<Result<Vec<i32>, _>>();
                (
                    Data::I32(narrow.map_err(|_| format!("constant {index}: its values do not fit i32"))?),
                    range,
                )
            }
            _ => (Data::I32(words(&bytes, i32::from_ne_bytes)), None),
        };
        let mut var = self.b.tensor(data, &dims);
        var.dtype = value.dtype;
        Ok(var.with_range(range))
    }

    /// A constant in `weight.bin`, in blocks if they have a form.
    fn weight(&mut self, elements: Elements, float: FloatDtype, dims: &[usize]) -> Var {
        let DType::Quant(quant) = elements.from else { return self.b.weight(elements, float, dims) };
        if self.options.quant_weights == QuantWeights::F16 {
            let var = self.b.weight(elements, FloatDtype::F16, dims);
            return self.float_as(&var, float.dtype());
        }
        let has_groups = |form: &BlockForm| dims.last().is_some_and(|last| last.is_multiple_of(form.group));
        match BlockForm::of(quant, float).filter(has_groups) {
            Some(form) => self.b.blocks(elements, form, dims),
            None => self.b.weight(elements, float, dims),
        }
    }

    fn step(&mut self, x: Var, step: Step) -> Var {
        match step {
            Step::Reshape(dims) => self.reshape(&x, &dims),
            Step::Slice(slices) => self.slice(&x, &slices),
            Step::Transpose(order) => self.transpose(&x, &order),
            Step::Tile(repeats) => self.tile(&x, &repeats),
            Step::Gather(indices) => {
                let indices = self.b.ints(&indices);
                self.take_along(&x, &indices, 0)
            }
        }
    }

    /// The same elements in another shape.
    pub(super) fn reshape(&mut self, x: &Var, dims: &[usize]) -> Var {
        let dims = at_least_one(dims);
        if x.dims == dims {
            return x.clone();
        }
        let shape = self.b.ints(&dims);
        self.b.op("reshape", &[("x", x), ("shape", &shape)], x.dtype, &dims).with_range(x.range)
    }

    /// Along each dimension: the first index, how many, how far apart.
    pub(super) fn slice(&mut self, x: &Var, slices: &[(usize, usize, usize)]) -> Var {
        let dims: Vec<usize> = slices.iter().map(|&(_, len, _)| len).collect();
        let begin: Vec<usize> = slices.iter().map(|&(start, _, _)| start).collect();
        let end: Vec<usize> = slices.iter().map(|&(start, len, step)| start + (len - 1) * step + 1).collect();
        let stride: Vec<usize> = slices.iter().map(|&(_, _, step)| step).collect();
        let (begin, end) = (self.b.ints(&begin), self.b.ints(&end));
        if stride.iter().all(|&step| step == 1) {
            let inputs = [("x", x), ("begin", &begin), ("end", &end)];
            return self.b.op("slice_by_index", &inputs, x.dtype, &dims).with_range(x.range);
        }
        let stride = self.b.ints(&stride);
        let inputs = [("x", x), ("begin", &begin), ("end", &end), ("stride", &stride)];
        self.b.op("slice_by_index", &inputs, x.dtype, &dims).with_range(x.range)
    }

    /// `len` elements of a dimension from `start`.
    pub(super) fn narrow(&mut self, x: &Var, axis: usize, start: usize, len: usize) -> Var {
        let mut slices: Vec<_> = x.dims.iter().map(|&dim| (0, dim, 1)).collect();
        slices[axis] = (start, len, 1);
        if x.dims[axis] == len { x.clone() } else { self.slice(x, &slices) }
    }

    pub(super) fn transpose(&mut self, x: &Var, order: &[usize]) -> Var {
        let dims: Vec<usize> = order.iter().map(|&axis| x.dims[axis]).collect();
        let perm = self.b.ints(order);
        self.b.op("transpose", &[("x", x), ("perm", &perm)], x.dtype, &dims).with_range(x.range)
    }

    pub(super) fn tile(&mut self, x: &Var, repeats: &[usize]) -> Var {
        let dims: Vec<usize> = x.dims.iter().zip(repeats).map(|(dim, n)| dim * n).collect();
        let reps = self.b.ints(repeats);
        self.b.op("tile", &[("x", x), ("reps", &reps)], x.dtype, &dims).with_range(x.range)
    }

    /// A value broadcast to a shape.
    pub(super) fn expand(&mut self, x: &Var, dims: &[usize]) -> Var {
        if x.dims == dims {
            return x.clone();
        }
        let mut padded = vec![1; dims.len().saturating_sub(x.ndim())];
        padded.extend_from_slice(&x.dims);
        let repeats: Vec<usize> = dims.iter().zip(&padded).map(|(to, from)| to / from).collect();
        let x = self.reshape(x, &padded);
        if repeats.iter().all(|&n| n == 1) { x } else { self.tile(&x, &repeats) }
    }
}
