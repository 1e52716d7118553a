//! Recurrent operations: beside a sequence they take the state before it, and they return the state behind it.
//!
//! Sequences are `[batch, seq, ..]`, each with a state of its own, `[batch, ..]`. Positions depend on what is before them alone, so
//! that a sequence in chunks, each with the state that the one before returned, gives what the whole gives. All operands have one
//! dtype, `F32` or `F64`: a state of 16 bits would lose what is added to it position by position.

use super::{OpType, Operation, same_dense};
use crate::{DType, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::smallvec;

/// A causal depthwise convolution: `x: [batch, seq, channels], weight: [channels, kernel], state: [batch, kernel − 1, channels]
/// [, bias: [channels]]` give `y: [batch, seq, channels]` and the next state.
///
/// With `z` for the state and the sequence behind it, `y[t, c] = Σᵢ weight[c, i] · z[t + i, c] + bias[c]`. The next state is the last
/// `kernel − 1` rows of `z`. A new sequence's state is zero.
///
/// ggml's `ssm_conv`; the short convolution of Mamba (Gu, Dao: *Mamba*, 2023) and of gated delta networks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct CausalConv1d {
    /// Whether SiLU follows.
    pub silu: bool,
}

impl CausalConv1d {
    /// The operation's name.
    pub const NAME: &'static str = "causal_conv1d";
}

impl Operation for CausalConv1d {
    const CLASS: OpType = OpType::Convolution;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = operands(Self::NAME, args, 3, 4)?;
        let [batch, seq, channels] = dims(Self::NAME, "x must be [batch, seq, channels]", &args[0])?;
        let [_, kernel] = dims(Self::NAME, "the weight must be [channels, kernel]", &args[1])?;
        if kernel == 0 {
            return Err(Error::shape(Self::NAME, "the kernel must have an element", [args[1].shape()]));
        }
        shape(Self::NAME, "the weight", &args[1], &[channels, kernel])?;
        shape(Self::NAME, "the state", &args[2], &[batch, kernel - 1, channels])?;
        if let Some(bias) = args.get(3) {
            shape(Self::NAME, "the bias", bias, &[channels])?;
        }
        results(dtype, &[batch, seq, channels], args[2].shape())
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        let each = 2 * args[1].dims()[1] as u64 + if self.silu { 12 } else { 0 };
        each * outs[0].shape.numel() as u64
    }
}

op_names! {
    /// Which head of queries and keys a head of values goes with, where there are more of these.
    HeadBroadcast {
        /// Head `h` goes with head `h / (v_heads / heads)`: PyTorch's `repeat_interleave`, and grouped-query attention's order.
        Interleaved = "interleaved",
        /// Head `h` goes with head `h % heads`: ggml's order, in which GGUF files of Qwen 3.5 have their heads of values.
        Tiled = "tiled",
    }
}

impl HeadBroadcast {
    /// The head, of `heads`, that head `h` of `of` goes with.
    pub fn head(self, h: usize, heads: usize, of: usize) -> usize {
        match self {
            HeadBroadcast::Interleaved => h / (of / heads),
            HeadBroadcast::Tiled => h % heads,
        }
    }
}

/// The gated delta rule: `q, k: [batch, seq, heads, d_k], v: [batch, seq, v_heads, d_v], g: [batch, seq, v_heads] or
/// [batch, seq, v_heads, d_k], beta: [batch, seq, v_heads], state: [batch, v_heads, d_k, d_v]` give `out: [batch, seq, v_heads, d_v]`
/// and the next state.
///
/// At each position, for each head of values, with the state `S`, decays `e = exp(g)` of its rows and `∘` for elementwise multiplication:
/// `S ← e ∘ S`, then `S ← S + k ⊗ beta · (v − kᵀ S)`, and `out = qᵀ S / √d_k`. `v_heads` is a multiple of `heads`. The L2 norm of queries
/// and keys is the model's business: [`RmsNorm`](super::RmsNorm) with `eps / d_k` and a weight of `1 / √d_k` everywhere computes
/// `x / √(Σ x² + eps)`.
///
/// Yang, Kautz, Hatamizadeh: *Gated Delta Networks*, 2024; a decay for each row is that of Kimi's delta attention. Transformers'
/// `torch_recurrent_gated_delta_rule`, ggml's `gated_delta_net`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct GatedDeltaRule {
    /// Which queries and keys each head of values goes with.
    pub broadcast: HeadBroadcast,
}

