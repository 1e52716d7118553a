//! A LLaMA decoder of two blocks: over six tokens at once, and token by token over 30 steps with its cache of keys and values in states.

use super::{Case, indices, values};
use rustorch_core::{Attention, CachedAttention, Op};
use rustorch_tensor::autograd::{apply, no_grad};
use rustorch_tensor::{DType, Program, Result, RopeParams, RopeStyle, Tensor, TensorSpec, capture};

const DIM: usize = 16;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD: usize = DIM / HEADS;
const INNER: usize = 24;
const VOCABULARY: usize = 13;
/// Positions that the cache holds, and how many are filled.
const CONTEXT: usize = 32;
const STEPS: usize = 30;

pub(super) fn cases() -> Vec<Case> {
    vec![at_once(), at_once().in_f16(), steps(), steps().in_f16(), steps().in_f16().fused()]
}

/// A weight of a linear layer, or a table, of values that `f16` has.
fn weight(rows: usize, columns: usize, seed: u32) -> Tensor {
    values(&[rows, columns], seed).mul(0.25).unwrap()
}

/// Weights of a norm, around 1, which `f16` has, too.
fn gains(seed: u32) -> Tensor {
    values(&[DIM], seed).mul(0.5).unwrap().add(1.0).unwrap()
}

struct Block {
    attention_norm: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    ffn_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Block {
    fn new(seed: u32) -> Block {
        Block {
            attention_norm: gains(seed),
            q: weight(HEADS * HEAD, DIM, seed + 1),
            k: weight(KV_HEADS * HEAD, DIM, seed + 2),
            v: weight(KV_HEADS * HEAD, DIM, seed + 3),
            output: weight(DIM, HEADS * HEAD, seed + 4),
            ffn_norm: gains(seed + 5),
            gate: weight(INNER, DIM, seed + 6),
            up: weight(INNER, DIM, seed + 7),
            down: weight(DIM, INNER, seed + 8),
        }
    }
}

struct Decoder {
    table: Tensor,
    blocks: [Block; 2],
    norm: Tensor,
}

impl Decoder {
    fn new() -> Decoder {
        Decoder {
            table: weight(VOCABULARY, DIM, 100),
            blocks: [Block::new(200), Block::new(300)],
            norm: gains(101),
        }
    }

    /// The logits `[1, vocabulary]` behind the last of some tokens. `attend` mixes values by queries and keys of a block, `[heads, tokens, head]`.
    fn logits(
        &self,
        ids: &Tensor,
        positions: &Tensor,
        attend: impl Fn(usize, &Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let n = ids.numel();
        let rope =
            RopeParams { style: RopeStyle::Halves, rotated: HEAD, base: 10000.0, scale: 1.0, yarn: None };
        let split = |x: Tensor, heads: usize| x.reshape([n, heads, HEAD])?.transpose(0, 1);
        let mut x = self.table.embedding(ids)?;
        for (i, block) in self.blocks.iter().enumerate() {
            let normed = x.rms_norm([DIM], Some(&block.attention_norm), 1e-5)?;
            let q = split(normed.linear(&block.q, None)?, HEADS)?.rope(positions, &rope, None)?;
            let k = split(normed.linear(&block.k, None)?, KV_HEADS)?.rope(positions, &rope, None)?;
            let v = split(normed.linear(&block.v, None)?, KV_HEADS)?;
            let mixed = attend(i, &q, &k, &v)?.transpose(0, 1)?.reshape([n, DIM])?;
            x = x.add(&mixed.linear(&block.output, None)?)?;
            let normed = x.rms_norm([DIM], Some(&block.ffn_norm), 1e-5)?;
            let gated = normed.linear(&block.gate, None)?.swiglu(&normed.linear(&block.up, None)?)?;
            x = x.add(&gated.linear(&block.down, None)?)?;
        }
        let last = x.narrow(0, n - 1, 1)?.rms_norm([DIM], Some(&self.norm), 1e-5)?;
        last.linear(&self.table, None)
    }
}

fn at_once() -> Case {
    let decoder = Decoder::new();
    Case::new("decoder", &[indices(&[6], VOCABULARY as i64, 1)], |x| {
        let positions = Tensor::arange(0, 6, 1)?;
        let attention = Attention { causal: Some(0), ..Attention::new(0.5) };
        no_grad(|| {
            let attend =
                |_: usize, q: &Tensor, k: &Tensor, v: &Tensor| Tensor::attention(q, k, v, None, &attention);
            Ok(vec![decoder.logits(&x[0], &positions, attend)?])
        })
    })
}

/// Two blocks' keys and values.
type Caches = [(Tensor, Tensor); 2];

fn caches() -> Caches {
    let cache = || Tensor::zeros([KV_HEADS, CONTEXT, HEAD], DType::F16).unwrap();
    [(cache(), cache()), (cache(), cache())]
}

/// The logits behind tokens at positions that follow each other, whose keys and values enter the caches.
fn over_caches(decoder: &Decoder, caches: &Caches, x: &[Tensor]) -> Result<Vec<Tensor>> {
    let op = Op::CachedAttention(CachedAttention { attention: Attention::new(0.5) });
    let row = x[1].select(0, 0)?;
    let attend = |i: usize, q: &Tensor, k: &Tensor, v: &Tensor| {
        let (keys, values) = &caches[i];
        keys.slice_update_(1, &k.to_dtype(DType::F16)?, &row)?;
        values.slice_update_(1, &v.to_dtype(DType::F16)?, &row)?;
        Ok(apply(&op, &[q, keys, values, &row])?.into_vec().remove(0))
    };
    no_grad(|| Ok(vec![decoder.logits(&x[0], &x[1], attend)?]))
}

/// A token and its position in each run.
fn steps() -> Case {
    let (decoder, caches) = (Decoder::new(), caches());
    let tokens = indices(&[STEPS], VOCABULARY as i64, 2).to_vec::<i64>().unwrap();
    let vector = |value: i64| Tensor::from_slice(&[value], [1]).unwrap();
    let runs = tokens.iter().zip(0..).map(|(&token, position)| vec![vector(token), vector(position)]);
    Case::of_runs("decoder_steps", runs.collect(), |x| over_caches(&decoder, &caches, x))
}

/// Programs of so many tokens each, over the same caches.
pub fn programs_of(tokens: &[usize]) -> Vec<Program> {
    let (decoder, caches) = (Decoder::new(), caches());
    let of = |&n: &usize| {
        let spec = || TensorSpec::new([n], DType::I64).unwrap();
        capture(&[spec(), spec()], |x| over_caches(&decoder, &caches, x)).unwrap()
    };
    tokens.iter().map(of).collect()
}
