//! Maximum and average pooling.

use super::options::{ExpandingArray, of_layer, spatial, spatial_name};
use crate::{ExtraRepr, Layer, Module};
use rustorch_tensor::{AvgPoolOptions, MaxPoolOptions, Result, Tensor};

/// Names for one to three spatial dimensions.
macro_rules! aliases {
    ($($pool:ident: $one:ident $two:ident $three:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($pool), "`] over `[n, c, l]`, or without `n`.")]
        pub type $one = $pool<1>;
        #[doc = concat!("[`", stringify!($pool), "`] over `[n, c, h, w]`, or without `n`.")]
        pub type $two = $pool<2>;
        #[doc = concat!("[`", stringify!($pool), "`] over `[n, c, d, h, w]`, or without `n`.")]
        pub type $three = $pool<3>;
    )*};
}

pub(super) use aliases;

aliases! {
    MaxPool: MaxPool1d MaxPool2d MaxPool3d;
    AvgPool: AvgPool1d AvgPool2d AvgPool3d;
}

/// The largest element of each window, as `torch.nn.MaxPool2d`: `[n, c, size..] → [n, c,
/// (size + 2·padding − dilation·(kernel − 1) − 1) / stride + 1, ..]`.
///
/// ```
/// use rustorch_nn::{Layer, MaxPool1d};
/// use rustorch_tensor::{MaxPoolOptions, Tensor};
/// let x = Tensor::new([[1.0f32, 5.0, 2.0, 4.0]])?;
/// assert_eq!(MaxPool1d::new(2).forward(&x)?.to_vec::<f32>()?, [5.0, 4.0]);
/// let pool = MaxPool1d::with(2, MaxPoolOptions::new().stride(1));
/// assert_eq!(pool.forward_with_indices(&x)?.1.to_vec::<i64>()?, [1, 1, 3]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["MaxPool1d", "MaxPool2d", "MaxPool3d"]))]
#[module(extra_repr = Self::describe)]
pub struct MaxPool<const N: usize> {
    #[module(skip)]
    kernel_size: ExpandingArray<N>,
    #[module(skip)]
    options: MaxPoolOptions,
}

impl<const N: usize> MaxPool<N> {
    /// Windows of this size, one after the other.
    pub fn new(kernel_size: impl Into<ExpandingArray<N>>) -> MaxPool<N> {
        MaxPool::with(kernel_size, MaxPoolOptions::new())
    }

    /// Windows of this size.
    pub fn with(kernel_size: impl Into<ExpandingArray<N>>, options: MaxPoolOptions) -> MaxPool<N> {
        MaxPool { kernel_size: kernel_size.into(), options }
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let MaxPoolOptions { stride, padding, dilation, ceil_mode } = &self.options;
        extra.named("kernel_size", &self.kernel_size);
        match stride {
            Some(stride) => extra.named("stride", stride),
            None => extra.named("stride", &self.kernel_size),
        };
        extra.named("padding", padding).named("dilation", dilation).named("ceil_mode", ceil_mode);
    }

    /// The result, and where in the flattened spatial dimensions the elements are (`I64`): PyTorch's `return_indices`.
    ///
    /// # Errors
    /// If the argument has another number of dimensions, or no window fits.
    #[rustorch_macros::observed]
    pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let (kernel, options) = (self.kernel_size.0, &self.options);
        spatial!(
            N,
            x,
            max_pool1d_with_indices,
            max_pool2d_with_indices,
            max_pool3d_with_indices,
            (kernel, options)
        )
        .map_err(of_layer(self.type_name()))
    }
}

impl<const N: usize> Layer for MaxPool<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (kernel, options) = (self.kernel_size.0, &self.options);
        spatial!(N, x, max_pool1d, max_pool2d, max_pool3d, (kernel, options))
            .map_err(of_layer(self.type_name()))
    }
}

/// The mean of each window, as `torch.nn.AvgPool2d`: `[n, c, size..] → [n, c, (size + 2·padding − kernel) / stride + 1, ..]`.
///
/// ```
/// use rustorch_nn::{AvgPool2d, Layer};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[[1.0f32, 2.0], [3.0, 6.0]]])?;
/// assert_eq!(AvgPool2d::new(2).forward(&x)?.to_vec::<f32>()?, [3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["AvgPool1d", "AvgPool2d", "AvgPool3d"]))]
#[module(extra_repr = Self::describe)]
pub struct AvgPool<const N: usize> {
    #[module(skip)]
    kernel_size: ExpandingArray<N>,
    #[module(skip)]
    options: AvgPoolOptions,
}

impl<const N: usize> AvgPool<N> {
    /// Windows of this size, one after the other.
    pub fn new(kernel_size: impl Into<ExpandingArray<N>>) -> AvgPool<N> {
        AvgPool::with(kernel_size, AvgPoolOptions::new())
    }

    /// Windows of this size.
    pub fn with(kernel_size: impl Into<ExpandingArray<N>>, options: AvgPoolOptions) -> AvgPool<N> {
        AvgPool { kernel_size: kernel_size.into(), options }
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let AvgPoolOptions { stride, padding, .. } = &self.options;
        let lengths = [("stride", stride.as_ref()), ("padding", Some(padding))];
        // PyTorch's layer of one dimension makes tuples of numbers, the others leave them.
        if N == 1 {
            extra.named("kernel_size", &self.kernel_size.0);
        } else {
            extra.named("kernel_size", &self.kernel_size);
        }
        for (name, given) in lengths {
            match given {
                Some(given) if N == 1 => extra.named(name, given.as_slice()),
                Some(given) => extra.named(name, given),
                None if N == 1 => extra.named(name, &self.kernel_size.0),
                None => extra.named(name, &self.kernel_size),
            };
        }
    }
}

impl<const N: usize> Layer for AvgPool<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (kernel, options) = (self.kernel_size.0, &self.options);
        spatial!(N, x, avg_pool1d, avg_pool2d, avg_pool3d, (kernel, options))
            .map_err(of_layer(self.type_name()))
    }
}
