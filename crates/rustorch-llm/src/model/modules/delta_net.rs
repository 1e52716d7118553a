//! Gated delta networks.

use super::LinearWeights;
use super::norm::Norm;
use crate::Result;
use crate::arch::{self, DeltaRates, NormKind};
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use rustorch_core::HeadBroadcast;
use rustorch_tensor::Tensor;

/// A recurrence by the gated delta rule over queries, keys and values behind a short causal convolution.
pub(in crate::model) struct DeltaNet {
    sizes: Sizes,
    qkv: LinearWeights,
    gate: LinearWeights,
    /// `[channels, kernel]`.
    convolution: TensorId,
    rates: Rates,
    /// `[v_heads]`.
    dt_bias: TensorId,
    /// `[v_heads]`.
    a: TensorId,
    norm: Norm,
    l2_eps: f64,
    output: LinearWeights,
    broadcast: HeadBroadcast,
    /// The place of its state in the cache.
    state: usize,
    /// Whether all rows but the last are dropped behind the recurrence, where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

enum Rates {
    Separate { beta: LinearWeights, alpha: LinearWeights },
    Interleaved(LinearWeights),
}

/// Heads and their widths.
#[derive(Clone, Copy)]
struct Sizes {
    /// Heads of queries and keys.
    heads: usize,
    v_heads: usize,
    d_k: usize,
    d_v: usize,
}

impl Sizes {
    fn read(loader: &Loader<'_>) -> Result<Sizes> {
        let r = &loader.metadata;
        let (heads, v_heads) = (r.size("ssm.group_count")?, r.size("ssm.time_step_rank")?);
        let inner = r.size("ssm.inner_size")?;
        if !v_heads.is_multiple_of(heads) || !inner.is_multiple_of(v_heads) {
            let message = format!("{v_heads} heads are no multiple of {heads}, or do not divide {inner}");
            return Err(r.error("ssm.time_step_rank", message));
        }
        Ok(Sizes { heads, v_heads, d_k: r.size("ssm.state_size")?, d_v: inner / v_heads })
    }

    /// The widths of all queries, of all keys, and of all values.
    fn widths(self) -> [usize; 3] {
        [self.heads * self.d_k, self.heads * self.d_k, self.v_heads * self.d_v]
    }
}

impl DeltaNet {
    pub(super) fn load(part: &arch::DeltaNet, loader: &mut Loader<'_>) -> Result<DeltaNet> {
        let (width, sizes) = (loader.config.embedding, Sizes::read(loader)?);
        let kernel = loader.metadata.size("ssm.conv_kernel")?;
        let channels = sizes.widths().iter().sum();
        let values = sizes.widths()[2];
        let rates = match part.rates {
            DeltaRates::Separate { beta, alpha } => {
                let beta = loader.linear(beta, [sizes.v_heads, width], None)?;
                Rates::Separate { beta, alpha: loader.linear(alpha, [sizes.v_heads, width], None)? }
            }
            DeltaRates::Interleaved(both) => {
                Rates::Interleaved(loader.linear(both, [2 * sizes.v_heads, width], None)?)
            }
        };
        let shapes = [vec![1, kernel - 1, channels], vec![1, sizes.v_heads, sizes.d_k, sizes.d_v]];
        Ok(DeltaNet {
            sizes,
            qkv: loader.linear(part.qkv, [channels, width], None)?,
            gate: loader.linear(part.gate, [values, width], None)?,
            convolution: loader.vector(part.convolution, &[channels, kernel])?,
            rates,
            dt_bias: loader.vector_named(part.dt_bias, sizes.v_heads)?,
            a: loader.vector_named(part.a, sizes.v_heads)?,
            norm: Norm::load(&arch::Norm::rms(part.norm), &[sizes.d_v], loader)?,
            l2_eps: loader.metadata.epsilon(NormKind::Rms)?,
            output: loader.linear(part.output, [width, values], None)?,
            broadcast: part.broadcast,
            state: loader.new_state(shapes),
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let Sizes { heads, v_heads, d_k, d_v } = self.sizes;
        let (n, weights) = (x.dims()[0], pass.weights);
        let [convolved, state] = pass.cache.state(self.state);
        let mixed = self.qkv.forward(pass, x)?.unsqueeze(0)?;
        let (mixed, convolved) = mixed.causal_conv1d(&weights[self.convolution], None, convolved, true)?;
        let [q_width, k_width, v_width] = self.sizes.widths();
        let query = mixed.narrow(2, 0, q_width)?.reshape([1, n, heads, d_k])?;
        let key = mixed.narrow(2, q_width, k_width)?.reshape([1, n, heads, d_k])?;
        let value = mixed.narrow(2, q_width + k_width, v_width)?.reshape([1, n, v_heads, d_v])?;
        let (beta, decay) = self.rates(pass, x)?;
        let (query, key) = (self.l2_norm(&query)?, self.l2_norm(&key)?);
        let (out, state) =
            Tensor::gated_delta_rule(&query, &key, &value, &decay, &beta, state, self.broadcast)?;
        pass.set_state(self.state, vec![convolved, state]);

        let (first, rows) = if self.drops_rows && pass.last_row { (n - 1, 1) } else { (0, n) };
        let out = out.squeeze(0)?.narrow(0, first, rows)?;
        let gate = self.gate.forward(pass, &x.narrow(0, first, rows)?)?;
        let normed = self.norm.forward(&out, weights)?.reshape([rows, v_width])?;
        self.output.forward(pass, &gate.swiglu(&normed)?)
    }

    /// Of each position and head the strength of its update, and the logarithm of its decay; both `[1, n, v_heads]`.
    fn rates(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let Sizes { heads, v_heads, .. } = self.sizes;
        let n = x.dims()[0];
        let (beta, alpha) = match &self.rates {
            Rates::Separate { beta, alpha } => (beta.forward(pass, x)?, alpha.forward(pass, x)?),
            Rates::Interleaved(both) => {
                let both = both.forward(pass, x)?.reshape([n, heads, 2, v_heads / heads])?;
                let part = |i| both.select(2, i)?.reshape([n, v_heads]);
                (part(0)?, part(1)?)
            }
        };
        let decay = alpha.add(&pass.weights[self.dt_bias])?.softplus()?.mul(&pass.weights[self.a])?;
        Ok((beta.sigmoid()?.unsqueeze(0)?, decay.unsqueeze(0)?))
    }

    /// `x / √(Σ x² + eps)` over the last dimension.
    fn l2_norm(&self, x: &Tensor) -> Result<Tensor> {
        let width = self.sizes.d_k;
        let normed = x.rms_norm([width], None, self.l2_eps / width as f64)?;
        Ok(normed.mul(1.0 / (width as f32).sqrt())?)
    }
}
