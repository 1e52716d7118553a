//! Distance and similarity of vectors.

use super::options::of_layer;
use crate::Module;
use rustorch_tensor::{Result, Tensor};

/// `x₁ · x₂ / (max(‖x₁‖, eps) · max(‖x₂‖, eps))` along a dimension, as `torch.nn.CosineSimilarity`. Arguments broadcast.
///
/// ```
/// use rustorch_nn::CosineSimilarity;
/// use rustorch_tensor::Tensor;
/// let (x1, x2) = (Tensor::new([[3.0f32, 4.0]])?, Tensor::new([[4.0f32, 3.0]])?);
/// let y = CosineSimilarity::default().forward(&x1, &x2)?.item()?.to_f64();
/// assert!((y - 0.96).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct CosineSimilarity {
    dim: isize,
    eps: f64,
}

impl CosineSimilarity {
    /// Along a dimension, which may count from the end, with norms of `eps` at least.
    pub fn new(dim: isize, eps: f64) -> CosineSimilarity {
        CosineSimilarity { dim, eps }
    }

    /// The similarity.
    ///
    /// # Errors
    /// If shapes do not broadcast, or there is no such dimension.
    #[rustorch_macros::observed]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        // What is added to short norms is no part of the graph, as in PyTorch.
        let unit = |x: &Tensor| {
            let norm = x.norm(2.0, self.dim, true)?;
            let missing = norm.clamp_min(self.eps)?.sub(&norm)?.detach();
            x.div(&norm.add(&missing)?)
        };
        let forward = || {
            let shape = x1.shape().broadcast(x2.shape(), "CosineSimilarity")?;
            let [x1, x2] = [x1, x2].map(|x| x.broadcast_to(&shape));
            unit(&x1?)?.mul(&unit(&x2?)?)?.sum(self.dim, false)
        };
        forward().map_err(of_layer(self.type_name()))
    }
}

impl Default for CosineSimilarity {
    /// PyTorch's: along dimension 1, with an `eps` of 1e-8.
    fn default() -> CosineSimilarity {
        CosineSimilarity::new(1, 1e-8)
    }
}

/// The p-norm `‖x₁ − x₂ + eps‖ₚ` along the last dimension, as `torch.nn.PairwiseDistance`. Arguments broadcast.
///
/// ```
/// use rustorch_nn::PairwiseDistance;
/// use rustorch_tensor::Tensor;
/// let (x1, x2) = (Tensor::new([[3.0f32, 5.0]])?, Tensor::new([[0.0f32, 1.0]])?);
/// let y = PairwiseDistance::default().forward(&x1, &x2)?.item()?.to_f64();
/// assert!((y - 5.0).abs() < 1e-5);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct PairwiseDistance {
    p: f64,
    eps: f64,
    keepdim: bool,
}

impl PairwiseDistance {
    /// By this norm, with `eps` added to differences.
    pub fn new(p: f64, eps: f64, keepdim: bool) -> PairwiseDistance {
        PairwiseDistance { p, eps, keepdim }
    }

    /// The distance.
    ///
    /// # Errors
    /// If shapes do not broadcast.
    #[rustorch_macros::observed]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let distance = x1.sub(x2).and_then(|gap| gap.add(self.eps)?.norm(self.p, -1, self.keepdim));
        distance.map_err(of_layer(self.type_name()))
    }
}

impl Default for PairwiseDistance {
    /// PyTorch's: by the 2-norm, with an `eps` of 1e-6.
    fn default() -> PairwiseDistance {
        PairwiseDistance::new(2.0, 1e-6, false)
    }
}