impl GatedDeltaRule {
    /// The operation's name.
    pub const NAME: &'static str = "gated_delta_rule";
}

impl Operation for GatedDeltaRule {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = operands(Self::NAME, args, 6, 6)?;
        let [batch, seq, heads, d_k] = dims(Self::NAME, "q must be [batch, seq, heads, d_k]", &args[0])?;
        let [_, _, v_heads, d_v] = dims(Self::NAME, "v must be [batch, seq, v_heads, d_v]", &args[2])?;
        shape(Self::NAME, "k", &args[1], &[batch, seq, heads, d_k])?;
        shape(Self::NAME, "v", &args[2], &[batch, seq, v_heads, d_v])?;
        if d_k == 0 {
            return Err(Error::shape(Self::NAME, "queries and keys must have an element", [args[0].shape()]));
        }
        multiple(Self::NAME, "heads of values", v_heads, "heads of keys", heads, [&args[0], &args[2]])?;
        match args[3].shape().ndim() {
            4 => shape(Self::NAME, "g", &args[3], &[batch, seq, v_heads, d_k])?,
            _ => shape(Self::NAME, "g", &args[3], &[batch, seq, v_heads])?,
        }
        shape(Self::NAME, "beta", &args[4], &[batch, seq, v_heads])?;
        shape(Self::NAME, "the state", &args[5], &[batch, v_heads, d_k, d_v])?;
        results(dtype, args[2].dims(), args[5].shape())
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        7 * (outs[0].shape.numel() * args[0].dims()[3]) as u64
    }

    fn leading_argument(&self) -> usize {
        5
    }
}

/// The scan of a selective state space model: `x: [batch, seq, heads, p], dt: [batch, seq, heads], a: [heads] or [heads, n],
/// b, c: [batch, seq, groups, n], state: [batch, heads, p, n]` give `y: [batch, seq, heads, p]` and the next state.
///
/// At each position, for each head with the state `S`: `S ← S · exp(dt · a) + (dt · x) ⊗ b`, and `y = S c`. Head `h` has the `b` and the
/// `c` of group `h / (heads / groups)`. Mamba has one `a` for each column of the state, and heads of one element (`p = 1`); Mamba 2 has
/// one `a` for each head. `dt` is that behind softplus; what skips the scan (`D · x`) is added by the model.
///
/// Gu, Dao: *Mamba*, 2023; Dao, Gu: *Transformers are SSMs*, 2024. ggml's `ssm_scan`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct SsmScan;

impl SsmScan {
    /// The operation's name.
    pub const NAME: &'static str = "ssm_scan";
}

impl Operation for SsmScan {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = operands(Self::NAME, args, 6, 6)?;
        let [batch, seq, heads, p] = dims(Self::NAME, "x must be [batch, seq, heads, p]", &args[0])?;
        let [_, _, groups, n] = dims(Self::NAME, "b must be [batch, seq, groups, n]", &args[3])?;
        shape(Self::NAME, "dt", &args[1], &[batch, seq, heads])?;
        match args[2].shape().ndim() {
            2 => shape(Self::NAME, "a", &args[2], &[heads, n])?,
            _ => shape(Self::NAME, "a", &args[2], &[heads])?,
        }
        shape(Self::NAME, "b", &args[3], &[batch, seq, groups, n])?;
        shape(Self::NAME, "c", &args[4], &[batch, seq, groups, n])?;
        multiple(Self::NAME, "heads", heads, "groups", groups, [&args[0], &args[3]])?;
        shape(Self::NAME, "the state", &args[5], &[batch, heads, p, n])?;
        results(dtype, args[0].dims(), args[5].shape())
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        // A decay for each column takes an exponential for each.
        let each = if args[2].shape().ndim() == 2 { 16 } else { 5 };
        each * (outs[0].shape.numel() * args[3].dims()[3]) as u64
    }

    fn leading_argument(&self) -> usize {
        5
    }
}

