//! Gradients of an LSTM, whose steps are one function: against finite differences, and against the operations one by one, which cells run.

use rustorch_nn::{LSTM, LSTMCell, Module, RNNOptions};
use rustorch_tensor::autograd::{GradCheck, gradcheck, gradgradcheck};
use rustorch_tensor::{DType, Generator, Result, Tensor};

fn normal(seed: u64, shape: &[usize]) -> Result<Tensor> {
    Generator::new(seed).randn(shape, DType::F64)
}

#[test]
fn first_and_second_derivatives_of_both_directions_are_finite_differences() -> Result<()> {
    let lstm = LSTM::with(2, 3, RNNOptions::default().bidirectional(true))?;
    lstm.to_dtype(DType::F64)?;
    let inputs = [normal(1, &[3, 2, 2])?, normal(2, &[2, 2, 3])?, normal(3, &[2, 2, 3])?];
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let f = |x: &[Tensor]| {
        let (y, (hidden, cell)) = lstm.forward(&x[0], Some((&x[1], &x[2])))?;
        Ok(vec![y, hidden, cell])
    };
    gradcheck(f, &inputs, GradCheck::default())?;
    gradgradcheck(f, &inputs, GradCheck::default())
}

#[test]
fn gradients_are_those_of_cells() -> Result<()> {
    let (lstm, cell) = (LSTM::new(4, 5)?, LSTMCell::new(4, 5)?);
    lstm.to_dtype(DType::F64)?;
    cell.to_dtype(DType::F64)?;
    let of = |module: &dyn Module| {
        module.named_parameters().into_iter().map(|(_, p)| p.tensor()).collect::<Vec<_>>()
    };
    for (mine, other) in of(&lstm).iter().zip(of(&cell)) {
        rustorch_tensor::autograd::no_grad(|| other.copy_(mine))?;
    }
    let x = normal(4, &[6, 3, 4])?;
    // The cell state alone; hidden states alone; both.
    for wanted in [[false, true], [true, false], [true, true]] {
        let sum = |hidden: &Tensor, state: &Tensor| -> Result<Tensor> {
            let parts = [hidden.square()?.sum_all()?, state.square()?.sum_all()?];
            let [a, b] = [0, 1].map(|i| parts[i].mul(if wanted[i] { 1.0 } else { 0.0 }));
            a?.add(&b?)
        };
        let (y, (_, last)) = lstm.forward(&x, None)?;
        sum(&y, &last)?.backward()?;
        let mut state = (Tensor::zeros([3, 5], DType::F64)?, Tensor::zeros([3, 5], DType::F64)?);
        let mut hidden = Vec::new();
        for t in 0..6 {
            state = cell.forward(&x.select(0, t)?, Some((&state.0, &state.1)))?;
            hidden.push(state.0.clone());
        }
        sum(&Tensor::stack(&hidden, 0)?, &state.1)?.backward()?;
        for (mine, other) in of(&lstm).iter().zip(of(&cell)) {
            let [mine, other] = [mine.grad().unwrap(), other.grad().unwrap()];
            assert!(mine.allclose(&other, 1e-9, 1e-9, false)?, "{wanted:?}: {mine} for {other}");
        }
        lstm.zero_grad();
        cell.zero_grad();
    }
    Ok(())
}
