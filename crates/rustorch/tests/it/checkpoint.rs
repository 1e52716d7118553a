//! Checkpoints: a training that stops and goes on is one that did not stop, to the last bit.

use rustorch::files::Checkpoint;
use rustorch::nn::{Dropout, Layer, Linear, Module, Parameter, Sequential, data::TensorDataset};
use rustorch::optim::schedule::{CosineAnnealingLR, Scheduler};
use rustorch::optim::{AdamW, AdamWOptions, LBFGS, LBFGSOptions, SGD, SGDOptions};
use rustorch::{DType, Generator, Tensor, autograd::no_grad, default_generator, manual_seed};
use rustorch_testkit::{child, is_child};
use std::path::Path;

const NAME: &str = "checkpoint::a_stop_changes_no_bit";

struct Training {
    model: Sequential,
    optimizer: AdamW,
    scheduler: Scheduler<CosineAnnealingLR>,
    data: TensorDataset<2>,
    random: Generator,
}

impl Training {
    fn new() -> Training {
        let layers = Sequential::new().push(Linear::new(4, 16).unwrap()).push(Tensor::gelu);
        let model = layers.push(Dropout::new(0.2).unwrap()).push(Linear::new(16, 1).unwrap());
        let options = AdamWOptions { lr: 0.05, amsgrad: true, ..Default::default() };
        let optimizer = AdamW::by_name(&model, |name| match name.ends_with("bias") {
            true => AdamWOptions { weight_decay: 0.0, ..options },
            false => options,
        })
        .unwrap();
        let scheduler = Scheduler::new(CosineAnnealingLR::new(40, 1e-3).unwrap(), &optimizer).unwrap();
        let x = Generator::new(3).randn([64, 4], DType::F32).unwrap();
        let y = x.sum([1], true).unwrap();
        let data = TensorDataset::new([x, y]).unwrap();
        Training { model, optimizer, scheduler, data, random: Generator::new(9) }
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let rows = self.random.randint(0, 64, [8], DType::I64).unwrap();
            let [x, y] = self.data.tensors().each_ref().map(|t| t.index_select(0, &rows).unwrap());
            self.optimizer.zero_grad();
            let error = self.model.forward(&x).unwrap() - y;
            error.square().unwrap().mean_all().unwrap().backward().unwrap();
            self.optimizer.step().unwrap();
            self.scheduler.step(&self.optimizer).unwrap();
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        let mut checkpoint = Checkpoint::new();
        checkpoint.module("model", &self.model).unwrap();
        checkpoint.optimizer("optimizer", &self.optimizer).unwrap();
        checkpoint.scheduler("scheduler", &self.scheduler).unwrap();
        checkpoint.generator("batches", &self.random).unwrap();
        checkpoint.generator("dropout", default_generator()).unwrap();
        checkpoint
    }

    fn load(&mut self, path: &Path) -> rustorch::files::Result<()> {
        let checkpoint = Checkpoint::load(path)?;
        checkpoint.load_module("model", &self.model)?;
        checkpoint.load_optimizer("optimizer", &mut self.optimizer)?;
        checkpoint.load_scheduler("scheduler", &mut self.scheduler)?;
        checkpoint.load_generator("batches", &self.random)?;
        checkpoint.load_generator("dropout", default_generator())
    }

    fn bytes(&self) -> Vec<u8> {
        self.model.parameters().iter().flat_map(|parameter| parameter.tensor().to_bytes().unwrap()).collect()
    }
}

