//! Pooling over one, two or three trailing dimensions.

use crate::args::Sizes;
use crate::dispatch::{run, run_pair};
use crate::{IntoShape, Tensor};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, AdaptiveMaxPool, AvgPool, AvgPoolBackward, Dims, Error,
    MaxPool, MaxPoolBackward, Op, PoolWindow, Result,
};

/// The optional arguments of maximum pooling, with PyTorch's defaults. Each is one number, or one for each dimension.
///
/// ```
/// # use rustorch_tensor::{MaxPoolOptions, Tensor};
/// let x = Tensor::new([[1.0f32, 5.0, 2.0, 4.0, 3.0]])?;
/// let y = x.max_pool1d(2, &MaxPoolOptions::new().ceil_mode(true))?;
/// assert_eq!(y.to_vec::<f32>()?, [5.0, 4.0, 3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaxPoolOptions {
    /// The step from one window to the next; if not given, the window's size.
    pub stride: Option<Sizes>,
    /// Elements added at either end.
    pub padding: Sizes,
    /// The distance between elements of a window.
    pub dilation: Sizes,
    /// Whether a last window may stick out.
    pub ceil_mode: bool,
}

/// The optional arguments of average pooling, with PyTorch's defaults. Stride and padding are one number, or one for each
/// dimension.
#[derive(Clone, Debug)]
pub struct AvgPoolOptions {
    /// The step from one window to the next; if not given, the window's size.
    pub stride: Option<Sizes>,
    /// Zeros added at either end.
    pub padding: Sizes,
    /// Whether a last window may stick out.
    pub ceil_mode: bool,
    /// Whether padding counts among the elements of a window.
    pub count_include_pad: bool,
    /// What to divide by instead of the number of elements.
    pub divisor_override: Option<usize>,
}

macro_rules! shared_options {
    ($($options:ident),*) => {$(
        impl $options {
            /// The step from one window to the next; if not given, the window's size.
            pub fn stride(mut self, stride: impl Into<Sizes>) -> Self {
                self.stride = Some(stride.into());
                self
            }

            /// Elements added at either end, at most half the window: −∞ to a maximum, 0 to a mean.
            pub fn padding(mut self, padding: impl Into<Sizes>) -> Self {
                self.padding = padding.into();
                self
            }

            /// Whether a last window may stick out, if it starts inside the input or the padding before it.
            pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
                self.ceil_mode = ceil_mode;
                self
            }

            fn window(&self, op: &'static str, n: usize, kernel: Sizes) -> Result<PoolWindow> {
                let kernel = kernel.each(op, "kernel_size", n)?;
                Ok(PoolWindow {
                    stride: match &self.stride {
                        Some(stride) => stride.each(op, "stride", n)?,
                        None => kernel.clone(),
                    },
                    kernel,
                    padding: self.padding.each(op, "padding", n)?,
                    ceil_mode: self.ceil_mode,
                })
            }
        }

        impl Default for $options {
            fn default() -> Self {
                Self::new()
            }
        }
    )*};
}

shared_options!(MaxPoolOptions, AvgPoolOptions);

impl MaxPoolOptions {
    /// PyTorch's defaults.
    pub fn new() -> MaxPoolOptions {
        MaxPoolOptions { stride: None, padding: 0usize.into(), dilation: 1usize.into(), ceil_mode: false }
    }

    /// The distance between elements of a window.
    pub fn dilation(mut self, dilation: impl Into<Sizes>) -> MaxPoolOptions {
        self.dilation = dilation.into();
        self
    }

    fn op(&self, op: &'static str, n: usize, kernel: Sizes) -> Result<MaxPool> {
        Ok(MaxPool { window: self.window(op, n, kernel)?, dilation: self.dilation.each(op, "dilation", n)? })
    }
}

impl AvgPoolOptions {
    /// PyTorch's defaults.
    pub fn new() -> AvgPoolOptions {
        AvgPoolOptions {
            stride: None,
            padding: 0usize.into(),
            ceil_mode: false,
            count_include_pad: true,
            divisor_override: None,
        }
    }

    /// Whether padding counts among the elements of a window.
    pub fn count_include_pad(mut self, count_include_pad: bool) -> AvgPoolOptions {
        self.count_include_pad = count_include_pad;
        self
    }

