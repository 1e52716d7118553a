//! Reading what `tools/oracle/torch_modules.py` wrote.

use rustorch_nn::ExpandingArray;
use rustorch_tensor::{DType, Sizes, Tensor};
use serde_json::Value;

/// One line of the fixture.
pub(crate) struct Case {
    pub(crate) module: String,
    pub(crate) args: Vec<Value>,
    pub(crate) options: Value,
    pub(crate) call: Value,
    pub(crate) train: bool,
    pub(crate) state: Vec<(String, Tensor)>,
    inputs: Vec<Option<Tensor>>,
    pub(crate) outputs: Vec<Option<Tensor>>,
    pub(crate) c: Vec<Tensor>,
    pub(crate) input_grads: Vec<Option<Tensor>>,
    pub(crate) grads: Vec<(String, Option<Tensor>)>,
    pub(crate) buffers: Vec<(String, Tensor)>,
    /// Whether it is a model, which the test of `Display` builds by hand.
    pub(crate) is_model: bool,
    /// How the module prints, of lines that say it.
    pub(crate) repr: Option<String>,
    /// The line, without tensors, for messages.
    pub(crate) label: String,
}

impl Case {
    /// The arguments of the call: those of floats are leaves of a dtype.
    pub(crate) fn inputs(&self, dtype: DType) -> Vec<Option<Tensor>> {
        let leaf = |x: &Tensor| {
            if !x.dtype().is_float() {
                return x.clone();
            }
            let x = x.to_dtype(dtype).unwrap().copy().unwrap();
            x.requires_grad_(true).unwrap();
            x
        };
        self.inputs.iter().map(|x| x.as_ref().map(leaf)).collect()
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

/// One number, or several.
pub(crate) fn numbers(value: &Value) -> Sizes {
    match value {
        Value::Array(list) => list.iter().map(|n| n.as_i64().unwrap()).collect::<Vec<i64>>().into(),
        one => one.as_i64().unwrap().into(),
    }
}

/// A number for all, or one for each.
pub(crate) fn each<const N: usize>(value: &Value) -> [usize; N] {
    match value {
        Value::Array(list) => std::array::from_fn(|i| list[i].as_u64().unwrap() as usize),
        all => [all.as_u64().unwrap() as usize; N],
    }
}

pub(crate) fn cases(name: &str) -> Vec<Case> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| case(&serde_json::from_str(line).unwrap())).collect()
}

fn case(line: &Value) -> Case {
    // Lines of `display.jsonl` have no tensors.
    let array = |key: &str| line[key].as_array().into_iter().flatten();
    let list = |key: &str| array(key).map(maybe).collect();
    let named = |key: &str| -> Vec<(String, Option<Tensor>)> {
        array(key).map(|pair| (pair[0].as_str().unwrap().into(), maybe(&pair[1]))).collect()
    };
    let there = |named: Vec<(String, Option<Tensor>)>| {
        named.into_iter().map(|(name, t)| (name, t.unwrap())).collect()
    };
    Case {
        module: line["module"].as_str().unwrap().into(),
        args: line["args"].as_array().unwrap().clone(),
        options: line["options"].clone(),
        call: line["call"].clone(),
        train: line["train"].as_bool().unwrap_or(true),
        state: there(named("state")),
        inputs: list("inputs"),
        outputs: list("outputs"),
        c: array("c").map(tensor).collect(),
        input_grads: list("input_grads"),
        grads: named("grads"),
        buffers: there(named("buffers")),
        is_model: line["model"].as_bool() == Some(true),
        repr: line["repr"].as_str().map(str::to_owned),
        label: format!(
            "{}({}, {}), call {}, train {}",
            line["module"], line["args"], line["options"], line["call"], line["train"]
        ),
    }
}

fn maybe(value: &Value) -> Option<Tensor> {
    (!value.is_null()).then(|| tensor(value))
}

fn tensor(value: &Value) -> Tensor {
    let name = value["dtype"].as_str().unwrap();
    let dtype = *DType::DENSE.iter().find(|dtype| dtype.name() == name).unwrap();
    let shape: Vec<usize> =
        value["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    Tensor::from_bytes(&base64(value["data"].as_str().unwrap()), dtype, shape).unwrap()
}

fn base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter(|&c| c != b'=').map(|c| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64: {c}"),
    });
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in digits {
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
