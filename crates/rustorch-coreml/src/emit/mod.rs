//! Graphs as programs: an emitter for each operation, or the reason why it has none.

mod attention;
mod border;
mod conv;
mod fold;
mod index;
mod matmul;
mod norm;
mod operand;
mod pointwise;
mod pool;
mod range;
mod reduce;
mod rope;

use crate::blob::{Blob, Constants};
use crate::builder::{self, Builder, Data, Shared, Specification, Var};
use crate::float::FloatDtype;
use crate::layout::MAX_RANK;
use crate::proto::Model;
use crate::support::{Condition, Row, Support, support};
use crate::{CoreMlOptions, Declined, Error, Function, Result};
use rustorch_core::{
    DType, DTypeKind, Graph, GraphOperand, Layout, Node, Op, OpKind, Scalar, Source, ValueId,
};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// What a reason says that should never be one.
const BUG: &str = "this is a bug of rustorch-coreml";
/// The most elements of a constant that the program computes with but the graph does not have: masks, indices, positions.
const MAX_MADE: usize = 1 << 20;

/// Why something is not emitted.
pub(crate) enum Reason {
    /// This.
    Because(String),
    /// A condition of the operation's row does not hold, of which there is more to say, or nothing.
    Unmet(Condition, String),
    /// An operand is the result of a node that declined.
    Operand,
    /// Nothing can be emitted any more.
    Failed(Error),
}

impl From<&str> for Reason {
    fn from(reason: &str) -> Reason {
        Reason::Because(reason.to_owned())
    }
}

impl From<String> for Reason {
    fn from(reason: String) -> Reason {
        Reason::Because(reason)
    }
}

impl From<Condition> for Reason {
    fn from(condition: Condition) -> Reason {
        Reason::Unmet(condition, String::new())
    }
}

impl From<rustorch_core::Error> for Reason {
    fn from(error: rustorch_core::Error) -> Reason {
        Reason::Because(error.to_string())
    }
}

type Emit<T = Var> = std::result::Result<T, Reason>;

/// The results of a node.
type Results = SmallVec<[Var; 1]>;

/// The program of functions whose graphs are valid, one at least, its weights, and the version that it needs.
pub(crate) fn program(
    functions: &[Function<'_>],
    constants: &Constants<'_>,
) -> Result<(Model, Blob, Specification)> {
    let is_plain = builder::is_plain(functions.iter().map(|function| function.name.as_str()));
    let least = if is_plain { Specification::default() } else { Specification::V9 };
    let made = at_least(least, functions, constants)?;
    // Attention has another form from version 9 on, and what needs it may come later.
    if made.2 > least && functions.iter().any(|function| has_attention(function.graph)) {
        return at_least(made.2, functions, constants);
    }
    Ok(made)
}

fn has_attention(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::Attention(_) | Op::CachedAttention(_)))
}

