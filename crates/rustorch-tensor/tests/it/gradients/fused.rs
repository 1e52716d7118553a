//! The gradients of fused expressions are those of the same operations one after another.

use super::{coarsest, difference};
use crate::fuse::{expressions, numbers};
use rustorch_tensor::autograd::{GradOptions, grad};
use rustorch_tensor::{DType, Result, Tensor};

/// First and second gradients of a function of two tensors.
fn gradients(
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    a: &Tensor,
    b: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let leaves = [a.copy()?, b.copy()?];
    for x in leaves.iter().filter(|x| x.dtype().is_float() || x.dtype().is_complex()) {
        x.requires_grad_(true)?;
    }
    let wanted: Vec<&Tensor> = leaves.iter().filter(|x| x.requires_grad()).collect();
    let y = f(&leaves[0], &leaves[1])?;
    if !y.requires_grad() {
        return Ok(Vec::new());
    }
    let seed = numbers(y.dims(), y.dtype(), 0.5);
    seed.requires_grad_(true)?;
    let options = GradOptions { create_graph: true, allow_unused: true, ..Default::default() };
    let mut all = grad(&[&y], &wanted, &[Some(&seed)], options)?;
    let first: Vec<&Tensor> = all.iter().flatten().filter(|x| x.requires_grad()).collect();
    if !first.is_empty() {
        let seeds: Vec<Tensor> = first.iter().map(|x| numbers(x.dims(), x.dtype(), -0.25)).collect();
        let seeds: Vec<Option<&Tensor>> = seeds.iter().map(Some).collect();
        let sources: Vec<&Tensor> = wanted.iter().copied().chain([&seed]).collect();
        let options = GradOptions { allow_unused: true, ..Default::default() };
        let second = grad(&first, &sources, &seeds, options)?;
        all.extend(second);
    }
    Ok(all)
}

#[test]
fn fused_expressions_have_the_gradients_of_their_steps() {
    let (mut wrong, mut compared, mut refused) = (Vec::new(), 0, 0);
    // Not 16 bits: programs round to them at the end alone.
    let dtypes = [
        [DType::F64, DType::F64],
        [DType::F32, DType::F64],
        [DType::F64, DType::I32],
        [DType::F32, DType::F32],
        [DType::C128, DType::C128],
        [DType::F64, DType::C128],
    ];
    for both in expressions() {
        for [left, right] in dtypes {
            for (shape_a, shape_b) in [(&[2, 3][..], &[2, 3][..]), (&[2, 1], &[3]), (&[], &[2])] {
                let a = numbers(shape_a, left, 0.3);
                let b = numbers(shape_b, right, 1.2);
                let name = format!("{} of {left}{shape_a:?}, {right}{shape_b:?}", both.name);
                let steps = gradients(|a, b| (both.steps)(a, b), &a, &b);
                let fused = gradients(|a, b| both.fused.apply(&[a, b]), &a, &b);
                match (fused, steps) {
                    (Ok(fused), Ok(steps)) => {
                        compared += 1;
                        let computed = coarsest(fused.iter().flatten().chain([&a, &b]));
                        // A gradient that one of them finds to be constant may have no second.
                        let longest = fused.len().max(steps.len());
                        for i in 0..longest {
                            let of = |list: &[Option<Tensor>]| list.get(i).cloned().flatten();
                            let (fused, steps) = (of(&fused), of(&steps));
                            let how = difference(
                                &format!("{name}: gradient {i}"),
                                computed,
                                fused.as_ref(),
                                steps.as_ref(),
                            );
                            wrong.extend(how);
                        }
                    }
                    (Err(_), Err(_)) => refused += 1,
                    (Err(error), Ok(_)) => wrong.push(format!("{name}: fused refused: {error}")),
                    (Ok(_), Err(error)) => wrong.push(format!("{name}: steps refused: {error}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 100 && refused > 20, "{compared} compared, {refused} refused");
}
