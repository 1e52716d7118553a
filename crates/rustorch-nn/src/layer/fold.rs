//! Windows of images as columns, and sums of such columns as images.

use super::options::{ExpandingArray, of_layer};
use crate::{ExtraRepr, Layer, Module};
use rustorch_tensor::{Error, Result, Tensor};

/// How windows slide over an image: the arguments of `torch.nn.Unfold` and `torch.nn.Fold` with their defaults.
#[derive(Clone, Copy, Debug)]
pub struct FoldOptions {
    kernel_size: ExpandingArray<2>,
    dilation: ExpandingArray<2>,
    padding: ExpandingArray<2>,
    stride: ExpandingArray<2>,
}

impl FoldOptions {
    /// Windows of this size, at each position.
    pub fn new(kernel_size: impl Into<ExpandingArray<2>>) -> FoldOptions {
        FoldOptions {
            kernel_size: kernel_size.into(),
            dilation: 1.into(),
            padding: 0.into(),
            stride: 1.into(),
        }
    }

    /// The distance between elements of a window.
    #[must_use]
    pub fn dilation(self, dilation: impl Into<ExpandingArray<2>>) -> FoldOptions {
        FoldOptions { dilation: dilation.into(), ..self }
    }

    /// Zeros at the ends of the image.
    #[must_use]
    pub fn padding(self, padding: impl Into<ExpandingArray<2>>) -> FoldOptions {
        FoldOptions { padding: padding.into(), ..self }
    }

    /// The step from one window to the next.
    #[must_use]
    pub fn stride(self, stride: impl Into<ExpandingArray<2>>) -> FoldOptions {
        FoldOptions { stride: stride.into(), ..self }
    }

    /// For each element of a window, and each window, the position in the flattened padded image; and how many windows there are. `None` if
    /// no window fits.
    fn positions(&self, size: [usize; 2]) -> Option<(Vec<i64>, usize)> {
        let padded = self.padded(size)?;
        let windows = |i: usize| {
            let reach =
                self.kernel_size.0[i].checked_sub(1)?.checked_mul(self.dilation.0[i])?.checked_add(1)?;
            (padded[i].checked_sub(reach)?.checked_div(self.stride.0[i])?).checked_add(1)
        };
        let [rows, columns] = [windows(0)?, windows(1)?];
        let mut positions = Vec::new();
        for i in 0..self.kernel_size.0[0] {
            for j in 0..self.kernel_size.0[1] {
                for row in 0..rows {
                    for column in 0..columns {
                        let y = row * self.stride.0[0] + i * self.dilation.0[0];
                        let x = column * self.stride.0[1] + j * self.dilation.0[1];
                        positions.push((y * padded[1] + x) as i64);
                    }
                }
            }
        }
        Some((positions, rows * columns))
    }

    fn padded(&self, size: [usize; 2]) -> Option<[usize; 2]> {
        let padded = |i: usize| size[i].checked_add(self.padding.0[i].checked_mul(2)?);
        Some([padded(0)?, padded(1)?])
    }

    fn elements(&self) -> usize {
        self.kernel_size.0[0] * self.kernel_size.0[1]
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let FoldOptions { kernel_size, dilation, padding, stride } = self;
        extra.named("kernel_size", kernel_size).named("dilation", dilation).named("padding", padding);
        extra.named("stride", stride);
    }
}

/// Each window of an image as a column, as `torch.nn.Unfold`: `[n, c, h, w] → [n, c · kernel, windows]`, or without `n`.
///
/// ```
/// use rustorch_nn::{FoldOptions, Layer, Unfold};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]])?;
/// let y = Unfold::new(FoldOptions::new(2)).forward(&x)?;
/// assert_eq!((y.dims(), y.to_vec::<f32>()?), (&[4, 2][..], vec![1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct Unfold(#[module(skip)] FoldOptions);

impl Unfold {
    /// With such windows.
    pub fn new(options: FoldOptions) -> Unfold {
        Unfold(options)
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        self.0.describe(extra);
    }
}

impl Layer for Unfold {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (name, options) = (self.type_name(), &self.0);
        let (batch, [c, h, w]) = match *x.dims() {
            [n, c, h, w] => (Some(n), [c, h, w]),
            [c, h, w] => (None, [c, h, w]),
            _ => {
                let message = "takes [n, c, h, w], or [c, h, w] for a single image";
                return Err(Error::shape(name, message, [x.shape()]));
            }
        };
        let Some((positions, windows)) = options.positions([h, w]) else {
            let message = format!("no window of {:?} fits, or the stride is 0", options.kernel_size.0);
            return Err(Error::shape(name, message, [x.shape()]));
        };
        let forward = || {
            let [top, left] = options.padding.0.map(|n| n as isize);
            let padded = x.pad([left, left, top, top], 0)?.flatten(-2, -1)?;
            let index = Tensor::from_slice(&positions, positions.len())?.to_device(x.device())?;
            let mut shape: Vec<usize> = batch.into_iter().collect();
            shape.extend([c * options.elements(), windows]);
            padded.index_select(-1, &index)?.reshape(shape)
        };
        forward().map_err(of_layer(name))
    }
}

/// An image of windows as columns, added where they overlap, as `torch.nn.Fold`: `[n, c · kernel, windows] → [n, c, output_size..]`, or without
/// `n`.
///
/// ```
/// use rustorch_nn::{Fold, FoldOptions, Layer};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[1.0f32, 2.0], [10.0, 20.0]])?;
/// let y = Fold::new([1, 3], FoldOptions::new([1, 2])).forward(&x)?;
/// assert_eq!((y.dims(), y.to_vec::<f32>()?), (&[1, 1, 3][..], vec![1.0, 12.0, 20.0]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct Fold {
    #[module(skip, repr)]
    output_size: ExpandingArray<2>,
    #[module(skip)]
    options: FoldOptions,
}

impl Fold {
    /// To images of this size, of such windows.
    pub fn new(output_size: impl Into<ExpandingArray<2>>, options: FoldOptions) -> Fold {
        Fold { output_size: output_size.into(), options }
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        self.options.describe(extra);
    }
}

impl Layer for Fold {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (name, options, size) = (self.type_name(), &self.options, self.output_size.0);
        let positions = options.positions(size).zip(options.padded(size));
        let Some(((positions, windows), [height, width])) = positions else {
            let message =
                format!("no window of {:?} fits {size:?}, or the stride is 0", options.kernel_size.0);
            return Err(Error::argument(name, message));
        };
        let elements = options.elements();
        let (batch, channels) = match *x.dims() {
            [n, rows, len] if len == windows && rows.is_multiple_of(elements) => (Some(n), rows / elements),
            [rows, len] if len == windows && rows.is_multiple_of(elements) => (None, rows / elements),
            _ => {
                let message = format!("takes [n, c · {elements}, {windows}], or one without n");
                return Err(Error::shape(name, message, [x.shape()]));
            }
        };
        let forward = || {
            let leading: Vec<usize> = batch.into_iter().chain([channels]).collect();
            let index = Tensor::from_slice(&positions, positions.len())?.to_device(x.device())?;
            let zeros = Tensor::zeros([&leading[..], &[height * width]].concat(), (x.dtype(), x.device()))?;
            let columns = x.reshape([&leading[..], &[positions.len()]].concat())?;
            let padded = zeros.index_add(-1, &index, &columns)?.unflatten(-1, [height, width])?;
            padded.narrow(-2, options.padding.0[0], size[0])?.narrow(-1, options.padding.0[1], size[1])
        };
        forward().map_err(of_layer(name))
    }
}