/// The recurrence of RWKV 7: `r, w, k, a, b: [batch, seq, heads, d_k], v: [batch, seq, heads, d_v], state: [batch, heads, d_k, d_v]`, in
/// the order `r, w, k, v, a, b, state`, give `out: [batch, seq, heads, d_v]` and the next state.
///
/// At each position, for each head with the state `S`: `S ← w ∘ S + k ⊗ v + b ⊗ (aᵀ S)`, with `w`, the decays themselves, for the rows, and
/// `out = rᵀ S`. ggml keeps the transposed state.
///
/// Peng et al.: *RWKV-7 "Goose" with Expressive Dynamic State Evolution*, 2025. ggml's `rwkv_wkv7`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct RwkvWkv7;

impl RwkvWkv7 {
    /// The operation's name.
    pub const NAME: &'static str = "rwkv_wkv7";
}

impl Operation for RwkvWkv7 {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let dtype = operands(Self::NAME, args, 7, 7)?;
        let [batch, seq, heads, d_k] = dims(Self::NAME, "r must be [batch, seq, heads, d_k]", &args[0])?;
        let [_, _, _, d_v] = dims(Self::NAME, "v must be [batch, seq, heads, d_v]", &args[3])?;
        for (i, what) in [(1, "w"), (2, "k"), (4, "a"), (5, "b")] {
            shape(Self::NAME, what, &args[i], &[batch, seq, heads, d_k])?;
        }
        shape(Self::NAME, "v", &args[3], &[batch, seq, heads, d_v])?;
        shape(Self::NAME, "the state", &args[6], &[batch, heads, d_k, d_v])?;
        results(dtype, args[3].dims(), args[6].shape())
    }

    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        9 * (outs[0].shape.numel() * args[0].dims()[3]) as u64
    }

    fn leading_argument(&self) -> usize {
        6
    }
}

/// Checks the number of operands and their dtype, which is returned.
fn operands(op: &'static str, args: &[TensorMeta<'_>], least: usize, most: usize) -> Result<DType> {
    let dtype = same_dense(op, args, least..=most)?;
    match dtype {
        DType::F32 | DType::F64 => Ok(dtype),
        other => Err(Error::dtype(op, "keeps a state of f32 or f64; cast its operands", [other])),
    }
}

/// The dimensions of an operand of `N` of them.
fn dims<const N: usize>(op: &'static str, what: &'static str, x: &TensorMeta<'_>) -> Result<[usize; N]> {
    x.dims().try_into().map_err(|_| Error::shape(op, what, [x.shape()]))
}

/// Checks the shape of an operand.
fn shape(op: &'static str, what: &str, x: &TensorMeta<'_>, dims: &[usize]) -> Result<()> {
    if x.dims() == dims {
        return Ok(());
    }
    Err(Error::shape(op, format!("{what} must have shape {dims:?}"), [x.shape()]))
}

/// Checks that there are whole groups.
fn multiple(
    op: &'static str,
    what: &str,
    count: usize,
    of: &str,
    groups: usize,
    shapes: [&TensorMeta<'_>; 2],
) -> Result<()> {
    if groups != 0 && count.is_multiple_of(groups) || count == groups {
        return Ok(());
    }
    let message = format!("{count} {what} are no multiple of {groups} {of}");
    Err(Error::shape(op, message, shapes.map(TensorMeta::shape)))
}

/// The result along the sequence, and the next state.
fn results(dtype: DType, dims: &[usize], state: &Shape) -> Result<Outputs> {
    let out = OutputMeta { dtype, shape: Shape::new(dims)? };
    Ok(smallvec![out, OutputMeta { dtype, shape: state.clone() }])
}
