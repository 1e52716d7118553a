//! Puts a function of an ML Program together: values with names and types, constants, operations.

use crate::blob::{Blob, BlobData, Elements, Form};
use crate::blocks::{BlockForm, CodeDtype, Part};
use crate::float::FloatDtype;
use crate::proto as pb;
use rustorch_core::DType;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Values of so many elements stand in `weight.bin`, smaller ones in the program.
const BLOB_ELEMENTS: usize = 10;
/// How programs name that file.
const BLOB_NAME: &str = "@model_path/weights/weight.bin";

/// A value of the program.
#[derive(Clone, Debug)]
pub(crate) struct Var {
    pub(crate) name: Rc<str>,
    /// `F16` or `F32` as in the program; `I32`, `I64` and `Bool` as in the graph. In the program `I64` is `int32`.
    pub(crate) dtype: DType,
    /// One dimension at least: what has none in the graph has one of length 1.
    pub(crate) dims: Vec<usize>,
    /// Bounds of the values of an `I64`, where they are known and fit an `int32`.
    pub(crate) range: Option<(i64, i64)>,
    /// Whether it is a constant operation.
    pub(crate) is_const: bool,
}

impl Var {
    pub(crate) fn ndim(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn numel(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether the values fit those of the program's type.
    pub(crate) fn fits(&self) -> bool {
        self.dtype != DType::I64 || self.range.is_some()
    }

    pub(crate) fn with_range(mut self, range: Option<(i64, i64)>) -> Var {
        self.range = range.filter(|_| self.dtype == DType::I64).filter(fits_i32);
        self
    }
}

/// Whether bounds fit an `int32`.
fn fits_i32(&(low, high): &(i64, i64)) -> bool {
    low >= i64::from(i32::MIN) && high <= i64::from(i32::MAX)
}

/// The values of a constant.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Of this dtype in the program.
    Float(FloatDtype, Vec<f32>),
    I32(Vec<i32>),
    Bool(Vec<bool>),
}

/// Constants that are equal are one: their bits, and whether they have dimensions.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Float(FloatDtype, Option<Vec<usize>>, Vec<u32>),
    I32(Option<Vec<usize>>, Vec<i32>),
    Bool(Option<Vec<usize>>, Vec<bool>),
    Str(&'static str),
}

#[derive(Default)]
pub(crate) struct Builder {
    inputs: Vec<pb::NamedValueType>,
    operations: Vec<pb::Operation>,
    outputs: Vec<String>,
    states: Vec<pb::NamedValueType>,
    constants: HashMap<Key, Var>,
    count: usize,
    shared: Shared,
}

/// What the functions of a package share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) blob: Blob,
    /// Where in `weight.bin` elements of a constant of the graph are.
    weights: HashMap<(Elements, Form), u64>,
    /// The lowest specification that has all that has been built.
    pub(crate) specification: Specification,
}

/// A version of the model format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Specification {
    /// The first with ML Programs: macOS 12.
    #[default]
    V6,
    /// `f16` inputs and outputs: macOS 13.
    V7,
    /// States: macOS 15.
    V9,
}

impl Specification {
    /// Its number.
    pub fn number(self) -> i32 {
        match self {
            Specification::V6 => 6,
            Specification::V7 => 7,
            Specification::V9 => 9,
        }
    }

    /// Its operation set.
    fn opset(self) -> &'static str {
        match self {
            Specification::V6 => "CoreML5",
            Specification::V7 => "CoreML6",
            Specification::V9 => "CoreML8",
        }
    }
}

/// What stands in an operation's argument: one value, or several with the same name in order.
pub(crate) type Inputs<'a> = &'a [(&'static str, &'a Var)];

impl Builder {
    /// A function beside those that have been built.
    pub(crate) fn beside(shared: Shared) -> Builder {
        Builder { shared, ..Builder::default() }
    }

    /// An input of the function.
    pub(crate) fn input(&mut self, name: String, dtype: DType, dims: Vec<usize>) -> Var {
        if dtype == DType::F16 {
            self.requires(Specification::V7);
        }
        let ty = Some(value_type(data_type(dtype), Some(&dims)));
        self.inputs.push(pb::NamedValueType { name: name.clone(), ty });
        Var { name: name.into(), dtype, dims, range: None, is_const: false }
    }

