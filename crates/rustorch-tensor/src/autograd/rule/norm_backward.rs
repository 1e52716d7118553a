//! The gradients of the gradients of layer and RMS normalisation.

use super::norm::{standardized, wide};
use super::{Recording, Rule, all_if_needed, unfused};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use rustorch_core::{LayerNormBackward, Result, RmsNormBackward};

/// Those of the input, the weight and the bias that are wanted, normalised over the last dimensions.
fn composed(args: &[Tensor], last: usize, eps: f64, centred: bool, wanted: [bool; 3]) -> Result<Vec<Tensor>> {
    let (grad, x) = (wide(&args[0])?, wide(&args[1])?);
    let weight = args.get(2).map(wide).transpose()?;
    let axes: Vec<isize> = (1..=last as isize).map(|i| -i).collect();
    let outer: Vec<isize> = (0..(x.ndim() - last) as isize).collect();
    let over_rows = |x: &Tensor| if outer.is_empty() { Ok(x.clone()) } else { x.sum(&outer[..], false) };
    let grads = standardized(&grad, &x, weight.as_ref(), &axes, eps, centred)?;
    let mut results = Vec::new();
    if wanted[0] {
        results.push(grads.x.to_dtype(args[1].dtype())?);
    }
    for (all, _) in [(grads.weight, wanted[1]), (grad, wanted[2])].iter().filter(|(_, wanted)| *wanted) {
        results.push(over_rows(all)?.to_dtype(args[1].dtype())?);
    }
    Ok(results)
}

impl Rule for LayerNormBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| composed(args, self.dims, self.eps, true, [self.x, self.weight, self.bias]))
    }
}

impl Rule for RmsNormBackward {
    fn saves(&self, recording: &Recording<'_>) -> Saves {
        all_if_needed(recording)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        unfused(cx, |args| composed(args, 1, self.eps, false, [self.x, self.weight, false]))
    }
}
