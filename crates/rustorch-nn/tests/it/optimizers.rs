//! Optimizers give PyTorch's parameters after every step: `tools/oracle/torch_optim.py` wrote them.

use rustorch_nn::optim::{
    ASGDOptions, AdadeltaOptions, Adafactor, AdafactorOptions, AdagradOptions, AdamOptions, AdamW,
    AdamWOptions, AdamaxOptions, Muon, MuonOptions, NAdamOptions, Optimizer, RAdamOptions, RMSpropOptions,
    RpropOptions, Rule, SGD, SGDOptions, clip_grad_norm_, clip_grad_value_,
};
use rustorch_nn::{Linear, Module, Parameter};
use rustorch_tensor::{DType, Result, Tensor};
use serde_json::Value;

/// What the oracle wrote.
struct Fixture {
    parameters: Vec<(String, Vec<usize>, bool)>,
    cases: Vec<Value>,
    numbers: Vec<f64>,
    steps: usize,
}

impl Fixture {
    fn read(lines: &str, numbers: &[u8]) -> Fixture {
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let parameter = |entry: &Value| {
            let dims = entry[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
            (entry[0].as_str().unwrap().to_owned(), dims, entry[2] == "c128")
        };
        let numbers = numbers.chunks(8);
        Fixture {
            parameters: lines[0]["parameters"].as_array().unwrap().iter().map(parameter).collect(),
            cases: lines[1..].to_vec(),
            numbers: numbers.map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect(),
            steps: lines[0]["steps"].as_u64().unwrap() as usize,
        }
    }

    /// How many numbers all parameters have.
    fn width(&self) -> usize {
        let numel = |(_, dims, complex): &(String, Vec<usize>, bool)| {
            dims.iter().product::<usize>() * if *complex { 2 } else { 1 }
        };
        self.parameters.iter().map(numel).sum()
    }

    /// The `i`th set of numbers for all parameters.
    fn row(&self, i: usize) -> &[f64] {
        &self.numbers[i * self.width()..][..self.width()]
    }

    /// The `i`th set as tensors.
    fn tensors(&self, i: usize, dtype: DType) -> Result<Vec<Tensor>> {
        let mut rest = self.row(i);
        let tensor = |(_, dims, complex): &(String, Vec<usize>, bool)| {
            let (shape, n) = match complex {
                true => ([dims.clone(), vec![2]].concat(), 2 * dims.iter().product::<usize>()),
                false => (dims.clone(), dims.iter().product()),
            };
            let (own, after) = rest.split_at(n);
            rest = after;
            let tensor = Tensor::from_slice(own, shape)?.to_dtype(dtype)?;
            if *complex { tensor.view_as_complex()?.copy() } else { Ok(tensor) }
        };
        self.parameters.iter().map(tensor).collect()
    }

    fn named(&self, dtype: DType) -> Result<Vec<(String, Parameter)>> {
        let tensors = self.tensors(0, dtype)?.into_iter().zip(&self.parameters);
        tensors.map(|(tensor, (name, ..))| Ok((name.clone(), Parameter::new(tensor)?))).collect()
    }
}

/// The numbers of all parameters, one after another.
fn flat(parameters: &[(String, Parameter)]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for (_, parameter) in parameters {
        let x = parameter.tensor().detach();
        let x = if x.dtype().is_complex() { x.view_as_real()? } else { x };
        all.extend(x.to_dtype(DType::F64)?.to_vec::<f64>()?);
    }
    Ok(all)
}

/// The configurations of an optimizer; how many there are.
fn check<R: Rule>(fixture: &Fixture) -> Result<usize> {
    let mut count = 0;
    for (i, case) in fixture.cases.iter().enumerate().filter(|(_, case)| case["optimizer"] == R::NAME) {
        let mut options = R::default();
        for (name, value) in case["options"].as_object().unwrap() {
            let mut set = |name: &str, value: &Value| {
                let number = value.as_f64().unwrap_or_else(|| f64::from(u8::from(value.as_bool().unwrap())));
                assert!(options.set_number(name, number), "{}: {name}", R::NAME);
            };
            match value.as_array() {
                Some(pair) => pair.iter().enumerate().for_each(|(i, x)| set(&format!("{name}.{i}"), x)),
                None => set(name, value),
            }
        }
        for dtype in [DType::F64, DType::F32] {
            let parameters = fixture.named(dtype)?;
            let mut own = parameters.clone();
            own.retain(|(name, _)| case["parameters"].as_array().unwrap().contains(&name.as_str().into()));
            let optimizer = Optimizer::new(own, options.clone())?;
            for step in 0..fixture.steps {
                for ((_, parameter), grad) in parameters.iter().zip(fixture.tensors(1 + step, dtype)?) {
                    parameter.tensor().set_grad(Some(&grad))?;
                }
                optimizer.step()?;
                let expected = fixture.row(1 + fixture.steps + i * fixture.steps + step);
                let largest = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
                for (have, want) in flat(&parameters)?.into_iter().zip(expected) {
                    let tolerance =
                        if dtype == DType::F64 { 1e-9 + 1e-9 * want.abs() } else { 1e-4 * largest.max(1.0) };
                    assert!(
                        (have - want).abs() <= tolerance,
                        "{} {} {dtype}, step {step}: {have} for {want}",
                        R::NAME,
                        case["options"]
                    );
                }
            }
        }
        count += 1;
    }
    assert!(count > 0, "{}", R::NAME);
    Ok(count)
}

#[test]
fn steps_are_pytorch_s() -> Result<()> {
    let fixture =
        Fixture::read(include_str!("../fixtures/optim.jsonl"), include_bytes!("../fixtures/optim.bin"));
    let counts = [
        check::<SGDOptions>(&fixture)?,
        check::<AdamOptions>(&fixture)?,
        check::<AdamWOptions>(&fixture)?,
        check::<AdamaxOptions>(&fixture)?,
        check::<NAdamOptions>(&fixture)?,
        check::<RAdamOptions>(&fixture)?,
        check::<RMSpropOptions>(&fixture)?,
        check::<RpropOptions>(&fixture)?,
        check::<AdagradOptions>(&fixture)?,
        check::<AdadeltaOptions>(&fixture)?,
        check::<ASGDOptions>(&fixture)?,
    ];
    assert_eq!(counts.iter().sum::<usize>(), fixture.cases.len(), "{counts:?}");
    Ok(())
}

#[test]
fn steps_of_real_parameters_are_pytorch_s() -> Result<()> {
    let fixture = Fixture::read(
        include_str!("../fixtures/optim_real.jsonl"),
        include_bytes!("../fixtures/optim_real.bin"),
    );
    let counts = [check::<AdafactorOptions>(&fixture)?, check::<MuonOptions>(&fixture)?];
    assert_eq!(counts.iter().sum::<usize>(), fixture.cases.len(), "{counts:?}");
    Ok(())
}

#[test]
fn states_of_other_shapes_load() -> Result<()> {
    let trained = |rows: usize, steps: usize| -> Result<(Parameter, Adafactor)> {
        let weight = Parameter::new(Tensor::full([rows, 3], 1.0, DType::F32)?)?;
        let optimizer =
            Adafactor::new(vec![("weight".to_owned(), weight.clone())], AdafactorOptions::default())?;
        for step in 0..steps {
            weight.tensor().set_grad(Some(&Tensor::full([rows, 3], 0.5 + step as f64, DType::F32)?))?;
            optimizer.step()?;
        }
        Ok((weight, optimizer))
    };
    let (weight, mut optimizer) = trained(2, 3)?;
    let state = optimizer.state("weight").unwrap();
    assert_eq!(state.tensor("row_var").unwrap().dims(), [2, 1]);
    assert_eq!(state.tensor("col_var").unwrap().dims(), [1, 3]);
    let (other, mut loaded) = trained(2, 1)?;
    rustorch_tensor::autograd::no_grad(|| other.tensor().copy_(&weight.tensor()))?;
    loaded.load_state_dict(&optimizer.state_dict())?;
    for (parameter, optimizer) in [(&weight, &mut optimizer), (&other, &mut loaded)] {
        parameter.tensor().set_grad(Some(&Tensor::full([2, 3], -2.0, DType::F32)?))?;
        optimizer.step()?;
    }
    assert_eq!(weight.tensor().to_vec::<f32>()?, other.tensor().to_vec::<f32>()?);
    let said = message(trained(4, 0)?.1.load_state_dict(&optimizer.state_dict()));
    assert!(said.contains("`row_var` of `weight` has shape [2, 1], it must be [4, 1]"), "{said}");
    Ok(())
}

#[test]
fn parameters_that_an_optimizer_does_not_take_are_errors() -> Result<()> {
    let phase = Parameter::new(Tensor::zeros([2, 2], DType::C64)?)?;
    let named = || vec![("phase".to_owned(), phase.clone())];
    let said = message(Adafactor::new(named(), AdafactorOptions::default()));
    assert!(said.contains("Adafactor: the parameter `phase` is c64, it must be real"), "{said}");
    assert!(message(Muon::new(named(), MuonOptions::default())).contains("`phase` is c64"));
    let said = message(Muon::new(&Linear::new(2, 2)?, MuonOptions::default()));
    assert!(said.contains("Muon: the parameter `bias` has shape [2], it must have 2 dimensions"), "{said}");
    Ok(())
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn options_outside_their_ranges_are_errors() -> Result<()> {
    let model = Linear::new(2, 2)?;
    let sgd = SGDOptions::default();
    let adam = AdamWOptions::default();
    let adafactor = AdafactorOptions::default();
    let muon = MuonOptions::default();
    let weight = || vec![("weight".to_owned(), model.weight.clone())];
    for (said, part) in [
        (message(SGD::new(&model, SGDOptions { lr: -0.5, ..sgd })), "SGD: the option `lr` is -0.5"),
        (message(SGD::new(&model, SGDOptions { momentum: -0.5, ..sgd })), "`momentum` is -0.5"),
        (message(SGD::new(&model, SGDOptions { lr: f64::NAN, ..sgd })), "`lr` is NaN"),
        (message(SGD::new(&model, SGDOptions { nesterov: true, ..sgd })), "`nesterov` takes a momentum"),
        (
            message(AdamW::new(&model, AdamWOptions { betas: (1.0, 0.9), ..adam })),
            "`betas.0` is 1, it must be",
        ),
        (message(AdamW::new(&model, AdamWOptions { weight_decay: -1.0, ..adam })), "`weight_decay` is -1"),
        (
            message(Optimizer::new(&model, RpropOptions { etas: (1.0, 0.5), ..Default::default() })),
            "`etas.0` is 1",
        ),
        (
            message(Optimizer::new(&model, AdadeltaOptions { rho: 1.1, ..Default::default() })),
            "`rho` is 1.1, it must be from 0 to 1",
        ),
        (message(Adafactor::new(&model, AdafactorOptions { d: 0.5, ..adafactor })), "`d` is 0.5"),
        (
            message(Adafactor::new(&model, AdafactorOptions { beta2_decay: 0.5, ..adafactor })),
            "`beta2_decay` is",
        ),
        (
            message(Adafactor::new(&model, AdafactorOptions { eps: (Some(-0.5), 0.0), ..adafactor })),
            "`eps.0` is -0.5",
        ),
        (
            message(Muon::new(weight(), MuonOptions { ns_steps: 100, ..muon })),
            "`ns_steps` is 100, it must be less",
        ),
        (message(Muon::new(weight(), MuonOptions { momentum: -0.5, ..muon })), "`momentum` is -0.5"),
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Also where they are set between steps.
    let optimizer = SGD::new(&model, sgd)?;
    optimizer.groups()[0].set_options(|options| options.lr = -1.0);
    assert!(message(optimizer.step()).contains("`lr` is -1"));
    Ok(())
}

#[test]
fn parameters_have_one_place() -> Result<()> {
    let model = Linear::new(2, 2)?;
    assert!(message(SGD::new(Vec::new(), SGDOptions::default())).contains("a group has no parameters"));
    let twice = vec![("a".to_owned(), model.weight.clone()), ("b".to_owned(), model.weight.clone())];
    let said = message(SGD::new(twice, SGDOptions::default()));
    assert!(said.contains("`b` of group 0 is `a` of group 0, too"), "{said}");
    let mut optimizer = SGD::new(vec![("a".to_owned(), model.weight.clone())], SGDOptions::default())?;
    let said = message(optimizer.add_group(&model, SGDOptions::default()));
    assert!(said.contains("`weight` of group 1 is `a` of group 0, too"), "{said}");
    Ok(())
}

#[test]
fn a_replaced_model_is_noticed() -> Result<()> {
    let mut model = Linear::new(2, 2)?;
    let optimizer = SGD::new(&model, SGDOptions::default())?;
    optimizer.step()?;
    model = Linear::new(2, 2)?;
    let said = message(optimizer.step());
    assert!(said.contains("no module has the parameter `weight` any more"), "{said}");
    assert_eq!(model.num_parameters(), 6);
    Ok(())
}

/// One step of a model on fixed data.
fn train(model: &Linear, optimizer: &mut AdamW) -> Result<()> {
    optimizer.zero_grad();
    let x = Tensor::new([[1.0f32, 2.0], [-1.0, 0.5]])?;
    model.forward_loss(&x)?.backward()?;
    optimizer.step()
}

trait Loss {
    fn forward_loss(&self, x: &Tensor) -> Result<Tensor>;
}

impl Loss for Linear {
    fn forward_loss(&self, x: &Tensor) -> Result<Tensor> {
        use rustorch_nn::Layer;
        self.forward(&x.to_dtype(self.weight.tensor().dtype())?)?.square()?.mean_all()
    }
}

#[test]
fn states_load_by_name() -> Result<()> {
    let options = AdamWOptions { lr: 0.1, ..Default::default() };
    let model = Linear::new(2, 3)?;
    let mut optimizer = AdamW::new(&model, options)?;
    (0..3).try_for_each(|_| train(&model, &mut optimizer))?;
    // Another model with its parameters in another order, and options of its own.
    let other = Linear::new(2, 3)?;
    other.load_state_dict(&model.state_dict())?;
    let mut parameters = other.named_parameters();
    parameters.reverse();
    let mut loaded = AdamW::new(parameters, AdamWOptions::default())?;
    loaded.load_state_dict(&optimizer.state_dict())?;
    assert_eq!(loaded.groups()[0].options(), options);
    for _ in 0..3 {
        train(&model, &mut optimizer)?;
        train(&other, &mut loaded)?;
    }
    let bits = |model: &Linear| -> Result<Vec<f32>> {
        Ok([model.weight.tensor().to_vec::<f32>()?, model.bias.as_ref().unwrap().tensor().to_vec()?].concat())
    };
    assert_eq!(bits(&model)?, bits(&other)?);
    // States that do not fit change nothing.
    let wide = Linear::new(5, 3)?;
    let mut wrong = AdamW::new(vec![("weight".to_owned(), wide.weight.clone())], options)?;
    let said = message(wrong.load_state_dict(&optimizer.state_dict()));
    assert!(said.contains("`bias` is unexpected"), "{said}");
    assert!(said.contains("`exp_avg` of `weight` has shape [3, 2], it must be [3, 5]"), "{said}");
    assert!(wrong.state("weight").unwrap().is_empty());
    Ok(())
}

#[test]
fn parameters_of_16_bits_learn_from_small_steps() -> Result<()> {
    for dtype in [DType::BF16, DType::F16] {
        let weight = Parameter::new(Tensor::new([1.0f32])?.to_dtype(dtype)?)?;
        let options = SGDOptions { lr: 1e-4, ..Default::default() };
        let optimizer = SGD::new(vec![("weight".to_owned(), weight.clone())], options)?;
        // Each is less than half of the least step of the dtype.
        for _ in 0..1000 {
            weight.tensor().set_grad(Some(&Tensor::new([1.0f32])?.to_dtype(dtype)?))?;
            optimizer.step()?;
        }
        let value = || -> Result<f32> { Ok(weight.tensor().to_dtype(DType::F32)?.to_vec::<f32>()?[0]) };
        assert!((value()? - 0.9).abs() < 0.004, "{}", value()?);
        // What the parameter is set to counts.
        rustorch_tensor::autograd::no_grad(|| weight.tensor().fill_(2.0))?;
        optimizer.step()?;
        assert_eq!(value()?, 2.0);
    }
    Ok(())
}

#[test]
fn gradients_are_clipped() -> Result<()> {
    let parameters = || -> Result<Vec<(String, Parameter)>> {
        let (a, b) = (Tensor::zeros([2], DType::F32)?, Tensor::zeros([1], DType::F64)?);
        let all = vec![("a".to_owned(), Parameter::new(a)?), ("b".to_owned(), Parameter::new(b)?)];
        all[0].1.tensor().set_grad(Some(&Tensor::new([2.0f32, -3.0])?))?;
        all[1].1.tensor().set_grad(Some(&Tensor::new([6.0f64])?))?;
        Ok(all)
    };
    let all = parameters()?;
    // Values of torch.nn.utils.clip_grad_norm_.
    assert!((clip_grad_norm_(all.clone(), 3.5, 2.0)?.item()?.to_f64() - 7.0).abs() < 1e-6);
    assert!((all[1].1.grad().unwrap().to_vec::<f64>()?[0] - 2.999_999_571_428_632_6).abs() < 1e-7);
    assert_eq!(clip_grad_norm_(parameters()?, 100.0, f64::INFINITY)?.item()?.to_f64(), 6.0);
    assert_eq!(clip_grad_norm_(parameters()?, 100.0, 1.0)?.item()?.to_f64(), 11.0);
    let all = parameters()?;
    clip_grad_value_(all.clone(), 2.5)?;
    assert_eq!(all[0].1.grad().unwrap().to_vec::<f32>()?, [2.0, -2.5]);
    assert!(message(clip_grad_value_(all.clone(), -1.0)).contains("the limit is -1"));
    all[0].1.tensor().set_grad(Some(&Tensor::new([f32::NAN, 0.0])?))?;
    let said = message(clip_grad_norm_(all.clone(), 1.0, 2.0));
    assert!(said.contains("is NaN; not finite are those of `a`"), "{said}");
    assert_eq!(all[1].1.grad().unwrap().to_vec::<f64>()?, [2.5]);
    Ok(())
}
