//! Trainings go on from the files of PyTorch's optimizers: `tools/oracle/torch_optimizer_files.py` wrote them.

use rustorch::Tensor;
use rustorch::files::{Value, load_torch, load_torch_optimizer};
use rustorch::nn::Parameter;
use rustorch::optim::{
    ASGDOptions, AdadeltaOptions, AdafactorOptions, AdagradOptions, AdamOptions, AdamWOptions, AdamaxOptions,
    MuonOptions, NAdamOptions, Optimizer, RAdamOptions, RMSpropOptions, RpropOptions, Rule, SGDOptions,
};

fn file() -> Value {
    load_torch(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/optimizers.pt")).unwrap()
}

fn tensors(value: &Value) -> Vec<(String, Tensor)> {
    value.state_dict().unwrap().into_iter().map(|(name, x)| (name.to_owned(), x.clone())).collect()
}

/// The parameters, and an optimizer of them with its defaults, in PyTorch's groups but another order.
fn optimizer<R: Rule>(entry: &Value) -> (Vec<(String, Parameter)>, Optimizer<R>) {
    let before = tensors(entry.get("before").unwrap()).into_iter();
    let parameters: Vec<_> = before.map(|(name, x)| (name, Parameter::new(x).unwrap())).collect();
    let mut rest = parameters[1..].to_vec();
    rest.reverse();
    let groups = vec![(rest, R::default()), (parameters[..1].to_vec(), R::default())];
    (parameters, Optimizer::with_groups(groups).unwrap())
}

fn check<R: Rule>(file: &Value, name: &str, names_in_file: bool) {
    let entry = file.get(name).unwrap();
    let (parameters, mut optimizer) = optimizer::<R>(entry);
    let names: Vec<&str> = match names_in_file {
        true => Vec::new(),
        false => parameters.iter().map(|(name, _)| name.as_str()).collect(),
    };
    load_torch_optimizer(&mut optimizer, entry.get("state").unwrap(), &names).unwrap();
    for grads in entry.get("grads").unwrap().as_list().unwrap() {
        for ((_, parameter), (_, grad)) in parameters.iter().zip(tensors(grads)) {
            parameter.tensor().set_grad(Some(&grad)).unwrap();
        }
        optimizer.step().unwrap();
    }
    for ((key, parameter), (_, want)) in parameters.iter().zip(tensors(entry.get("after").unwrap())) {
        let have = parameter.tensor().to_vec::<f64>().unwrap();
        for (have, want) in have.into_iter().zip(want.to_vec::<f64>().unwrap()) {
            assert!((have - want).abs() <= 1e-9 + 1e-9 * want.abs(), "{name}, {key}: {have} for {want}");
        }
    }
}

#[test]
fn trainings_go_on_from_pytorch_s_files() {
    let file = file();
    check::<SGDOptions>(&file, "SGD", false);
    check::<AdamOptions>(&file, "Adam", false);
    check::<AdamWOptions>(&file, "AdamW", false);
    check::<AdamaxOptions>(&file, "Adamax", false);
    check::<NAdamOptions>(&file, "NAdam", false);
    check::<RAdamOptions>(&file, "RAdam", false);
    check::<RMSpropOptions>(&file, "RMSprop", false);
    check::<RpropOptions>(&file, "Rprop", false);
    check::<AdagradOptions>(&file, "Adagrad", false);
    check::<AdadeltaOptions>(&file, "Adadelta", false);
    check::<ASGDOptions>(&file, "ASGD", false);
    check::<AdafactorOptions>(&file, "Adafactor", false);
    check::<MuonOptions>(&file, "Muon", false);
    check::<AdamOptions>(&file, "NamedAdam", true);
    assert_eq!(file.as_dict().unwrap().len(), 14);
}

#[test]
fn what_does_not_fit_is_one_error() {
    let file = file();
    let said = |entry: &str, names: &[&str]| {
        let (_, mut optimizer) = optimizer::<AdamOptions>(file.get("Adam").unwrap());
        let state = file.get(entry).unwrap().get("state").unwrap();
        let said = load_torch_optimizer(&mut optimizer, state, names).expect_err("an error").to_string();
        assert!(optimizer.state("matrix").unwrap().is_empty(), "it was changed");
        said
    };
    let message = said("Adam", &["matrix", "bias", "scalar", "kernel"]);
    for part in ["`vector` is missing", "`tall` is missing", "`bias` is unexpected", "`kernel` is unexpected"]
    {
        assert!(message.contains(part), "{message}");
    }
    let message = said("Adam", &["matrix"]);
    assert!(message.contains("the state has 4 parameters, 1 names were given"), "{message}");
    assert!(said("Adam", &[]).contains("the state has 4 parameters, 0 names were given"));
    // Another optimizer's.
    let message = said("SGD", &["matrix", "vector", "scalar", "tall"]);
    assert!(message.contains("there is no option `momentum`"), "{message}");
    let (_, mut one_group) = optimizer::<AdamOptions>(file.get("Adam").unwrap());
    let error = load_torch_optimizer(&mut one_group, &Value::Int(3), &["matrix"]).expect_err("no state");
    assert!(error.to_string().contains("a dict"), "{error}");
}

#[test]
fn parameters_of_one_group_have_the_same_options() {
    let file = file();
    let entry = file.get("Adam").unwrap();
    let (parameters, _) = optimizer::<AdamOptions>(entry);
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    let mut one_group = Optimizer::new(parameters.clone(), AdamOptions::default()).unwrap();
    let error =
        load_torch_optimizer(&mut one_group, entry.get("state").unwrap(), &names).expect_err("an error");
    let part = "`matrix` and `vector` are in one group, their option `lr` is 0.1 and 0.05";
    assert!(error.to_string().contains(part), "{error}");
}
