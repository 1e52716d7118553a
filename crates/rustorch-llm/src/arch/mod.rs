//! Architectures, each a page of data that one decoder runs.
//!
//! An architecture is lists of [`Part`]s: for the embedding, for each kind of block, for the output. Parts say which tensors there are, how
//! they are named, and which variant of a computation they stand for. Everything numeric (sizes, heads, frequencies) comes from the file's
//! metadata. An architecture made of known parts is a file with a constant, and its line in [`Architecture::ALL`].

mod attention;
mod common;
mod factor;
mod features;
mod feed_forward;
mod nearest;
mod part;
mod ranking;
mod recurrent;

mod arcee;
mod baichuan;
mod bailingmoe2;
mod bert;
mod bloom;
mod chatglm;
mod cohere2;
mod command_r;
mod deepseek;
mod deepseek2;
mod dots1;
mod ernie4_5;
mod ernie4_5_moe;
mod exaone;
mod exaone4;
mod falcon;
mod falcon_h1;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod gemma_embedding;
mod glm4;
mod glm4moe;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod granite;
mod granitehybrid;
mod granitemoe;
mod hunyuan_dense;
mod hunyuan_moe;
mod internlm2;
mod jamba;
mod jina_bert_v2;
mod lfm2;
mod lfm2moe;
mod llama;
mod llama4;
mod llama_embed;
mod mamba;
mod mamba2;
mod minicpm;
mod minimax_m2;
mod mistral3;
mod modern_bert;
mod mpt;
mod nemotron;
mod nemotron_h;
mod nemotron_h_moe;
mod nomic_bert;
mod nomic_bert_moe;
mod olmo;
mod olmo2;
mod olmoe;
mod orion;
mod phi2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen2vl;
mod qwen3;
mod qwen35;
mod qwen35moe;
mod qwen3moe;
mod qwen3next;
mod qwen3vl;
mod qwen3vlmoe;
mod rwkv7;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder;
mod starcoder2;

pub use attention::{Attention, HeadNorm, LatentAttention, NormSpan, Rope, Temperature, WindowedRope};
pub use factor::Factor;
pub use feed_forward::{Activation, Experts, Mlp, MlpGate, RouterInput, Scores};
pub use nearest::Nearest;
pub use part::{AltUp, Bias, Linear, Norm, NormKind, Output, Part, PerLayerEmbedding, PerLayerInput};
pub use ranking::{RankedRows, Ranking};
pub use recurrent::{DeltaNet, DeltaRates};

use crate::model::ModelConfig;

/// A language model: a decoder, or an encoder without an output layer.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The name in `general.architecture`, and the prefix of the metadata keys.
    pub name: &'static str,
    /// The models that are converted under this name.
    pub models: &'static str,
    /// From token ids to the residual stream.
    pub embedding: &'static [Part],
    /// The kinds of blocks.
    pub kinds: &'static [&'static [Part]],
    /// Of which kind a block is: an index into `kinds`.
    pub kind: fn(&ModelConfig, usize) -> usize,
    /// From the residual stream to the logits.
    pub output: &'static [Part],
    /// Which blocks see a window of the last tokens only; all see everything without it.
    pub windows: Option<Windows>,
    /// Where some blocks are recurrent: of so many, all but the last, unless the metadata says otherwise.
    pub recurrent: Option<usize>,
    /// Whether tokens see only those before them, unless the metadata says otherwise.
    pub causal: bool,
    /// How a classifier ranks, where the file has one.
    pub ranking: Ranking,
    /// Tensors that files have and the decoder has no use for.
    pub left_out: &'static [LeftOut],
}

/// Which blocks see a window of the last tokens only, where the metadata does not say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// The size of the windows; without one, there are none.
    pub size: Option<usize>,
    /// Of so many blocks, all but the last have a window.
    pub period: usize,
    /// Whether the window is a chunk instead: of consecutive chunks of this size the one that the token is in.
    pub chunked: bool,
    /// Whether the first of `period` blocks has none instead of the last.
    pub first_is_full: bool,
}

impl Windows {
    /// Windows in all blocks but the last of `period`.
    pub const fn new(size: Option<usize>, period: usize) -> Windows {
        Windows { size, period, chunked: false, first_is_full: false }
    }
}

/// Tensors of a file that are passed over on purpose.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// Their names; a `*` at the beginning or the end stands for anything.
    pub tensors: &'static str,
    /// Why they are not needed.
    pub reason: &'static str,
}

/// Blocks behind those of the decoder.
const NEXTN: LeftOut = LeftOut { tensors: "blk.*", reason: "a block that predicts the token after the next" };

/// Projections of blocks that use other blocks' keys and values.
const SHARED: LeftOut =
    LeftOut { tensors: "blk.*", reason: "the block uses another block's keys and values" };

const SHARED_KEYS: [&str; 3] = [".attn_k.weight", ".attn_v.weight", ".attn_k_norm.weight"];

