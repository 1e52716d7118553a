//! Scaled dot-product attention.

use super::{Dropout, OpType, Operation, dense, expect_args, float};
use crate::{DType, Dims, Error, Numerics, OutputMeta, Outputs, PhiloxKey, Result, Shape, TensorMeta};
use smallvec::smallvec;

/// `q: [.., heads, m, d], k: [.., kv_heads, n, d], v: [.., kv_heads, n, e][, mask] → [.., heads, m, e]`, and the log-sum-exp
/// of the scores `[.., heads, m]` where it is asked for.
///
/// `heads` is a multiple of `kv_heads`: consecutive query heads share one key/value head (grouped-query attention).
/// Keys and values have the queries' dtype, or are `F16`/`BF16` under `F32` queries (a 16-bit cache).
/// The mask broadcasts to `[.., heads, m, n]`: `Bool` (true takes part) or of the queries' dtype (added to the scores).
/// A query with no key left gives zeros. Scores and sums are `f32` at least.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Attention {
    /// The factor of the scores, usually 1/√d.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub scale: f32,
    /// If given, query `i` sees key `j` only where `j ≤ i + offset`. PyTorch's `is_causal` is offset 0; with a cache of
    /// `p` earlier keys it is `p`.
    pub causal: Option<usize>,
    /// If given, query `i` sees key `j` only where `j > i + offset − window` (`offset` from `causal`, else 0).
    pub window: Option<usize>,
    /// If given, scores become `softcap · tanh(score / softcap)` after scaling and before masks.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub softcap: Option<f32>,
    /// With [`Numerics::Ggml`], `F32` queries over `F16` keys and values are rounded to `F16`, and so are the running sums of
    /// weighted values, after each key in order; GPUs keep the sums in `F32`. Over `BF16` it is refused: those roundings of ggml's
    /// are not built.
    pub numerics: Numerics,
    /// Makes a query's result the same, to the last bit, whatever other queries there are, and however many: as
    /// [`MatMul::batch_invariant`](super::MatMul::batch_invariant). Otherwise a device may have other kernels for many queries, and multiply
    /// `BF16` values with weights that are rounded to `BF16`. Without effect on the CPU where keys are a 16-bit cache under `F32` queries.
    pub batch_invariant: bool,
    /// Whether the logarithm of the sum of each query's exponentiated scores is a second result: what
    /// [`AttentionBackward`] computes the weights again from. It is `F32`, or `F64` for `F64` queries, and −∞ for a query with
    /// no key left.
    pub lse: bool,
    /// If given, weights are multiplied with the mask that this operation has for a tensor `[.., heads, m, n]`. The log-sum-exp is that
    /// of all scores. Refused where queries are rounded to `F16`.
    pub dropout: Option<Dropout>,
}

impl Attention {
    /// The operation's name.
    pub const NAME: &'static str = "attention";

    /// Attention that sees every key, with `f32` sums and none of the options.
    pub const fn new(scale: f32) -> Attention {
        Attention {
            scale,
            causal: None,
            window: None,
            softcap: None,
            numerics: Numerics::F32,
            batch_invariant: false,
            lse: false,
            dropout: None,
        }
    }

    /// Whether queries and running sums are rounded to `F16`, for operands of these dtypes.
    pub fn rounds_to_f16(&self, queries: DType, keys: DType) -> bool {
        self.numerics == Numerics::Ggml && (queries, keys) == (DType::F32, DType::F16)
    }

    /// Checks the dropout of weights of queries and keys, whose shapes fit.
    fn check_dropout(&self, dropout: &Dropout, q: &TensorMeta<'_>, k: &TensorMeta<'_>) -> Result<()> {
        dropout.check_p(Self::NAME)?;
        if self.rounds_to_f16(q.dtype, k.dtype) {
            let message = "attention that rounds to f16 has no dropout; take Numerics::F32";
            return Err(Error::argument(Self::NAME, message));
        }
        // The positions of weights are counted in one number.
        let ndim = q.shape().ndim();
        let mut dims: Dims = q.dims()[..ndim - 1].into();
        dims.push(k.dims()[ndim - 2]);
        Shape::new(dims).map(|_| ())
    }

