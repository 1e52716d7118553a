//! Reading what `tools/oracle/torch_modules.py` and `torch_module_db.py` wrote.

use rustorch_nn::ExpandingArray;
use rustorch_tensor::{DType, Sizes, Tensor};
use serde_json::Value;

/// One line of a fixture.
pub(crate) struct Case {
    pub(crate) module: String,
    pub(crate) args: Vec<Value>,
    pub(crate) options: Value,
    pub(crate) call: Value,
    pub(crate) train: bool,
    pub(crate) state: Vec<(String, Tensor)>,
    /// As they are stored: those of floats in `F32`, but those that PyTorch refuses in their own dtype.
    pub(crate) inputs: Vec<Option<Tensor>>,
    pub(crate) outputs: Vec<Option<Tensor>>,
    pub(crate) input_grads: Vec<Option<Tensor>>,
    pub(crate) grads: Vec<(String, Option<Tensor>)>,
    pub(crate) buffers: Vec<(String, Tensor)>,
    /// PyTorch's message, if it refuses this.
    pub(crate) raises: Option<String>,
    /// Whether it is a model, which the test of `Display` builds by hand.
    pub(crate) is_model: bool,
    /// How the module prints, of lines that say it.
    pub(crate) repr: Option<String>,
    /// The line, without tensors, for messages.
    pub(crate) label: String,
}

impl Case {
    /// The arguments of the call in a dtype. Those that have a gradient are leaves.
    pub(crate) fn inputs(&self, dtype: DType) -> Vec<Option<Tensor>> {
        let converted = |(x, has_grad): (&Tensor, bool)| {
            if !x.dtype().is_float() {
                return x.clone();
            }
            let x = x.to_dtype(dtype).unwrap().copy().unwrap();
            if has_grad {
                x.requires_grad_(true).unwrap();
            }
            x
        };
        let inputs = self.inputs.iter().zip(&self.input_grads);
        inputs.map(|(x, grad)| x.as_ref().map(|x| converted((x, grad.is_some())))).collect()
    }

    pub(crate) fn size(&self, arg: usize) -> usize {
        self.args[arg].as_u64().unwrap_or_else(|| panic!("{}: argument {arg}", self.label)) as usize
    }

    pub(crate) fn option_f64(&self, name: &str) -> Option<f64> {
        self.options[name].as_f64()
    }

    pub(crate) fn option_usize(&self, name: &str) -> Option<usize> {
        self.options[name].as_u64().map(|n| n as usize)
    }

    pub(crate) fn option_bool(&self, name: &str) -> Option<bool> {
        self.options[name].as_bool()
    }
}

/// As [`each`], and as it was given.
pub(crate) fn expanding<const N: usize>(value: &Value) -> ExpandingArray<N> {
    match value {
        Value::Array(_) => each::<N>(value).into(),
        all => (all.as_u64().unwrap() as usize).into(),
    }
}

/// One number, or several. Those that are null are the argument's.
pub(crate) fn numbers(value: &Value) -> Sizes {
    let number = |n: &Value| n.as_i64().unwrap_or(-1);
    match value {
        Value::Array(list) => list.iter().map(number).collect::<Vec<i64>>().into(),
        one => number(one).into(),
    }
}

/// A number for all, or one for each.
pub(crate) fn each<const N: usize>(value: &Value) -> [usize; N] {
    match value {
        Value::Array(list) if list.len() == 1 => each(&list[0]),
        Value::Array(list) => std::array::from_fn(|i| list[i].as_u64().unwrap() as usize),
        all => [all.as_u64().unwrap() as usize; N],
    }
}

/// A fixture's lines and numbers.
pub(crate) struct Fixture {
    lines: Vec<Value>,
    numbers: Vec<u8>,
}

impl Fixture {
    pub(crate) fn read(name: &str) -> Fixture {
        let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(format!("{path}.jsonl"));
        let text = text.unwrap_or_else(|error| panic!("{path}.jsonl: {error}"));
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // Lines without tensors have no numbers beside them.
        Fixture { lines, numbers: std::fs::read(format!("{path}.bin")).unwrap_or_default() }
    }

    pub(crate) fn lines(&self) -> &[Value] {
        &self.lines
    }

    pub(crate) fn cases(&self) -> impl Iterator<Item = Case> {
        self.lines.iter().filter(|line| line.get("args").is_some()).map(|line| self.case(line))
    }

    fn case(&self, line: &Value) -> Case {
        // What is not there is empty.
        let array = |key: &str| line[key].as_array().map_or(&[][..], Vec::as_slice);
        let list = |key: &str| array(key).iter().map(|value| self.tensor(value)).collect();
        let named = |key: &str| -> Vec<(String, Option<Tensor>)> {
            array(key).iter().map(|pair| (pair[0].as_str().unwrap().into(), self.tensor(&pair[1]))).collect()
        };
        let there = |named: Vec<(String, Option<Tensor>)>| {
            named.into_iter().map(|(name, t)| (name, t.unwrap())).collect()
        };
        Case {
            module: line["module"].as_str().unwrap().into(),
            args: array("args").to_vec(),
            options: line["options"].clone(),
            call: line["call"].clone(),
            train: line["train"].as_bool().unwrap_or(true),
            state: there(named("state")),
            inputs: list("inputs"),
            outputs: list("outputs"),
            input_grads: list("input_grads"),
            grads: named("grads"),
            buffers: there(named("buffers")),
            is_model: line["model"].as_bool() == Some(true),
            repr: line["repr"].as_str().map(str::to_owned),
            raises: line["raises"].as_str().map(str::to_owned),
            label: format!(
                "{}({}, {}), call {}, train {}",
                line["module"], line["args"], line["options"], line["call"], line["train"]
            ),
        }
    }

    /// `[DTYPE, SHAPE, OFFSET]`, or null.
    fn tensor(&self, value: &Value) -> Option<Tensor> {
        let [name, shape, at] = value.as_array()?.as_slice() else { panic!("not a tensor: {value}") };
        let dtype = *DType::DENSE.iter().find(|dtype| Some(dtype.name()) == name.as_str()).unwrap();
        let shape: Vec<usize> =
            shape.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
        let bytes = &self.numbers[at.as_u64().unwrap() as usize..];
        let len = shape.iter().product::<usize>() * dtype.size().unwrap();
        Some(Tensor::from_bytes(&bytes[..len], dtype, shape).unwrap())
    }
}
