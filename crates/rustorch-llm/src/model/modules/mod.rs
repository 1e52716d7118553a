//! Modules: the parts of an architecture with their weights and sizes, ready to run.

mod activation;
mod altup;
mod attention;
mod delta_net;
mod experts;
mod latent_attention;
mod linear;
mod mamba;
mod mlp;
mod norm;
mod per_layer;
mod rope;
mod rwkv;
mod short_conv;

pub(super) use activation::ActivationFn;
pub(super) use linear::LinearWeights;
pub(super) use norm::Norm;

use super::decoder::{Flow, ForwardPass, last_rows};
use super::loader::Loader;
use super::weights::TensorId;
use crate::Result;
use crate::arch::Part;
use altup::AltUp;
use attention::Attention;
use delta_net::DeltaNet;
use experts::Experts;
use latent_attention::LatentAttention;
use mamba::{Mamba, Mamba2};
use mlp::Mlp;
use per_layer::{PerLayerEmbedding, PerLayerInput};
use rustorch_core::DType;
use rustorch_tensor::Tensor;
use rwkv::{ChannelMix, TimeMix};
use short_conv::ShortConv;

/// A part of an architecture that knows its weights.
pub(super) enum Module {
    /// A table, `[vocabulary, embedding]`.
    Embedding(TensorId),
    /// A table, `[positions, embedding]`.
    PositionEmbedding(TensorId),
    /// A table, `[types, embedding]`, or its only row.
    TokenType(TensorId),
    Norm(Norm),
    Attention(Attention),
    LatentAttention(LatentAttention),
    DeltaNet(DeltaNet),
    ShortConv(ShortConv),
    Mamba(Mamba),
    Mamba2(Mamba2),
    RwkvTimeMix(TimeMix),
    RwkvChannelMix(ChannelMix),
    Mlp(Mlp),
    Experts(Experts),
    Parallel(Vec<Vec<Module>>),
    Add,
    Replace,
    Scale(f32),
    ScaleBy(TensorId),
    SoftCap(f32),
    PerLayerEmbedding(PerLayerEmbedding),
    PerLayerInput(PerLayerInput),
    AltUp(AltUp),
    LowRank(LinearWeights, LinearWeights),
    Output(LinearWeights),
}

impl Module {
    /// Loads the weights of parts; those without effect in this model are left out.
    pub(super) fn load_all(parts: &[Part], loader: &mut Loader<'_>) -> Result<Vec<Module>> {
        let mut modules = Vec::new();
        for part in parts {
            match part {
                Part::IfTensor { tensor, then, otherwise } => {
                    let chosen = if loader.has_part(tensor) { then } else { otherwise };
                    modules.extend(Module::load_all(chosen, loader)?);
                }
                part => modules.extend(Module::load(part, loader)?),
            }
        }
        Ok(modules)
    }

    fn load(part: &Part, loader: &mut Loader<'_>) -> Result<Option<Module>> {
        let (vocabulary, embedding) = (loader.config.vocabulary, loader.config.embedding);
        Ok(Some(match part {
            Part::Embedding(table) => Module::Embedding(loader.matrix(table, &[vocabulary, embedding])?),
            Part::PositionEmbedding(table) => {
                Module::PositionEmbedding(loader.matrix(table, &[loader.config.context, embedding])?)
            }
            Part::TokenType(table) => {
                let shape = loader.shape_of(table)?;
                match shape.last() {
                    Some(&width) if width == embedding && shape.len() <= 2 => {}
                    _ => {
                        return Err(loader
                            .metadata
                            .error("embedding_length", format!("is not the width of `{table}`, {shape:?}")));
                    }
                }
                Module::TokenType(loader.vector(table, &shape)?)
            }
            Part::Norm(norm) => Module::Norm(Norm::load(norm, &[embedding], loader)?),
            Part::Attention(attention) => Module::Attention(Attention::load(attention, loader)?),
            Part::LatentAttention(part) => Module::LatentAttention(LatentAttention::load(part, loader)?),
            Part::DeltaNet(net) => Module::DeltaNet(DeltaNet::load(net, loader)?),
            Part::ShortConv => Module::ShortConv(ShortConv::load(loader)?),
            Part::Mamba => Module::Mamba(Mamba::load(loader)?),
            Part::Mamba2 => Module::Mamba2(Mamba2::load(loader)?),
            Part::RwkvTimeMix => Module::RwkvTimeMix(TimeMix::load(loader)?),
            Part::RwkvChannelMix => Module::RwkvChannelMix(ChannelMix::load(loader)?),
            Part::Mlp(mlp) => Module::Mlp(Mlp::load(mlp, loader)?),
            Part::Experts(experts) => Module::Experts(Experts::load(experts, loader)?),
            // `load_all` has chosen.
            Part::IfTensor { .. } => return Ok(None),
            Part::Parallel(branches) => {
                let branches = branches.iter().map(|parts| Module::load_all(parts, loader));
                Module::Parallel(branches.collect::<Result<_>>()?)
            }
            Part::Add => Module::Add,
            Part::Replace => Module::Replace,
            Part::Scale(factor) => match loader.factor(factor)? {
                1.0 => return Ok(None),
                factor => Module::Scale(factor),
            },
            Part::ScaleBy(tensor) => match loader.has_part(tensor) {
                true => Module::ScaleBy(loader.vector(tensor, &[1])?),
                false => return Ok(None),
            },
            Part::PerLayerEmbedding(part) => match loader.config.per_layer_embedding {
                0 => return Ok(None),
                _ => Module::PerLayerEmbedding(PerLayerEmbedding::load(part, loader)?),
            },
            Part::PerLayerInput(part) => Module::PerLayerInput(PerLayerInput::load(part, loader)?),
            Part::AltUp(step) => Module::AltUp(AltUp::load(*step, loader)?),
            Part::LowRank(down, up) => {
                let rank = loader.shape_of(down.name)?.first().copied().unwrap_or(0);
                let down = loader.linear(*down, [rank, embedding], None)?;
                Module::LowRank(down, loader.linear(*up, [embedding, rank], None)?)
            }
            Part::SoftCap(key) => match loader.metadata.find_f32(key)? {
                None | Some(0.0) => return Ok(None),
                Some(cap) => Module::SoftCap(cap),
            },
            Part::Output(output) => {
                Module::Output(loader.linear(output.linear, [vocabulary, embedding], output.tied)?)
            }
        }))
    }