    /// The dtype of the log-sum-exp, for queries of a dtype.
    fn lse_dtype(&self, queries: DType) -> DType {
        if queries == DType::F64 { DType::F64 } else { DType::F32 }
    }
}

impl Operation for Attention {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 3..=4)?;
        dense(Self::NAME, args)?;
        let (q, k, v) = (&args[0], &args[1], &args[2]);
        let shapes = [q.shape(), k.shape(), v.shape()];
        float(Self::NAME, q.dtype)?;
        let cache = q.dtype == DType::F32 && matches!(k.dtype, DType::F16 | DType::BF16);
        if k.dtype != v.dtype || (k.dtype != q.dtype && !cache) {
            return Err(Error::dtype(
                Self::NAME,
                "keys and values must have the queries' dtype, or be f16 or bf16 under f32",
                [q.dtype, k.dtype, v.dtype],
            ));
        }
        if self.numerics == Numerics::Ggml && cache && k.dtype == DType::BF16 {
            return Err(Error::dtype(
                Self::NAME,
                "f32 queries over bf16 keys and values take Numerics::F32; Numerics::Ggml takes f16 ones",
                [q.dtype, k.dtype],
            ));
        }
        let ndim = q.shape().ndim();
        if ndim < 3 || k.shape().ndim() != ndim || v.shape().ndim() != ndim {
            return Err(Error::shape(Self::NAME, "q, k and v need the same rank, 3 at least", shapes));
        }
        let (qd, kd, vd) = (q.dims(), k.dims(), v.dims());
        let lead = ndim - 3;
        let heads_fit = kd[lead] != 0 && qd[lead].is_multiple_of(kd[lead]) || qd[lead] == kd[lead];
        if qd[..lead] != kd[..lead]
            || kd[..ndim - 1] != vd[..ndim - 1]
            || qd[ndim - 1] != kd[ndim - 1]
            || !heads_fit
        {
            return Err(Error::shape(
                Self::NAME,
                "q [.., heads, m, d], k [.., kv_heads, n, d] and v [.., kv_heads, n, e] do not agree",
                shapes,
            ));
        }
        if let Some(mask) = args.get(3) {
            if mask.dtype != DType::Bool && mask.dtype != q.dtype {
                return Err(Error::dtype(
                    Self::NAME,
                    "the mask must be bool or of the queries' dtype",
                    [mask.dtype],
                ));
            }
            let mut dims: Dims = qd[..ndim - 1].into();
            dims.push(kd[ndim - 2]);
            mask.layout.broadcast_to(&Shape::new(dims)?, Self::NAME)?;
        }
        if !self.scale.is_finite()
            || self.softcap.is_some_and(|c| !(c > 0.0 && c.is_finite()))
            || self.window == Some(0)
        {
            return Err(Error::argument(
                Self::NAME,
                "scale must be finite, softcap positive, window at least 1",
            ));
        }
        if let Some(dropout) = &self.dropout {
            self.check_dropout(dropout, q, k)?;
        }
        let mut dims: Dims = qd[..ndim - 1].into();
        let lse = OutputMeta { dtype: self.lse_dtype(q.dtype), shape: Shape::new(&dims[..])? };
        dims.push(vd[ndim - 1]);
        let out = OutputMeta { dtype: q.dtype, shape: Shape::new(dims)? };
        Ok(if self.lse { smallvec![out, lse] } else { smallvec![out] })
    }

    fn philox_key(&self) -> Option<PhiloxKey> {
        self.dropout.as_ref().map(|dropout| dropout.key)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        let ndim = args[0].shape().ndim();
        let queries = args[0].shape()[..ndim - 1].iter().product::<usize>() as u64;
        let keys = args[1].dims()[ndim - 2] as u64;
        let width = (args[0].dims()[ndim - 1] + args[2].dims()[ndim - 1]) as u64;
        2 * queries * keys * width
    }
}