#[test]
fn a_stop_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    if is_child(NAME) {
        // Processes of their own: dropout draws from the process's generator, and so do other tests of this one.
        let path = std::env::var_os("CHECKPOINT").unwrap();
        let mut training = Training::new();
        match std::env::var("PART").as_deref() {
            Ok("whole") => {
                manual_seed(5);
                training.steps(20);
                training.checkpoint().save(&path).unwrap();
            }
            _ => training.load(Path::new(&path)).unwrap(),
        }
        training.steps(20);
        return std::fs::write(std::env::var_os("WEIGHTS").unwrap(), training.bytes()).unwrap();
    }
    let weights = |part: &str| {
        let weights = folder.path().join(part);
        let mut process = child(NAME);
        process.env("CHECKPOINT", folder.path().join("checkpoint.safetensors"));
        let output = process.env("PART", part).env("WEIGHTS", &weights).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(weights).unwrap()
    };
    assert_eq!(weights("whole"), weights("rest"));
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut training = Training::new();
    training.steps(2);
    training.checkpoint().save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let before = training.bytes();
    // Every part of the file is covered, the header included.
    for place in (0..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        std::fs::write(&path, damaged).unwrap();
        assert!(
            Checkpoint::load(&path).is_err() || place < whole.len() / 2,
            "byte {place} of {}",
            whole.len()
        );
    }
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(Checkpoint::load(&path).is_err(), "{length} bytes");
    }
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let said = Checkpoint::load(&path).err().unwrap().to_string();
    assert!(
        said.contains("is damaged: its checksum is not") && said.contains("checkpoint.safetensors"),
        "{said}"
    );
    assert_eq!(training.bytes(), before);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut training = Training::new();
    training.steps(1);
    let mut checkpoint = training.checkpoint();
    let said = checkpoint.module("model", &training.model).err().unwrap().to_string();
    assert!(
        said.contains("there is a `model.0.bias` already") || said.contains("`model.0.weight`"),
        "{said}"
    );
    checkpoint.save(&path).unwrap();
    let checkpoint = Checkpoint::load(&path).unwrap();
    let said = checkpoint.load_number("epoch").unwrap_err().to_string();
    assert!(said.contains("it has no `epoch`"), "{said}");
    let other = Linear::new(3, 3).unwrap();
    let said = checkpoint.load_module("model", &other).unwrap_err().to_string();
    assert!(
        said.contains("`weight` f32[3, 3] is missing") && said.contains("`0.weight` is unexpected"),
        "{said}"
    );
    let mut sgd = SGD::new(&other, SGDOptions::default()).unwrap();
    let said = checkpoint.load_optimizer("optimizer", &mut sgd).unwrap_err().to_string();
    assert!(said.contains("`weight` is missing"), "{said}");
    let said = checkpoint.load_optimizer("another", &mut sgd).unwrap_err().to_string();
    assert!(said.contains("it has no optimizer `another`"), "{said}");
    // A file of tensors alone is none.
    rustorch::files::save_safetensors(&path, training.model.state_dict().iter()).unwrap();
    assert!(Checkpoint::load(&path).err().unwrap().to_string().contains("it has no checksums"));
    // Where a file cannot be written, the older one stays.
    assert!(training.checkpoint().save(folder.path().join("missing/checkpoint")).is_err());
}

#[test]
fn lbfgs_goes_on_with_its_history() {
    let x = Parameter::new(Tensor::new([3.0f64, -2.0]).unwrap()).unwrap();
    let named = || vec![("x".to_owned(), x.clone())];
    let options = LBFGSOptions { max_iter: 2, lr: 0.1, ..Default::default() };
    let closure = || {
        x.zero_grad();
        let loss = x.tensor().square()?.square()?.sum_all()?;
        loss.backward()?;
        Ok(loss)
    };
    let mut optimizer = LBFGS::new(named(), options).unwrap();
    (0..3).for_each(|_| drop(optimizer.step(closure).unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut checkpoint = Checkpoint::new();
    checkpoint.optimizer("optimizer", &optimizer).unwrap();
    checkpoint.save(&path).unwrap();
    let before = x.tensor().copy().unwrap();
    optimizer.step(closure).unwrap();
    let expected = x.tensor().to_vec::<f64>().unwrap();

    no_grad(|| x.tensor().copy_(&before)).unwrap();
    let mut loaded = LBFGS::new(named(), LBFGSOptions::default()).unwrap();
    Checkpoint::load(&path).unwrap().load_optimizer("optimizer", &mut loaded).unwrap();
    loaded.step(closure).unwrap();
    assert_eq!(x.tensor().to_vec::<f64>().unwrap(), expected);
}
