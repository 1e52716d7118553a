//! Random cases of operations over many tensors: norms, products with a factor, steps of optimizers.

use super::super::cases::FLOATS;
use super::super::{Argument, Case};
use super::draw::{Draw, Numbers};
use rustorch_core::{DType, ForeachMul, Op, OptimizerRule, OptimizerStep, TotalNorm};

/// Shapes of one to three tensors.
fn shapes(draw: &mut Draw) -> Vec<Vec<usize>> {
    let ndim = draw.ndim(0, 3);
    (0..=draw.kind.below(3)).map(|_| draw.dims(ndim, 300)).collect()
}

/// The dtype in which a dtype's values are computed.
fn computed(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

pub(super) fn total_norm(draw: &mut Draw) -> Option<Case> {
    let (dtype, ord) = (draw.kind.pick(FLOATS), draw.kind.pick(&[1.0, 2.0, 3.0, f64::INFINITY]));
    let shapes = shapes(draw);
    let args = shapes.iter().map(|dims| draw.argument(dtype, dims, Numbers::within(-1.0, 1.0))).collect();
    draw.case(Op::TotalNorm(TotalNorm { ord }), args)
}

pub(super) fn mul(draw: &mut Draw) -> Option<Case> {
    let (dtype, found_inf) = (draw.kind.pick(FLOATS), draw.kind.chance(50));
    let mut args = vec![draw.argument(computed(dtype), &[], Numbers::within(-2.0, 2.0))];
    for dims in shapes(draw) {
        args.push(draw.argument(dtype, &dims, Numbers::within(-4.0, 4.0)));
    }
    draw.case(Op::ForeachMul(ForeachMul { found_inf }), args)
}

pub(super) fn optimizer_step(draw: &mut Draw) -> Option<Case> {
    let (dtype, kind) = (draw.kind.pick(FLOATS), draw.kind.below(4));
    let [a, b, maximize] = [(); 3].map(|()| draw.kind.chance(50));
    let momentum = if a { 0.75 } else { 0.0 };
    let rule = match kind {
        0 => OptimizerRule::Sgd { momentum, dampening: 0.0, nesterov: a && b },
        1 => OptimizerRule::Adam {
            beta1: 0.75,
            beta2: 0.875,
            eps: 1e-3,
            amsgrad: a,
            decoupled_weight_decay: b,
        },
        2 => OptimizerRule::RmsProp { alpha: 0.875, eps: 1e-3, momentum, centered: b },
        _ => OptimizerRule::Adagrad { lr_decay: 0.125, eps: 1e-3 },
    };
    let computed = computed(dtype);
    let master = !matches!(dtype, DType::F32 | DType::F64);
    let unit = Numbers::within(-1.0, 1.0);
    // Neighbours may be the very same: the learning rate then is the step count.
    let mut args: Vec<Argument> = vec![
        draw.argument(computed, &[], Numbers::within(1.0, 2.0).whole()),
        draw.argument(computed, &[], Numbers::within(2.0, 20.0).whole()),
    ];
    for dims in shapes(draw) {
        args.extend([dtype, dtype].map(|dtype| draw.argument(dtype, &dims, unit)));
        if master {
            args.push(draw.argument(computed, &dims, unit));
        }
        for &state in rule.states() {
            // Means of squares are positive, and larger than the square of the mean.
            let numbers = match state {
                "exp_avg_sq" | "max_exp_avg_sq" | "square_avg" | "sum" => Numbers::within(4.0, 9.0),
                _ => unit,
            };
            args.push(draw.argument(computed, &dims, numbers));
        }
    }
    draw.case(Op::OptimizerStep(OptimizerStep { rule, weight_decay: 0.0625, maximize, master }), args)
}
