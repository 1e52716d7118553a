//! Cross entropy against PyTorch's, with first and second gradients; and what PyTorch does not do.
//!
//! The fixture was made by `tools/oracle/torch_cross_entropy.py` with PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, fixture};
use crate::gradients::tally;
use rustorch_tensor::autograd::{
    BackwardOptions, GradCheck, GradOptions, autocast, grad, gradcheck, gradgradcheck,
};
use rustorch_tensor::{CrossEntropyOptions, DType, Generator, Reduction, Result, Tensor};

/// The loss of a line of the fixture.
pub(crate) fn compute(case: &Case) -> Result<Tensor> {
    let options = CrossEntropyOptions {
        weight: case.inputs.get(2).cloned(),
        ignore_index: case.int("ignore_index").unwrap(),
        reduction: match case.attrs["reduction"].as_str().unwrap() {
            "mean" => Reduction::Mean,
            "sum" => Reduction::Sum,
            "none" => Reduction::None,
            other => panic!("no reduction {other}"),
        },
        label_smoothing: case.float("label_smoothing").unwrap(),
    };
    case.inputs[0].cross_entropy(&case.inputs[1], &options)
}

#[test]
fn losses_and_gradients_equal_pytorch() {
    let lines = fixture("cross_entropy.jsonl");
    assert!(lines.len() > 150, "{} cases", lines.len());
    let tally = tally(&lines);
    assert_eq!((tally.refused.len(), tally.wrong.len()), (0, 0), "refused and wrong cases, listed above");
    assert_eq!(tally.passed, lines.len());
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap()
}

#[track_caller]
fn close(got: &Tensor, want: &Tensor, tolerance: f64) {
    assert_eq!(got.dims(), want.dims());
    for (i, (got, want)) in values(got).iter().zip(values(want)).enumerate() {
        assert!(
            (got - want).abs() <= tolerance * want.abs().max(1.0),
            "element {i}: {got} instead of {want}"
        );
    }
}

/// By its definition, of classes.
fn by_definition(logits: &Tensor, target: &Tensor) -> Result<Tensor> {
    logits.log_softmax(-1)?.gather(-1, &target.unsqueeze(-1)?)?.mean_all()?.neg()
}

#[test]
fn long_rows_equal_the_definition() -> Result<()> {
    let random = Generator::new(3);
    // Several blocks of a row, and a last one that is short; and few elements in many rows.
    for (rows, classes) in [(3, 5001), (2, 2048), (5, 2049), (700, 17)] {
        let target = random.randint(0, classes, [rows], DType::I64)?;
        let wide = random.normal(0.0, 5.0, [rows, classes as usize], DType::F64)?;
        for (dtype, tolerance) in
            [(DType::F64, 1e-12), (DType::F32, 2e-6), (DType::BF16, 8e-3), (DType::F16, 1e-3)]
        {
            let x = wide.to_dtype(dtype)?.copy()?;
            let exact = x.to_dtype(DType::F64)?.copy()?;
            for x in [&x, &exact] {
                x.requires_grad_(true)?;
            }
            let loss = x.cross_entropy(&target, &CrossEntropyOptions::default())?;
            assert_eq!(loss.dtype(), dtype);
            let want = by_definition(&exact, &target)?;
            close(&loss, &want, tolerance);
            loss.backward()?;
            want.backward()?;
            // Gradients are below 1/rows.
            let scale = rows as f64;
            close(
                &x.grad().unwrap().to_dtype(DType::F64)?.mul(scale)?,
                &exact.grad().unwrap().mul(scale)?,
                tolerance,
            );
        }
    }
    Ok(())
}

#[test]
fn gradients_of_all_float_arguments_equal_finite_differences() -> Result<()> {
    let random = Generator::new(4);
    let (x, y) = (random.randn([3, 4], DType::F64)?, random.uniform(0.1, 1.0, [3, 4], DType::F64)?);
    let w = random.uniform(0.5, 2.0, [4], DType::F64)?;
    let classes = Tensor::new([2i64, -100, 0])?;
    for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        for label_smoothing in [0.0, 0.2] {
            let options = |w: &Tensor| CrossEntropyOptions {
                weight: Some(w.clone()),
                reduction,
                label_smoothing,
                ..CrossEntropyOptions::default()
            };
            // PyTorch has no gradient of the weight of classes.
            let of_classes = |x: &[Tensor]| Ok(vec![x[0].cross_entropy(&classes, &options(&x[1]))?]);
            gradcheck(of_classes, &[&x, &w], GradCheck::default())?;
            gradgradcheck(of_classes, &[&x, &w], GradCheck::default())?;
            let of_shares = |x: &[Tensor]| Ok(vec![x[0].cross_entropy(&x[1], &options(&x[2]))?]);
            gradcheck(of_shares, &[&x, &y, &w], GradCheck::default())?;
            gradgradcheck(of_shares, &[&x, &y, &w], GradCheck::default())?;
        }
    }
    Ok(())
}

fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this should be refused"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn refused<T>(result: Result<T>, parts: &[&str]) {
    let text = message(result);
    for part in parts.iter().chain(&["cross_entropy"]) {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let x = Tensor::zeros([3, 4], DType::F32)?;
    let options = CrossEntropyOptions::default();
    refused(x.cross_entropy(&Tensor::new([0i64, 4, 1])?, &options), &["row 1", "is 4", "4 classes"]);
    refused(x.cross_entropy(&Tensor::new([0i32, 1, -1])?, &options), &["row 2", "is -1", "-100"]);
    refused(x.cross_entropy(&Tensor::new([0i64, 1])?, &options), &["[3, 4]", "[2]", "[3]"]);
    refused(x.cross_entropy(&Tensor::zeros([3], DType::F32)?, &options), &["probabilities", "[3, 4]", "[3]"]);
    refused(x.cross_entropy(&Tensor::zeros([3], DType::Bool)?, &options), &["integers", "bool"]);
    let integers = x.to_dtype(DType::I64)?;
    refused(integers.cross_entropy(&Tensor::new([0i64, 1, 2])?, &options), &["floating-point", "i64"]);
    refused(
        Tensor::zeros([], DType::F32)?.cross_entropy(&Tensor::new(0i64)?, &options),
        &["dimension of classes"],
    );
    let empty = Tensor::zeros([3, 0], DType::F32)?;
    refused(empty.cross_entropy(&Tensor::new([0i64, 0, 0])?, &options), &["no classes", "[3, 0]"]);
    let target = Tensor::new([0i64, 1, 2])?;
    for label_smoothing in [-0.1, 1.5, f64::NAN] {
        let options = CrossEntropyOptions { label_smoothing, ..options.clone() };
        refused(x.cross_entropy(&target, &options), &["label_smoothing", "from 0 to 1"]);
    }
    let weighted = CrossEntropyOptions { weight: Some(Tensor::ones([3], DType::F32)?), ..options.clone() };
    refused(x.cross_entropy(&target, &weighted), &["weight", "each class", "[3]"]);
    let ignoring = CrossEntropyOptions { ignore_index: 0, ..options };
    refused(x.cross_entropy(&x, &ignoring), &["ignore_index", "probabilities"]);
    Ok(())
}

/// Where nothing else has the logits, their gradient is written over them; the numbers are the same.
#[test]
fn the_gradient_takes_the_memory_of_logits_that_nothing_else_has() -> Result<()> {
    let random = Generator::new(5);
    let (input, target) = (random.randn([40, 8], DType::F32)?, random.randint(0, 3000, [40], DType::I64)?);
    let start = random.randn([8, 3000], DType::F32)?;
    for dtype in [DType::F32, DType::BF16] {
        let (input, start) = (input.to_dtype(dtype)?, start.to_dtype(dtype)?);
        let gradient = |keep: bool, options: &BackwardOptions| -> Result<(Tensor, Option<Vec<f64>>)> {
            let weight = start.copy()?;
            weight.requires_grad_(true)?;
            let logits = input.matmul(&weight)?;
            let loss = logits.cross_entropy(&target, &CrossEntropyOptions::default())?;
            let before = values(&logits);
            let kept = keep.then_some(logits);
            loss.backward_with(None, options)?;
            let after = kept.as_ref().map(values);
            assert!(after.as_ref().is_none_or(|after| *after == before), "logits that are still there stay");
            Ok((weight.grad().unwrap(), after))
        };
        let plain = BackwardOptions::default();
        let (want, _) = gradient(true, &plain)?;
        let (got, _) = gradient(false, &plain)?;
        assert_eq!(got.to_bytes()?, want.to_bytes()?);
        let (got, _) =
            gradient(false, &BackwardOptions { retain_graph: true, ..BackwardOptions::default() })?;
        assert_eq!(got.to_bytes()?, want.to_bytes()?);
    }
    // The gradient of a sum is that of its term: the leaf gets the memory that the logits had.
    let x = random.randn([4, 6], DType::F32)?;
    x.requires_grad_(true)?;
    let logits = x.add(0.5)?;
    let place = logits.storage().identity();
    let loss = logits.cross_entropy(&Tensor::new([0i64, 5, 1, 2])?, &CrossEntropyOptions::default())?;
    drop(logits);
    loss.backward()?;
    assert_eq!(x.grad().unwrap().storage().identity(), place);
    // Two passes over a graph that is kept, and what another operation saved.
    let x = random.randn([4, 6], DType::F64)?;
    x.requires_grad_(true)?;
    let target = Tensor::new([0i64, 5, -100, 2])?;
    let y = x.tanh()?;
    let loss = y.cross_entropy(&target, &CrossEntropyOptions::default())?;
    drop(y);
    let keep = GradOptions { retain_graph: true, ..GradOptions::default() };
    let first = grad(&[&loss], &[&x], &[], keep)?[0].clone().unwrap();
    let second = grad(&[&loss], &[&x], &[], GradOptions::default())?[0].clone().unwrap();
    assert_eq!(first.to_bytes()?, second.to_bytes()?);
    let y = x.tanh()?;
    let want = grad(&[&by_definition_of_three(&y)?], &[&x], &[], GradOptions::default())?[0].clone().unwrap();
    close(&first, &want, 1e-12);
    Ok(())
}

/// The mean of the rows that the test above does not ignore.
fn by_definition_of_three(y: &Tensor) -> Result<Tensor> {
    let rows = y.index_select(0, &Tensor::new([0i64, 1, 3])?)?;
    by_definition(&rows, &Tensor::new([0i64, 5, 2])?)
}

#[test]
fn mixed_precision_computes_losses_in_single_precision() -> Result<()> {
    let x = Tensor::new([[0.5f32, -1.0, 2.0]])?.to_dtype(DType::BF16)?;
    let target = Tensor::new([1i64])?;
    let options = CrossEntropyOptions { weight: Some(Tensor::ones([3], DType::F32)?), ..Default::default() };
    let loss = autocast(DType::BF16, || x.cross_entropy(&target, &options))??;
    let want = x.to_dtype(DType::F32)?.cross_entropy(&target, &options)?;
    assert_eq!((loss.dtype(), loss.to_bytes()?), (DType::F32, want.to_bytes()?));
    Ok(())
}