/// The same for a version or a later one.
fn at_least(
    specification: Specification,
    functions: &[Function<'_>],
    constants: &Constants<'_>,
) -> Result<(Model, Blob, Specification)> {
    let (mut shared, mut made, mut declined) = (Shared::default(), Vec::new(), Vec::new());
    shared.specification = specification;
    for function in functions {
        let (emitted, next, reasons) = emit_function(function, constants, shared)?;
        shared = next;
        for mut reason in reasons {
            if functions.len() > 1 {
                reason.place = format!("{}, {}", function.name, reason.place);
            }
            declined.push(reason);
        }
        if let Some(state) = made.iter().find_map(|other| emitted.other_state(other)) {
            let (name, state) = (&function.name, state.to_owned());
            let message = format!("{state} of {name} has another shape than in a function before it");
            return Err(Error::Options(message));
        }
        made.push(emitted);
    }
    if !declined.is_empty() {
        return Err(Error::Declined(declined));
    }
    let metadata = functions.first().and_then(|function| function.options.metadata());
    let Shared { blob, specification, .. } = shared;
    Ok((builder::model(made, specification, metadata), blob, specification))
}

/// A function, and what declines in it.
fn emit_function(
    function: &Function<'_>,
    constants: &Constants<'_>,
    shared: Shared,
) -> Result<(builder::Function, Shared, Vec<Declined>)> {
    let graph = function.graph;
    let mut emitter = Emitter {
        function,
        graph,
        constants,
        options: &function.options,
        b: Builder::beside(shared),
        values: vec![None; graph.values.len()],
        views: HashMap::new(),
        reads: reads(graph),
        folded: HashSet::new(),
    };
    let mut declined = Vec::new();
    let mut decline = |place: String, reason: Reason| match reason {
        Reason::Because(reason) => {
            declined.push(Declined { place, reason });
            Ok(())
        }
        Reason::Unmet(condition, detail) => {
            let detail = if detail.is_empty() { detail } else { format!(" ({detail})") };
            declined.push(Declined { place, reason: format!("{condition}{detail}") });
            Ok(())
        }
        Reason::Operand => Ok(()),
        Reason::Failed(error) => Err(error),
    };
    for (i, state) in graph.states.iter().enumerate() {
        if let Err(reason) = emitter.state(i, state.first) {
            decline(format!("state {i}"), reason)?;
            emitter.stand_in(state.first);
        }
    }
    for (i, &id) in graph.inputs.iter().enumerate() {
        emitter.input(i, id).or_else(|reason| decline(format!("input {i}"), reason))?;
    }
    for (n, node) in graph.nodes.iter().enumerate() {
        if let Err(reason) = emitter.node(node) {
            decline(format!("node {n}: {}", node.op.name()), reason)?;
            node.results.iter().for_each(|result| emitter.stand_in(result.value));
        }
    }
    if graph.outputs.is_empty() {
        decline("outputs".to_owned(), "a program returns something".into())?;
    }
    for (i, output) in graph.outputs.iter().enumerate() {
        let emitted = emitter.output(i, output);
        emitted.or_else(|reason| decline(format!("output {i}"), reason))?;
    }
    let (emitted, shared) = emitter.b.finish(function.name.clone());
    Ok((emitted, shared, declined))
}

/// Which values some node or output reads.
fn reads(graph: &Graph) -> Vec<bool> {
    let mut reads = vec![false; graph.values.len()];
    let args = graph.nodes.iter().flat_map(|node| &node.args);
    for operand in args.chain(&graph.outputs) {
        reads[operand.value.index()] = true;
    }
    reads
}

/// That 64-bit integers have values of 32 bits.
fn known(var: &Var, what: &str) -> Emit<()> {
    if var.fits() {
        return Ok(());
    }
    Err(format!(
        "{what} is i64, which programs do not have, and its values are not known to fit i32; cast to i32 before"
    )
    .into())
}

struct Emitter<'g> {
    function: &'g Function<'g>,
    graph: &'g Graph,
    constants: &'g Constants<'g>,
    options: &'g CoreMlOptions,
    b: Builder,
    /// What stands for each value, as far as it has been emitted.
    values: Vec<Option<Var>>,
    views: HashMap<(ValueId, Layout), Var>,
    reads: Vec<bool>,
    /// Results of convolutions of which the batch norm that reads them is part.
    folded: HashSet<ValueId>,
}

