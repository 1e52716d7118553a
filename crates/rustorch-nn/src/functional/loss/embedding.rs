//! Losses of distances between vectors.

use super::{finish, reduce};
use crate::functional::{expect_float, wide};
use rustorch_tensor::{Error, Reduction, Result, Tensor};

/// The p-norm of `x1 − x2 + eps` over the last dimension, as `torch.nn.functional.pairwise_distance`. The two broadcast.
///
/// ```
/// use rustorch_nn::functional as F;
/// use rustorch_tensor::Tensor;
/// let (a, b) = (Tensor::new([[3.0f32, 4.0], [1.0, 1.0]])?, Tensor::new([0.0f32, 0.0])?);
/// assert_eq!(F::pairwise_distance(&a, &b, 1.0, 0.0)?.to_vec::<f32>()?, [7.0, 2.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If they do not broadcast or have no dimension, or are none of floats.
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64) -> Result<Tensor> {
    finish(wide_distance(x1, x2, p, eps)?, &[x1, x2])
}

/// The [`pairwise_distance`], in `F32` of 16-bit floats.
fn wide_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64) -> Result<Tensor> {
    const NAME: &str = "pairwise_distance";
    expect_float(NAME, x1)?;
    expect_float(NAME, x2)?;
    if x1.shape().broadcast(x2.shape(), NAME)?.ndim() == 0 {
        return Err(Error::shape(NAME, "vectors need a dimension", [x1.shape(), x2.shape()]));
    }
    wide([x1, x2], |[a, b]| a - b + eps)?.norm(p, -1, false)
}

/// With the cosine `c` of the angle between rows: `1 − c` where the target is 1, `max(0, c − margin)` where it is −1, as
/// `torch.nn.functional.cosine_embedding_loss`: inputs `[n, features]` with a target `[n]`, or `[features]` with `[]`.
///
/// # Errors
/// If shapes do not fit, or the inputs are none of floats.
pub fn cosine_embedding_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "cosine_embedding_loss";
    // Added to squares: PyTorch's, which has it in single precision.
    const EPSILON: f64 = 1e-12f32 as f64;
    expect_float(NAME, input1)?;
    expect_float(NAME, input2)?;
    let fits = |input: &Tensor| (1..=2).contains(&input.ndim()) && input.ndim() == target.ndim() + 1;
    if !fits(input1) || !fits(input2) {
        let message = "needs inputs [n, features] with a target [n], or inputs [features] with a target []";
        return Err(Error::shape(NAME, message, [input1.shape(), input2.shape(), target.shape()]));
    }
    let rows = input1.shape().broadcast(input2.shape(), NAME)?.reduced(&[target.ndim()], false);
    rows.broadcast(target.shape(), NAME)?;
    let [dot, square1, square2] = [(input1, input2), (input1, input1), (input2, input2)]
        .map(|(a, b)| wide([a, b], |[a, b]| a * b)?.sum(-1, false));
    let losses = wide([&dot?, &square1?, &square2?, target], |[dot, a, b, y]| {
        let cosine = dot / ((a + EPSILON) * (b + EPSILON)).sqrt();
        y.eq(1).where_cond(1 - cosine, y.eq(-1).where_cond((cosine - margin).clamp_min(0), 0))
    })?;
    reduce(losses, reduction, &[input1, input2])
}

/// The arguments of [`triplet_margin_loss`], with PyTorch's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletMarginOptions {
    /// By how much the negative shall be farther: 1; positive.
    pub margin: f64,
    /// The degree of the norm: 2.
    pub p: f64,
    /// What is added to differences: 1e-6.
    pub eps: f64,
    /// Whether the distance of positive and negative counts where it is less than that of anchor and negative: no.
    pub swap: bool,
    /// What becomes of the losses: their mean.
    pub reduction: Reduction,
}

impl Default for TripletMarginOptions {
    fn default() -> TripletMarginOptions {
        TripletMarginOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

/// `max(0, d(anchor, positive) − d(anchor, negative) + margin)` with the [`pairwise_distance`] `d`, as
/// `torch.nn.functional.triplet_margin_loss`.
///
/// # Errors
/// If the three have different numbers of dimensions or do not broadcast, the margin is not positive, or they are none of floats.
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    options: &TripletMarginOptions,
) -> Result<Tensor> {
    let &TripletMarginOptions { margin, p, eps, swap, reduction } = options;
    let distance = |a: &Tensor, b: &Tensor| wide_distance(a, b, p, eps);
    triplets("triplet_margin_loss", [anchor, positive, negative], distance, margin, swap, reduction)
}

/// As [`triplet_margin_loss`], with a distance of the caller's, as `torch.nn.functional.triplet_margin_with_distance_loss`.
///
/// # Errors
/// If the three have different numbers of dimensions, the margin is not positive, they are none of floats, or the distance fails.
pub fn triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    margin: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    const NAME: &str = "triplet_margin_with_distance_loss";
    triplets(NAME, [anchor, positive, negative], distance, margin, swap, reduction)
}

fn triplets(
    name: &'static str,
    inputs: [&Tensor; 3],
    distance: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    margin: f64,
    swap: bool,
    reduction: Reduction,
) -> Result<Tensor> {
    for input in inputs {
        expect_float(name, input)?;
        if input.ndim() != inputs[0].ndim() {
            let message = "anchor, positive and negative must have the same number of dimensions";
            return Err(Error::shape(name, message, inputs.map(Tensor::shape)));
        }
    }
    if margin <= 0.0 || margin.is_nan() {
        return Err(Error::argument(name, format!("margin must be positive, and is {margin}")));
    }
    let [anchor, positive, negative] = inputs;
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if swap {
        far = far.minimum(&distance(positive, negative)?)?;
    }
    let losses = wide([&near, &far], |[near, far]| (near - far + margin).clamp_min(0))?;
    reduce(losses, reduction, &inputs)
}
