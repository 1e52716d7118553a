//! The gradient of each operation.
//!
//! A rule says which tensors of the operation are kept, depending on which gradients are needed, and computes the gradients by tensor
//! operations. An operation without a rule does not compile: [`of`] is an exhaustive match.

mod attention;
mod attention_backward;
mod channel_norm;
mod constant;
mod conv;
mod copy;
mod derivative;
mod fft;
mod gather_sum;
mod index;
mod linalg;
mod loss;
mod matmul;
mod norm;
mod norm_backward;
mod pointwise;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod rnn_gates;
mod rope;
mod sort;
mod spectral;
pub(crate) mod view;

use super::context::{Context, Grads};
use super::functional::vjp;
use super::history::Edge;
use super::saved::{Saves, Which};
use crate::Tensor;
use rustorch_core::{Op, Result, Scalar};
use smallvec::SmallVec;

/// Whether an operation hands gradients on.
pub(crate) enum Gradient {
    /// It does.
    Exists,
    /// Its results have none: comparisons, indices, integers.
    None,
    /// They would have one, which cannot be computed: the error says so.
    Refused(&'static str),
    /// The steps of a fused operation do, one by one: it is too long for an operation of its gradient. Or the operation does in
    /// another form, which also returns what its gradient is computed from; a custom op does as a function of the user's.
    Steps,
}

/// An operation while it is recorded.
pub(crate) struct Recording<'a> {
    /// Where the gradients of the arguments go.
    pub(crate) edges: &'a [Option<Edge>],
    pub(crate) args: &'a [&'a Tensor],
    /// The scalar of a binary operation of a tensor and a scalar, and whether it is the first operand.
    pub(crate) scalar: Option<(Scalar, bool)>,
}

impl Recording<'_> {
    /// Whether the gradient of an argument is needed.
    pub(crate) fn needs(&self, arg: usize) -> bool {
        self.edges.get(arg).is_some_and(Option::is_some)
    }
}

/// How the gradients of an operation are computed.
pub(crate) trait Rule {
    /// Whether there are any, for these arguments.
    fn gradient(&self, _args: &[&Tensor]) -> Gradient {
        Gradient::Exists
    }

