//! Scaled dot-product attention and rotary position embedding.

use crate::Tensor;
use crate::autograd::record::Results;
use crate::dispatch::{run, run_many};
use crate::random::dropout_mask;
use rustorch_core::{Attention, DType, Dims, Error, Op, OutputMeta, Result, RopeParams, Shape, TensorMeta};
use smallvec::SmallVec;
use std::borrow::Cow;

/// What attention does beside `softmax(q · kᵀ) · v`: the optional arguments of PyTorch's function. By default there is no mask and no
/// dropout, and the scale is 1/√d.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Broadcasts to `[.., heads, m, n]`: where `Bool`, true takes part; else it is added to the scores.
    pub mask: Option<&'a Tensor>,
    /// The probability with which a weight is set to zero.
    pub dropout_p: f64,
    /// Whether query `i` sees only the keys `j ≤ i`.
    pub is_causal: bool,
    /// The factor of the scores; 1/√d if not given.
    pub scale: Option<f64>,
}

impl Tensor {
    /// `softmax(q · kᵀ · scale + mask) · v`, as `torch.nn.functional.scaled_dot_product_attention`.
    ///
    /// For `query: [.., heads, m, d]`, `key: [.., kv_heads, n, d]` and `value: [.., kv_heads, n, e]` the result is
    /// `[.., heads, m, e]`; `heads` is a multiple of `kv_heads`, whose heads consecutive queries share. The mask
    /// broadcasts to `[.., heads, m, n]`: where `Bool`, true takes part; else it is added. `is_causal` lets query `i` see
    /// the keys `j ≤ i`. `scale` is 1/√d if not given.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let x = Tensor::ones([1, 2, 3, 4], DType::F32)?;
    /// let y = Tensor::scaled_dot_product_attention(&x, &x, &x, None, true, None)?;
    /// assert!(y.allclose(&x, 1e-6, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn scaled_dot_product_attention(
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
        scale: Option<f64>,
    ) -> Result<Tensor> {
        let options = AttentionOptions { mask, is_causal, scale, dropout_p: 0.0 };
        Tensor::scaled_dot_product_attention_with(query, key, value, &options)
    }

    /// As [`scaled_dot_product_attention`](Self::scaled_dot_product_attention), with dropout of the weights: each is set to zero with
    /// probability `dropout_p`, and the others times `1 / (1 − dropout_p)`. The matrix of weights is not stored, nor is the mask: it
    /// follows from the key that the call draws, as that of [`dropout`](Self::dropout). As in PyTorch there is no argument for training:
    /// pass 0 otherwise.
    ///
    /// ```
    /// # use rustorch_tensor::{AttentionOptions, DType, Tensor};
    /// let x = Tensor::ones([1, 2, 3, 4], DType::F32)?;
    /// let options = AttentionOptions { is_causal: true, dropout_p: 0.5, ..Default::default() };
    /// let y = Tensor::scaled_dot_product_attention_with(&x, &x, &x, &options)?;
    /// // Query 0 sees one key: twice its value, or nothing.
    /// let first = y.select(-2, 0)?.to_vec::<f32>()?;
    /// assert!(first.iter().all(|&y| y == 0.0 || y == 2.0));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit, or `dropout_p` is no probability.
    pub fn scaled_dot_product_attention_with(
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions<'_>,
    ) -> Result<Tensor> {
        let AttentionOptions { mask, dropout_p, is_causal, scale } = *options;
        let width = query.dims().last().copied().unwrap_or(1).max(1);
        let scale = scale.unwrap_or(1.0 / (width as f64).sqrt());
        let dropout = match dropout_p == 0.0 {
            true => None,
            false => Some(dropout_mask(dropout_p, weights(query, key, value)?)),
        };
        let plain = |scale| Attention { causal: is_causal.then_some(0), dropout, ..Attention::new(scale) };
        if query.dtype() == DType::F64 {
            // The operation's own factor is single precision.
            return Tensor::attention(&query.mul(scale)?, key, value, mask, &plain(1.0));
        }
        Tensor::attention(query, key, value, mask, &plain(scale as f32))
    }

    /// As [`scaled_dot_product_attention`](Self::scaled_dot_product_attention), with everything that [`Attention`] can
    /// say: an offset of the causal mask for cached keys, sliding windows, a soft cap of the scores, and dropout with a mask that a
    /// [generator](crate::Generator::dropout_mask) has drawn.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit, or the log-sum-exp is asked for: of two results this returns one. Use
    /// [`apply`](crate::autograd::apply) for both.
    pub fn attention(
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: Option<&Tensor>,
        attention: &Attention,
    ) -> Result<Tensor> {
        if attention.lse {
            let message = "returns one result; run Op::Attention by autograd::apply for its log-sum-exp";
            return Err(Error::argument(Attention::NAME, message));
        }
        let ndim = query.ndim();
        if ndim >= 3
            && key.ndim() == ndim
            && value.ndim() == ndim
            && query.dims()[..ndim - 3] == key.dims()[..ndim - 3]
        {
            return call(attention, query, key, value, mask);
        }
        if ndim < 2 || key.ndim() < 2 || value.ndim() < 2 {
            return Err(Error::shape(
                "attention",
                "q, k and v need two dimensions at least",
                [query.shape(), key.shape(), value.shape()],
            ));
        }
        // One head without a dimension for it, or leading dimensions that broadcast.
        let parts = [query, key, value].map(|x| x.with_ndim(ndim.max(key.ndim()).max(value.ndim()).max(3)));
        let [q, k, v] = parts;
        let (q, k, v) = (q?, k?, v?);
        let lead = q.ndim() - 3;
        let batch = |x: &Tensor| Shape::new(&x.dims()[..lead]);
        let shared = batch(&q)?.broadcast(&batch(&k)?, "attention")?.broadcast(&batch(&v)?, "attention")?;
        let spread = |x: &Tensor| {
            let mut dims: Dims = shared.dims().into();
            dims.extend_from_slice(&x.dims()[lead..]);
            x.broadcast_to(Shape::new(dims)?)
        };
        let out = call(attention, &spread(&q)?, &spread(&k)?, &spread(&v)?, mask)?;
        if ndim == 2 && out.ndim() == 3 && out.dims()[0] == 1 { out.squeeze(0) } else { Ok(out) }
    }

    /// With dimensions of length 1 in front up to a rank.
    fn with_ndim(&self, ndim: usize) -> Result<Tensor> {
        let mut dims = Dims::from_elem(1, ndim.saturating_sub(self.ndim()));
        dims.extend_from_slice(self.dims());
        self.reshape_to(Shape::new(dims)?)
    }

    /// Rotates pairs of elements by angles that grow with their position, for `x: [.., seq, dim]` and integer
    /// `positions: [seq]`; `factors: [rotated / 2]` (`F32`) divide the frequencies.
    ///
    /// ```
    /// # use rustorch_tensor::{RopeParams, RopeStyle, Tensor};
    /// let rope = RopeParams { style: RopeStyle::Halves, rotated: 2, base: 10000.0, scale: 1.0, yarn: None };
    /// let x = Tensor::new([[1.0f32, 0.0], [1.0, 0.0]])?;
    /// let y = x.rope(&Tensor::new([0i64, 1])?, &rope, None)?;
    /// let want = Tensor::new([[1.0f32, 0.0], [1f32.cos(), 1f32.sin()]])?;
    /// assert!(y.allclose(&want, 1e-6, 1e-7, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    pub fn rope(&self, positions: &Tensor, rope: &RopeParams, factors: Option<&Tensor>) -> Result<Tensor> {
        let op = Op::Rope(rope.clone());
        let positions = positions.to_index("rope")?;
        match factors {
            Some(factors) => run(&op, &[self, &positions, factors]),
            None => run(&op, &[self, &positions]),
        }
    }
}