impl Emitter<'_> {
    /// The dtype in the program of a dtype of the graph.
    fn program_dtype(&self, dtype: DType) -> DType {
        self.float_dtype(dtype).map_or(dtype, FloatDtype::dtype)
    }

    /// The dtype in the program of a dtype of floats or blocks.
    fn float_dtype(&self, dtype: DType) -> Option<FloatDtype> {
        match dtype {
            DType::F16 => Some(FloatDtype::F16),
            DType::F32 | DType::BF16 | DType::Quant(_) if self.options.allow_f16 => Some(FloatDtype::F16),
            DType::F32 | DType::BF16 | DType::Quant(_) => Some(FloatDtype::F32),
            _ => None,
        }
    }

    /// The dtype in the program of a node's first result.
    fn result_dtype(&self, node: &Node) -> DType {
        self.program_dtype(self.graph.values[node.results[0].value.index()].dtype)
    }

    fn node(&mut self, node: &Node) -> Emit<()> {
        // Memory that is written before anybody reads it.
        if matches!(node.op, Op::Fill(_)) && self.is_unread(node, 0) {
            return Ok(());
        }
        let results = self.results(node)?;
        for (i, (result, mut var)) in node.results.iter().zip(results).enumerate() {
            let value = &self.graph.values[result.value.index()];
            expressible(value.dtype, value.shape.dims())?;
            // Nothing else would tell of an emitter that computes another shape.
            let dims = self.result_dims(node, i);
            let dtype = self.program_dtype(value.dtype);
            if var.dims != dims || var.dtype != dtype {
                return Err(format!(
                    "has the form {:?} {:?} in place of {:?} {dims:?}; {BUG}",
                    var.dtype, var.dims, dtype
                )
                .into());
            }
            if let Some(into) = &result.into {
                var = self.overwritten(&var, into)?;
            }
            var = self.written(result.value, var)?;
            self.values[result.value.index()] = Some(var);
        }
        Ok(())
    }

    /// A value in the place of one that declined, so that what reads it is looked at, too. The program is given up.
    fn stand_in(&mut self, id: ValueId) {
        let value = &self.graph.values[id.index()];
        if expressible(value.dtype, value.shape.dims()).is_ok() {
            let dims = at_least_one(value.shape.dims());
            let var = self.b.op("declined", &[], self.program_dtype(value.dtype), &dims);
            self.values[id.index()] = Some(var.with_range(Some((0, 0))));
        }
    }

    /// The value that an operand becomes part of, if the operand is all of it, in any order.
    fn overwritten(&mut self, new: &Var, into: &GraphOperand) -> Emit {
        let (dims, strides) = (into.layout.dims(), into.layout.strides());
        let mut order: Vec<usize> = (0..dims.len()).filter(|&axis| dims[axis] > 1).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
        let mut expected = 1;
        let is_dense = order.iter().rev().all(|&axis| {
            let fits = strides[axis] == expected;
            expected *= dims[axis];
            fits
        });
        let value = &self.graph.values[into.value.index()];
        if !is_dense || into.layout.numel() != value.shape.numel() || into.dtype != value.dtype {
            return Err("writes a part of a tensor in place, which is not built".into());
        }
        let form = self.values[into.value.index()].as_ref().map(|var| var.dims.clone());
        let whole = form.unwrap_or_else(|| at_least_one(value.shape.dims()));
        order.extend((0..dims.len()).filter(|&axis| dims[axis] == 1));
        let new = if order.is_sorted() { new.clone() } else { self.transpose(new, &order) };
        Ok(self.reshape(&new, &whole))
    }

    /// What a node computes, as the table of forms has it.
    fn results(&mut self, node: &Node) -> Emit<Results> {
        let op = node.op.kind();
        let (dtype, rank) = match (node.args.get(Row::operand(op)), node.results.first()) {
            (Some(operand), _) => (operand.dtype, operand.layout.ndim()),
            (None, Some(result)) => {
                let value = &self.graph.values[result.value.index()];
                (value.dtype, value.shape.ndim())
            }
            (None, None) => return Err("has no operands and no results".into()),
        };
        let row = row(op, dtype)?;
        if rank > MAX_RANK {
            return Err(too_many_dimensions(rank));
        }
        if rank < row.rank.0 || rank > row.rank.1 {
            return Err(format!(
                "has a form of {} to {} dimensions, and here are {rank}",
                row.rank.0, row.rank.1
            )
            .into());
        }
        self.b.requires(row.specification);
        self.form(node).map_err(|reason| match reason {
            Reason::Unmet(condition, _) if !row.conditions.contains(&condition) => {
                format!("{condition}, which the table of operations does not say; {BUG}").into()
            }
            reason => reason,
        })
    }

    /// The form of an operation that has a row.
    fn form(&mut self, node: &Node) -> Emit<Results> {
        let one = |var: Emit| var.map(|var| Results::from_elem(var, 1));
        match &node.op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Glu(_)
            | Op::Where(_)
            | Op::Clamp(_)
            | Op::Cast(_) => one(self.pointwise_node(node)),
            Op::FusedPointwise(fused) => one(self.fused(fused, node)),
            Op::Fill(fill) => one(self.fill(fill)),
            Op::Arange(arange) => one(self.arange(arange)),
            Op::Copy(_) => one(self.arg(node, 0)),
            Op::MatMul(op) => one(self.matmul(op, node)),
            Op::Reduce(op) => one(self.reduce(op, node)),
            Op::Scan(op) => one(self.scan(op, node)),
            Op::Softmax(op) => one(self.softmax(op, node)),
            Op::LayerNorm(op) => one(self.layer_norm(op, node)),
            Op::RmsNorm(op) => one(self.rms_norm(op, node)),
            Op::AddRmsNorm(op) => self.add_rms_norm(op, node),
            Op::BatchNorm(op) => one(self.batch_norm(op, node)),
            Op::GroupNorm(op) => one(self.group_norm(op, node)),
            Op::Attention(op) => one(self.attention(op, node)),
            Op::Rope(op) => one(self.rope(op, node)),
            Op::Conv(op) => one(self.conv(op, node)),
            Op::ConvBackwardData(op) => one(self.conv_transpose(op, node)),
            Op::MaxPool(op) => self.max_pool(op, node),
            Op::AvgPool(op) => one(self.avg_pool(op, node)),
            Op::AdaptiveAvgPool(op) => one(self.adaptive_avg_pool(op, node)),
            Op::AdaptiveMaxPool(op) => self.adaptive_max_pool(op, node),
            Op::Embedding(_) => one(self.take(node, 0)),
            Op::IndexSelect(op) => one(self.take(node, op.axis)),
            Op::Gather(op) => one(self.gather(op, node)),
            Op::Concat(op) => one(self.concat(op, node)),
            Op::Pad(op) => one(self.pad(op, node)),
            Op::Tri(op) => one(self.tri(op, node)),
            Op::CachedAttention(op) => one(self.cached_attention(op, node)),
            Op::SliceUpdate(op) => one(self.slice_update(op, node)),
            // Whether an operation has a form, the table says of each.
            other => Err(no_emitter(other.name())),
        }
    }

    /// The shape of what the operation computes as result `i`.
    fn result_dims(&self, node: &Node, i: usize) -> Vec<usize> {
        if let Some(into) = &node.results[i].into {
            return at_least_one(into.layout.dims());
        }
        at_least_one(self.graph.values[node.results[i].value.index()].shape.dims())
    }

    /// Whether nobody reads result `i`.
    fn is_unread(&self, node: &Node, i: usize) -> bool {
        node.results.get(i).is_none_or(|result| !self.reads[result.value.index()])
    }

    fn fill(&mut self, fill: &rustorch_core::Fill) -> Emit {
        expressible(fill.dtype, fill.shape.dims())?;
        let dims = at_least_one(fill.shape.dims());
        let (value, range) = self.scalar(fill.value, fill.dtype)?;
        let shape = self.b.ints(&dims);
        let dtype = self.program_dtype(fill.dtype);
        let made = self.b.op("fill", &[("shape", &shape), ("value", &value)], dtype, &dims);
        Ok(made.with_range(range))
    }

    /// A constant without dimensions, converted as casting does, and the bounds of its values.
    fn scalar(&mut self, value: Scalar, dtype: DType) -> Emit<(Var, Option<(i64, i64)>)> {
        if let Scalar::Complex(_) = value {
            return Err("a complex constant has no form".into());
        }
        if let Some(float) = self.float_dtype(dtype) {
            return Ok((self.b.scalar_float(float, value.to_f64() as f32), None));
        }
        Ok(match dtype {
            DType::Bool => (self.b.bool(value.to_bool()), None),
            DType::I32 | DType::I64 => {
                let value = value.to_i64();
                let int = i32::try_from(value).map_err(|_| {
                    Reason::Unmet(Condition::ParametersFit, format!("{value} does not fit i32"))
                })?;
                (self.int(int), Some((value, value)))
            }
            other => return Err(unsupported(other).into()),
        })
    }

    /// An `int32` constant without dimensions.
    fn int(&mut self, value: i32) -> Var {
        self.b.scalar_int(value)
    }

    fn arange(&mut self, arange: &rustorch_core::Arange) -> Emit {
        expressible(arange.dtype, &[arange.len])?;
        if arange.len > MAX_MADE {
            return Err(Condition::MadeConstant.into());
        }
        if let Some(float) = self.float_dtype(arange.dtype) {
            let (start, step) = (arange.start.to_f64(), arange.step.to_f64());
            let values = (0..arange.len).map(|i| (start + i as f64 * step) as f32).collect();
            return Ok(self.b.tensor(Data::Float(float, values), &[arange.len]));
        }
        let at = |i: usize| arange.start.to_i64().checked_add(arange.step.to_i64().checked_mul(i as i64)?);
        let values = (0..arange.len).map(|i| i32::try_from(at(i)?).ok()).collect::<Option<Vec<i32>>>();
        let values = values.ok_or(Condition::ParametersFit)?;
        let ends = [values[0], values[arange.len - 1]].map(i64::from);
        let mut made = self.b.tensor(Data::I32(values), &[arange.len]);
        made.dtype = arange.dtype;
        Ok(made.with_range(Some((ends[0].min(ends[1]), ends[0].max(ends[1])))))
    }
}

