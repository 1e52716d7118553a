//! Reading the fixtures that PyTorch wrote (`tools/oracle/tensor_ops.py`), and comparing with them; the process's random generator.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use rustorch_formats::graph::{File, Writer};
use rustorch_tensor::{C64, C128, DType, Program, Scalar, Tensor, bf16, f16};
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// To be held by tests that seed the process's own generator or draw from it, so that none draws in between of another's draws.
#[must_use = "others draw when it is dropped"]
pub fn process_generator() -> MutexGuard<'static, ()> {
    static DRAWS: Mutex<()> = Mutex::new(());
    DRAWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program as a file.
pub fn program_bytes(program: &Program) -> Result<Vec<u8>, String> {
    let bytes = |tensors: Vec<Tensor>| move |i: usize| tensors[i].to_bytes().map_err(std::io::Error::other);
    let writer = Writer::new(program.graph(), bytes(program.constants()), bytes(program.states()));
    writer.and_then(|writer| writer.to_bytes()).map_err(|error| error.to_string())
}

/// The program of a file.
pub fn program_of(bytes: Vec<u8>) -> Result<Program, String> {
    let file = File::from_bytes(bytes).map_err(|error| error.to_string())?;
    let graph = file.graph();
    let tensor = |id: rustorch_core::ValueId, bytes: &[u8]| {
        let value = &graph.values[id.index()];
        Tensor::from_bytes(bytes, value.dtype, value.shape.clone())
    };
    let constants = graph.constants().into_iter().zip(file.constants()).map(|(id, bytes)| tensor(id, bytes));
    let constants = constants.collect::<rustorch_tensor::Result<_>>().map_err(|error| error.to_string())?;
    let states = graph.states.iter().zip(file.states()).map(|(state, bytes)| tensor(state.first, bytes));
    let states = states.collect::<rustorch_tensor::Result<_>>().map_err(|error| error.to_string())?;
    Program::from_parts(graph.clone(), constants, states).map_err(|error| error.to_string())
}

/// A program, saved and loaded.
pub fn saved(program: &Program) -> Program {
    let bytes = program_bytes(program).unwrap();
    let loaded = program_of(bytes.clone()).unwrap();
    // Of constants that are NaN, which equal nothing, the second file tells whether they are the same.
    assert_eq!(format!("{:?}", loaded.graph()), format!("{:?}", program.graph()));
    assert!(program_bytes(&loaded).unwrap() == bytes, "another file of\n{}", program.graph());
    loaded
}

/// One line of a fixture.
pub struct Case {
    pub op: String,
    pub attrs: Value,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    /// The line, without data, for messages.
    pub label: String,
}

pub fn fixture(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Case {
    pub fn new(line: &Value) -> Case {
        let list = |key: &str| line[key].as_array().unwrap();
        let tell = |t: &Value| format!("{}{}{}", t["dtype"].as_str().unwrap(), t["shape"], t["view"]);
        Case {
            op: line["op"].as_str().unwrap().into(),
            attrs: line["attrs"].clone(),
            inputs: list("inputs").iter().map(|t| view(tensor(t), &t["view"])).collect(),
            outputs: list("outputs").iter().map(tensor).collect(),
            label: format!(
                "{} {} of {:?}",
                line["op"],
                line["attrs"],
                list("inputs").iter().map(tell).collect::<Vec<_>>()
            ),
        }
    }

    pub fn int(&self, key: &str) -> Option<i64> {
        self.attrs[key].as_i64()
    }

    pub fn dim(&self) -> isize {
        self.int("dim").unwrap() as isize
    }

    pub fn flag(&self, key: &str) -> bool {
        self.attrs[key].as_bool().unwrap_or(false)
    }

    pub fn float(&self, key: &str) -> Option<f64> {
        self.attrs[key].as_f64()
    }

    pub fn ints(&self, key: &str) -> Vec<isize> {
        self.attrs[key].as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as isize).collect()
    }

    pub fn scalar(&self, key: &str) -> Option<Scalar> {
        scalar(&self.attrs[key])
    }
}

pub fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(b) => Some(Scalar::Bool(*b)),
        Value::Number(n) => Some(n.as_i64().map_or_else(|| Scalar::Float(n.as_f64().unwrap()), Scalar::Int)),
        Value::Object(z) => Some(C128::new(z["re"].as_f64().unwrap(), z["im"].as_f64().unwrap()).into()),
        _ => None,
    }
}

pub fn dtype(name: &str) -> DType {
    *DType::DENSE.iter().find(|d| d.name() == name).unwrap_or_else(|| panic!("dtype {name}"))
}

fn shape(value: &Value) -> Vec<usize> {
    value["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// A stored tensor, or `start + step · index` for the large ones of the display fixture.
pub fn tensor(value: &Value) -> Tensor {
    let (dtype, shape) = (dtype(value["dtype"].as_str().unwrap()), shape(value));
    if let Some(range) = value["arange"].as_array() {
        let (start, step) = (range[0].as_f64().unwrap(), range[1].as_f64().unwrap());
        let numbers = (0..shape.iter().product()).map(|i: usize| i as f64 * step + start).collect();
        return Tensor::from_vec::<f64>(numbers, shape).unwrap().to_dtype(dtype).unwrap();
    }
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

fn view(mut x: Tensor, steps: &Value) -> Tensor {
    for step in steps.as_array().into_iter().flatten() {
        let number = |i: usize| step[i].as_i64().unwrap() as isize;
        let list =
            || step[1].as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as isize).collect::<Vec<_>>();
        x = match step[0].as_str().unwrap() {
            "transpose" => x.transpose(number(1), number(2)),
            "permute" => x.permute(list()),
            "expand" => x.expand(list()),
            "slice" => x.slice(number(1), number(2)..number(3), number(4) as usize),
            other => panic!("view {other}"),
        }
        .unwrap();
    }
    x
}

/// Relative and absolute tolerance: those of `torch.testing.assert_close`, but tighter for `f64` and `c128`.
fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        DType::F32 | DType::C64 => (1.3e-6, 1e-5),
        DType::F64 | DType::C128 => (1e-12, 1e-14),
        _ => (0.0, 0.0),
    }
}

