//! The protobuf messages of Core ML's model format, as far as ML Programs use them.
//!
//! Field numbers are those of the public format (`mlmodel/format/{Model,FeatureTypes,MIL}.proto` of coremltools). Members of a `oneof` are
//! optional fields here, of which exactly one is set: on the wire that is the same.

use prost::Message;
use std::collections::BTreeMap;

/// `CoreML.Specification.Model`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    #[prost(int32, tag = "1")]
    pub specification_version: i32,
    #[prost(message, optional, tag = "2")]
    pub description: Option<ModelDescription>,
    #[prost(message, optional, tag = "502")]
    pub ml_program: Option<Program>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelDescription {
    #[prost(message, repeated, tag = "1")]
    pub input: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "10")]
    pub output: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "13")]
    pub state: Vec<FeatureDescription>,
    /// In place of the above, where there are several functions.
    #[prost(message, repeated, tag = "20")]
    pub functions: Vec<FunctionDescription>,
    #[prost(string, tag = "21")]
    pub default_function_name: String,
    #[prost(message, optional, tag = "100")]
    pub metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionDescription {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub input: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "3")]
    pub output: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "6")]
    pub state: Vec<FeatureDescription>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(string, tag = "1")]
    pub short_description: String,
    #[prost(btree_map = "string, string", tag = "100")]
    pub user_defined: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FeatureDescription {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub ty: Option<FeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FeatureType {
    #[prost(message, optional, tag = "5")]
    pub multi_array: Option<ArrayFeatureType>,
    #[prost(message, optional, tag = "8")]
    pub state: Option<StateFeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StateFeatureType {
    #[prost(message, optional, tag = "1")]
    pub array: Option<ArrayFeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ArrayFeatureType {
    #[prost(int64, repeated, tag = "1")]
    pub shape: Vec<i64>,
    /// [`ARRAY_F16`], [`ARRAY_F32`] or [`ARRAY_I32`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
}

/// `ArrayFeatureType.ArrayDataType.FLOAT16`.
pub(crate) const ARRAY_F16: i32 = 0x10000 | 16;
/// `ArrayFeatureType.ArrayDataType.FLOAT32`.
pub(crate) const ARRAY_F32: i32 = 0x10000 | 32;
/// `ArrayFeatureType.ArrayDataType.INT32`.
pub(crate) const ARRAY_I32: i32 = 0x20000 | 32;

/// `CoreML.Specification.MILSpec.Program`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Program {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(btree_map = "string, message", tag = "2")]
    pub functions: BTreeMap<String, Function>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<NamedValueType>,
    #[prost(string, tag = "2")]
    pub opset: String,
    #[prost(btree_map = "string, message", tag = "3")]
    pub block_specializations: BTreeMap<String, Block>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Block {
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub operations: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Operation {
    #[prost(string, tag = "1")]
    pub ty: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub inputs: BTreeMap<String, Argument>,
    #[prost(message, repeated, tag = "3")]
    pub outputs: Vec<NamedValueType>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attributes: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Argument {
    #[prost(message, repeated, tag = "1")]
    pub arguments: Vec<Binding>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Binding {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamedValueType {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub ty: Option<ValueType>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueType {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorType>,
    #[prost(message, optional, boxed, tag = "5")]
    pub state: Option<Box<StateType>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StateType {
    #[prost(message, optional, boxed, tag = "1")]
    pub wrapped: Option<Box<ValueType>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    /// One of the constants below.
    #[prost(int32, tag = "1")]
    pub data_type: i32,
    #[prost(int64, tag = "2")]
    pub rank: i64,
    #[prost(message, repeated, tag = "3")]
    pub dimensions: Vec<Dimension>,
}

/// `DataType.BOOL`.
pub(crate) const BOOL: i32 = 1;
/// `DataType.STRING`.
pub(crate) const STRING: i32 = 2;
/// `DataType.FLOAT16`.
pub(crate) const FLOAT16: i32 = 10;
/// `DataType.FLOAT32`.
pub(crate) const FLOAT32: i32 = 11;
/// `DataType.INT8`.
pub(crate) const INT8: i32 = 21;
/// `DataType.INT32`.
pub(crate) const INT32: i32 = 23;
/// `DataType.INT4`.
pub(crate) const INT4: i32 = 25;
/// `DataType.UINT4`.
pub(crate) const UINT4: i32 = 35;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(message, optional, tag = "1")]
    pub constant: Option<ConstantDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConstantDimension {
    #[prost(uint64, tag = "1")]
    pub size: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(message, optional, tag = "2")]
    pub ty: Option<ValueType>,
    #[prost(message, optional, tag = "3")]
    pub immediate: Option<ImmediateValue>,
    #[prost(message, optional, tag = "5")]
    pub blob_file: Option<BlobFileValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImmediateValue {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BlobFileValue {
    #[prost(string, tag = "1")]
    pub file_name: String,
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorValue {
    #[prost(message, optional, tag = "1")]
    pub floats: Option<Floats>,
    #[prost(message, optional, tag = "2")]
    pub ints: Option<Ints>,
    #[prost(message, optional, tag = "3")]
    pub bools: Option<Bools>,
    #[prost(message, optional, tag = "4")]
    pub strings: Option<Strings>,
    /// 16-bit floats, little-endian.
    #[prost(message, optional, tag = "7")]
    pub bytes: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Floats {
    #[prost(float, repeated, tag = "1")]
    pub values: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ints {
    #[prost(int32, repeated, tag = "1")]
    pub values: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bools {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Strings {
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    pub values: Vec<u8>,
}
