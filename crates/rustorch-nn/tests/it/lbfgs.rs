//! L-BFGS gives PyTorch's parameters after every step: `tools/oracle/torch_lbfgs.py` wrote them.

use rustorch_nn::optim::{LBFGS, LBFGSOptions, LineSearch, Options};
use rustorch_nn::{Linear, Parameter};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Result, Tensor};
use serde_json::Value;

/// The oracle's problem.
struct Problem {
    vector: Parameter,
    matrix: Parameter,
    evaluations: usize,
}

impl Problem {
    fn new() -> Result<Problem> {
        let vector = Parameter::new(Tensor::new([-1.2f64, 1.0])?)?;
        let matrix = Parameter::new(Tensor::zeros([1, 3], DType::F64)?)?;
        Ok(Problem { vector, matrix, evaluations: 0 })
    }

    fn named(&self) -> Vec<(String, Parameter)> {
        vec![("vector".to_owned(), self.vector.clone()), ("matrix".to_owned(), self.matrix.clone())]
    }

    /// Rosenbrock's function (with 10 for 100) of the vector, and the square of the matrix's distance.
    fn loss(&mut self, sign: f64) -> Result<Tensor> {
        self.evaluations += 1;
        self.vector.zero_grad();
        self.matrix.zero_grad();
        let (a, b) = (self.vector.tensor().narrow(0, 0, 1)?, self.vector.tensor().narrow(0, 1, 1)?);
        let valley = a.rsub(1.0)?.square()?.add(&b.sub(&a.square()?)?.square()?.mul(10.0)?)?.sum_all()?;
        let distance = self.matrix.tensor().sub(&Tensor::new([[1.0f64, 2.0, 3.0]])?)?.square()?.sum_all()?;
        let loss = valley.add(&distance)?.mul(sign)?;
        loss.backward()?;
        Ok(loss)
    }
}

