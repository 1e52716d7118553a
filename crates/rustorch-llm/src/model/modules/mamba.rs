//! Selective state space models.

use super::LinearWeights;
use super::norm::Norm;
use crate::Result;
use crate::arch::{self, Linear, NormKind};
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use rustorch_tensor::Tensor;

/// Mamba: for each channel a state with decays of its own, which a step of that channel scales.
pub(in crate::model) struct Mamba {
    sizes: Sizes,
    /// Elements of what steps are made of.
    rank: usize,
    input: LinearWeights,
    convolution: Convolution,
    /// Projection to what steps are made of, and to inputs and outputs of the states.
    x: LinearWeights,
    /// Norms of the three, if there are any.
    norms: Option<[BranchNorm; 3]>,
    dt: LinearWeights,
    /// `[channels, state]`.
    a: TensorId,
    /// `[channels]`.
    d: TensorId,
    output: LinearWeights,
    state: usize,
    /// Whether all rows but the last are dropped where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

/// Mamba 2: for each head a state with one decay.
pub(in crate::model) struct Mamba2 {
    sizes: Sizes,
    heads: usize,
    groups: usize,
    input: LinearWeights,
    convolution: Convolution,
    /// `[heads]`.
    dt_bias: TensorId,
    /// `[heads, 1]`.
    a: TensorId,
    /// `[heads, 1]`.
    d: TensorId,
    norm: Option<Norm>,
    output: LinearWeights,
    state: usize,
    /// Whether all rows but the last are dropped where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

#[derive(Clone, Copy)]
struct Sizes {
    inner: usize,
    state: usize,
    kernel: usize,
}

/// A short causal convolution with SiLU behind it.
struct Convolution {
    /// `[channels, kernel]`.
    weight: TensorId,
    /// `[channels]`.
    bias: Option<TensorId>,
}

/// The RMS norm of a vector, with a weight where the file has it.
enum BranchNorm {
    Weighted(Norm),
    Plain(f64),
}

impl Sizes {
    fn read(loader: &Loader<'_>) -> Result<Sizes> {
        let r = &loader.metadata;
        let inner = r.size("ssm.inner_size")?;
        Ok(Sizes { inner, state: r.size("ssm.state_size")?, kernel: r.size("ssm.conv_kernel")? })
    }
}

impl Convolution {
    fn load(channels: usize, kernel: usize, loader: &mut Loader<'_>) -> Result<Convolution> {
        Ok(Convolution {
            weight: loader.vector("ssm_conv1d", &[channels, kernel])?,
            bias: loader.find_vector_named("ssm_conv1d.bias", channels)?,
        })
    }

    /// Of `x: [n, channels]`, `[1, n, channels]`, and the next state.
    fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor, state: &Tensor) -> Result<(Tensor, Tensor)> {
        let bias = self.bias.map(|bias| &pass.weights[bias]);
        Ok(x.unsqueeze(0)?.causal_conv1d(&pass.weights[self.weight], bias, state, true)?)
    }
}

impl BranchNorm {
    fn load(tensor: &'static str, len: usize, loader: &mut Loader<'_>) -> Result<BranchNorm> {
        Ok(match loader.has_part(tensor) {
            true => BranchNorm::Weighted(Norm::load(&arch::Norm::rms(tensor), &[len], loader)?),
            false => BranchNorm::Plain(loader.metadata.epsilon(NormKind::Rms)?),
        })
    }

    fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        match self {
            BranchNorm::Weighted(norm) => norm.forward(x, pass.weights),
            BranchNorm::Plain(eps) => Ok(x.rms_norm([x.dims()[x.ndim() - 1]], None, *eps)?),
        }
    }
}

