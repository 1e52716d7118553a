//! Alternating updates between several residual streams.

use super::LinearWeights;
use super::norm::Norm;
use crate::arch::{self, Linear};
use crate::model::decoder::{Flow, ForwardPass, last_rows};
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use crate::{Error, Result};
use rustorch_tensor::Tensor;

/// A step between the streams, `[n, streams, embedding]`.
pub(in crate::model) enum AltUp {
    /// With the matrices of all streams but the first, `[streams − 1, embedding, embedding]`.
    Expand(LinearWeights),
    Predict {
        active: usize,
        router: Router,
        /// From the router's results to how much of each stream goes into each, `[streams², streams]`.
        coefficients: LinearWeights,
    },
    Correct {
        active: usize,
        router: Router,
        /// From the router's results to how much of the correction goes into each stream, less 1, `[streams, streams]`.
        coefficients: LinearWeights,
        /// `[embedding]`.
        scale: TensorId,
    },
    AddToOthers,
    /// With matrices as [`Expand`](Self::Expand).
    Merge {
        active: usize,
        projection: LinearWeights,
    },
}

/// `tanh(layer(norm(x) / embedding))`.
pub(in crate::model) struct Router {
    norm: Norm,
    layer: LinearWeights,
}

impl Router {
    fn load(streams: usize, loader: &mut Loader<'_>) -> Result<Router> {
        let width = loader.config.embedding;
        Ok(Router {
            norm: Norm::load(&arch::Norm::rms("altup_router_norm"), &[width], loader)?,
            layer: loader.linear(Linear::plain("altup_router"), [streams, width], None)?,
        })
    }

    /// Of `x: [n, embedding]`, `[n, streams]`.
    fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let normed = self.norm.forward(x, pass.weights)?.mul(1.0 / x.dims()[1] as f32)?;
        Ok(self.layer.forward(pass, &normed)?.tanh()?)
    }
}

impl AltUp {
    pub(super) fn load(step: arch::AltUp, loader: &mut Loader<'_>) -> Result<AltUp> {
        let (width, r) = (loader.config.embedding, &loader.metadata);
        let streams = r.size("altup.num_inputs")?;
        let active = r.find_size("altup.active_idx")?.unwrap_or(0);
        if streams < 2 || active >= streams {
            let message = format!("{streams} streams, of which {active} is the active one, are too few");
            return Err(r.error("altup.num_inputs", message));
        }
        let square = [streams - 1, width, width];
        Ok(match step {
            arch::AltUp::Expand => AltUp::Expand(loader.experts(Linear::plain("altup_proj"), square)?),
            arch::AltUp::Predict => AltUp::Predict {
                active,
                router: Router::load(streams, loader)?,
                coefficients: loader.linear(
                    Linear::plain("altup_predict_coef"),
                    [streams * streams, streams],
                    None,
                )?,
            },
            arch::AltUp::Correct => AltUp::Correct {
                active,
                router: Router::load(streams, loader)?,
                coefficients: loader.linear(Linear::plain("altup_correct_coef"), [streams, streams], None)?,
                scale: loader.vector("altup_correct_scale", &[width])?,
            },
            arch::AltUp::AddToOthers => AltUp::AddToOthers,
            arch::AltUp::Merge => {
                let projection = loader.experts(Linear::plain("altup_unembd_proj"), square)?;
                AltUp::Merge { active, projection }
            }
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, flow: &mut Flow) -> Result<()> {
        match self {
            AltUp::Expand(projection) => {
                let x = flow.input().unsqueeze(1)?;
                let others = projection.forward_each(pass, &x)?;
                flow.streams = Some(Tensor::cat(&[&x, &of_length(&others, &x)?], 1)?);
            }
            AltUp::Predict { active, router, coefficients } => {
                let streams = streams(flow)?;
                let (n, count) = (streams.dims()[0], streams.dims()[1]);
                let routed = router.forward(pass, &select(&streams, *active)?)?;
                let shares = coefficients.forward(pass, &routed)?.reshape([n, count, count])?;
                let predicted = shares.matmul(&streams)?.add(&streams)?;
                flow.begin(select(&predicted, *active)?);
                flow.streams = Some(predicted);
            }
            AltUp::Correct { active, router, coefficients, scale } => {
                let computed = flow.input();
                let predicted = last_rows(&streams(flow)?, computed)?;
                let correction = computed.sub(&select(&predicted, *active)?)?.unsqueeze(1)?;
                let shares = coefficients.forward(pass, &router.forward(pass, computed)?)?.add(1.0)?;
                let corrected = predicted.add(&correction.mul(&shares.unsqueeze(-1)?)?)?;
                flow.begin(select(&corrected, *active)?.mul(&pass.weights[*scale])?);
                flow.streams = Some(corrected);
            }
            AltUp::AddToOthers => {
                let streams = streams(flow)?;
                let first = streams.narrow(1, 0, 1)?;
                let others = streams.narrow(1, 1, streams.dims()[1] - 1)?.add(&flow.input().unsqueeze(1)?)?;
                flow.streams = Some(Tensor::cat(&[first, others], 1)?);
            }
            AltUp::Merge { active, projection } => {
                let streams = streams(flow)?;
                let count = streams.dims()[1];
                let others = projection.forward_each(pass, &streams.narrow(1, 1, count - 1)?)?;
                let others = of_length(&others, &streams.narrow(1, *active, 1)?)?;
                let sum = select(&streams, 0)?.add(&others.sum(1, false)?)?;
                flow.begin(sum.mul(1.0 / count as f32)?);
                flow.streams = None;
            }
        }
        Ok(())
    }
}

/// The streams, on the device of the branch.
fn streams(flow: &Flow) -> Result<Tensor> {
    match &flow.streams {
        Some(streams) => Ok(streams.to_device(flow.input().device())?),
        None => Err(Error::Request("the architecture has no streams beside the residual stream".into())),
    }
}

fn select(streams: &Tensor, stream: usize) -> Result<Tensor> {
    Ok(streams.select(1, stream as isize)?)
}

/// Vectors `x`, scaled to the lengths of those of `like`.
fn of_length(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let length = |x: &Tensor| x.square()?.sum(-1, true)?.sqrt();
    Ok(x.mul(&length(like)?)?.div(&length(x)?)?)
}
