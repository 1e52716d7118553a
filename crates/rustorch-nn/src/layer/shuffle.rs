//! Channels as pixels, pixels as channels, and channels in another order.

use super::options::of_layer;
use crate::{Layer, Module};
use rustorch_tensor::{Error, Result, Tensor};

/// Channels as pixels, as `torch.nn.PixelShuffle`: `[.., c · r², h, w] → [.., c, h · r, w · r]`.
///
/// Shi et al.: *Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network*, 2016.
///
/// ```
/// use rustorch_nn::{Layer, PixelShuffle};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[[1.0f32]], [[2.0]], [[3.0]], [[4.0]]])?;
/// let y = PixelShuffle::new(2).forward(&x)?;
/// assert_eq!((y.dims(), y.to_vec::<f32>()?), (&[1, 2, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct PixelShuffle {
    #[module(repr)]
    upscale_factor: usize,
}

/// Pixels as channels, as `torch.nn.PixelUnshuffle`: `[.., c, h · r, w · r] → [.., c · r², h, w]`, the inverse of [`PixelShuffle`].
///
/// ```
/// use rustorch_nn::{Layer, PixelUnshuffle};
/// use rustorch_tensor::Tensor;
/// let y = PixelUnshuffle::new(2).forward(&Tensor::new([[[1.0f32, 2.0], [3.0, 4.0]]])?)?;
/// assert_eq!((y.dims(), y.to_vec::<f32>()?), (&[4, 1, 1][..], vec![1.0, 2.0, 3.0, 4.0]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct PixelUnshuffle {
    #[module(repr)]
    downscale_factor: usize,
}

/// Channels of several groups, one of each group in turn, as `torch.nn.ChannelShuffle`: `[n, c, ..] → [n, c, ..]`.
///
/// Zhang et al.: *ShuffleNet: An Extremely Efficient Convolutional Neural Network for Mobile Devices*, 2017.
///
/// ```
/// use rustorch_nn::{ChannelShuffle, Layer};
/// use rustorch_tensor::Tensor;
/// let y = ChannelShuffle::new(2).forward(&Tensor::new([[[1.0f32], [2.0], [3.0], [4.0]]])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct ChannelShuffle {
    #[module(repr)]
    groups: usize,
}

impl PixelShuffle {
    /// With so many times as many rows and columns.
    pub fn new(upscale_factor: usize) -> PixelShuffle {
        PixelShuffle { upscale_factor }
    }
}

impl PixelUnshuffle {
    /// With so many times fewer rows and columns.
    pub fn new(downscale_factor: usize) -> PixelUnshuffle {
        PixelUnshuffle { downscale_factor }
    }
}

impl ChannelShuffle {
    /// Of so many groups.
    pub fn new(groups: usize) -> ChannelShuffle {
        ChannelShuffle { groups }
    }
}

/// The leading dimensions and the last three, `[.., c, h, w]`.
fn image<'a>(layer: &'static str, x: &'a Tensor) -> Result<(&'a [usize], [usize; 3])> {
    match x.dims() {
        [leading @ .., c, h, w] => Ok((leading, [*c, *h, *w])),
        _ => Err(Error::shape(layer, "takes [.., c, h, w]", [x.shape()])),
    }
}

impl Layer for PixelShuffle {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (name, r) = (self.type_name(), self.upscale_factor);
        let (leading, [c, h, w]) = image(name, x)?;
        if r == 0 || !c.is_multiple_of(r * r) {
            let message = format!("channels must be a multiple of upscale_factor² with the factor {r}");
            return Err(Error::shape(name, message, [x.shape()]));
        }
        let n: usize = leading.iter().product();
        let c = c / (r * r);
        let shape = [leading, &[c, h * r, w * r]].concat();
        let parts = x.reshape([n, c, r, r, h, w]).and_then(|x| x.permute([0, 1, 4, 2, 5, 3])?.reshape(shape));
        parts.map_err(of_layer(name))
    }
}

impl Layer for PixelUnshuffle {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (name, r) = (self.type_name(), self.downscale_factor);
        let (leading, [c, h, w]) = image(name, x)?;
        if r == 0 || !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            let message = format!("rows and columns must be multiples of downscale_factor {r}");
            return Err(Error::shape(name, message, [x.shape()]));
        }
        let n: usize = leading.iter().product();
        let (h, w) = (h / r, w / r);
        let shape = [leading, &[c * r * r, h, w]].concat();
        let parts = x.reshape([n, c, h, r, w, r]).and_then(|x| x.permute([0, 1, 3, 5, 2, 4])?.reshape(shape));
        parts.map_err(of_layer(name))
    }
}

impl Layer for ChannelShuffle {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (name, groups) = (self.type_name(), self.groups);
        if x.ndim() < 3 || groups == 0 || !x.dims()[1].is_multiple_of(groups) {
            let message = format!("takes [n, c, ..] with c a multiple of groups {groups}");
            return Err(Error::shape(name, message, [x.shape()]));
        }
        let each = x.dims()[1] / groups;
        let shuffled = x.unflatten(1, [groups, each]).and_then(|x| x.transpose(1, 2)?.flatten(1, 2));
        shuffled.map_err(of_layer(name))
    }
}