    /// That the program needs this version.
    pub(crate) fn requires(&mut self, specification: Specification) {
        self.shared.specification = self.shared.specification.max(specification);
    }

    /// The lowest version that has all that has been built.
    pub(crate) fn specification(&self) -> Specification {
        self.shared.specification
    }

    /// A state of `f16`, and its value when a run begins.
    pub(crate) fn state(&mut self, name: String, dims: &[usize]) -> Var {
        self.requires(Specification::V9);
        let wrapped = Box::new(value_type(pb::FLOAT16, Some(dims)));
        let ty =
            pb::ValueType { tensor: None, state: Some(Box::new(pb::StateType { wrapped: Some(wrapped) })) };
        self.states.push(pb::NamedValueType { name: name.clone(), ty: Some(ty) });
        let state =
            Var { name: name.into(), dtype: DType::F16, dims: dims.to_vec(), range: None, is_const: false };
        self.op("read_state", &[("input", &state)], DType::F16, dims)
    }

    /// Makes a value that of a state, and reads it again.
    pub(crate) fn write_state(&mut self, name: &str, value: &Var) -> Var {
        let argument = |name: &str| {
            let binding = pb::Binding { name: Some(name.to_owned()), value: None };
            pb::Argument { arguments: vec![binding] }
        };
        let inputs = BTreeMap::from([
            ("input".to_owned(), argument(name)),
            ("data".to_owned(), argument(&value.name)),
        ]);
        let attributes = BTreeMap::from([("name".to_owned(), string_value(&self.fresh("write_state")))]);
        self.operations.push(pb::Operation {
            ty: "write_state".to_owned(),
            inputs,
            outputs: Vec::new(),
            attributes,
        });
        let state = Var { name: name.into(), ..value.clone() };
        self.op("read_state", &[("input", &state)], DType::F16, &value.dims)
    }

    /// An operation of one result.
    pub(crate) fn op(&mut self, ty: &str, inputs: Inputs<'_>, dtype: DType, dims: &[usize]) -> Var {
        let name = self.fresh(ty);
        self.named(ty, inputs, name, dtype, dims)
    }

    fn named(&mut self, ty: &str, inputs: Inputs<'_>, name: String, dtype: DType, dims: &[usize]) -> Var {
        let mut arguments: BTreeMap<String, pb::Argument> = BTreeMap::new();
        for (parameter, value) in inputs {
            let binding = pb::Binding { name: Some(value.name.to_string()), value: None };
            arguments.entry((*parameter).to_owned()).or_default().arguments.push(binding);
        }
        self.push_op(ty, arguments, name, dtype, dims)
    }

    fn push_op(
        &mut self,
        ty: &str,
        inputs: BTreeMap<String, pb::Argument>,
        name: String,
        dtype: DType,
        dims: &[usize],
    ) -> Var {
        let outputs = vec![pb::NamedValueType {
            name: name.clone(),
            ty: Some(value_type(data_type(dtype), Some(dims))),
        }];
        let attributes = BTreeMap::from([("name".to_owned(), string_value(&name))]);
        self.operations.push(pb::Operation { ty: ty.to_owned(), inputs, outputs, attributes });
        Var { name: name.into(), dtype, dims: dims.to_vec(), range: None, is_const: false }
    }

    /// An output of the function, under a name of its own. Booleans and 64-bit integers are `int32` there.
    pub(crate) fn output(&mut self, value: &Var, name: String) {
        let dtype = if value.dtype.is_float() { value.dtype } else { DType::I32 };
        if dtype == DType::F16 {
            self.requires(Specification::V7);
        }
        if value.dtype == DType::Bool {
            let to = self.str("int32");
            self.named("cast", &[("x", value), ("dtype", &to)], name.clone(), dtype, &value.dims);
        } else {
            self.named("identity", &[("x", value)], name.clone(), dtype, &value.dims);
        }
        self.outputs.push(name);
    }

    /// A constant of one dimension or more.
    pub(crate) fn tensor(&mut self, data: Data, dims: &[usize]) -> Var {
        self.constant(data, Some(dims))
    }

