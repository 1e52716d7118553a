//! The gates of recurrent networks, and their gradients.

use super::norm::wide;
use super::{Recording, Rule, all_if_needed, unfused};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::functional::vjp;
use crate::autograd::saved::Saves;
use crate::dispatch::run_all;
use rustorch_core::{Op, Result, RnnGates, RnnGatesBackward};
use smallvec::SmallVec;

impl Rule for RnnGates {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let mut args: SmallVec<[Tensor; 5]> =
            (0..cx.inputs()).map(|i| cx.arg(i).cloned()).collect::<Result<_>>()?;
        let (state, dtype) = (self.gate_args(), args[0].dtype());
        let mut grads = cx.grads.iter();
        args.push(match grads.next() {
            Some(Some(grad)) => grad.to_dtype(dtype)?,
            _ => args[state].zeros_like()?,
        });
        let op = match self {
            RnnGates::Lstm => RnnGatesBackward::Lstm,
            RnnGates::Gru => RnnGatesBackward::Gru,
        };
        if let Some(Some(grad)) = grads.next() {
            args.push(grad.to_dtype(dtype)?);
        }
        let grads = run_all(&Op::RnnGatesBackward(op), &args.iter().collect::<SmallVec<[_; 5]>>())?;
        cx.each(|arg| Ok(Some(grads[arg].clone())))
    }
}

impl Rule for RnnGatesBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let gates = self.forward();
        unfused(cx, |args| {
            let dtype = args[0].dtype();
            let args = args.iter().map(wide).collect::<Result<Vec<_>>>()?;
            let (inputs, given) = args.split_at(gates.gate_args() + 1);
            // Without a gradient of the cell state, that of the hidden state alone.
            let results = |inputs: &[Tensor]| {
                let mut results = composed(gates, inputs)?;
                results.truncate(given.len());
                Ok(results)
            };
            let [inputs, given] = [inputs, given].map(|tensors| tensors.iter().collect::<Vec<_>>());
            let (_, grads) = vjp(results, &inputs, &given)?;
            grads.iter().map(|grad| grad.to_dtype(dtype)).collect()
        })
    }
}

/// The states after a step, by tensor operations.
fn composed(op: RnnGates, args: &[Tensor]) -> Result<Vec<Tensor>> {
    let part = |x: &Tensor, gate: usize| {
        let width = x.dims()[x.ndim() - 1] / op.gate_count();
        x.narrow(-1, gate * width, width)
    };
    match (op, args) {
        (RnnGates::Lstm, [gates, cell]) => {
            let kept = part(gates, 1)?.sigmoid()?.mul(cell)?;
            let cell = kept.add(&part(gates, 0)?.sigmoid()?.mul(&part(gates, 2)?.tanh()?)?)?;
            Ok(vec![part(gates, 3)?.sigmoid()?.mul(&cell.tanh()?)?, cell])
        }
        (RnnGates::Gru, [input, by_hidden, hidden]) => {
            let gate = |i: usize| part(input, i)?.add(&part(by_hidden, i)?)?.sigmoid();
            let new = part(input, 2)?.add(&gate(0)?.mul(&part(by_hidden, 2)?)?)?.tanh()?;
            Ok(vec![new.add(&gate(1)?.mul(&hidden.sub(&new)?)?)?])
        }
        _ => unreachable!("inferred"),
    }
}