    /// Divide by this number instead of the number of elements.
    pub fn divisor_override(mut self, divisor: usize) -> AvgPoolOptions {
        self.divisor_override = Some(divisor);
        self
    }

    fn op(&self, op: &'static str, n: usize, kernel: Sizes) -> Result<AvgPool> {
        Ok(AvgPool {
            window: self.window(op, n, kernel)?,
            count_include_pad: self.count_include_pad,
            divisor: self.divisor_override,
        })
    }
}

macro_rules! pools {
    ($($n:literal, $sizes:literal: $max:ident $max_indices:ident $avg:ident $adaptive_max:ident
        $adaptive_max_indices:ident $adaptive_avg:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("The largest of each window of `kernel_size` that slides over `[n, c, ", $sizes, "]`, or over `[c, ",
                $sizes, "]`. NaN if any is.\n\n# Errors\nIf the number of dimensions is another, a window does not fit, or the ",
                "padding is more than half of one.")]
            pub fn $max(&self, kernel_size: impl Into<Sizes>, options: &MaxPoolOptions) -> Result<Tensor> {
                Ok(self.max_windows(stringify!($max), $n, kernel_size.into(), options)?.0)
            }

            #[doc = concat!("[`", stringify!($max), "`](Self::", stringify!($max), ") and where the largest are: indices (`I64`) \
                into the flattened `", $sizes, "`, the first of equals.")]
            pub fn $max_indices(
                &self,
                kernel_size: impl Into<Sizes>,
                options: &MaxPoolOptions,
            ) -> Result<(Tensor, Tensor)> {
                self.max_windows(stringify!($max), $n, kernel_size.into(), options)
            }

            #[doc = concat!("The mean of each window of `kernel_size` that slides over `[n, c, ", $sizes, "]`, or over `[c, ",
                $sizes, "]`.\n\n# Errors\nIf the number of dimensions is another, a window does not fit, or the padding is ",
                "more than half of one.")]
            pub fn $avg(&self, kernel_size: impl Into<Sizes>, options: &AvgPoolOptions) -> Result<Tensor> {
                self.expect_spatial(stringify!($avg), $n)?;
                let pool = options.op(stringify!($avg), $n, kernel_size.into())?;
                run(&Op::from(pool), &[self])
            }

            #[doc = concat!("The largest of as many windows as `output_size` says, which cover `", $sizes, "` of `[n, c, ", $sizes,
                "]`, or of `[c, ", $sizes, "]`. A size of −1 is the input's.")]
            pub fn $adaptive_max(&self, output_size: impl Into<Sizes>) -> Result<Tensor> {
                Ok(self.$adaptive_max_indices(output_size)?.0)
            }

            #[doc = concat!("[`", stringify!($adaptive_max), "`](Self::", stringify!($adaptive_max), ") and where the largest are: \
                indices (`I64`) into the flattened `", $sizes, "`, the first of equals.")]
            pub fn $adaptive_max_indices(&self, output_size: impl Into<Sizes>) -> Result<(Tensor, Tensor)> {
                let size = self.adaptive(stringify!($adaptive_max), $n, output_size.into())?;
                run_pair(&Op::AdaptiveMaxPool(AdaptiveMaxPool { size }), &[self])
            }

            #[doc = concat!("The mean of as many windows as `output_size` says, which cover `", $sizes, "` of `[n, c, ", $sizes,
                "]`, or of `[c, ", $sizes, "]`. A size of −1 is the input's.")]
            pub fn $adaptive_avg(&self, output_size: impl Into<Sizes>) -> Result<Tensor> {
                let size = self.adaptive(stringify!($adaptive_avg), $n, output_size.into())?;
                run(&Op::AdaptiveAvgPool(AdaptiveAvgPool { size }), &[self])
            }
        )*}
    };
}

pools! {
    1, "l": max_pool1d max_pool1d_with_indices avg_pool1d
        adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_avg_pool1d;
    2, "h, w": max_pool2d max_pool2d_with_indices avg_pool2d
        adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_avg_pool2d;
    3, "d, h, w": max_pool3d max_pool3d_with_indices avg_pool3d
        adaptive_max_pool3d adaptive_max_pool3d_with_indices adaptive_avg_pool3d;
}

impl Tensor {
    fn max_windows(
        &self,
        op: &'static str,
        n: usize,
        kernel: Sizes,
        options: &MaxPoolOptions,
    ) -> Result<(Tensor, Tensor)> {
        self.expect_spatial(op, n)?;
        run_pair(&Op::from(options.op(op, n, kernel)?), &[self])
    }

