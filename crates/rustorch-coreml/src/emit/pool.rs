//! Pooling.

use super::{Emit, Emitter, Reason, Results, small};
use crate::builder::Var;
use crate::support::Condition;
use rustorch_core::{AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, Node, PoolWindow};

impl Emitter<'_> {
    pub(super) fn max_pool(&mut self, op: &MaxPool, node: &Node) -> Emit<Results> {
        if !self.is_unread(node, 1) {
            return Err(Condition::NoIndices.into());
        }
        if op.dilation.iter().any(|&step| step != 1) {
            return Err(Condition::NoDilation.into());
        }
        let x = self.arg(node, 0)?;
        let dims = self.result_dims(node, 0);
        let y = self.pooled("max_pool", &x, &op.window, false, &dims)?.0;
        Ok(Results::from_elem(y, 1))
    }

    pub(super) fn avg_pool(&mut self, op: &AvgPool, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        let dims = self.result_dims(node, 0);
        let is_padded = op.window.padding.iter().any(|&width| width != 0);
        let excludes = op.divisor.is_none() && !(op.count_include_pad && is_padded);
        let (y, sticks_out) = self.pooled("avg_pool", &x, &op.window, excludes, &dims)?;
        if sticks_out && !excludes {
            return Err(Condition::WindowsInside.into());
        }
        Ok(match op.divisor {
            Some(divisor) => {
                let taps: f64 = op.window.kernel.iter().map(|&len| len as f64).product();
                self.bin_float("mul", &y, (taps / divisor as f64) as f32)
            }
            None => y,
        })
    }

    /// Pooling over the trailing dimensions, and whether a window sticks out of input and padding.
    fn pooled(
        &mut self,
        ty: &str,
        x: &Var,
        window: &PoolWindow,
        excludes: bool,
        dims: &[usize],
    ) -> Emit<(Var, bool)> {
        small(window.kernel.iter().chain(&window.stride).chain(&window.padding).copied())?;
        let n = window.kernel.len();
        let lead = x.ndim() - n;
        let mut pad = Vec::new();
        let mut sticks_out = false;
        for i in 0..n {
            let reach = (dims[lead + i] - 1) * window.stride[i] + window.kernel[i];
            let more = reach.saturating_sub(x.dims[lead + i] + 2 * window.padding[i]);
            sticks_out |= more > 0;
            pad.extend([window.padding[i], window.padding[i] + more]);
        }
        // MIL has a batch and channels before the spatial dimensions.
        let batch = |all: &[usize]| {
            if lead == 2 {
                return all.to_vec();
            }
            let mut dims = vec![1, all[..lead].iter().product()];
            dims.extend_from_slice(&all[lead..]);
            dims
        };
        let x = self.reshape(x, &batch(&x.dims));
        let (kernel, strides) = (self.b.ints(&window.kernel), self.b.ints(&window.stride));
        let (pad_type, pad) = (self.b.str("custom"), self.b.ints(&pad));
        let no = self.b.bool(false);
        let excludes = self.b.bool(excludes);
        let mut inputs = vec![
            ("x", &x),
            ("kernel_sizes", &kernel),
            ("strides", &strides),
            ("pad_type", &pad_type),
            ("pad", &pad),
            ("ceil_mode", &no),
        ];
        if ty == "avg_pool" {
            inputs.push(("exclude_padding_from_average", &excludes));
        }
        let y = self.b.op(ty, &inputs, x.dtype, &batch(dims));
        Ok((self.reshape(&y, dims), sticks_out))
    }

    pub(super) fn adaptive_avg_pool(&mut self, op: &AdaptiveAvgPool, node: &Node) -> Emit {
        self.adaptive("avg_pool", "reduce_mean", &op.size, node)
    }

    pub(super) fn adaptive_max_pool(&mut self, op: &AdaptiveMaxPool, node: &Node) -> Emit<Results> {
        if !self.is_unread(node, 1) {
            return Err(Condition::NoIndices.into());
        }
        self.adaptive("max_pool", "reduce_max", &op.size, node).map(|y| Results::from_elem(y, 1))
    }

    fn adaptive(&mut self, pool: &str, reduce: &str, size: &[usize], node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        let lead = x.ndim() - size.len();
        if size.iter().all(|&len| len == 1) {
            let axes: Vec<usize> = (lead..x.ndim()).collect();
            let wide = self.as_f32(&x);
            let y = self.reduced(reduce, &wide, &axes, true);
            return Ok(self.float_as(&y, x.dtype));
        }
        let spatial = &x.dims[lead..];
        if spatial.iter().zip(size).any(|(len, n)| len % n != 0) {
            let detail = format!("{spatial:?} is no multiple of {size:?}");
            return Err(Reason::Unmet(Condition::EqualWindows, detail));
        }
        let kernel: rustorch_core::Dims = spatial.iter().zip(size).map(|(len, n)| len / n).collect();
        let padding = kernel.iter().map(|_| 0).collect();
        let window = PoolWindow { stride: kernel.clone(), kernel, padding, ceil_mode: false };
        let dims = self.result_dims(node, 0);
        Ok(self.pooled(pool, &x, &window, false, &dims)?.0)
    }
}