    /// A constant in `weight.bin`: elements of a constant of the graph.
    pub(crate) fn weight(&mut self, elements: Elements, dtype: FloatDtype, dims: &[usize]) -> Var {
        let offset = self.offset(elements, Form::Floats(dtype));
        self.const_op(dtype.dtype(), dims, blob_value(offset, data_type(dtype.dtype()), dims))
    }

    /// The same, in which each slice of the first dimension is multiplied by a value.
    pub(crate) fn scaled_weight(
        &mut self,
        elements: Elements,
        dtype: FloatDtype,
        scales: Vec<f32>,
        dims: &[usize],
    ) -> Var {
        let scales = self.shared.blob.scales(scales);
        let offset = self.offset(elements, Form::Scaled(dtype, scales));
        self.const_op(dtype.dtype(), dims, blob_value(offset, data_type(dtype.dtype()), dims))
    }

    /// A constant of blocks in `weight.bin`: whole blocks of a constant of the graph, with whole groups in the last dimension.
    pub(crate) fn blocks(&mut self, elements: Elements, form: BlockForm, dims: &[usize]) -> Var {
        self.requires(Specification::V9);
        let mut groups = dims.to_vec();
        if let Some(last) = groups.last_mut() {
            *last /= form.group;
        }
        let float = data_type(form.float.dtype());
        let codes = match form.codes {
            CodeDtype::I4 => pb::INT4,
            CodeDtype::U4 => pb::UINT4,
            CodeDtype::I8 => pb::INT8,
        };
        let mut parts =
            vec![("data", Part::Codes, codes, dims), ("scale", Part::Scales, float, groups.as_slice())];
        if form.has_offsets {
            parts.push(("offset", Part::Offsets, float, &groups));
        }
        // Core ML's own tools bind values to operations of this kind, not constants.
        let argument = |(parameter, part, data_type, dims): (&str, Part, i32, &[usize])| {
            let value = blob_value(self.offset(elements, Form::Blocks(form, part)), data_type, dims);
            let binding = pb::Binding { name: None, value: Some(value) };
            (parameter.to_owned(), pb::Argument { arguments: vec![binding] })
        };
        let inputs = parts.into_iter().map(argument).collect();
        let ty = "constexpr_blockwise_shift_scale";
        let name = self.fresh(ty);
        self.push_op(ty, inputs, name, form.float.dtype(), dims)
    }

    /// Where in `weight.bin` elements of a constant of the graph are.
    fn offset(&mut self, elements: Elements, form: Form) -> u64 {
        let Shared { blob, weights, .. } = &mut self.shared;
        *weights.entry((elements, form)).or_insert_with(|| blob.push(BlobData::Constant(elements, form)))
    }

    /// Whether a constant of so many floats stands in `weight.bin`.
    pub(crate) fn is_weight(elements: usize) -> bool {
        elements >= BLOB_ELEMENTS
    }

    pub(crate) fn f32(&mut self, value: f32) -> Var {
        self.constant(Data::Float(FloatDtype::F32, vec![value]), None)
    }

    /// A constant of the dtype of `like`, a float.
    pub(crate) fn float(&mut self, value: f32, like: &Var) -> Var {
        self.scalar_float(FloatDtype::of(like.dtype).unwrap_or(FloatDtype::F32), value)
    }

    pub(crate) fn scalar_float(&mut self, dtype: FloatDtype, value: f32) -> Var {
        self.constant(Data::Float(dtype, vec![value]), None)
    }

    pub(crate) fn int(&mut self, value: usize) -> Var {
        self.scalar_int(value as i32)
    }

    pub(crate) fn scalar_int(&mut self, value: i32) -> Var {
        self.constant(Data::I32(vec![value]), None)
    }

    pub(crate) fn bool(&mut self, value: bool) -> Var {
        self.constant(Data::Bool(vec![value]), None)
    }

    pub(crate) fn ints(&mut self, values: &[usize]) -> Var {
        let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
        let dims = [values.len()];
        self.constant(Data::I32(values), Some(&dims))
    }

    pub(crate) fn str(&mut self, value: &'static str) -> Var {
        if let Some(have) = self.constants.get(&Key::Str(value)) {
            return have.clone();
        }
        let name = self.fresh("const");
        let ty = value_type(pb::STRING, None);
        let var = self.push_const(name, DType::Bool, Vec::new(), ty, string_value(value));
        self.constants.insert(Key::Str(value), var.clone());
        var
    }

