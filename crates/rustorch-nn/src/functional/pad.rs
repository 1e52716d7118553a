//! Padding.

use crate::PaddingMode;
use crate::layer::padded;
use rustorch_tensor::{Error, Result, Tensor};

/// The argument with elements added at the ends of its last dimensions, as `torch.nn.functional.pad`: `pads` are pairs (before, after), that of the
/// last dimension first; fewer than none crop. A value other than 0 takes [`PaddingMode::Zeros`].
///
/// With the other modes it pads one to three dimensions behind one of channels, or of a batch and channels.
///
/// ```
/// use rustorch_nn::{PaddingMode, functional as F};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[1.0f32, 2.0, 3.0]])?;
/// assert_eq!(F::pad(&x, &[1, 1], PaddingMode::Reflect, None)?.to_vec::<f32>()?, [2.0, 1.0, 2.0, 3.0, 2.0]);
/// assert_eq!(F::pad(&x, &[1, -1], PaddingMode::Zeros, Some(7.0))?.to_vec::<f32>()?, [7.0, 1.0, 2.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the pads are no pairs, more than there are dimensions, or do not fit the mode.
pub fn pad(x: &Tensor, pads: &[isize], mode: PaddingMode, value: Option<f64>) -> Result<Tensor> {
    const NAME: &str = "pad";
    if mode == PaddingMode::Zeros {
        return x.pad(pads, value.unwrap_or(0.0));
    }
    if value.is_some_and(|value| value != 0.0) {
        return Err(Error::argument(NAME, format!("{mode:?} takes elements of the tensor and no value")));
    }
    let count = pads.len() / 2;
    let fits = pads.len().is_multiple_of(2)
        && (1..=3).contains(&count)
        && (x.ndim() == count + 1 || x.ndim() == count + 2);
    if !fits {
        let message = format!(
            "{mode:?} takes pairs for one to three dimensions behind one or two others, not {pads:?}"
        );
        return Err(Error::shape(NAME, message, [x.shape()]));
    }
    let sides: Vec<(isize, isize)> = pads.chunks_exact(2).rev().map(|pair| (pair[0], pair[1])).collect();
    padded(NAME, x, mode, &sides)
}
