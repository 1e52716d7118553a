//! Steps of optimizers: one operation over all parameters of a group.

use super::{OpType, Operation};
use crate::{DType, Error, OutputMeta, Outputs, Result, TensorMeta};

op_kinds! {
    /// How an optimizer changes a parameter `x` by its gradient `g`, to which the [weight decay](OptimizerStep::weight_decay) was
    /// added; `lr` is the learning rate and `t` the step count.
    #[derive(Clone, Copy, Debug, PartialEq)]
    OptimizerRule, OptimizerKind {
        /// Stochastic gradient descent, as `torch.optim.SGD`: `x ← x − lr · g`. With momentum there is the state
        /// `momentum_buffer`: `buf ← momentum · buf + (1 − dampening) · g`, and `g` itself where `t` is at most 1; then
        /// `x ← x − lr · buf`, of Nesterov's `x ← x − lr · (g + momentum · buf)`.
        Sgd {
            /// How much of the last direction remains. Without any there is no state.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            momentum: f64,
            /// How much less of the gradient counts beside it.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            dampening: f64,
            /// Whether to look ahead.
            nesterov: bool,
        } = "fused_sgd",
        /// Adam and AdamW, as `torch.optim.Adam`, with the states `exp_avg` and `exp_avg_sq`: `m ← m + (1 − beta1) · (g − m)`,
        /// `v ← beta2 · v + (1 − beta2) · g²`,
        /// `x ← x − lr / (1 − beta1ᵗ) · m / (√v / √(1 − beta2ᵗ) + eps)`.
        Adam {
            /// How much of the running mean of gradients remains.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            beta1: f64,
            /// How much of that of their squares does.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            beta2: f64,
            /// What is added to the divisor.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            eps: f64,
            /// Whether to divide by the largest `v` so far, the state `max_exp_avg_sq`.
            amsgrad: bool,
            /// Whether weights decay apart from their gradients, as in AdamW: `x ← (1 − lr · weight_decay) · x`.
            decoupled_weight_decay: bool,
        } = "fused_adam",
        /// RMSprop, as `torch.optim.RMSprop`, with the state `square_avg`: `v ← alpha · v + (1 − alpha) · g²`,
        /// `x ← x − lr · g / (√v + eps)`.
        RmsProp {
            /// How much of the running mean of squares remains.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            alpha: f64,
            /// What is added to the divisor.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            eps: f64,
            /// How much of the last direction remains, the state `momentum_buffer`. Without any there is no such state.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            momentum: f64,
            /// Whether to divide by the root of the variance: `√(v − m²)`, where `m` is the state `grad_avg`.
            centered: bool,
        } = "fused_rmsprop",
        /// Adagrad, as `torch.optim.Adagrad`, with the state `sum`: `sum ← sum + g²`,
        /// `x ← x − lr / (1 + (t − 1) · lr_decay) · g / (√sum + eps)`.
        Adagrad {
            /// How fast the rate falls.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            lr_decay: f64,
            /// What is added to the divisor.
            #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
            eps: f64,
        } = "fused_adagrad",
    }
}

impl OptimizerRule {
    /// The names of the states that it keeps of each parameter, PyTorch's, in the order of the operands.
    pub fn states(&self) -> &'static [&'static str] {
        match *self {
            OptimizerRule::Sgd { momentum: 0.0, .. } => &[],
            OptimizerRule::Sgd { .. } => &["momentum_buffer"],
            OptimizerRule::Adam { amsgrad: false, .. } => &["exp_avg", "exp_avg_sq"],
            OptimizerRule::Adam { amsgrad: true, .. } => &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"],
            OptimizerRule::RmsProp { centered, momentum, .. } => match (centered, momentum != 0.0) {
                (false, false) => &["square_avg"],
                (true, false) => &["square_avg", "grad_avg"],
                (false, true) => &["square_avg", "momentum_buffer"],
                (true, true) => &["square_avg", "grad_avg", "momentum_buffer"],
            },
            OptimizerRule::Adagrad { .. } => &["sum"],
        }
    }
}

/// A step of an optimizer over any number of parameters, as PyTorch's fused optimizers.
///
/// The arguments are the learning rate and the step count (a whole number, 1 in the first step), tensors of no dimensions, so that they may
/// change where the operation does not; then of each parameter itself, its gradient, its `F32` master copy, if it has one, and its
/// [states](OptimizerRule::states). The results are, of each, the new parameter, master copy and states, which may be written over the
/// arguments.
///
/// Parameters and gradients have one dtype, and those of a parameter and its states one shape. Floats of 16 bits have master copies:
/// they are updated in `F32` and rounded. An element that is not its master copy rounded was set since the last step, and counts
/// instead of it. Learning rate, step count and states have the dtype of the update.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct OptimizerStep {
    /// The optimizer.
    pub rule: OptimizerRule,
    /// How much of each parameter is added to its gradient.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub weight_decay: f64,
    /// Whether the loss is to grow: the gradient is negated.
    pub maximize: bool,
    /// Whether each parameter has a master copy.
    pub master: bool,
}