/// The row of an operation that computes with a dtype.
fn row(op: OpKind, dtype: DType) -> Emit<Row> {
    let row = match support(op) {
        Support::Form(row) => row,
        Support::Missing { reason, .. } => return Err(reason.into()),
    };
    let is_named = row.dtypes.is_empty() || row.dtypes.contains(&dtype.kind());
    if is_named || !(is_float(dtype) || matches!(dtype, DType::I32 | DType::I64 | DType::Bool)) {
        // A dtype that no program has is told where it is read.
        return Ok(row);
    }
    let to = if row.dtypes.contains(&DTypeKind::Float) { DType::F32 } else { DType::Bool };
    Err(format!("of {dtype:?} has no form; cast to {to:?}").into())
}

fn too_many_dimensions(rank: usize) -> Reason {
    format!("has {rank} dimensions, more than {MAX_RANK} dimensions have no form").into()
}

/// That the table has a row where there is no emitter.
fn no_emitter(name: &str) -> Reason {
    format!("{name} has a row in the table of operations, but no form; {BUG}").into()
}

/// Whether a program has a dtype of floats for this one.
fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32)
}

/// Whether a constant of a dtype and shape has a form: blocks become floats.
fn expressible_constant(dtype: DType, dims: &[usize]) -> Emit<()> {
    expressible(if dtype.is_quant() { DType::F32 } else { dtype }, dims)
}

