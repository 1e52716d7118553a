//! A feed-forward network with a gate.

use super::options::of_layer;
use crate::{Layer, Linear, LinearOptions, Module};
use rustorch_tensor::{Result, Tensor};

/// `down_proj(silu(gate_proj(x)) · up_proj(x))`, the feed-forward network of LLaMA and its kin: `[.., features] → [.., features]`.
/// Fields have the names of their checkpoints. PyTorch has no such module.
///
/// Shazeer: *GLU Variants Improve Transformer*, 2020.
///
/// ```
/// use rustorch_nn::{Layer, Module, SwiGLU};
/// use rustorch_tensor::{DType, Tensor};
/// let network = SwiGLU::new(4, 11)?;
/// assert_eq!(network.num_parameters(), 3 * 4 * 11);
/// assert_eq!(network.forward(&Tensor::randn([2, 3, 4], DType::F32)?)?.dims(), [2, 3, 4]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct SwiGLU {
    /// From `features` to `hidden_features`: what opens the gate.
    pub gate_proj: Linear,
    /// From `features` to `hidden_features`.
    pub up_proj: Linear,
    /// From `hidden_features` to `features`.
    pub down_proj: Linear,
}

impl SwiGLU {
    /// A network without biases.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(features: usize, hidden_features: usize) -> Result<SwiGLU> {
        SwiGLU::with(features, hidden_features, LinearOptions::default().bias(false))
    }

    /// A network whose layers are made with these options.
    ///
    /// # Errors
    /// If the dtype is none of floats, or memory does not suffice.
    pub fn with(features: usize, hidden_features: usize, options: LinearOptions) -> Result<SwiGLU> {
        let linear = |from, to| Linear::with(from, to, options);
        Ok(SwiGLU {
            gate_proj: linear(features, hidden_features)?,
            up_proj: linear(features, hidden_features)?,
            down_proj: linear(hidden_features, features)?,
        })
    }
}

impl Layer for SwiGLU {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let forward = || {
            let gated = self.gate_proj.forward(x)?.swiglu(&self.up_proj.forward(x)?)?;
            self.down_proj.forward(&gated)
        };
        forward().map_err(of_layer(self.type_name()))
    }
}