/// One of the operands of a parameter in an [`OptimizerStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOperand {
    Parameter,
    Grad,
    Master,
    State,
}

impl OptimizerStep {
    /// Arguments before those of parameters: the learning rate and the step count.
    pub const SCALARS: usize = 2;

    /// Which optimizer it is.
    pub const fn kind(&self) -> OptimizerKind {
        self.rule.kind()
    }

    /// How many arguments each parameter has.
    pub fn args_per_parameter(&self) -> usize {
        2 + usize::from(self.master) + self.rule.states().len()
    }

    /// How many results each parameter has: all its arguments but the gradient.
    pub fn results_per_parameter(&self) -> usize {
        self.args_per_parameter() - 1
    }

    /// The argument that a result takes the place of.
    pub fn overwritten(&self, out: usize) -> usize {
        let (parameter, k) = (out / self.results_per_parameter(), out % self.results_per_parameter());
        Self::SCALARS + parameter * self.args_per_parameter() + if k == 0 { 0 } else { k + 1 }
    }

    fn operand(&self, k: usize) -> StepOperand {
        match k {
            0 => StepOperand::Parameter,
            1 => StepOperand::Grad,
            2 if self.master => StepOperand::Master,
            _ => StepOperand::State,
        }
    }
}

impl Operation for OptimizerStep {
    const CLASS: OpType = OpType::Elementwise;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.kind().name();
        let each = self.args_per_parameter();
        let fits = args.len() >= Self::SCALARS + each && (args.len() - Self::SCALARS).is_multiple_of(each);
        if !fits {
            let message = format!(
                "takes {} arguments and {each} for each parameter, {} were given",
                Self::SCALARS,
                args.len()
            );
            return Err(Error::argument(name, message));
        }
        let (scalars, tensors) = args.split_at(Self::SCALARS);
        let dtype = tensors[0].dtype;
        super::float(name, dtype)?;
        let half = matches!(dtype, DType::F16 | DType::BF16);
        if half != self.master {
            let message = "parameters of 16 bits have master copies, others have none";
            return Err(Error::dtype(name, message, [dtype]));
        }
        let computed = if half { DType::F32 } else { dtype };
        for scalar in scalars {
            if scalar.dtype != computed || scalar.layout.ndim() != 0 {
                let message = format!(
                    "the learning rate and the step count must be {computed} of no dimensions, one is {}{}",
                    scalar.dtype,
                    scalar.shape()
                );
                return Err(Error::argument(name, message));
            }
        }
        let mut outs = Outputs::new();
        for operands in tensors.chunks(each) {
            let shape = operands[0].shape();
            for (k, x) in operands.iter().enumerate() {
                let (what, wanted) = match self.operand(k) {
                    StepOperand::Parameter => ("parameters must have one dtype", dtype),
                    StepOperand::Grad => ("a gradient must have the dtype of its parameter", dtype),
                    StepOperand::Master => ("a master copy must be f32", computed),
                    StepOperand::State => ("a state must have the dtype of the update", computed),
                };
                if x.dtype != wanted {
                    return Err(Error::dtype(name, what, [wanted, x.dtype]));
                }
                if x.shape() != shape {
                    let message = "gradient, master copy and states must have the shape of their parameter";
                    return Err(Error::shape(name, message, [shape, x.shape()]));
                }
                if self.operand(k) != StepOperand::Grad {
                    outs.push(OutputMeta { dtype: x.dtype, shape: shape.clone() });
                }
            }
        }
        Ok(outs)
    }

    fn may_overwrite(&self, arg: usize, out: usize) -> bool {
        arg == self.overwritten(out)
    }

    fn leading_argument(&self) -> usize {
        Self::SCALARS
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        let each = match self.rule {
            OptimizerRule::Sgd { .. } => 6,
            OptimizerRule::Adam { .. } => 14,
            OptimizerRule::RmsProp { .. } => 12,
            OptimizerRule::Adagrad { .. } => 8,
        };
        let parameters = args.iter().skip(Self::SCALARS).step_by(self.args_per_parameter());
        each * parameters.map(|x| x.layout.numel() as u64).sum::<u64>()
    }
}