    fn constant(&mut self, data: Data, dims: Option<&[usize]>) -> Var {
        let shape = dims.map(<[usize]>::to_vec);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
        let key = match &data {
            Data::Float(dtype, values) => Key::Float(*dtype, shape, bits(values)),
            Data::I32(values) => Key::I32(shape, values.clone()),
            Data::Bool(values) => Key::Bool(shape, values.clone()),
        };
        if let Some(have) = self.constants.get(&key) {
            return have.clone();
        }
        let dtype = match &data {
            Data::Float(dtype, _) => dtype.dtype(),
            Data::I32(_) => DType::I32,
            Data::Bool(_) => DType::Bool,
        };
        let var = match (data, dims) {
            (Data::Float(float, values), Some(dims)) if Builder::is_weight(values.len()) => {
                let offset = self.shared.blob.push(BlobData::Bytes(float.encode(&values), float));
                self.const_op(dtype, dims, blob_value(offset, data_type(dtype), dims))
            }
            (data, dims) => {
                let ty = value_type(data_type(dtype), dims);
                let value = immediate(ty.clone(), tensor_value(data));
                let name = self.fresh("const");
                self.push_const(name, dtype, dims.unwrap_or_default().to_vec(), ty, value)
            }
        };
        self.constants.insert(key, var.clone());
        var
    }

    fn const_op(&mut self, dtype: DType, dims: &[usize], value: pb::Value) -> Var {
        let name = self.fresh("const");
        self.push_const(name, dtype, dims.to_vec(), value_type(data_type(dtype), Some(dims)), value)
    }

    fn push_const(
        &mut self,
        name: String,
        dtype: DType,
        dims: Vec<usize>,
        ty: pb::ValueType,
        value: pb::Value,
    ) -> Var {
        let attributes =
            BTreeMap::from([("name".to_owned(), string_value(&name)), ("val".to_owned(), value)]);
        let outputs = vec![pb::NamedValueType { name: name.clone(), ty: Some(ty) }];
        self.operations.push(pb::Operation {
            ty: "const".to_owned(),
            inputs: BTreeMap::new(),
            outputs,
            attributes,
        });
        Var { name: name.into(), dtype, dims, range: None, is_const: true }
    }

    fn fresh(&mut self, ty: &str) -> String {
        self.count += 1;
        format!("{ty}_{}", self.count)
    }

    /// The function, and what the next one shares with it.
    pub(crate) fn finish(self, name: String) -> (Function, Shared) {
        let Builder { inputs, operations, outputs, states, shared, .. } = self;
        (Function { name, inputs, operations, outputs, states }, shared)
    }
}

/// What has been built.
pub(crate) struct Function {
    name: String,
    inputs: Vec<pb::NamedValueType>,
    operations: Vec<pb::Operation>,
    outputs: Vec<String>,
    states: Vec<pb::NamedValueType>,
}

impl Function {
    /// The name of a state that another function has with another shape.
    pub(crate) fn other_state<'a>(&'a self, other: &Function) -> Option<&'a str> {
        let differs = |state: &&pb::NamedValueType| {
            other.states.iter().any(|have| have.name == state.name && have.ty != state.ty)
        };
        self.states.iter().find(differs).map(|state| state.name.as_str())
    }

    fn description(&self) -> pb::FunctionDescription {
        let output = |name: &String| {
            let made = self.operations.iter().rev().filter_map(|op| op.outputs.first());
            // `output` pushed an operation of that name.
            made.into_iter().find(|made| made.name == *name).map(feature).unwrap_or_default()
        };
        pb::FunctionDescription {
            name: self.name.clone(),
            input: self.inputs.iter().map(feature).collect(),
            output: self.outputs.iter().map(output).collect(),
            state: self.states.iter().map(feature).collect(),
        }
    }
}

/// Whether a model has one function, `main`, which versions before 9 know, too.
pub(crate) fn is_plain<'a>(names: impl IntoIterator<Item = &'a str>) -> bool {
    names.into_iter().eq(["main"])
}

