//! The graph behind a tensor, to look at.

use super::history::Edge;
use super::node::{Kind, Meta, Node, NodeRef};
use crate::Tensor;
use rustorch_core::{DType, Device, Shape};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The operation that made a tensor, PyTorch's `grad_fn`.
#[derive(Clone)]
pub struct GradFn(Edge);

impl GradFn {
    pub(crate) fn new(edge: Edge) -> GradFn {
        GradFn(edge)
    }

    /// The operation's name; `leaf` of a leaf.
    pub fn name(&self) -> &str {
        self.0.node.name()
    }

    /// Which of the operation's results the tensor is.
    pub fn output(&self) -> usize {
        self.0.index
    }

    /// What made the arguments; `None` for those that need no gradient.
    pub fn inputs(&self) -> Vec<Option<GradFn>> {
        self.0.node.inputs.iter().map(|edge| edge.clone().map(GradFn)).collect()
    }
}

impl fmt::Debug for GradFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.name())
    }
}

impl PartialEq for GradFn {
    /// Whether both are the same result of the same node.
    fn eq(&self, other: &GradFn) -> bool {
        self.0.node.same(&other.0.node) && self.0.index == other.0.index
    }
}

/// The first leaf on the way from a node.
pub(crate) fn first_leaf(node: &NodeRef) -> Meta {
    let mut node = node.clone();
    loop {
        let next = node.edges().next().map(|edge| edge.node.clone());
        match next {
            Some(next) => node = next,
            None => return node.outputs()[0].clone(),
        }
    }
}

/// Whether a tensor is a leaf, or a view of one.
pub(crate) fn is_view_of_leaf(x: &Tensor) -> bool {
    let Some(mut edge) = x.history().edge() else { return false };
    loop {
        let next = match &edge.node.kind {
            Kind::Leaf(_) => return true,
            Kind::View(_) => edge.node.inputs[0].clone(),
            _ => return false,
        };
        match next {
            Some(next) => edge = next,
            None => return false,
        }
    }
}

/// A graph as data: [`Tensor::graph`].
///
/// It prints as a table; [`dot`](Graph::dot) draws it.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<GraphNode>,
    saved_bytes: usize,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// The operation's name; `leaf` of a leaf.
    pub op: String,
    /// The nodes of its arguments that need gradients, by their index in [`Graph::nodes`].
    pub inputs: Vec<usize>,
    /// Dtype and shape of each result.
    pub outputs: Vec<(DType, Shape)>,
    /// Where it computed.
    pub device: Device,
    /// The tensors that it saved for its gradient: `argument 0`, `result 1`.
    pub saved: Vec<String>,
    /// The bytes of the tensors that it saved for its gradient, whether others hold their memory as well or not.
    pub saved_bytes: usize,
}

impl Graph {
    pub(crate) fn of(root: &Edge) -> Graph {
        let mut nodes: Vec<GraphNode> = Vec::new();
        let mut places: HashMap<*const Node, usize> = HashMap::new();
        let mut pieces = HashSet::new();
        let mut saved_bytes = 0;
        let mut stack = vec![(&root.node, false)];
        while let Some((node, done)) = stack.pop() {
            if places.contains_key(&node.as_ptr()) {
                continue;
            }
            if !done {
                stack.push((node, true));
                let unseen = node.edges().filter(|edge| !places.contains_key(&edge.node.as_ptr()));
                stack.extend(unseen.map(|edge| (&edge.node, false)));
                continue;
            }
            let saved = node.saved();
            for storage in saved.storages() {
                if pieces.insert(storage.identity()) {
                    saved_bytes += storage.bytes();
                }
            }
            places.insert(node.as_ptr(), nodes.len());
            nodes.push(GraphNode {
                op: node.name().to_owned(),
                inputs: node.edges().map(|edge| places[&edge.node.as_ptr()]).collect(),
                outputs: node.outputs().iter().map(|meta| (meta.dtype, meta.shape.clone())).collect(),
                device: node.outputs().first().map_or(Device::CPU, |meta| meta.device),
                saved: saved.names().collect(),
                saved_bytes: saved.bytes(),
            });
        }
        Graph { nodes, saved_bytes }
    }

    /// The nodes, each after those of its arguments.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// The bytes of all memory that saved tensors keep alive, each piece counted once; parameters and inputs that were saved are
    /// among them.
    pub fn saved_bytes(&self) -> usize {
        self.saved_bytes
    }

    /// The graph in Graphviz' language.
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph {\n");
        for (i, node) in self.nodes.iter().enumerate() {
            let shapes: Vec<String> =
                node.outputs.iter().map(|(dtype, shape)| format!("{dtype}{shape}")).collect();
            text += &format!("  n{i} [label=\"{}\\n{}\"];\n", node.op, shapes.join(", "));
            for input in &node.inputs {
                text += &format!("  n{input} -> n{i};\n");
            }
        }
        text + "}\n"
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>5}  {:<22} {:<28} {:>12}  inputs", "node", "op", "results", "saved bytes")?;
        for (i, node) in self.nodes.iter().enumerate() {
            let shapes: Vec<String> =
                node.outputs.iter().map(|(dtype, shape)| format!("{dtype}{shape}")).collect();
            let inputs: Vec<String> = node.inputs.iter().map(usize::to_string).collect();
            let (shapes, inputs) = (shapes.join(", "), inputs.join(", "));
            writeln!(f, "{i:>5}  {:<22} {shapes:<28} {:>12}  {inputs}", node.op, node.saved_bytes)?;
        }
        write!(f, "{} nodes; {} bytes of memory kept by saved tensors", self.nodes.len(), self.saved_bytes)
    }
}

impl Tensor {
    /// The graph of operations that led to the tensor; `None` where nothing was recorded.
    ///
    /// ```
    /// use rustorch_tensor::Tensor;
    /// let x = Tensor::new([1.0f32, 2.0])?;
    /// x.requires_grad_(true)?;
    /// let graph = x.exp()?.sum_all()?.graph().unwrap();
    /// assert_eq!(graph.nodes().iter().map(|node| &node.op[..]).collect::<Vec<_>>(), ["leaf", "exp", "sum"]);
    /// assert_eq!(graph.saved_bytes(), 8);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn graph(&self) -> Option<Graph> {
        self.history().edge().map(|edge| Graph::of(&edge))
    }
}