/// The gradients of [`Attention`], from that of its result, its arguments, its result and its log-sum-exp:
/// `grad: [.., heads, m, e], q, k, v, out: [.., heads, m, e], lse: [.., heads, m][, mask]` give those of `q`, `k` and `v` that are
/// wanted, in this order, with the shape and dtype of each.
///
/// With `s` for the scores behind all masks, the weights are `p = exp(s − lse)` and the gradient of the scores is
/// `ds = p · (grad · vᵀ − Σ grad · out)`: `dv = pᵀ · grad`, and `dq` and `dk` are `ds` times the keys and the queries. Keys and values
/// that several heads of queries share get the sum over these. Sums are `f32` at least. With dropout `grad · vᵀ` and the weights in `dv`
/// are multiplied with its mask.
///
/// Dao: *FlashAttention-2*, 2023.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct AttentionBackward {
    /// What is differentiated. Its `lse` does not matter, and roundings to `F16` ([`Attention::rounds_to_f16`]) are refused.
    pub attention: Attention,
    /// Whether the gradient of `q` is wanted.
    pub q: bool,
    /// Whether that of `k` is.
    pub k: bool,
    /// Whether that of `v` is.
    pub v: bool,
}

impl AttentionBackward {
    /// The operation's name.
    pub const NAME: &'static str = "attention_backward";
}

impl Operation for AttentionBackward {
    const CLASS: OpType = OpType::Attention;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        expect_args(Self::NAME, args, 6..=7)?;
        dense(Self::NAME, args)?;
        let [grad, q, k, v, out, lse] = args.first_chunk().expect("there are six arguments at least");
        let forward: Vec<TensorMeta<'_>> = [q, k, v].into_iter().chain(args.get(6)).cloned().collect();
        let results = Attention { lse: true, ..self.attention.clone() }.infer(&forward)?;
        let beside = [(grad, &results[0], "the gradient"), (out, &results[0], "the result")];
        for (arg, result, what) in beside.into_iter().chain([(lse, &results[1], "the log-sum-exp")]) {
            if *arg.shape() != result.shape {
                let message = format!("{what} does not have the shape that attention of q, k and v gives");
                return Err(Error::shape(Self::NAME, message, [arg.shape(), &result.shape]));
            }
            if arg.dtype != result.dtype {
                let message = format!("{what} must be {}, as attention of q, k and v gives it", result.dtype);
                return Err(Error::dtype(Self::NAME, message, [arg.dtype]));
            }
        }
        if self.attention.rounds_to_f16(q.dtype, k.dtype) {
            let message = "attention that rounds to f16 has no gradient of its own; take Numerics::F32";
            return Err(Error::argument(Self::NAME, message));
        }
        if !(self.q || self.k || self.v) {
            return Err(Error::argument(Self::NAME, "at least one of the gradients must be wanted"));
        }
        let wanted = [(self.q, q), (self.k, k), (self.v, v)].into_iter().filter(|(wanted, _)| *wanted);
        Ok(wanted.map(|(_, x)| OutputMeta { dtype: x.dtype, shape: x.shape().clone() }).collect())
    }

    fn philox_key(&self) -> Option<PhiloxKey> {
        self.attention.philox_key()
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        let ndim = args[1].shape().ndim();
        let queries = args[1].shape()[..ndim - 1].iter().product::<usize>() as u64;
        let keys = args[2].dims()[ndim - 2] as u64;
        let (d, e) = (args[1].dims()[ndim - 1] as u64, args[3].dims()[ndim - 1] as u64);
        let (dq, dk, dv) = (u64::from(self.q), u64::from(self.k), u64::from(self.v));
        let of_scores = if self.q || self.k { e } else { 0 };
        2 * queries * keys * (d + of_scores + (dq + dk) * d + dv * e)
    }

    fn leading_argument(&self) -> usize {
        1
    }
}