/// A model of functions, one at least; the first is the one that programs run if they name none.
pub(crate) fn model(
    functions: Vec<Function>,
    specification: Specification,
    metadata: Option<pb::Metadata>,
) -> pb::Model {
    let mut descriptions: Vec<_> = functions.iter().map(Function::description).collect();
    let mut description = pb::ModelDescription { metadata, ..Default::default() };
    if is_plain(functions.iter().map(|function| function.name.as_str())) {
        let only = descriptions.remove(0);
        (description.input, description.output, description.state) = (only.input, only.output, only.state);
    } else {
        description.default_function_name = functions[0].name.clone();
        description.functions = descriptions;
    }
    let opset = specification.opset();
    let function = |function: Function| {
        let block = pb::Block { outputs: function.outputs, operations: function.operations };
        let made = pb::Function {
            inputs: function.inputs.into_iter().chain(function.states).collect(),
            opset: opset.to_owned(),
            block_specializations: BTreeMap::from([(opset.to_owned(), block)]),
        };
        (function.name, made)
    };
    let program = pb::Program { version: 1, functions: functions.into_iter().map(function).collect() };
    pb::Model {
        specification_version: specification.number(),
        description: Some(description),
        ml_program: Some(program),
    }
}

/// An input, output or state in the model's description.
fn feature(value: &pb::NamedValueType) -> pb::FeatureDescription {
    let array = |tensor: &pb::TensorType| {
        let data_type = match tensor.data_type {
            pb::FLOAT16 => pb::ARRAY_F16,
            pb::FLOAT32 => pb::ARRAY_F32,
            _ => pb::ARRAY_I32,
        };
        let sizes = tensor.dimensions.iter();
        let shape = sizes.map(|dim| dim.constant.as_ref().map_or(0, |dim| dim.size) as i64).collect();
        pb::ArrayFeatureType { shape, data_type }
    };
    let tensor = |ty: &pb::ValueType| ty.tensor.as_ref().map(array);
    let state = |ty: &pb::ValueType| {
        let wrapped = ty.state.as_ref()?.wrapped.as_ref()?;
        Some(pb::StateFeatureType { array: tensor(wrapped) })
    };
    let ty = value.ty.as_ref();
    pb::FeatureDescription {
        name: value.name.clone(),
        ty: Some(pb::FeatureType { multi_array: ty.and_then(tensor), state: ty.and_then(state) }),
    }
}

fn data_type(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => pb::FLOAT16,
        DType::F32 => pb::FLOAT32,
        DType::Bool => pb::BOOL,
        // Nothing but these and integers becomes a value.
        _ => pb::INT32,
    }
}

/// `None`: a scalar.
fn value_type(data_type: i32, dims: Option<&[usize]>) -> pb::ValueType {
    let dims = dims.unwrap_or_default();
    let dimension =
        |&size: &usize| pb::Dimension { constant: Some(pb::ConstantDimension { size: size as u64 }) };
    let dimensions = dims.iter().map(dimension).collect();
    let tensor = pb::TensorType { data_type, rank: dims.len() as i64, dimensions };
    pb::ValueType { tensor: Some(tensor), state: None }
}

fn immediate(ty: pb::ValueType, tensor: pb::TensorValue) -> pb::Value {
    let immediate = Some(pb::ImmediateValue { tensor: Some(tensor) });
    pb::Value { ty: Some(ty), immediate, blob_file: None }
}

fn tensor_value(data: Data) -> pb::TensorValue {
    let mut tensor = pb::TensorValue::default();
    match data {
        Data::Float(FloatDtype::F32, values) => tensor.floats = Some(pb::Floats { values }),
        Data::Float(FloatDtype::F16, values) => {
            tensor.bytes = Some(pb::Bytes { values: FloatDtype::F16.encode(&values) });
        }
        Data::I32(values) => tensor.ints = Some(pb::Ints { values }),
        Data::Bool(values) => tensor.bools = Some(pb::Bools { values }),
    }
    tensor
}

fn string_value(text: &str) -> pb::Value {
    let strings = pb::Strings { values: vec![text.to_owned()] };
    let tensor = pb::TensorValue { strings: Some(strings), ..Default::default() };
    immediate(value_type(pb::STRING, None), tensor)
}

fn blob_value(offset: u64, data_type: i32, dims: &[usize]) -> pb::Value {
    let blob_file = Some(pb::BlobFileValue { file_name: BLOB_NAME.to_owned(), offset });
    pb::Value { ty: Some(value_type(data_type, Some(dims))), immediate: None, blob_file }
}