/// Whether values of a dtype and shape have a form.
fn expressible(dtype: DType, dims: &[usize]) -> Emit<()> {
    if !is_float(dtype) && !matches!(dtype, DType::I32 | DType::I64 | DType::Bool) {
        return Err(unsupported(dtype).into());
    }
    if dims.contains(&0) {
        return Err(format!("{dims:?} has no elements, and programs have no empty tensors").into());
    }
    if dims.len() > MAX_RANK {
        return Err(too_many_dimensions(dims.len()));
    }
    if dims.iter().try_fold(1i32, |n, &dim| n.checked_mul(i32::try_from(dim).ok()?)).is_none() {
        return Err(format!("{dims:?} has 2³¹ elements or more").into());
    }
    Ok(())
}

/// That parameters of an operation, which `infer` does not bound, fit an `i32`.
fn small(values: impl IntoIterator<Item = usize>) -> Emit<()> {
    match values.into_iter().find(|&value| i32::try_from(value).is_err()) {
        Some(value) => Err(Reason::Unmet(Condition::ParametersFit, format!("{value} does not fit i32"))),
        None => Ok(()),
    }
}

fn unsupported(dtype: DType) -> String {
    format!("{dtype:?} is not built: programs have f32, f16, i32, bool, and i64 whose values fit i32")
}

fn at_least_one(dims: &[usize]) -> Vec<usize> {
    if dims.is_empty() { vec![1] } else { dims.to_vec() }
}

/// Where a value of the graph comes from, if it is a constant.
fn constant_index(graph: &Graph, id: ValueId) -> Option<usize> {
    match graph.values[id.index()].source {
        Source::Constant(index) => Some(index as usize),
        _ => None,
    }
}