    fn adaptive(&self, op: &'static str, n: usize, size: Sizes) -> Result<Dims> {
        self.expect_spatial(op, n)?;
        let spatial = &self.dims()[self.ndim() - n..];
        size.or_kept(op, "output_size", spatial)
    }

    /// Checks that the tensor has `n` spatial dimensions behind channels, with a batch before them or without.
    pub(crate) fn expect_spatial(&self, op: &'static str, n: usize) -> Result<()> {
        if self.ndim() == n + 1 || self.ndim() == n + 2 {
            return Ok(());
        }
        Err(Error::shape(
            op,
            format!("takes {} dimensions, or {} without a batch; the last {n} are spatial", n + 2, n + 1),
            [self.shape()],
        ))
    }

    /// The gradient of the input of a maximum pooling, adaptive or not: each element of this gradient of the output
    /// added at the index in `spatial`, the trailing dimensions of the input, that `indices` name.
    ///
    /// ```
    /// # use rustorch_tensor::{MaxPoolOptions, Tensor};
    /// let x = Tensor::new([[1.0f32, 5.0, 2.0]])?;
    /// let (y, indices) = x.max_pool1d_with_indices(2, &MaxPoolOptions::new().stride(1))?;
    /// let grad = y.ones_like()?.max_pool_backward(&indices, [3])?;
    /// assert_eq!(grad.to_vec::<f32>()?, [0.0, 2.0, 0.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If gradient and indices differ in shape, or an index is outside.
    pub fn max_pool_backward(&self, indices: &Tensor, spatial: impl IntoShape) -> Result<Tensor> {
        let spatial = Dims::from_slice(&spatial.into_shape()?);
        run(&Op::MaxPoolBackward(MaxPoolBackward { spatial }), &[self, indices])
    }

    /// The gradient of the input of an average pooling with these arguments, for this gradient of the output; `spatial`
    /// are the trailing dimensions of the input.
    ///
    /// # Errors
    /// If such a pooling of such an input has another shape.
    pub fn avg_pool_backward(
        &self,
        spatial: impl IntoShape,
        kernel_size: impl Into<Sizes>,
        options: &AvgPoolOptions,
    ) -> Result<Tensor> {
        let spatial = Dims::from_slice(&spatial.into_shape()?);
        let pool = options.op("avg_pool_backward", spatial.len(), kernel_size.into())?;
        run(&Op::from(AvgPoolBackward { pool, spatial }), &[self])
    }

    /// The gradient of the input of an adaptive average pooling, for this gradient of the output; `spatial` are the
    /// trailing dimensions of the input.
    ///
    /// # Errors
    /// If there are fewer dimensions.
    pub fn adaptive_avg_pool_backward(&self, spatial: impl IntoShape) -> Result<Tensor> {
        let spatial = Dims::from_slice(&spatial.into_shape()?);
        run(&Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial }), &[self])
    }
}

impl Sizes {
    /// One number for each of `n` dimensions: one stands for all.
    pub(crate) fn each(&self, op: &'static str, name: &str, n: usize) -> Result<Dims> {
        let spread = |i| self.0[if self.0.len() == 1 { 0 } else { i }];
        if self.0.len() != 1 && self.0.len() != n || self.0.iter().any(|&size| size < 0) {
            return Err(Error::argument(
                op,
                format!("{name} is {:?}, but must be one number, or {n}, none of them negative", &self.0[..]),
            ));
        }
        Ok((0..n).map(|i| spread(i) as usize).collect())
    }

    /// As [`each`](Self::each), where −1 stands for the length that is there.
    pub(crate) fn or_kept(&self, op: &'static str, name: &str, lengths: &[usize]) -> Result<Dims> {
        let open = |size: &isize| *size == -1;
        let known: Vec<isize> = self.0.iter().map(|size| if open(size) { 0 } else { *size }).collect();
        let known = Sizes::from(known);
        let mut dims = known.each(op, name, lengths.len())?;
        for (i, (dim, &len)) in dims.iter_mut().zip(lengths).enumerate() {
            if open(&self.0[if self.0.len() == 1 { 0 } else { i }]) {
                *dim = len;
            }
        }
        Ok(dims)
    }
}
