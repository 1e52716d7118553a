//! Recurrences of language models: each takes the state before a sequence and returns the state behind it.
//!
//! Sequences are `[batch, seq, ..]`, each with its own state. On the CPU a sequence in chunks of any lengths, each with the state that
//! the one before returned, gives the bits of the whole. Operands are `F32` or `F64`, all of one dtype.

use crate::Tensor;
use crate::dispatch::run_pair;
use rustorch_core::{CausalConv1d, GatedDeltaRule, HeadBroadcast, Op, Result, RwkvWkv7, SsmScan};

impl Tensor {
    /// A causal depthwise convolution (ggml's `ssm_conv`) of `self: [batch, seq, channels]` with `weight: [channels, kernel]`,
    /// `bias: [channels]` and `state: [batch, kernel − 1, channels]`, the inputs before the sequence, zeros at its start. Then SiLU,
    /// if asked for. Returns `[batch, seq, channels]` and the next state.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let x = Tensor::new([[[1.0f32], [2.0], [3.0]]])?;
    /// let weight = Tensor::new([[10.0f32, 1.0]])?;
    /// let start = Tensor::zeros([1, 1, 1], DType::F32)?;
    /// let (y, state) = x.causal_conv1d(&weight, None, &start, false)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 12.0, 23.0]);
    /// assert_eq!(state.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn causal_conv1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        state: &Tensor,
        silu: bool,
    ) -> Result<(Tensor, Tensor)> {
        let op = Op::CausalConv1d(CausalConv1d { silu });
        match bias {
            None => run_pair(&op, &[self, weight, state]),
            Some(bias) => run_pair(&op, &[self, weight, state, bias]),
        }
    }

    /// The gated delta rule of Qwen 3.5's linear attention (ggml's `gated_delta_net`), for `q, k: [batch, seq, heads, d_k]`,
    /// `v: [batch, seq, v_heads, d_v]`, the logarithms of decays `g: [batch, seq, v_heads]` (or `[batch, seq, v_heads, d_k]`, one for each
    /// row of the state), `beta: [batch, seq, v_heads]` and `state: [batch, v_heads, d_k, d_v]`. Returns `[batch, seq, v_heads, d_v]` and
    /// the next state.
    ///
    /// At each position `S ← eᵍ · S`, `S ← S + k ⊗ beta · (v − kᵀ S)`, and the result is `qᵀ S / √d_k`. Queries and keys are given
    /// normalised: `x.rms_norm([d_k], Some(&Tensor::full([d_k], 1 / √d_k, ..)), eps / d_k)` is `x / √(Σ x² + eps)`. Where `v_heads` is a
    /// multiple of `heads`, `broadcast` says which go together.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, HeadBroadcast, Tensor};
    /// // With g = 0, beta = 1 and one key, the state becomes the value, whatever it was.
    /// let one = Tensor::ones([1, 2, 1, 1], DType::F32)?;
    /// let v = Tensor::new([[[[5.0f32]], [[7.0]]]])?;
    /// let (g, beta) = (Tensor::zeros([1, 2, 1], DType::F32)?, Tensor::ones([1, 2, 1], DType::F32)?);
    /// let start = Tensor::zeros([1, 1, 1, 1], DType::F32)?;
    /// let (out, state) =
    ///     Tensor::gated_delta_rule(&one, &one, &v, &g, &beta, &start, HeadBroadcast::Interleaved)?;
    /// assert_eq!(out.to_vec::<f32>()?, [5.0, 7.0]);
    /// assert_eq!(state.to_vec::<f32>()?, [7.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn gated_delta_rule(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        g: &Tensor,
        beta: &Tensor,
        state: &Tensor,
        broadcast: HeadBroadcast,
    ) -> Result<(Tensor, Tensor)> {
        run_pair(&Op::GatedDeltaRule(GatedDeltaRule { broadcast }), &[q, k, v, g, beta, state])
    }

    /// The scan of Mamba and Mamba 2 (ggml's `ssm_scan`), for `self: [batch, seq, heads, p]`, `dt: [batch, seq, heads]`, `a: [heads, n]`
    /// or `[heads]`, `b, c: [batch, seq, groups, n]` and `state: [batch, heads, p, n]`. Returns `[batch, seq, heads, p]` and the next state.
    ///
    /// At each position `S ← S · exp(dt · a) + (dt · x) ⊗ b`, and the result is `S c`. Consecutive heads share the `b` and `c` of a group.
    /// `dt` is that behind softplus; the model adds `D · x`. Mamba has heads of one element and `a: [heads, n]`, Mamba 2 `a: [heads]`.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// // With a = 0 nothing decays: sums.
    /// let x = Tensor::new([[[[1.0f32]], [[2.0]], [[3.0]]]])?;
    /// let (dt, one) = (Tensor::ones([1, 3, 1], DType::F32)?, Tensor::ones([1, 3, 1, 1], DType::F32)?);
    /// let (a, start) = (Tensor::zeros([1], DType::F32)?, Tensor::zeros([1, 1, 1, 1], DType::F32)?);
    /// let (y, state) = x.ssm_scan(&dt, &a, &one, &one, &start)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
    /// assert_eq!(state.to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn ssm_scan(
        &self,
        dt: &Tensor,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        state: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        run_pair(&Op::SsmScan(SsmScan), &[self, dt, a, b, c, state])
    }

    /// The recurrence of RWKV 7 (ggml's `rwkv_wkv7`), for `r, w, k, a, b: [batch, seq, heads, d_k]`, `v: [batch, seq, heads, d_v]` and
    /// `state: [batch, heads, d_k, d_v]`. Returns `[batch, seq, heads, d_v]` and the next state.
    ///
    /// At each position `S ← w ∘ S + k ⊗ v + b ⊗ (aᵀ S)` with decays `w` of the state's rows, and the result is `rᵀ S`. The state is the
    /// transpose of ggml's.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let [one, zero] = [1.0, 0.0].map(|x| Tensor::full([1, 3, 1, 1], x, DType::F32));
    /// let (one, zero) = (one?, zero?);
    /// let half = Tensor::full([1, 3, 1, 1], 0.5, DType::F32)?;
    /// let start = Tensor::zeros([1, 1, 1, 1], DType::F32)?;
    /// let (out, state) = Tensor::rwkv_wkv7(&one, &half, &one, &one, &zero, &zero, &start)?;
    /// assert_eq!(out.to_vec::<f32>()?, [1.0, 1.5, 1.75]);
    /// assert_eq!(state.to_vec::<f32>()?, [1.75]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn rwkv_wkv7(
        r: &Tensor,
        w: &Tensor,
        k: &Tensor,
        v: &Tensor,
        a: &Tensor,
        b: &Tensor,
        state: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        run_pair(&Op::RwkvWkv7(RwkvWkv7), &[r, w, k, v, a, b, state])
    }
}
