//! Reading the fixtures that `tools/oracle/torch_nn_functional.py` wrote, and comparing results and gradients with them.

use rustorch_tensor::{DType, Result, Tensor, autograd::backward};
use serde_json::Value;

/// The arguments of a line that are no tensors, and its function.
pub(crate) struct Case<'a> {
    pub(crate) op: &'a str,
    pub(crate) args: &'a Value,
}

impl Case<'_> {
    pub(crate) fn float(&self, name: &str) -> f64 {
        self.args[name].as_f64().unwrap_or_else(|| panic!("{} has no float {name}", self.op))
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        self.args[name].as_i64().unwrap_or_else(|| panic!("{} has no integer {name}", self.op))
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.args[name].as_bool().unwrap_or_else(|| panic!("{} has no boolean {name}", self.op))
    }

    /// Empty where there is none.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.args[name].as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.args[name].as_str().unwrap_or_else(|| panic!("{} has no text {name}", self.op))
    }
}

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs every line of a fixture in `F64` and `F32`. `call` gives the results of a function and of the module of it, which have to be
/// the same.
pub(crate) fn check(name: &str, call: impl Fn(&Case<'_>, &[Tensor]) -> Result<[Tensor; 2]>) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in &lines(name) {
        let case = Case { op: line["op"].as_str().unwrap(), args: &line["args"] };
        for dtype in [DType::F64, DType::F32] {
            count += 1;
            if let Err(message) = compare_line(line, &case, dtype, &call) {
                let shapes: Vec<_> = list(&line["inputs"]).iter().map(|x| x["shape"].to_string()).collect();
                wrong.push(format!("{} {} of {}, {dtype}: {message}", case.op, case.args, shapes.join(", ")));
            }
        }
    }
    assert!(count > 0, "{name} is empty");
    assert!(wrong.is_empty(), "{} of {count} cases differ from PyTorch:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs every line of a fixture, but those of some functions, in 16-bit floats: results have to be those of the same inputs in `F32`,
/// rounded once, and gradients within two roundings of 1, or of the tensor's largest.
pub(crate) fn check_half(
    name: &str,
    but: &[&str],
    call: impl Fn(&Case<'_>, &[Tensor]) -> Result<[Tensor; 2]>,
) {
    let mut wrong = Vec::new();
    for line in &lines(name) {
        let case = Case { op: line["op"].as_str().unwrap(), args: &line["args"] };
        if line["refused"] == true || but.contains(&case.op) {
            continue;
        }
        for dtype in [DType::BF16, DType::F16] {
            if let Err(message) = compare_half(line, &case, dtype, &call) {
                wrong.push(format!("{} {}, {dtype}: {message}", case.op, case.args));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases are rounded otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

fn compare_half(
    line: &Value,
    case: &Case<'_>,
    dtype: DType,
    call: impl Fn(&Case<'_>, &[Tensor]) -> Result<[Tensor; 2]>,
) -> Result<(), String> {
    let half: Vec<Tensor> = list(&line["inputs"]).iter().map(|x| tensor(x, dtype)).collect();
    let exact = |x: &Tensor| if x.dtype().is_float() { x.to_dtype(DType::F32).unwrap() } else { x.clone() };
    let wide: Vec<Tensor> = half.iter().map(exact).collect();
    let mut results = Vec::new();
    for inputs in [&half, &wide] {
        for (x, grad) in inputs.iter().zip(list(&line["grads"])) {
            x.requires_grad_(!grad.is_null()).unwrap();
        }
        let [output, _] = call(case, inputs).map_err(|error| error.to_string())?;
        if output.requires_grad() {
            output.sum_all().unwrap().backward().map_err(|error| error.to_string())?;
        }
        results.push(output);
    }
    let values =
        |x: &Tensor| x.to_dtype(dtype).unwrap().to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    if results[0].dtype() != dtype {
        return Err(format!("the result is {}", results[0].dtype()));
    }
    for (i, (got, want)) in values(&results[0]).into_iter().zip(values(&results[1])).enumerate() {
        if !(got == want || got.is_nan() && want.is_nan()) {
            return Err(format!("element {i} is {got}, and {want} of f32"));
        }
    }
    for (i, (half, wide)) in half.iter().zip(&wide).enumerate() {
        let (Some(got), Some(want)) = (half.grad(), wide.grad()) else { continue };
        let (got, want) = (values(&got), values(&want));
        let largest = want.iter().filter(|x| x.is_finite()).fold(1.0f64, |largest, x| largest.max(x.abs()));
        let epsilon = if dtype == DType::BF16 { 2f64.powi(-8) } else { 2f64.powi(-11) };
        for (got, want) in got.into_iter().zip(want) {
            let same = got == want || got.is_nan() && want.is_nan();
            if !(same || (got - want).abs() <= 2.0 * epsilon * largest) {
                return Err(format!("a gradient of input {i} is {got}, and {want} of f32"));
            }
        }
    }
    Ok(())
}

fn compare_line(
    line: &Value,
    case: &Case<'_>,
    dtype: DType,
    call: impl Fn(&Case<'_>, &[Tensor]) -> Result<[Tensor; 2]>,
) -> Result<(), String> {
    let inputs: Vec<Tensor> = list(&line["inputs"]).iter().map(|x| tensor(x, dtype)).collect();
    if line["refused"] == true {
        return match call(case, &inputs) {
            Ok(_) => Err("PyTorch refuses this".into()),
            Err(_) => Ok(()),
        };
    }
    let grads = list(&line["grads"]);
    for (x, grad) in inputs.iter().zip(grads) {
        x.requires_grad_(!grad.is_null()).unwrap();
    }
    let [output, of_module] = call(case, &inputs).map_err(|error| error.to_string())?;
    if output.dtype() != dtype {
        return Err(format!("the result is {}", output.dtype()));
    }
    let bits = |x: &Tensor| (x.dtype(), x.dims().to_vec(), x.to_bytes().unwrap());
    if bits(&output) != bits(&of_module) {
        return Err(format!("the module gives {of_module}, the function {output}"));
    }
    near("result", &output, &line["output"])?;
    if grads.iter().all(Value::is_null) {
        return Ok(());
    }
    let weights = (0..output.numel()).map(|i| 0.25 + 0.5 * ((i % 5) as f64 - 2.0)).collect();
    let weights = Tensor::from_vec::<f64>(weights, output.shape()).unwrap().to_dtype(dtype).unwrap();
    backward(&[&output], &[Some(&weights)], &Default::default()).map_err(|error| error.to_string())?;
    for (i, (x, want)) in inputs.iter().zip(grads).enumerate() {
        if !want.is_null() {
            let grad = x.grad().ok_or_else(|| format!("input {i} has no gradient"))?;
            near(&format!("gradient of input {i}"), &grad, want)?;
        }
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    let number = |x: &Value| x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap());
    list(&value["data"]).iter().map(number).collect()
}

fn shape(value: &Value) -> Vec<usize> {
    list(&value["shape"]).iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// A stored tensor: its own integers, or floats of a dtype.
fn tensor(value: &Value, dtype: DType) -> Tensor {
    let dtype = if value["dtype"] == "i64" { DType::I64 } else { dtype };
    // A leaf, also in F64.
    Tensor::from_vec::<f64>(numbers(value), shape(value)).unwrap().to_dtype(dtype).unwrap().detach()
}

/// Compares the shape exactly, and elements within 1e-9 absolute and relative in `F64`, and in `F32` within 1e-6 and 2e-5 of the tensor's
/// largest.
fn near(what: &str, got: &Tensor, want: &Value) -> Result<(), String> {
    if got.dims() != shape(want) {
        return Err(format!("the {what} has shape {}, PyTorch's {}", got.shape(), want["shape"]));
    }
    let want = numbers(want);
    let largest = want.iter().filter(|x| x.is_finite()).fold(0.0f64, |largest, x| largest.max(x.abs()));
    let tolerance = |want: f64| match got.dtype() {
        DType::F64 => 1e-9 + 1e-9 * want.abs(),
        _ => 1e-6 + 2e-5 * largest,
    };
    let all = got.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    for (i, (got, want)) in all.into_iter().zip(want).enumerate() {
        let same = got == want || got.is_nan() && want.is_nan();
        if !(same || want.is_finite() && (got - want).abs() <= tolerance(want)) {
            return Err(format!("element {i} of the {what} is {got}, PyTorch gives {want}"));
        }
    }
    Ok(())
}

/// Whether this is a process for one test alone, where nobody else draws from the process's generator. If not, starts one, which has to
/// succeed.
pub(crate) fn is_alone(test: &str) -> bool {
    const VARIABLE: &str = "RUSTORCH_TEST_ALONE";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(VARIABLE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{error}");
    false
}
