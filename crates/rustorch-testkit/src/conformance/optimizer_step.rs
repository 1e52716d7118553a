//! Cases of steps of optimizers, and of norms and products of many tensors.

use super::cases::{ARRANGEMENTS, Argument, Arrangement, Cases, FLOATS};
use super::values;
use rustorch_core::{Assert, DType, ForeachMul, Layout, Op, OptimizerRule, OptimizerStep, Shape, TotalNorm};

/// Every rule with and without each of its states.
const RULES: &[OptimizerRule] = &[
    OptimizerRule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false },
    OptimizerRule::Sgd { momentum: 0.9, dampening: 0.25, nesterov: false },
    OptimizerRule::Sgd { momentum: 0.5, dampening: 0.0, nesterov: true },
    OptimizerRule::Adam {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-3,
        amsgrad: false,
        decoupled_weight_decay: false,
    },
    OptimizerRule::Adam { beta1: 0.8, beta2: 0.99, eps: 1e-8, amsgrad: true, decoupled_weight_decay: true },
    OptimizerRule::RmsProp { alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false },
    OptimizerRule::RmsProp { alpha: 0.9, eps: 1e-8, momentum: 0.9, centered: false },
    OptimizerRule::RmsProp { alpha: 0.9, eps: 1e-8, momentum: 0.0, centered: true },
    OptimizerRule::RmsProp { alpha: 0.99, eps: 1e-8, momentum: 0.5, centered: true },
    OptimizerRule::Adagrad { lr_decay: 0.01, eps: 1e-10 },
];

impl Cases {
    /// Each rule in single precision, with every layout; one of each in the other dtypes.
    pub(super) fn optimizer_steps(&mut self) {
        use Arrangement::{Packed, Repeated, Stepped, Transposed};
        for (i, &rule) in RULES.iter().enumerate() {
            for (how, t) in [(Packed, 1.0), (Transposed, 2.0), (Stepped, 1000.0), (Repeated, 7.0)] {
                let weight_decay = if i % 2 == 0 { 0.0 } else { 0.1 };
                let maximize = i % 3 == 1;
                self.optimizer_step(DType::F32, rule, weight_decay, maximize, how, t);
            }
            for &dtype in FLOATS.iter().filter(|&&dtype| dtype != DType::F32) {
                self.optimizer_step(dtype, rule, 0.1, false, Packed, 3.0);
            }
        }
        self.optimizer_step(DType::BF16, RULES[4], 0.1, true, Transposed, 20.0);
    }

    /// Of a large parameter whose last vector is a part, and of one that is small.
    pub(super) fn large_optimizer_steps(&mut self) {
        for (dtype, rule) in [
            (DType::F32, RULES[0]),
            (DType::F32, RULES[4]),
            (DType::F32, RULES[8]),
            (DType::F16, RULES[3]),
            (DType::BF16, RULES[2]),
        ] {
            let shapes = [&[131_075][..], &[3, 5]];
            self.optimizer_step_of(&shapes, dtype, rule, 0.1, false, Arrangement::Packed, 3.0);
        }
    }

    /// A step of three parameters: one of several workgroups, one of no whole chunk, one without elements.
    fn optimizer_step(
        &mut self,
        dtype: DType,
        rule: OptimizerRule,
        weight_decay: f64,
        maximize: bool,
        how: Arrangement,
        t: f64,
    ) {
        let shapes = [&[67, 5][..], &[3, 5], &[2, 0]];
        self.optimizer_step_of(&shapes, dtype, rule, weight_decay, maximize, how, t);
    }

    #[allow(clippy::too_many_arguments, reason = "all that cases differ in")]
    fn optimizer_step_of(
        &mut self,
        shapes: &[&[usize]],
        dtype: DType,
        rule: OptimizerRule,
        weight_decay: f64,
        maximize: bool,
        how: Arrangement,
        t: f64,
    ) {
        let master = matches!(dtype, DType::F16 | DType::BF16);
        let computed = if master { DType::F32 } else { dtype };
        let mut args = vec![scalar(computed, 0.125), scalar(computed, t)];
        for &dims in shapes {
            let x = self.argument(dtype, dims, how);
            args.extend([x.clone(), self.argument(dtype, dims, how)]);
            if master {
                // Of the smaller parameter, one that it was not rounded from.
                args.push(match dims[0] {
                    67 => widened(&x),
                    _ => self.argument(DType::F32, dims, how),
                });
            }
            for &state in rule.states() {
                args.push(match state {
                    "exp_avg_sq" | "max_exp_avg_sq" | "square_avg" | "sum" => {
                        self.within(computed, dims, how, 4.0, 9.0)
                    }
                    _ => self.within(computed, dims, how, -1.0, 1.0),
                });
            }
        }
        self.add(Op::OptimizerStep(OptimizerStep { rule, weight_decay, maximize, master }), args);
    }
}

impl Cases {
    /// Norms and products in every dtype and layout, of tensors of none and of several workgroups, and of what is not finite.
    pub(super) fn foreach(&mut self) {
        for &dtype in FLOATS {
            for how in ARRANGEMENTS {
                let tensors: Vec<Argument> =
                    [&[67, 91][..], &[3, 5], &[], &[2, 0]].map(|dims| self.argument(dtype, dims, how)).into();
                for ord in [1.0, 2.0, 3.0, f64::INFINITY] {
                    self.add(Op::TotalNorm(TotalNorm { ord }), tensors.clone());
                }
                let computed = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                let mut args = vec![scalar(computed, 0.125)];
                args.extend(tensors);
                self.add(Op::ForeachMul(ForeachMul { found_inf: false }), args.clone());
                self.add(Op::ForeachMul(ForeachMul { found_inf: true }), args.clone());
                for wrong in [f64::NAN, f64::NEG_INFINITY] {
                    let mut args = args.clone();
                    args.push(scalar(dtype, wrong));
                    self.add(Op::ForeachMul(ForeachMul { found_inf: true }), args);
                }
            }
        }
        let none = self.argument(DType::F32, &[0], Arrangement::Packed);
        self.add(Op::TotalNorm(TotalNorm { ord: 2.0 }), vec![none]);
    }

    /// Conditions that hold: a device that checks them copies them.
    pub(super) fn assert(&mut self) {
        for dims in [&[][..], &[3, 5], &[0, 2]] {
            let layout = Layout::contiguous(Shape::new(dims).expect("few elements"));
            let bytes = vec![1; layout.numel()];
            let layout =
                if dims == [3, 5] { layout.transpose(0, 1).expect("two dimensions") } else { layout };
            let message = "it does not hold".into();
            self.add(Op::Assert(Assert { message }), vec![Argument { dtype: DType::Bool, layout, bytes }]);
        }
    }
}

/// One value.
fn scalar(dtype: DType, value: f64) -> Argument {
    let bytes = values::encode(dtype, value, 0.0);
    Argument { dtype, layout: Layout::contiguous(Shape::scalar()), bytes }
}

/// The same elements in `F32`.
fn widened(x: &Argument) -> Argument {
    let values = values::decode(x.dtype, &x.bytes);
    let bytes = values.into_iter().flat_map(|value| values::encode(DType::F32, value.re, 0.0)).collect();
    Argument { dtype: DType::F32, layout: x.layout.clone(), bytes }
}
