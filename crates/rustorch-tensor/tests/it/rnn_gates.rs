//! The gates of LSTM and GRU against PyTorch's cells: states, and gradients.
//!
//! The fixture was made by `tools/oracle/torch_rnn_gates.py` with PyTorch 2.

use crate::common::{Case, complexes, fixture, tensor};
use rustorch_tensor::autograd::{enable_grad, no_grad};
use rustorch_tensor::{DType, Error, Result, Tensor};

fn run(case: &Case) -> Result<Vec<Tensor>> {
    match (case.op.as_str(), &case.inputs[..]) {
        ("lstm_gates", [gates, cell]) => gates.lstm_gates(cell).map(|(hidden, cell)| vec![hidden, cell]),
        ("gru_gates", [input, gates, hidden]) => input.gru_gates(gates, hidden).map(|hidden| vec![hidden]),
        (other, _) => panic!("no test runs {other}"),
    }
}

/// Of 16 bits, what rounding once takes away, and little more.
fn check(label: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.dims(), want.dims(), "{label}");
    let (absolute, relative) = match got.dtype() {
        DType::F64 => (1e-14, 1e-13),
        DType::F32 => (2e-7, 2e-6),
        DType::F16 => (2e-7, 2f64.powi(-11) + 2e-6),
        _ => (2e-7, 2f64.powi(-8) + 2e-6),
    };
    for (i, (got, want)) in complexes(got).iter().zip(complexes(want)).enumerate() {
        let close = (got.re - want.re).abs() <= absolute + relative * want.re.abs();
        assert!(close, "{label}: element {i} is {}, not {}", got.re, want.re);
    }
}

#[test]
fn states() {
    let mut dtypes = [0; 4];
    for line in fixture("rnn_gates.jsonl") {
        let case = Case::new(&line);
        let results = run(&case).unwrap();
        assert_eq!(results.len(), case.outputs.len());
        for (got, want) in results.iter().zip(&case.outputs) {
            assert_eq!(got.dtype(), case.inputs[0].dtype());
            check(&case.label, got, want);
        }
        let floats = [DType::F64, DType::F32, DType::F16, DType::BF16];
        dtypes[floats.iter().position(|&dtype| dtype == results[0].dtype()).unwrap()] += 1;
    }
    assert_eq!(dtypes, [13, 10, 8, 8]);
}

#[test]
fn gradients() {
    let mut checked = 0;
    for line in fixture("rnn_gates.jsonl").iter().filter(|line| line["grads"].is_array()) {
        let case = Case::new(line);
        case.inputs.iter().for_each(|x| {
            x.requires_grad_(true).unwrap();
        });
        let results = run(&case).unwrap();
        let cotangents = line["cotangents"].as_array().unwrap();
        let mut along: Option<Tensor> = None;
        for (y, cotangent) in results.iter().zip(cotangents).filter(|(_, cotangent)| !cotangent.is_null()) {
            let own = y.mul(&tensor(cotangent)).unwrap().sum_all().unwrap();
            along = Some(along.map_or(own.clone(), |along| along.add(&own).unwrap()));
        }
        along.unwrap().backward().unwrap();
        for (i, (x, want)) in case.inputs.iter().zip(line["grads"].as_array().unwrap()).enumerate() {
            check(&format!("input {i} of {}", case.label), &x.grad().unwrap(), &tensor(want));
        }
        checked += 1;
    }
    assert_eq!(checked, 13);
}

/// Gradients written to rows of a larger tensor are those of a backward pass.
#[test]
fn gradients_in_given_rows() -> Result<()> {
    for line in fixture("rnn_gates.jsonl").iter().filter(|line| line["grads"].is_array()) {
        let case = Case::new(line);
        let [gates, cell] = &case.inputs[..] else { continue };
        let cotangents = line["cotangents"].as_array().unwrap();
        let given = |i: usize| (!cotangents[i].is_null()).then(|| tensor(&cotangents[i]));
        let rows = gates.dims()[0];
        let all = Tensor::full([rows + 2, gates.dims()[1]], 7.0, DType::F64)?;
        let (own, of_cell) = (all.narrow(0, 1, rows)?, cell.zeros_like()?);
        gates.lstm_gates_backward_into(cell, &given(0).unwrap(), given(1).as_ref(), [&own, &of_cell])?;
        for (got, want) in [own, of_cell].iter().zip(line["grads"].as_array().unwrap()) {
            check(&case.label, got, &tensor(want));
        }
        for beside in [0, rows + 1] {
            assert!(all.narrow(0, beside, 1)?.to_vec::<f64>()?.iter().all(|&x| x == 7.0));
        }
    }
    Ok(())
}

#[test]
fn writes_gradients_only_where_none_are_recorded() -> Result<()> {
    let zeros = |dims: [usize; 2]| Tensor::zeros(dims, DType::F32);
    let (gates, cell, grads) = (zeros([2, 8])?, zeros([2, 2])?, [zeros([2, 8])?, zeros([2, 2])?]);
    gates.requires_grad_(true)?;
    let write = || gates.lstm_gates_backward_into(&cell, &cell, None, grads.each_ref());
    let refused = enable_grad(write).unwrap_err();
    assert!(refused.to_string().contains("no_grad"), "{refused}");
    no_grad(write)
}

#[test]
fn operands_promote() -> Result<()> {
    let (half, single) = (Tensor::zeros([1, 4], DType::BF16)?, Tensor::ones([1, 1], DType::F32)?);
    let (hidden, cell) = half.lstm_gates(&single)?;
    assert_eq!([hidden.dtype(), cell.dtype()], [DType::F32; 2]);
    assert_eq!(cell.to_vec::<f32>()?, [0.5]);
    let half = half.narrow(1, 0, 3)?;
    assert_eq!(half.gru_gates(&half, &single)?.dtype(), DType::F32);
    Ok(())
}

#[test]
fn errors() -> Result<()> {
    let of = |dims: &[usize]| Tensor::zeros(dims, DType::F32);
    let shape = |result: Result<()>| assert!(matches!(result, Err(Error::Shape { .. })), "{result:?}");
    shape(of(&[2, 8])?.lstm_gates(&of(&[2, 3])?).map(drop));
    shape(of(&[3, 8])?.lstm_gates(&of(&[2, 2])?).map(drop));
    shape(of(&[8])?.lstm_gates(&of(&[])?).map(drop));
    shape(of(&[])?.lstm_gates(&of(&[1])?).map(drop));
    shape(of(&[2, 6])?.gru_gates(&of(&[2, 9])?, &of(&[2, 2])?).map(drop));
    let integers = Tensor::zeros([1, 4], DType::I32)?.lstm_gates(&Tensor::zeros([1, 1], DType::I32)?);
    assert!(matches!(integers, Err(Error::DType { .. })), "{integers:?}");
    let (gates, cell) = (of(&[1, 4])?, of(&[1, 1])?);
    shape(no_grad(|| gates.lstm_gates_backward_into(&cell, &of(&[1, 2])?, None, [&gates, &cell])));
    Ok(())
}
