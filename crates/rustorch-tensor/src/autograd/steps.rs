//! Operations that are recorded as others: as the several that they stand for, or in the form that has a gradient.

use super::custom;
use super::record::Results;
use crate::Tensor;
use crate::dispatch::{run_many, run_pair};
use rustorch_core::{Attention, Conv, Error, FusedPointwise, FusedValue, MatMul, Op, Result};
use smallvec::SmallVec;

/// Runs the steps of an operation, or its other form, which give what it gives.
pub(crate) fn run(op: &Op, args: &[&Tensor]) -> Result<Results> {
    let result = match op {
        Op::FusedPointwise(program) => pointwise(program, args)?,
        Op::MatMul(MatMul { activation: Some(activation), .. }) => {
            let mut op = op.clone();
            if let Op::MatMul(matmul) = &mut op {
                matmul.activation = None;
            }
            run_many(&Op::Unary(*activation), &[&run_many(&op, args)?])?
        }
        Op::Conv(conv) => {
            let Some(activation) = conv.activation else { return Err(no_steps(op)) };
            let conv = Conv { activation: None, params: conv.params.clone() };
            run_many(&Op::Unary(activation), &[&run_many(&Op::from(conv), args)?])?
        }
        Op::Attention(attention) => {
            let attention = Attention { lse: true, ..attention.clone() };
            // The log-sum-exp is the recorded operation's own: nobody else asked for it.
            run_pair(&Op::Attention(attention), args)?.0
        }
        Op::Custom(custom_op) => match custom::backward(custom_op) {
            Some(gradient) => return custom::run(custom_op, gradient, args),
            None => return Err(no_steps(op)),
        },
        other => return Err(no_steps(other)),
    };
    Ok([result].into_iter().collect())
}

fn no_steps(op: &Op) -> Error {
    Error::argument("autograd", format!("{} has no steps", op.name()))
}

fn pointwise(program: &FusedPointwise, args: &[&Tensor]) -> Result<Tensor> {
    let constants = program
        .constants()
        .iter()
        .map(|constant| {
            let _beside = rustorch_runtime::DeviceGuard::beside(args[0].storage());
            crate::create::scalar(constant.value, constant.dtype)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut steps: Vec<Tensor> = Vec::new();
    for step in program.steps() {
        let value = {
            let operand = |&value: &FusedValue| match value {
                FusedValue::Input(i) => args[i],
                FusedValue::Constant(i) => &constants[i],
                FusedValue::Step(i) => &steps[i],
            };
            let operands: SmallVec<[&Tensor; 3]> = step.args().iter().map(operand).collect();
            run_many(step.op(), &operands)?
        };
        steps.push(value);
    }
    steps.pop().ok_or_else(|| Error::argument("autograd", "a fused operation has a step at least"))
}