    /// Lets the last part that mixes positions drop all rows but the last when nothing but their logits is to come of them, and nobody asks
    /// for these; `true` if there is one.
    pub(super) fn drop_rows_after(modules: &mut [Module]) -> bool {
        modules.iter_mut().rev().any(|module| {
            let drops_rows = match module {
                Module::Attention(attention) => &mut attention.drops_rows,
                Module::LatentAttention(attention) => &mut attention.drops_rows,
                Module::DeltaNet(net) => &mut net.drops_rows,
                Module::ShortConv(conv) => &mut conv.drops_rows,
                Module::Mamba(mamba) => &mut mamba.drops_rows,
                Module::Mamba2(mamba) => &mut mamba.drops_rows,
                Module::RwkvChannelMix(mix) => &mut mix.drops_rows,
                Module::Parallel(branches) => {
                    return branches.iter_mut().rev().any(|b| Module::drop_rows_after(b));
                }
                _ => return false,
            };
            *drops_rows = true;
            true
        })
    }

    /// Whether what comes before are the hidden states.
    pub(super) fn is_output(&self) -> bool {
        matches!(self, Module::Output(_))
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, flow: &mut Flow) -> Result<()> {
        let branch = match self {
            Module::Embedding(table) => pass.weights[*table].embedding(&pass.ids)?.to_dtype(DType::F32)?,
            Module::PositionEmbedding(table) => flow.input().add(&pass.rows_of_positions(*table)?)?,
            Module::TokenType(table) => {
                let x = flow.input();
                let width = x.dims()[1];
                let table = &pass.weights[*table];
                let types = table.dims().iter().product::<usize>() / width;
                x.add(&table.reshape([types, width])?.narrow(0, 0, 1)?)?
            }
            Module::Norm(norm) => norm.forward(flow.input(), pass.weights)?,
            Module::Attention(attention) => attention.forward(pass, flow.input())?,
            Module::LatentAttention(attention) => attention.forward(pass, flow.input())?,
            Module::DeltaNet(net) => net.forward(pass, flow.input())?,
            Module::ShortConv(conv) => conv.forward(pass, flow.input())?,
            Module::Mamba(mamba) => mamba.forward(pass, flow.input())?,
            Module::Mamba2(mamba) => mamba.forward(pass, flow.input())?,
            Module::RwkvTimeMix(mix) => mix.forward(pass, flow)?,
            Module::RwkvChannelMix(mix) => mix.forward(pass, flow.input())?,
            Module::Mlp(mlp) => mlp.forward(pass, flow.input())?,
            Module::Experts(experts) => experts.forward(pass, flow.input(), flow.residual())?,
            Module::Parallel(branches) => parallel(branches, pass, flow.input())?,
            Module::Add => return flow.add(),
            Module::Replace => {
                flow.replace();
                return Ok(());
            }
            Module::Scale(factor) => flow.input().mul(*factor)?,
            Module::ScaleBy(factor) => flow.input().mul(&pass.weights[*factor])?,
            Module::PerLayerEmbedding(module) => {
                flow.per_layer = Some(module.forward(pass, flow.input())?);
                return Ok(());
            }
            Module::PerLayerInput(module) => module.forward(pass, flow)?,
            Module::AltUp(step) => return step.forward(pass, flow),
            Module::LowRank(down, up) => up.forward(pass, &down.forward(pass, flow.input())?)?,
            Module::SoftCap(cap) => flow.input().mul(1.0 / *cap)?.tanh()?.mul(*cap)?,
            Module::Output(linear) => linear.forward(pass, flow.input())?,
        };
        flow.set_branch(branch)
    }
}

/// The sum of what the branches make of `x`. Where one of them drops rows, the others do without them.
fn parallel(branches: &[Vec<Module>], pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    let mut sum: Option<Tensor> = None;
    for branch in branches {
        let mut flow = Flow::new(x);
        for module in branch {
            module.forward(pass, &mut flow)?;
        }
        let (input, result) = flow.into_parts();
        x = input;
        sum = Some(match sum {
            Some(sum) => last_rows(&sum, &result)?.add(&result)?,
            None => result,
        });
    }
    Ok(sum.unwrap_or(x))
}