    /// Which arguments and results are read for the gradients that are needed.
    fn saves(&self, recording: &Recording<'_>) -> Saves;

    /// The gradients of the arguments.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads>;
}

/// The rule of an operation.
pub(crate) fn of(op: &Op) -> &dyn Rule {
    match op {
        Op::Fill(op) => op,
        Op::Arange(op) => op,
        Op::Random(op) => op,
        Op::Sample(op) => op,
        Op::LogGammaGrad(op) => op,
        Op::Unary(op) => op,
        Op::Binary(op) => op,
        Op::Compare(op) => op,
        Op::Where(op) => op,
        Op::Clamp(op) => op,
        Op::Cast(op) => op,
        Op::Glu(op) => op,
        Op::FusedPointwise(op) => op,
        Op::Copy(op) => op,
        Op::Reduce(op) => op,
        Op::Scan(op) => op,
        Op::MatMul(op) => op,
        Op::IntMm(op) => op,
        Op::MulMatId(op) => op,
        Op::Conv(op) => &**op,
        Op::ConvBackwardData(op) => &**op,
        Op::ConvBackwardWeight(op) => &**op,
        Op::Softmax(op) => op,
        Op::SoftmaxBackward(op) => op,
        Op::LayerNorm(op) => op,
        Op::RmsNorm(op) => op,
        Op::AddRmsNorm(op) => op,
        Op::LayerNormBackward(op) => op,
        Op::RmsNormBackward(op) => op,
        Op::BatchNorm(op) => op,
        Op::GroupNorm(op) => op,
        Op::BatchNormBackward(op) => op,
        Op::GroupNormBackward(op) => op,
        Op::Attention(op) => op,
        Op::AttentionBackward(op) => op,
        Op::Rope(op) => op,
        Op::CausalConv1d(op) => op,
        Op::GatedDeltaRule(op) => op,
        Op::SsmScan(op) => op,
        Op::RwkvWkv7(op) => op,
        Op::RnnGates(op) => op,
        Op::RnnGatesBackward(op) => op,
        Op::IndexSelect(op) => op,
        Op::Gather(op) => op,
        Op::GatherSum(op) => op,
        Op::GatherSumBackward(op) => op,
        Op::Scatter(op) => op,
        Op::ScatterReduce(op) => op,
        Op::Embedding(op) => op,
        Op::Concat(op) => op,
        Op::Pad(op) => op,
        Op::Tri(op) => op,
        Op::Sort(op) => op,
        Op::TopK(op) => op,
        Op::MaxPool(op) => &**op,
        Op::AvgPool(op) => &**op,
        Op::AdaptiveMaxPool(op) => op,
        Op::AdaptiveAvgPool(op) => op,
        Op::MaxPoolBackward(op) => op,
        Op::AvgPoolBackward(op) => &**op,
        Op::AdaptiveAvgPoolBackward(op) => op,
        Op::Interpolate(op) => &**op,
        Op::InterpolateBackward(op) => &**op,
        Op::Dropout(op) => op,
        Op::CrossEntropy(op) => op,
        Op::CrossEntropyBackward(op) => op,
        Op::Assert(op) => op,
        Op::CachedAttention(op) => op,
        Op::SliceUpdate(op) => op,
        Op::TotalNorm(op) => op,
        Op::ForeachMul(op) => op,
        Op::OptimizerStep(op) => op,
        Op::Linalg(op) => op,
        Op::Fft(op) => op,
        Op::Custom(op) => op,
    }
}

/// Nothing is kept.
fn nothing() -> Saves {
    Saves::new()
}

/// What is kept where the gradient of some argument is needed.
fn if_needed(recording: &Recording<'_>, wants: &[(usize, &[Which])]) -> Saves {
    let mut saves = Saves::new();
    for (_, which) in wants.iter().filter(|(arg, _)| recording.needs(*arg)) {
        for &which in *which {
            if !saves.contains(&which) {
                saves.push(which);
            }
        }
    }
    saves
}

/// All arguments are kept where the gradient of any is needed.
fn all_if_needed(recording: &Recording<'_>) -> Saves {
    let args = recording.args.len();
    if (0..args).any(|arg| recording.needs(arg)) { (0..args).map(Which::Arg).collect() } else { nothing() }
}

/// The gradients of an operation, all of whose arguments are kept, by those of tensor operations that give the same results. Such an
/// operation is itself a gradient, and its own is seldom asked for.
fn unfused(cx: &Context<'_>, composed: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Grads> {
    let args: Vec<&Tensor> = (0..cx.inputs()).map(|i| cx.arg(i)).collect::<Result<_>>()?;
    let needed: Vec<usize> = (0..args.len()).filter(|&i| cx.needs(i)).collect();
    let given: Vec<(usize, &Tensor)> =
        cx.grads.iter().enumerate().filter_map(|(i, grad)| Some((i, grad.as_ref()?))).collect();
    let inputs: Vec<&Tensor> = needed.iter().map(|&i| args[i]).collect();
    let cotangents: Vec<&Tensor> = given.iter().map(|(_, grad)| *grad).collect();
    let results = |xs: &[Tensor]| {
        let mut all: Vec<Tensor> = args.iter().map(|&x| x.clone()).collect();
        needed.iter().zip(xs).for_each(|(&i, x)| all[i] = x.clone());
        let results = composed(&all)?;
        Ok(given.iter().map(|&(i, _)| results[i].clone()).collect())
    };
    let (_, products) = vjp(results, &inputs, &cotangents)?;
    let mut grads: Grads = SmallVec::from_elem(None, args.len());
    needed.into_iter().zip(products).for_each(|(i, grad)| grads[i] = Some(grad));
    Ok(grads)
}
