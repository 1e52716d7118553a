//! Graphs: what a function does, as data. A graph is a list of operations in the order in which they ran, over values that each
//! have one dtype, shape and device.
//!
//! Nothing here computes: `rustorch_tensor::capture` records graphs, and `rustorch_runtime` runs them.

mod display;
mod dot;
#[cfg(feature = "serde")]
mod serial;
mod verify;

use crate::{DType, Device, Layout, Op, PhiloxKey, Shape, TensorMeta};
use smallvec::SmallVec;
use std::fmt;

/// What a function does: operations over values, in the order in which they ran.
///
/// Values are assigned once. Writing in place makes another value, whose memory is the earlier one's: see [`NodeResult::into`].
/// What is said by a graph is plain data, which anybody may make or change; [`verify`](Graph::verify) finds what does not fit.
///
/// ```
/// use rustorch_core::{DType, Device, Graph, GraphOperand, Node, Op, Shape, Source, UnaryOp, Value};
/// let shape = Shape::new([2, 3].as_slice())?;
/// let value = |source| Value { source, dtype: DType::F32, shape: shape.clone(), device: Device::CPU };
/// let mut graph = Graph::default();
/// let x = graph.add_value(value(Source::Input(0)));
/// let y = graph.add_value(value(Source::Result { node: 0, index: 0 }));
/// graph.inputs.push(x);
/// graph.nodes.push(Node::new(Op::from(UnaryOp::Exp), [graph.whole(x)], [y]));
/// graph.outputs.push(graph.whole(y));
/// graph.verify()?;
/// assert_eq!(graph.to_string(), "graph(%0: f32[2, 3]) {\n  %1: f32[2, 3] = exp(%0)\n  return %1\n}\n");
/// # Ok::<(), rustorch_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Everything that operations read and write, by [`ValueId`].
    pub values: Vec<Value>,
    /// The operations, each behind those whose results it reads.
    pub nodes: Vec<Node>,
    /// The values that a run is given, in order.
    pub inputs: Vec<ValueId>,
    /// What a run returns, in order.
    pub outputs: Vec<GraphOperand>,
    /// The tensors that a run changes.
    pub states: Vec<State>,
    /// What a run draws from the generator of random numbers, in order.
    pub draws: Vec<Draw>,
}

/// A value's number in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ValueId(pub u32);

/// A piece of memory that is assigned once: contiguous elements from its start.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Value {
    /// Where it comes from.
    pub source: Source,
    /// The dtype.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
    /// Where it is.
    #[cfg_attr(feature = "serde", serde(default = "serial::cpu", skip_serializing_if = "serial::is_cpu"))]
    pub device: Device,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
pub enum Source {
    /// Each run is given it: the index among the graph's inputs.
    Input(u32),
    /// A tensor that every run finds as it was: the index among the constants that are kept beside the graph.
    Constant(u32),
    /// A tensor as the run before left it: the index among the graph's [`states`](Graph::states).
    State(u32),
    /// An operation computes it.
    Result {
        /// The index of the node.
        node: u32,
        /// The index among its results.
        index: u32,
    },
}

/// An operation, what it reads and what it makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Its arguments.
    pub args: Vec<GraphOperand>,
    /// Its results.
    pub results: SmallVec<[NodeResult; 1]>,
    /// Where the results are to be, where that does not follow from the arguments: of tensors made from nothing, and copies to
    /// another device.
    pub device: Option<Device>,
}

/// A result of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResult {
    /// The value that it is.
    pub value: ValueId,
    /// `None`: the value is what the operation computes. Else it is this operand's value, with the operand's elements overwritten by
    /// what the operation computes; the earlier value is not there any more for nodes that follow.
    pub into: Option<Box<GraphOperand>>,
}

/// Elements of a value: a view of its memory, with a dtype of its own where complex numbers are seen as pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphOperand {
    /// The value.
    pub value: ValueId,
    /// The dtype by which its memory is read.
    pub dtype: DType,
    /// Which elements, in which order.
    pub layout: Layout,
}

/// A tensor that a run reads as the run before left it, and changes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct State {
    /// The value at the start of a run.
    pub first: ValueId,
    /// The value that it has when the run ends well.
    pub last: ValueId,
}

/// A part of the stream of random numbers.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Draw {
    /// The key that stands in the graph's operations for the one that a run draws.
    pub key: PhiloxKey,
    /// By how many Philox blocks a draw moves the generator on.
    pub blocks: u64,
}

impl ValueId {
    /// The index in [`Graph::values`].
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl Value {
    /// The bytes of its elements.
    pub fn bytes(&self) -> usize {
        crate::packed_bytes(self.dtype, self.shape.numel())
    }
}

impl Node {
    /// An operation with results of their own.
    pub fn new(
        op: Op,
        args: impl IntoIterator<Item = GraphOperand>,
        results: impl IntoIterator<Item = ValueId>,
    ) -> Node {
        let results = results.into_iter().map(|value| NodeResult { value, into: None }).collect();
        Node { op, args: args.into_iter().collect(), results, device: None }
    }
}

impl Graph {
    /// Adds a value.
    ///
    /// # Panics
    /// If there are 2³² of them.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("a graph has less than 2³² values"));
        self.values.push(value);
        id
    }

    /// A value, if the graph has it.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// All elements of a value.
    ///
    /// # Panics
    /// If the graph does not have it.
    pub fn whole(&self, id: ValueId) -> GraphOperand {
        let value = &self.values[id.index()];
        GraphOperand { value: id, dtype: value.dtype, layout: Layout::contiguous(value.shape.clone()) }
    }

    /// What operations see of an operand.
    ///
    /// # Panics
    /// If the graph does not have its value.
    pub fn meta<'a>(&self, operand: &'a GraphOperand) -> TensorMeta<'a> {
        let device = self.values[operand.value.index()].device;
        TensorMeta { dtype: operand.dtype, layout: &operand.layout, device }
    }

    /// The values in the order of [`Source::Constant`].
    pub fn constants(&self) -> Vec<ValueId> {
        let mut constants = Vec::new();
        for (i, value) in self.values.iter().enumerate() {
            if let Source::Constant(at) = value.source {
                constants.push((at, ValueId(i as u32)));
            }
        }
        constants.sort_unstable();
        constants.into_iter().map(|(_, id)| id).collect()
    }
}
