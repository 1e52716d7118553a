//! The steps of one layer of an LSTM as one function. Its backward pass computes the gradient of the weights by one matmul over all
//! steps, where the operations one by one would multiply and add at each step.

use super::cell::Recurrent;
use rustorch_tensor::autograd::{Function, FunctionContext, Gradients, is_grad_enabled, vjp};
use rustorch_tensor::{Result, Tensor};

/// Of `(gates by the argument [steps · rows, 4 · hidden], hidden, cell [rows, hidden], weight [4 · hidden, hidden][, bias])` the hidden
/// states `[steps · rows, hidden]` and the last cell state.
#[derive(Clone, Copy)]
pub(super) struct LstmSteps {
    /// Rows of a step.
    pub(super) rows: usize,
    /// Whether the last step comes first.
    pub(super) is_reverse: bool,
}

/// What the steps computed, in the order in which they ran.
struct Steps {
    gates: Vec<Tensor>,
    hidden: Vec<Tensor>,
    cells: Vec<Tensor>,
}

impl LstmSteps {
    /// Where the rows of each step begin, in the order in which the steps run.
    fn starts(self, x: &Tensor) -> Vec<usize> {
        let mut starts: Vec<usize> = (0..x.dims()[0]).step_by(self.rows).collect();
        if self.is_reverse {
            starts.reverse();
        }
        starts
    }

    fn run(self, inputs: &[&Tensor]) -> Result<Steps> {
        let &[x, hidden, cell, weight, ref bias @ ..] = inputs else { unreachable!("at least four inputs") };
        let recurrent =
            Recurrent { hh: weight.clone(), bias_hh: bias.first().map(|&bias| bias.clone()), hr: None };
        let mut state = [hidden.clone(), cell.clone()];
        let mut steps = Steps { gates: Vec::new(), hidden: Vec::new(), cells: Vec::new() };
        for start in self.starts(x) {
            let gates = recurrent.gates(&x.narrow(0, start, self.rows)?, &state[0])?;
            state = gates.lstm_gates(&state[1])?.into();
            steps.gates.push(gates);
            steps.hidden.push(state[0].clone());
            steps.cells.push(state[1].clone());
        }
        Ok(steps)
    }

    /// The hidden states of all steps in the order of the sequence.
    fn in_order(self, mut hidden: Vec<Tensor>) -> Result<Tensor> {
        if self.is_reverse {
            hidden.reverse();
        }
        Tensor::cat(&hidden, 0)
    }

    /// The results by recorded operations.
    fn composed(self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut steps = self.run(&inputs.iter().collect::<Vec<_>>())?;
        let last = steps.cells.pop().expect("there is a step");
        Ok(vec![self.in_order(steps.hidden)?, last])
    }
}

impl Function for LstmSteps {
    const NAME: &'static str = "lstm";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let steps = self.run(inputs)?;
        cx.save(inputs);
        cx.save(&steps.gates.iter().collect::<Vec<_>>());
        let (last, cells) = steps.cells.split_last().expect("there is a step");
        cx.save(&cells.iter().collect::<Vec<_>>());
        let hidden = self.in_order(steps.hidden)?;
        cx.save(&[&hidden]);
        Ok(vec![hidden, last.clone()])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let (x, weight) = (grads.saved(0)?, grads.saved(3)?);
        let starts = self.starts(x);
        let count = starts.len();
        let given = grads.inputs();
        let hidden = grads.saved(given + 2 * count - 1)?;
        if is_grad_enabled() {
            let inputs = (0..given).map(|i| grads.saved(i)).collect::<Result<Vec<_>>>()?;
            let zeros = [hidden.zeros_like()?, grads.saved(2)?.zeros_like()?];
            let cotangents = [grads.output(0)?.unwrap_or(&zeros[0]), grads.output(1)?.unwrap_or(&zeros[1])];
            let (_, products) = vjp(|inputs| self.composed(inputs), &inputs, &cotangents)?;
            return Ok(products.into_iter().map(Some).collect());
        }
        let mut of_hidden: Option<Tensor> = None;
        let mut of_cell = grads.output(1)?.cloned();
        // In the order in which matmuls read it, by one copy for all steps.
        let weight = weight.t()?.contiguous()?.t()?;
        let grad_all = Tensor::zeros(x.shape(), (x.dtype(), x.device()))?;
        for (i, &start) in starts.iter().enumerate().rev() {
            let before = if i == 0 { grads.saved(2)? } else { grads.saved(given + count + i - 1)? };
            let own = grads.output(0)?.map(|all| all.narrow(0, start, self.rows)).transpose()?;
            let grad = match (own, of_hidden) {
                (Some(own), Some(next)) => own.add(&next)?,
                (Some(grad), None) | (None, Some(grad)) => grad,
                (None, None) => before.zeros_like()?,
            };
            let (grad_gates, of_before) = (grad_all.narrow(0, start, self.rows)?, before.zeros_like()?);
            let of_step = [&grad_gates, &of_before];
            grads.saved(given + i)?.lstm_gates_backward_into(before, &grad, of_cell.as_ref(), of_step)?;
            of_cell = Some(of_before);
            of_hidden = match i > 0 || grads.needs_input_grad(1) {
                true => Some(grad_gates.matmul(&weight)?),
                false => None,
            };
        }
        let mut all = vec![None, of_hidden, of_cell, None];
        if grads.needs_input_grad(3) {
            // Of each step the hidden state that it began with.
            let first = grads.saved(1)?;
            let others = (count - 1) * self.rows;
            let before = match self.is_reverse {
                true => [hidden.narrow(0, self.rows, others)?, first.clone()],
                false => [first.clone(), hidden.narrow(0, 0, others)?],
            };
            all[3] = Some(grad_all.t()?.matmul(&Tensor::cat(&before, 0)?)?);
        }
        if given > 4 {
            let wanted = grads.needs_input_grad(4);
            all.push(if wanted { Some(grad_all.sum(0, false)?) } else { None });
        }
        all[0] = Some(grad_all);
        Ok(all)
    }
}