impl Mamba {
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<Mamba> {
        let (width, sizes) = (loader.config.embedding, Sizes::read(loader)?);
        let Sizes { inner, state, kernel } = sizes;
        let rank = loader.metadata.size("ssm.time_step_rank")?;
        let names = ["ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"];
        let has_norms = loader.metadata.find_flag("ssm.dt_b_c_rms")?.unwrap_or(false)
            || names.iter().all(|name| loader.has_part(name));
        let norms = match has_norms {
            true => {
                let [dt, b, c] = names;
                let dt = BranchNorm::load(dt, rank, loader)?;
                Some([dt, BranchNorm::load(b, state, loader)?, BranchNorm::load(c, state, loader)?])
            }
            false => None,
        };
        Ok(Mamba {
            sizes,
            rank,
            input: loader.linear(Linear::plain("ssm_in"), [2 * inner, width], None)?,
            convolution: Convolution::load(inner, kernel, loader)?,
            x: loader.linear(Linear::plain("ssm_x"), [rank + 2 * state, inner], None)?,
            norms,
            dt: loader.linear(Linear::biased("ssm_dt"), [inner, rank], None)?,
            a: loader.vector("ssm_a", &[inner, state])?,
            d: loader.vector("ssm_d", &[inner])?,
            output: loader.linear(Linear::plain("ssm_out"), [width, inner], None)?,
            state: loader.new_state([vec![1, kernel - 1, inner], vec![1, inner, 1, state]]),
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let Sizes { inner, state: width, .. } = self.sizes;
        let (n, weights) = (x.dims()[0], pass.weights);
        let [convolved, state] = pass.cache.state(self.state);
        let both = self.input.forward(pass, x)?;
        let (x, convolved) = self.convolution.forward(pass, &both.narrow(1, 0, inner)?, convolved)?;
        let x = x.squeeze(0)?;
        let [dt, b, c] = self.rates(pass, &x)?;
        let dt = self.dt.forward(pass, &dt)?.softplus()?.unsqueeze(0)?;
        let (b, c) = (b.reshape([1, n, 1, width])?, c.reshape([1, n, 1, width])?);
        let heads = x.reshape([1, n, inner, 1])?;
        let (y, state) = heads.ssm_scan(&dt, &weights[self.a], &b, &c, state)?;
        pass.set_state(self.state, vec![convolved, state]);

        let (first, rows) = if self.drops_rows && pass.last_row { (n - 1, 1) } else { (0, n) };
        let skipped = x.narrow(0, first, rows)?.mul(&weights[self.d])?;
        let y = y.reshape([n, inner])?.narrow(0, first, rows)?.add(&skipped)?;
        let gate = both.narrow(0, first, rows)?.narrow(1, inner, inner)?.contiguous()?;
        self.output.forward(pass, &gate.swiglu(&y)?)
    }

    /// What steps are made of, and inputs and outputs of the states, of `x: [n, channels]`.
    fn rates(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<[Tensor; 3]> {
        let all = self.x.forward(pass, x)?;
        let (rank, state) = (self.rank, self.sizes.state);
        let [dt, b, c] =
            [all.narrow(1, 0, rank)?, all.narrow(1, rank, state)?, all.narrow(1, rank + state, state)?];
        Ok(match &self.norms {
            Some([of_dt, of_b, of_c]) => {
                [of_dt.forward(pass, &dt)?, of_b.forward(pass, &b)?, of_c.forward(pass, &c)?]
            }
            None => [dt.contiguous()?, b, c],
        })
    }
}

impl Mamba2 {
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<Mamba2> {
        let (width, sizes) = (loader.config.embedding, Sizes::read(loader)?);
        let Sizes { inner, state, kernel } = sizes;
        let r = &loader.metadata;
        let (heads, groups) = (r.size("ssm.time_step_rank")?, r.size("ssm.group_count")?);
        if !inner.is_multiple_of(heads) || !heads.is_multiple_of(groups) {
            let message = format!("{inner} elements, {heads} heads and {groups} groups do not fit");
            return Err(r.error("ssm.time_step_rank", message));
        }
        let channels = inner + 2 * groups * state;
        let norm = match loader.has_part("ssm_norm") {
            true => Some(Norm::load(&arch::Norm::rms("ssm_norm"), &[groups, inner / groups], loader)?),
            false => None,
        };
        Ok(Mamba2 {
            sizes,
            heads,
            groups,
            input: loader.linear(Linear::plain("ssm_in"), [inner + channels + heads, width], None)?,
            convolution: Convolution::load(channels, kernel, loader)?,
            dt_bias: loader.vector_named("ssm_dt.bias", heads)?,
            a: loader.vector("ssm_a", &[heads, 1])?,
            d: loader.vector("ssm_d", &[heads, 1])?,
            norm,
            output: loader.linear(Linear::plain("ssm_out"), [width, inner], None)?,
            state: loader.new_state([vec![1, kernel - 1, channels], vec![1, heads, inner / heads, state]]),
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let Sizes { inner, state: width, .. } = self.sizes;
        let (heads, groups) = (self.heads, self.groups);
        let (n, weights) = (x.dims()[0], pass.weights);
        let [convolved, state] = pass.cache.state(self.state);
        let all = self.input.forward(pass, x)?;
        let channels = inner + 2 * groups * width;
        let (mixed, convolved) =
            self.convolution.forward(pass, &all.narrow(1, inner, channels)?, convolved)?;
        let x = mixed.narrow(2, 0, inner)?.reshape([1, n, heads, inner / heads])?;
        let b = mixed.narrow(2, inner, groups * width)?.reshape([1, n, groups, width])?;
        let c = mixed.narrow(2, inner + groups * width, groups * width)?.reshape([1, n, groups, width])?;
        let dt = all.narrow(1, inner + channels, heads)?.add(&weights[self.dt_bias])?.softplus()?;
        let a = weights[self.a].reshape([heads])?;
        let (y, state) = x.ssm_scan(&dt.unsqueeze(0)?, &a, &b, &c, state)?;
        pass.set_state(self.state, vec![convolved, state]);

        let (first, rows) = if self.drops_rows && pass.last_row { (n - 1, 1) } else { (0, n) };
        let skipped = x.mul(&weights[self.d])?;
        let y = y.add(&skipped)?.reshape([n, inner])?.narrow(0, first, rows)?;
        let gate = all.narrow(0, first, rows)?.narrow(1, 0, inner)?.contiguous()?;
        let mut y = gate.swiglu(&y)?;
        if let Some(norm) = &self.norm {
            y = norm.forward(&y.reshape([rows, groups, inner / groups])?, weights)?.reshape([rows, inner])?;
        }
        self.output.forward(pass, &y)
    }
}
