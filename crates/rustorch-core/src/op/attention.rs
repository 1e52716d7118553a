//! Scaled dot-product attention.

use super::{OpType, Operation, dense, expect_args, float, one};
use crate::{DType, Dims, Error, Numerics, OutputMeta, Outputs, Result, Shape, TensorMeta};

/// `q: [.., heads, m, d], k: [.., kv_heads, n, d], v: [.., kv_heads, n, e][, mask] → [.., heads, m, e]`.
///
/// `heads` is a multiple of `kv_heads`: consecutive query heads share one key/value head (grouped-query attention).
/// Keys and values have the queries' dtype, or are `F16`/`BF16` under `F32` queries (a 16-bit cache).
/// The mask broadcasts to `[.., heads, m, n]`: `Bool` (true takes part) or of the queries' dtype (added to the scores).
/// A query with no key left gives zeros. Scores and sums are `f32` at least, and a query's result does not depend on
/// the other queries in the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// The factor of the scores, usually 1/√d.
    pub scale: f32,
    /// If given, query `i` sees key `j` only where `j ≤ i + offset`. PyTorch's `is_causal` is offset 0; with a cache of
    /// `p` earlier keys it is `p`.
    pub causal: Option<usize>,
    /// If given, query `i` sees key `j` only where `j > i + offset − window` (`offset` from `causal`, else 0).
    pub window: Option<usize>,
    /// If given, scores become `softcap · tanh(score / softcap)` after scaling and before masks.
    pub softcap: Option<f32>,
    /// With [`Numerics::Ggml`], `F32` queries over `F16` keys and values are rounded to `F16`, and so are the running sums of
    /// weighted values, after each key in order. Over `BF16` it is refused: those roundings of ggml's are not built.
    pub numerics: Numerics,
}

impl Attention {
    /// The operation's name.
    pub const NAME: &'static str = "attention";

    /// Whether queries and running sums are rounded to `F16`, for operands of these dtypes.
    pub fn rounds_to_f16(&self, queries: DType, keys: DType) -> bool {
        self.numerics == Numerics::Ggml && (queries, keys) == (DType::F32, DType::F16)
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
        let mut dims: Dims = qd[..ndim - 1].into();
        dims.push(vd[ndim - 1]);
        one(q.dtype, Shape::new(dims)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        let ndim = args[0].shape().ndim();
        let queries = args[0].shape()[..ndim - 1].iter().product::<usize>() as u64;
        let keys = args[1].dims()[ndim - 2] as u64;
        let width = (args[0].dims()[ndim - 1] + args[2].dims()[ndim - 1]) as u64;
        2 * queries * keys * width
    }
}
