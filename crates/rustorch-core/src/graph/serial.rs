//! Graphs as data. An operand that is all of its value is the value's number; of others is said what differs.

use super::{Draw, Graph, GraphOperand, Node, NodeResult, State, Value, ValueId};
use crate::{DType, Device, Dims, Error, Layout, Op, Result, Shape};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Where values are about which nothing is said.
pub(super) fn cpu() -> Device {
    Device::CPU
}

/// Whether nothing need be said.
pub(super) fn is_cpu(device: &Device) -> bool {
    device.is_cpu()
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphData<'a> {
    values: Cow<'a, [Value]>,
    nodes: Vec<NodeData<'a>>,
    inputs: Cow<'a, [ValueId]>,
    outputs: Vec<OperandData>,
    states: Cow<'a, [State]>,
    draws: Cow<'a, [Draw]>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeData<'a> {
    op: Cow<'a, Op>,
    args: SmallVec<[OperandData; 2]>,
    results: SmallVec<[ResultData; 1]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
}

/// All of a value, or a view of it.
type OperandData = NumberOr<Box<ViewData>>;

/// A value of its own, or one that is written into an earlier value's memory.
type ResultData = NumberOr<Box<IntoData>>;

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewData {
    value: ValueId,
    /// That of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<DType>,
    shape: Shape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strides: Option<Dims>,
    #[serde(default, skip_serializing_if = "crate::serial::is_zero")]
    offset: usize,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct IntoData {
    value: ValueId,
    into: OperandData,
}

/// The number of a value, or an object.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum NumberOr<T> {
    Number(ValueId),
    Object(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NumberOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrObject(PhantomData))
    }
}

struct NumberOrObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NumberOrObject<T> {
    type Value = NumberOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a value, or an object with its `value`")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<NumberOr<T>, E> {
        let number = u32::try_from(number)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &"a number below 2^32"))?;
        Ok(NumberOr::Number(ValueId(number)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NumberOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(NumberOr::Object)
    }
}

impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let data = GraphData {
            values: Cow::Borrowed(&self.values),
            nodes: self.nodes.iter().map(|node| self.node_data(node)).collect(),
            inputs: Cow::Borrowed(&self.inputs),
            outputs: self.outputs.iter().map(|output| self.operand_data(output)).collect(),
            states: Cow::Borrowed(&self.states),
            draws: Cow::Borrowed(&self.draws),
        };
        data.serialize(serializer)
    }
}

/// Makes a graph that need not be valid: [`Graph::verify`] says whether it is.
impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Graph, D::Error> {
        GraphData::deserialize(deserializer)?.build().map_err(de::Error::custom)
    }
}

impl Graph {
    fn node_data<'a>(&self, node: &'a Node) -> NodeData<'a> {
        let result = |result: &NodeResult| match &result.into {
            None => NumberOr::Number(result.value),
            Some(into) => {
                NumberOr::Object(Box::new(IntoData { value: result.value, into: self.operand_data(into) }))
            }
        };
        NodeData {
            op: Cow::Borrowed(&node.op),
            args: node.args.iter().map(|arg| self.operand_data(arg)).collect(),
            results: node.results.iter().map(result).collect(),
            device: node.device,
        }
    }

    fn operand_data(&self, operand: &GraphOperand) -> OperandData {
        let value = self.value(operand.value);
        let is_same_dtype = value.is_some_and(|value| value.dtype == operand.dtype);
        let (shape, strides, offset) = operand.layout.to_parts();
        let is_whole = strides.is_none() && offset == 0 && value.is_some_and(|value| value.shape == shape);
        if is_same_dtype && is_whole {
            return NumberOr::Number(operand.value);
        }
        let dtype = (!is_same_dtype).then_some(operand.dtype);
        NumberOr::Object(Box::new(ViewData { value: operand.value, dtype, shape, strides, offset }))
    }
}

impl GraphData<'_> {
    fn build(self) -> Result<Graph> {
        let values = self.values.into_owned();
        // Every operation has a result, and every value is the result of one at most. In memory a node is far larger than as data, so that
        // others are not even tried.
        if let Some(n) = self.nodes.iter().position(|node| node.results.is_empty()) {
            return Err(Error::argument("graph", format!("node {n} has no result")));
        }
        if self.nodes.len() > values.len() {
            let message = format!("{} nodes make no more than {} values", self.nodes.len(), values.len());
            return Err(Error::argument("graph", message));
        }
        let within =
            |place: String| move |error: Error| Error::argument("graph", format!("{place}: {error}"));
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (n, node) in self.nodes.into_iter().enumerate() {
            nodes.push(node.build(&values).map_err(within(format!("node {n}")))?);
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (i, output) in self.outputs.into_iter().enumerate() {
            outputs.push(output.operand(&values).map_err(within(format!("output {i}")))?);
        }
        Ok(Graph {
            nodes,
            outputs,
            values,
            inputs: self.inputs.into_owned(),
            states: self.states.into_owned(),
            draws: self.draws.into_owned(),
        })
    }
}

impl NodeData<'_> {
    fn build(self, values: &[Value]) -> Result<Node> {
        let result = |result: ResultData| match result {
            NumberOr::Number(value) => Ok(NodeResult { value, into: None }),
            NumberOr::Object(data) => {
                Ok(NodeResult { value: data.value, into: Some(Box::new(data.into.operand(values)?)) })
            }
        };
        // As many as there are: a list that grows has room for four at least.
        let mut args = Vec::with_capacity(self.args.len());
        for arg in self.args {
            args.push(arg.operand(values)?);
        }
        Ok(Node {
            op: self.op.into_owned(),
            args,
            results: self.results.into_iter().map(result).collect::<Result<_>>()?,
            device: self.device,
        })
    }
}

impl OperandData {
    fn operand(self, values: &[Value]) -> Result<GraphOperand> {
        let find = |id: ValueId| {
            let missing =
                || Error::argument("graph", format!("there is no value {id} among {}", values.len()));
            values.get(id.index()).ok_or_else(missing)
        };
        match self {
            NumberOr::Number(id) => {
                let value = find(id)?;
                let layout = Layout::contiguous(value.shape.clone());
                Ok(GraphOperand { value: id, dtype: value.dtype, layout })
            }
            NumberOr::Object(data) => {
                let dtype = match data.dtype {
                    Some(dtype) => dtype,
                    None => find(data.value)?.dtype,
                };
                let layout = Layout::from_parts(data.shape, data.strides, data.offset)?;
                Ok(GraphOperand { value: data.value, dtype, layout })
            }
        }
    }
}