/// How many weights there are, of operands whose leading dimensions broadcast.
fn weights(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<usize> {
    let batch = |x: &Tensor| Shape::new(&x.dims()[..x.ndim().saturating_sub(3)]);
    let shared = batch(query)?.broadcast(&batch(key)?, Attention::NAME)?;
    let mut dims: Dims = shared.broadcast(&batch(value)?, Attention::NAME)?.dims().into();
    let ndim = query.ndim();
    dims.extend_from_slice(&query.dims()[ndim.saturating_sub(3)..ndim.saturating_sub(1)]);
    dims.extend(key.dims().iter().rev().nth(1).copied());
    Ok(Shape::new(dims)?.numel())
}

/// Room for the results of attention whose queries' heads are columns of one matrix, on the CPU: as in PyTorch, those of the result
/// then are, too, and a model merges heads without a copy.
pub(crate) fn places(op: &Op, args: &[&Tensor]) -> Result<Option<Results>> {
    let Some(q) = args.first() else { return Ok(None) };
    let ndim = q.ndim();
    let are_columns = ndim >= 3 && {
        let (dims, strides) = (q.dims(), q.strides());
        let [heads, rows] = [ndim - 3, ndim - 2];
        dims[heads] > 1 && dims[rows] > 1 && strides[heads] < strides[rows]
    };
    if !are_columns || !q.device().is_cpu() {
        return Ok(None);
    }
    let metas: SmallVec<[TensorMeta<'_>; 4]> = args
        .iter()
        .map(|x| TensorMeta { dtype: x.dtype(), layout: x.layout(), device: x.device() })
        .collect();
    // Whoever runs the operation tells what is wrong.
    let Ok(outs) = op.infer(&metas) else { return Ok(None) };
    let mut places = Results::new();
    for (i, OutputMeta { dtype, shape }) in outs.into_iter().enumerate() {
        let options = (dtype, q.device());
        places.push(match i {
            0 => {
                let mut dims: Dims = shape.dims().into();
                dims.swap(ndim - 3, ndim - 2);
                Tensor::zeros(Shape::new(dims)?, options)?.transpose(-3, -2)?
            }
            _ => Tensor::zeros(shape, options)?,
        });
    }
    Ok(Some(places))
}

fn call(attention: &Attention, q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    let op = Op::Attention(attention.clone());
    match mask {
        None => run_many(&op, &[q, k, v]),
        Some(mask) => {
            // A mask of another float type is added in the queries' type.
            let mask = if mask.dtype().is_float() && mask.dtype() != q.dtype() {
                Cow::Owned(mask.to_dtype(q.dtype())?)
            } else {
                Cow::Borrowed(mask)
            };
            run_many(&op, &[q, k, v, &mask])
        }
    }
}