fn doubles(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn steps_are_pytorch_s() -> Result<()> {
    for line in include_str!("../fixtures/lbfgs.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut options = LBFGSOptions::default();
        for (name, value) in case["options"].as_object().unwrap() {
            let number = value.as_f64().unwrap_or_else(|| f64::from(u8::from(value.as_bool().unwrap())));
            assert!(options.set_number(name, number), "{name}");
        }
        let mut problem = Problem::new()?;
        let mut optimizer = LBFGS::new(problem.named(), options)?;
        let sign = if options.maximize { -1.0 } else { 1.0 };
        for (i, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let loss = optimizer.step(|| problem.loss(sign))?;
            let mut have = problem.vector.tensor().to_vec::<f64>()?;
            have.extend(problem.matrix.tensor().reshape([-1])?.to_vec::<f64>()?);
            have.push(loss.item()?.to_f64());
            let first = vec![step["loss"].as_f64().unwrap()];
            let want = [doubles(&step["vector"]), doubles(&step["matrix"]), first].concat();
            for (have, want) in have.into_iter().zip(want) {
                let near = (have - want).abs() <= 1e-9 + 1e-9 * want.abs();
                assert!(near, "{}, step {i}: {have} for {want}", case["options"]);
            }
            assert_eq!(problem.evaluations as u64, step["count"], "{}, step {i}", case["options"]);
        }
    }
    Ok(())
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn parameters_and_options_that_do_not_fit_are_errors() -> Result<()> {
    let model = Linear::new(2, 2)?;
    let options = LBFGSOptions::default();
    let mut double = Problem::new()?.named();
    double.push(("weight".to_owned(), model.weight.clone()));
    let half = Parameter::new(Tensor::zeros([2], DType::BF16)?)?;
    for (said, part) in [
        (message(LBFGS::new(&model, LBFGSOptions { lr: -0.5, ..options })), "LBFGS: the option `lr` is -0.5"),
        (message(LBFGS::new(&model, LBFGSOptions { history_size: 0, ..options })), "`history_size` is 0"),
        (
            message(LBFGS::new(&model, LBFGSOptions { tolerance_grad: f64::NAN, ..options })),
            "`tolerance_grad` is NaN",
        ),
        (message(LBFGS::new(Vec::new(), options)), "there are no parameters"),
        (message(LBFGS::new(double, options)), "`vector` and `weight` must have one dtype"),
        (
            message(LBFGS::new(vec![("half".to_owned(), half.clone())], options)),
            "`half` is bf16, it must have",
        ),
    ] {
        assert!(said.contains(part), "{said}");
    }
    let twice = vec![("a".to_owned(), model.weight.clone()), ("b".to_owned(), model.weight.clone())];
    let said = message(LBFGS::new(twice, options));
    assert!(said.contains("the parameter `b` is `a`, too"), "{said}");
    Ok(())
}

#[test]
fn an_error_of_the_loss_leaves_the_parameters_of_the_search() -> Result<()> {
    use rustorch_nn::optim::LineSearch;
    let mut problem = Problem::new()?;
    let options = LBFGSOptions { line_search_fn: LineSearch::StrongWolfe, ..Default::default() };
    let mut optimizer = LBFGS::new(problem.named(), options)?;
    let result = optimizer.step(|| match problem.evaluations {
        0 => problem.loss(1.0),
        _ => Err(rustorch_tensor::Error::argument("loss", "no data")),
    });
    assert!(message(result).contains("no data"));
    assert_eq!(problem.vector.tensor().to_vec::<f64>()?, [-1.2, 1.0]);
    Ok(())
}

#[test]
fn a_state_goes_on_by_name_in_any_order() -> Result<()> {
    for line_search_fn in [LineSearch::None, LineSearch::StrongWolfe] {
        let options = LBFGSOptions { max_iter: 3, lr: 0.5, line_search_fn, ..Default::default() };
        let mut problem = Problem::new()?;
        let mut optimizer = LBFGS::new(problem.named(), options)?;
        for _ in 0..3 {
            optimizer.step(|| problem.loss(1.0))?;
        }
        let mut other = Problem::new()?;
        no_grad(|| {
            other.vector.tensor().copy_(&problem.vector.tensor())?;
            other.matrix.tensor().copy_(&problem.matrix.tensor())
        })?;
        let mut named = other.named();
        named.reverse();
        let mut loaded = LBFGS::new(named, LBFGSOptions::default())?;
        loaded.load_state_dict(&optimizer.state_dict()?)?;
        assert_eq!(loaded.options, options);
        for _ in 0..3 {
            let losses = [optimizer.step(|| problem.loss(1.0))?, loaded.step(|| other.loss(1.0))?];
            let [a, b] = losses.map(|loss| loss.item().unwrap().to_f64());
            assert!((a - b).abs() <= 1e-9 + 1e-9 * a.abs(), "{line_search_fn:?}: {b} for {a}");
        }
        let x = |problem: &Problem| problem.vector.tensor().to_vec::<f64>();
        for (a, b) in x(&problem)?.into_iter().zip(x(&other)?) {
            assert!((a - b).abs() <= 1e-9 + 1e-9 * a.abs(), "{line_search_fn:?}: {b} for {a}");
        }
        // Without the history the next step would be another.
        let state = optimizer.state_dict()?;
        assert!(state.parameters["matrix"].tensor("old_dirs").unwrap().dims()[0] > 1);
    }
    Ok(())
}

#[test]
fn a_state_that_does_not_fit_is_one_error() -> Result<()> {
    let mut problem = Problem::new()?;
    let mut optimizer = LBFGS::new(problem.named(), LBFGSOptions::default())?;
    optimizer.step(|| problem.loss(1.0))?;
    let state = optimizer.state_dict()?;
    let bias = Parameter::new(Tensor::zeros([1, 3], DType::F64)?)?;
    let others = vec![("vector".to_owned(), bias.clone()), ("bias".to_owned(), problem.vector.clone())];
    let mut other = LBFGS::new(others, LBFGSOptions::default())?;
    let said = other.load_state_dict(&state).expect_err("an error").to_string();
    for part in
        ["`bias` is missing", "`matrix` is unexpected", "`d` of `vector` has shape [2], it must have [3]"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(other.state_dict()?.parameters.is_empty());
    Ok(())
}
