//! Graphs in files: what a captured function does, and the tensors that it refers to.
//!
//! A file is a safetensors file. Its tensors `constant.0`, `constant.1`, .. and `state.0`, .. are the graph's, in their order; the metadata
//! has the graph as JSON ([`GRAPH_KEY`]) and the version of that JSON ([`VERSION_KEY`]). `c128` is pairs of `f64`, and block types, which
//! safetensors does not have, are their bytes as `u8`: the graph says what they are.
//!
//! [`File`] reads files and [`Writer`] writes them. Each malformation is an [`ErrorKind`] of its own, and what was read verifies
//! ([`Graph::verify`]). A graph takes memory in proportion to its JSON, whatever sizes it claims: about six
//! times where each operation reads few values; an operand, two characters at least, takes up to 160 bytes.
//!
//! ```
//! use rustorch_core::{BinaryOp, DType, Device, Graph, Node, Op, Shape, Source, Value};
//! use rustorch_formats::graph::{File, Writer};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shape = Shape::new([2].as_slice())?;
//! let value = |source| Value { source, dtype: DType::F32, shape: shape.clone(), device: Device::CPU };
//! let mut graph = Graph::default();
//! let x = graph.add_value(value(Source::Input(0)));
//! let weight = graph.add_value(value(Source::Constant(0)));
//! let y = graph.add_value(value(Source::Result { node: 0, index: 0 }));
//! graph.inputs.push(x);
//! graph.nodes.push(Node::new(Op::from(BinaryOp::Mul), [graph.whole(x), graph.whole(weight)], [y]));
//! graph.outputs.push(graph.whole(y));
//!
//! let bytes = [3.0f32, 4.0].map(f32::to_le_bytes).concat();
//! let writer = Writer::new(&graph, |_| Ok(bytes.clone()), |_| unreachable!("it has no states"))?;
//! let file = File::from_bytes(writer.to_bytes()?)?;
//! assert_eq!(*file.graph(), graph);
//! assert_eq!(file.constants()[0][..], bytes);
//! # Ok(())
//! # }
//! ```

mod error;
mod file;
mod writer;

pub use error::{Error, ErrorKind, Result};
pub use file::File;
pub use writer::Writer;

use rustorch_core::{DType, Graph, Value, ValueId};

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 3;
/// The key of the metadata under which the version is, as a decimal number.
pub const VERSION_KEY: &str = "rustorch.graph.version";
/// The key of the metadata under which the graph is, as JSON.
pub const GRAPH_KEY: &str = "rustorch.graph";

/// The names and values of a graph's constants and states, which need not be valid.
fn tensors(graph: &Graph) -> impl Iterator<Item = (String, ValueId)> + use<> {
    let constants = graph.constants().into_iter().enumerate();
    let constants = constants.map(|(i, id)| (constant_name(i), id));
    let states: Vec<ValueId> = graph.states.iter().map(|state| state.first).collect();
    constants.chain(states.into_iter().enumerate().map(|(i, id)| (state_name(i), id)))
}

fn constant_name(i: usize) -> String {
    format!("constant.{i}")
}

fn state_name(i: usize) -> String {
    format!("state.{i}")
}

/// The dtype and the shape by which a safetensors file has a value of a graph that verifies.
fn stored(value: &Value) -> (DType, Vec<usize>) {
    let dims = value.shape.dims().to_vec();
    match value.dtype {
        DType::C128 => (DType::F64, [&dims[..], &[2]].concat()),
        DType::Quant(_) => (DType::U8, vec![value.bytes()]),
        dtype => (dtype, dims),
    }
}
