//! Jina Embeddings 2 and its rerankers: BERT with ALiBi and GeGLU. Those for code have norms of queries and keys, and add the block's input a
//! second time.

use super::bert::{BERT, BERT_EMBEDDING};
use super::bloom::ALIBI;
use super::common::{ATTENTION, GEGLU};
use super::{Architecture, Attention, HeadNorm, Mlp, MlpGate, NormKind, NormSpan, Part};

pub(super) const JINA_BERT_V2: Architecture = Architecture {
    name: "jina-bert-v2",
    models: "Jina Embeddings 2, Jina Reranker 1",
    embedding: BERT_EMBEDDING,
    kinds: &[&[
        Part::Parallel(&[&[
            Part::Attention(Attention {
                query_norm: Some(norm("attn_q_norm")),
                key_norm: Some(norm("attn_k_norm")),
                rope: None,
                alibi: Some(ALIBI),
                ..ATTENTION
            }),
            Part::Add,
            Part::biased_layer_norm("attn_output_norm"),
        ]]),
        Part::IfTensor {
            tensor: "attn_norm_2",
            then: &[Part::Add, Part::biased_layer_norm("attn_norm_2")],
            otherwise: &[],
        },
        Part::Replace,
        Part::IfTensor {
            tensor: "ffn_gate",
            then: &[Part::Mlp(GEGLU)],
            otherwise: &[Part::Mlp(Mlp { gate: MlpGate::InUp, ..GEGLU })],
        },
        Part::Add,
        Part::biased_layer_norm("layer_output_norm"),
    ]],
    ..BERT
};

const fn norm(tensor: &'static str) -> HeadNorm {
    HeadNorm { kind: NormKind::Layer, tensor: Some(tensor), span: NormSpan::AllHeads, optional: true }
}