impl Architecture {
    /// Every architecture that the decoder runs.
    pub const ALL: &'static [&'static Architecture] = &[
        &arcee::ARCEE,
        &baichuan::BAICHUAN,
        &bailingmoe2::BAILINGMOE2,
        &bert::BERT,
        &bloom::BLOOM,
        &chatglm::CHATGLM,
        &cohere2::COHERE2,
        &command_r::COMMAND_R,
        &deepseek::DEEPSEEK,
        &deepseek2::DEEPSEEK2,
        &dots1::DOTS1,
        &ernie4_5::ERNIE4_5,
        &ernie4_5_moe::ERNIE4_5_MOE,
        &exaone::EXAONE,
        &exaone4::EXAONE4,
        &falcon::FALCON,
        &falcon_h1::FALCON_H1,
        &gemma::GEMMA,
        &gemma_embedding::GEMMA_EMBEDDING,
        &gemma2::GEMMA2,
        &gemma3::GEMMA3,
        &gemma3n::GEMMA3N,
        &gemma4::GEMMA4,
        &glm4::GLM4,
        &glm4moe::GLM4MOE,
        &gpt_oss::GPT_OSS,
        &gpt2::GPT2,
        &gptneox::GPTNEOX,
        &granite::GRANITE,
        &granitehybrid::GRANITEHYBRID,
        &granitemoe::GRANITEMOE,
        &hunyuan_dense::HUNYUAN_DENSE,
        &hunyuan_moe::HUNYUAN_MOE,
        &internlm2::INTERNLM2,
        &jamba::JAMBA,
        &jina_bert_v2::JINA_BERT_V2,
        &lfm2::LFM2,
        &lfm2moe::LFM2MOE,
        &llama::LLAMA,
        &llama_embed::LLAMA_EMBED,
        &llama4::LLAMA4,
        &mamba::MAMBA,
        &mamba2::MAMBA2,
        &minicpm::MINICPM,
        &minimax_m2::MINIMAX_M2,
        &mistral3::MISTRAL3,
        &modern_bert::MODERN_BERT,
        &mpt::MPT,
        &nemotron::NEMOTRON,
        &nemotron_h::NEMOTRON_H,
        &nemotron_h_moe::NEMOTRON_H_MOE,
        &nomic_bert::NOMIC_BERT,
        &nomic_bert_moe::NOMIC_BERT_MOE,
        &olmo::OLMO,
        &olmo2::OLMO2,
        &olmoe::OLMOE,
        &orion::ORION,
        &phi2::PHI2,
        &phi3::PHI3,
        &qwen2::QWEN2,
        &qwen2moe::QWEN2MOE,
        &qwen2vl::QWEN2VL,
        &qwen3::QWEN3,
        &qwen35::QWEN35,
        &qwen35moe::QWEN35MOE,
        &qwen3moe::QWEN3MOE,
        &qwen3next::QWEN3NEXT,
        &qwen3vl::QWEN3VL,
        &qwen3vlmoe::QWEN3VLMOE,
        &rwkv7::RWKV7,
        &seed_oss::SEED_OSS,
        &smollm3::SMOLLM3,
        &stablelm::STABLELM,
        &starcoder::STARCODER,
        &starcoder2::STARCODER2,
    ];

    /// The architecture of this name.
    pub fn find(name: &str) -> Option<&'static Architecture> {
        Self::ALL.iter().copied().find(|a| a.name == name)
    }

    /// The parts of block `index`, first to last.
    pub fn block(&self, config: &ModelConfig, index: usize) -> &'static [Part] {
        self.kinds[(self.kind)(config, index)]
    }

    /// The name of the table that token ids choose rows of.
    pub fn embedding_table(&self) -> Option<&'static str> {
        self.embedding.iter().find_map(|part| match part {
            Part::Embedding(name) => Some(*name),
            _ => None,
        })
    }

    /// Whether a mixture of experts is among these parts.
    pub fn has_experts(parts: &[Part]) -> bool {
        parts.iter().any(|part| match part {
            Part::Experts(_) => true,
            Part::IfTensor { then, otherwise, .. } => {
                Architecture::has_experts(then) || Architecture::has_experts(otherwise)
            }
            Part::Parallel(branches) => branches.iter().any(|branch| Architecture::has_experts(branch)),
            _ => false,
        })
    }

    /// Why a tensor of this name is passed over in a model of this configuration, if it is.
    pub fn left_out(&self, config: &ModelConfig, tensor: &str) -> Option<&'static LeftOut> {
        let block = tensor.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
        let shares = |block: usize| config.layers.get(block).is_some_and(|layer| layer.keys_of.is_some());
        match block {
            Some(block) if shares(block) && SHARED_KEYS.iter().any(|end| tensor.ends_with(end)) => {
                Some(&SHARED)
            }
            Some(block) if config.predicting_blocks().contains(&block) => Some(&NEXTN),
            _ => self.left_out.iter().find(|left_out| left_out.matches(tensor)),
        }
    }
}

impl LeftOut {
    fn matches(&self, tensor: &str) -> bool {
        match (self.tensors.strip_prefix('*'), self.tensors.strip_suffix('*')) {
            (Some(end), _) => tensor.ends_with(end),
            (_, Some(start)) => tensor.starts_with(start),
            (None, None) => tensor == self.tensors,
        }
    }
}
