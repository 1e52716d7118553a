//! Short convolutions between gates.

use super::LinearWeights;
use crate::Result;
use crate::arch::Linear;
use crate::model::decoder::ForwardPass;
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use rustorch_tensor::Tensor;

/// `out(c · conv(b · x))` of the three that one layer gives.
pub(in crate::model) struct ShortConv {
    input: LinearWeights,
    /// `[channels, kernel]`.
    convolution: TensorId,
    output: LinearWeights,
    /// The place of the last inputs of the convolution in the cache.
    state: usize,
    /// Whether all rows but the last are dropped where nobody asks for their logits.
    pub(super) drops_rows: bool,
}

impl ShortConv {
    pub(super) fn load(loader: &mut Loader<'_>) -> Result<ShortConv> {
        let (width, kernel) = (loader.config.embedding, loader.metadata.size("shortconv.l_cache")?);
        Ok(ShortConv {
            input: loader.linear(Linear::plain("shortconv.in_proj"), [3 * width, width], None)?,
            convolution: loader.vector("shortconv.conv", &[width, kernel])?,
            output: loader.linear(Linear::plain("shortconv.out_proj"), [width, width], None)?,
            state: loader.new_state([vec![1, kernel - 1, width]]),
            drops_rows: false,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let (n, width) = (x.dims()[0], x.dims()[1]);
        let all = self.input.forward(pass, x)?;
        let [b, c, x] = [0, 1, 2].map(|i| all.narrow(1, i * width, width));
        let [state] = pass.cache.state(self.state);
        let kernel = &pass.weights[self.convolution];
        let (y, state) = b?.mul(&x?)?.unsqueeze(0)?.causal_conv1d(kernel, None, state, false)?;
        pass.set_state(self.state, vec![state]);
        let (first, rows) = if self.drops_rows && pass.last_row { (n - 1, 1) } else { (0, n) };
        let y = y.squeeze(0)?.narrow(0, first, rows)?.mul(&c?.narrow(0, first, rows)?)?;
        self.output.forward(pass, &y)
    }
}
