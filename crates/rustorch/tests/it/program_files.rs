//! Captured functions in files.

use rustorch::files::{
    Error, load_program, load_program_mapped, load_safetensors, save_program, save_safetensors,
};
use rustorch::graph::ErrorKind;
use rustorch::nn::{BatchNorm1d, Dropout, Layer, Linear, Module, Sequential, seq};
use rustorch::optim::{SGD, SGDOptions};
use rustorch::{DType, Program, Tensor, TensorSpec, capture, guard, manual_seed};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn bytes(tensors: &[Tensor]) -> Vec<Vec<u8>> {
    tensors.iter().map(|x| x.to_bytes().unwrap()).collect()
}

/// The program of a file, in both ways.
fn loaded(path: &Path) -> [Program; 2] {
    // SAFETY: nobody else knows the file.
    [load_program(path).unwrap(), unsafe { load_program_mapped(path) }.unwrap()]
}

fn perceptron() -> Sequential {
    manual_seed(5);
    seq![
        Linear::new(4, 8).unwrap(),
        BatchNorm1d::new(8).unwrap(),
        Dropout::new(0.5).unwrap(),
        Linear::new(8, 2).unwrap()
    ]
}

#[test]
fn a_network_that_trains_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("network.safetensors");
    let model = perceptron();
    let spec = [TensorSpec::new([3, 4], DType::F32).unwrap()];
    let program = capture(&spec, |x| Ok(vec![model.forward(&x[0])?.detach()])).unwrap();
    let batch = |seed: usize| {
        let values: Vec<f32> = (0..12).map(|i| ((i * 7 + seed * 5) % 13) as f32 / 3.0 - 2.0).collect();
        Tensor::from_vec(values, [3, 4]).unwrap()
    };
    program.run(&[&batch(0)]).unwrap();
    save_program(&path, &program).unwrap();
    for other in loaded(&path) {
        // Running statistics are those of the file.
        let again = load_program(&path).unwrap();
        for seed in 1..4 {
            manual_seed(seed as u64);
            let got = bytes(&other.run(&[&batch(seed)]).unwrap());
            manual_seed(seed as u64);
            assert_eq!(bytes(&again.run(&[&batch(seed)]).unwrap()), got);
        }
        assert_eq!(bytes(&other.states()), bytes(&again.states()));
        assert_eq!(other.graph(), program.graph());
    }
    let [other, _] = loaded(&path);
    for seed in 1..4 {
        manual_seed(seed as u64);
        let got = bytes(&other.run(&[&batch(seed)]).unwrap());
        manual_seed(seed as u64);
        assert_eq!(bytes(&program.run(&[&batch(seed)]).unwrap()), got);
    }
    let statistics: Vec<Vec<u8>> = model.state_dict().iter().map(|(_, x)| x.to_bytes().unwrap()).collect();
    let states = bytes(&other.states());
    assert!(!states.is_empty() && states.iter().all(|state| statistics.contains(state)), "{states:?}");
}

#[test]
fn constants_are_read_only_and_the_file_is_one_of_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.safetensors");
    let weight = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
    let truth = Tensor::new([true, false]).unwrap();
    let program = capture(&[], |_| Ok(vec![weight.t()?, truth.copy()?])).unwrap();
    save_program(&path, &program).unwrap();
    let tensors = load_safetensors(&path).unwrap();
    assert_eq!(tensors.keys().collect::<Vec<_>>(), ["constant.0", "constant.1"]);
    for loaded in loaded(&path) {
        let outputs = loaded.run(&[]).unwrap();
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(outputs[1].to_vec::<bool>().unwrap(), [true, false]);
        assert!(outputs[0].add_(1).is_err());
        assert_eq!(loaded.run(&[]).unwrap()[0].to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
    }
}

#[test]
fn what_a_file_cannot_hold_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.safetensors");
    let model = Linear::new(2, 2).unwrap();
    let spec = [TensorSpec::new([1, 2], DType::F32).unwrap()];
    let program = capture(&spec, |x| {
        model.zero_grad();
        model.forward(&x[0])?.sum_all()?.backward()?;
        Ok(vec![])
    })
    .unwrap();
    let error = save_program(&path, &program).unwrap_err().to_string();
    assert!(error.contains("changes gradients") && error.contains("autograd::grad"), "{error}");
    let optimizer = SGD::new(&model, SGDOptions::default()).unwrap();
    let step = capture(&spec, |x| {
        model.zero_grad();
        model.forward(&x[0])?.sum_all()?.backward()?;
        optimizer.step()?;
        Ok(vec![])
    });
    let error = save_program(&path, &step.unwrap()).unwrap_err().to_string();
    assert!(error.contains("learning rate") && error.contains("without the step"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);

    let ready = capture(&[], |_| Ok(vec![])).unwrap();
    let error = save_program(dir.path().join("none/program.safetensors"), &ready).unwrap_err().to_string();
    assert!(error.contains("none/program.safetensors") && error.contains("make the folder first"), "{error}");

    save_safetensors(&path, [("weight", &Tensor::new([1.0f32]).unwrap())]).unwrap();
    match load_program(&path).unwrap_err() {
        Error::Graph(error) => {
            assert!(matches!(error.kind(), ErrorKind::NoGraph), "{error}");
            assert_eq!(error.path(), Some(&*path));
        }
        error => panic!("{error}"),
    }
}

/// A bool of another byte would be no bool.
#[test]
fn damaged_tensors_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.safetensors");
    let truth = Tensor::new([true, false]).unwrap();
    save_program(&path, &capture(&[], |_| Ok(vec![truth.copy()?])).unwrap()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() = 2;
    std::fs::write(&path, bytes).unwrap();
    let error = load_program(&path).unwrap_err().to_string();
    assert!(error.contains("bool"), "{error}");
}

#[test]
fn guards_are_of_the_process_and_not_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("program.safetensors");
    let doubles = Arc::new(AtomicBool::new(true));
    let program = capture(&[], |_| {
        let flag = Arc::clone(&doubles);
        guard("whether it doubles", move || flag.load(Ordering::Relaxed));
        Ok(vec![Tensor::new([1.0f32])?.mul(2)?])
    })
    .unwrap();
    save_program(&path, &program).unwrap();
    doubles.store(false, Ordering::Relaxed);
    assert!(program.run(&[]).is_err());
    assert_eq!(load_program(&path).unwrap().run(&[]).unwrap()[0].to_vec::<f32>().unwrap(), [2.0]);
}