pub fn complexes(x: &Tensor) -> Vec<C128> {
    let wide = |values: Vec<f64>| values.into_iter().map(|x| C128::new(x, 0.0)).collect();
    match x.dtype() {
        DType::F16 => wide(x.to_vec::<f16>().unwrap().iter().map(|v| v.to_f64()).collect()),
        DType::BF16 => wide(x.to_vec::<bf16>().unwrap().iter().map(|v| v.to_f64()).collect()),
        DType::F32 => wide(x.to_vec::<f32>().unwrap().iter().map(|&v| v.into()).collect()),
        DType::F64 => wide(x.to_vec::<f64>().unwrap()),
        DType::C64 => {
            x.to_vec::<C64>().unwrap().iter().map(|z| C128::new(z.re.into(), z.im.into())).collect()
        }
        DType::C128 => x.to_vec::<C128>().unwrap(),
        other => panic!("{other} is compared exactly"),
    }
}

/// Compares dtype and shape exactly, and elements within the dtype's tolerance, or exactly.
pub fn compare(got: &Tensor, want: &Tensor, exact: bool) -> Result<(), String> {
    if (got.dtype(), got.dims()) != (want.dtype(), want.dims()) {
        return Err(format!(
            "gave {}{}, PyTorch gives {}{}",
            got.dtype(),
            got.shape(),
            want.dtype(),
            want.shape()
        ));
    }
    let tolerable = want.dtype().is_float() || want.dtype().is_complex();
    if exact || !tolerable {
        // All NaN are one.
        let same = got.to_bytes().unwrap() == want.to_bytes().unwrap()
            || tolerable && {
                let nan = |x: &Tensor| complexes(x).iter().map(|z| z.is_nan()).collect::<Vec<_>>();
                let clear = |x: &Tensor| x.masked_fill(&x.isnan().unwrap(), 0).unwrap().to_bytes().unwrap();
                nan(got) == nan(want) && clear(got) == clear(want)
            };
        return if same { Ok(()) } else { Err(format!("gave {got}, PyTorch gives {want}")) };
    }
    let (rtol, atol) = tolerance(want.dtype());
    let near = |a: f64, b: f64| {
        a == b || a.is_nan() && b.is_nan() || b.is_finite() && (a - b).abs() <= atol + rtol * b.abs()
    };
    for (i, (a, b)) in complexes(got).into_iter().zip(complexes(want)).enumerate() {
        // A complex number is as wrong as its distance.
        let close = near(a.re, b.re) && near(a.im, b.im)
            || a.is_finite() && b.is_finite() && (a - b).norm() <= atol + rtol * b.norm();
        if !close {
            return Err(format!("element {i} is {a}, PyTorch gives {b}; all: {got}, PyTorch: {want}"));
        }
    }
    Ok(())
}

/// Runs every case whose operation `run` knows, and tells all that went wrong at once.
pub fn check(ops: &[&str], exact: bool, run: impl Fn(&Case) -> rustorch_tensor::Result<Vec<Tensor>>) {
    check_of("ops.jsonl", ops, exact, run);
}

/// As `check`, with the cases of another fixture.
pub fn check_of(
    name: &str,
    ops: &[&str],
    exact: bool,
    run: impl Fn(&Case) -> rustorch_tensor::Result<Vec<Tensor>>,
) {
    let (mut failures, mut count) = (Vec::new(), 0);
    for line in fixture(name) {
        if !ops.contains(&line["op"].as_str().unwrap()) {
            continue;
        }
        count += 1;
        let case = Case::new(&line);
        match run(&case) {
            Err(error) => failures.push(format!("{}: {error}", case.label)),
            Ok(got) if got.len() != case.outputs.len() => {
                failures.push(format!("{}: {} results", case.label, got.len()));
            }
            Ok(got) => {
                for (got, want) in got.iter().zip(&case.outputs) {
                    if let Err(why) = compare(got, want, exact) {
                        failures.push(format!("{}: {why}", case.label));
                    }
                }
            }
        }
    }
    assert!(count > 0, "the fixture has no case of {ops:?}");
    assert!(
        failures.is_empty(),
        "{} of {count} cases differ from PyTorch:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// How many numbers of the dtype's precision lie between two parts. Zeros of two signs are as far apart as can be, where the
/// sign counts.
pub fn distance(dtype: DType, got: f64, want: f64, signs: bool) -> u64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0 } else { u64::MAX };
    }
    let (got, want) = if signs { (got, want) } else { (got.abs(), want.abs()) };
    if got == 0.0 && want == 0.0 {
        return if got.is_sign_negative() == want.is_sign_negative() { 0 } else { u64::MAX };
    }
    let line = |x: f64| {
        let magnitude = match dtype {
            DType::C64 | DType::F32 => (x.abs() as f32).to_bits().into(),
            _ => x.abs().to_bits() as i64,
        };
        if x.is_sign_negative() { -magnitude } else { magnitude }
    };
    line(got).abs_diff(line(want))
}
