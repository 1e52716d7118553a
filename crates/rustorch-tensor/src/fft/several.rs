//! Transforms of several dimensions: one after the other.

use super::{FftNorm, complex, has_points, real, resized};
use crate::Tensor;
use crate::dispatch::run;
use rustorch_core::{Error, Fft, FftScale, Op, Result};

/// The transform of several dimensions, complex: of those in `dims`; else of the last `s.len()`; else of all. `s` are their lengths,
/// where −1 stands for that of the dimension.
///
/// ```
/// # use rustorch_tensor::{DType, Tensor, fft, fft::FftNorm};
/// let x = Tensor::ones([2, 3], DType::F32)?;
/// let y = fft::fftn(&x, Some(&[-1, 4]), None, FftNorm::Backward)?;
/// assert_eq!((y.dims(), y.real()?.to_vec::<f32>()?[0]), (&[2, 4][..], 6.0));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fft`](super::fft); if `s` and `dims` differ in length, or a dimension is named twice.
pub fn fftn(x: &Tensor, s: Option<&[isize]>, dims: Option<&[isize]>, norm: FftNorm) -> Result<Tensor> {
    whole("fft.fftn", x, s, dims, false, norm.forward())
}

/// The inverse of [`fftn`].
///
/// ```
/// # use rustorch_tensor::{Tensor, fft, fft::FftNorm};
/// let x = Tensor::new([[1.0f64, 2.0], [3.0, 5.0]])?;
/// let y = fft::ifftn(&fft::fftn(&x, None, None, FftNorm::Backward)?, None, None, FftNorm::Backward)?;
/// assert!(y.real()?.allclose(&x, 1e-12, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fftn`].
pub fn ifftn(x: &Tensor, s: Option<&[isize]>, dims: Option<&[isize]>, norm: FftNorm) -> Result<Tensor> {
    whole("fft.ifftn", x, s, dims, true, norm.inverse())
}

/// The transform of several dimensions of real points: of the last one as [`rfft`](super::rfft), of the others as
/// [`fft`](super::fft).
///
/// ```
/// # use rustorch_tensor::{DType, Tensor, fft, fft::FftNorm};
/// let y = fft::rfftn(&Tensor::ones([4, 5], DType::F32)?, None, None, FftNorm::Backward)?;
/// assert_eq!(y.dims(), [4, 3]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fftn`]; of complex numbers, and without a dimension.
pub fn rfftn(x: &Tensor, s: Option<&[isize]>, dims: Option<&[isize]>, norm: FftNorm) -> Result<Tensor> {
    one_sided("fft.rfftn", x, s, dims, norm.forward(), false)
}

/// The inverse of [`rfftn`]. The last length in `s` is the number of real points, as for [`irfft`](super::irfft).
///
/// ```
/// # use rustorch_tensor::{Tensor, fft, fft::FftNorm};
/// let x = Tensor::new([[1.0f64, 2.0, 4.0], [3.0, 5.0, 7.0]])?;
/// let y = fft::rfftn(&x, None, None, FftNorm::Ortho)?;
/// assert!(fft::irfftn(&y, Some(&[2, 3]), None, FftNorm::Ortho)?.allclose(&x, 1e-12, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fftn`]; without a dimension.
pub fn irfftn(x: &Tensor, s: Option<&[isize]>, dims: Option<&[isize]>, norm: FftNorm) -> Result<Tensor> {
    to_real("fft.irfftn", x, s, dims, norm.inverse())
}

/// The transform, real, of a signal that is Hermitian along the last of several dimensions: [`irfftn`] of the conjugates, scaled as a
/// forward transform.
///
/// # Errors
/// As for [`irfftn`].
pub fn hfftn(x: &Tensor, s: Option<&[isize]>, dims: Option<&[isize]>, norm: FftNorm) -> Result<Tensor> {
    to_real("fft.hfftn", &x.conj()?, s, dims, norm.forward())
}

/// The inverse of [`hfftn`].
///
/// # Errors
/// As for [`rfftn`].
pub fn ihfftn(x: &Tensor, s: Option<&[isize]>, dims: Option<&[isize]>, norm: FftNorm) -> Result<Tensor> {
    one_sided("fft.ihfftn", x, s, dims, norm.inverse(), true)
}

/// [`fftn`] of two dimensions, in PyTorch the last ones unless told: `[-2, -1]`.
///
/// ```
/// # use rustorch_tensor::{DType, Tensor, fft, fft::FftNorm};
/// let y = fft::fft2(&Tensor::ones([3, 2, 2], DType::F32)?, None, [-2, -1], FftNorm::Backward)?;
/// assert_eq!(y.real()?.select(0, 2)?.to_vec2::<f32>()?, [[4.0, 0.0], [0.0, 0.0]]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fftn`].
pub fn fft2(x: &Tensor, s: Option<[isize; 2]>, dims: [isize; 2], norm: FftNorm) -> Result<Tensor> {
    whole("fft.fft2", x, of_two(&s), Some(&dims), false, norm.forward())
}

/// [`ifftn`] of two dimensions, in PyTorch the last ones unless told: `[-2, -1]`.
///
/// # Errors
/// As for [`ifftn`].
pub fn ifft2(x: &Tensor, s: Option<[isize; 2]>, dims: [isize; 2], norm: FftNorm) -> Result<Tensor> {
    whole("fft.ifft2", x, of_two(&s), Some(&dims), true, norm.inverse())
}

/// [`rfftn`] of two dimensions, in PyTorch the last ones unless told: `[-2, -1]`.
///
/// # Errors
/// As for [`rfftn`].
pub fn rfft2(x: &Tensor, s: Option<[isize; 2]>, dims: [isize; 2], norm: FftNorm) -> Result<Tensor> {
    one_sided("fft.rfft2", x, of_two(&s), Some(&dims), norm.forward(), false)
}

/// [`irfftn`] of two dimensions, in PyTorch the last ones unless told: `[-2, -1]`.
///
/// # Errors
/// As for [`irfftn`].
pub fn irfft2(x: &Tensor, s: Option<[isize; 2]>, dims: [isize; 2], norm: FftNorm) -> Result<Tensor> {
    to_real("fft.irfft2", x, of_two(&s), Some(&dims), norm.inverse())
}

/// [`hfftn`] of two dimensions, in PyTorch the last ones unless told: `[-2, -1]`.
///
/// # Errors
/// As for [`hfftn`].
pub fn hfft2(x: &Tensor, s: Option<[isize; 2]>, dims: [isize; 2], norm: FftNorm) -> Result<Tensor> {
    to_real("fft.hfft2", &x.conj()?, of_two(&s), Some(&dims), norm.forward())
}

/// [`ihfftn`] of two dimensions, in PyTorch the last ones unless told: `[-2, -1]`.
///
/// # Errors
/// As for [`ihfftn`].
pub fn ihfft2(x: &Tensor, s: Option<[isize; 2]>, dims: [isize; 2], norm: FftNorm) -> Result<Tensor> {
    one_sided("fft.ihfft2", x, of_two(&s), Some(&dims), norm.inverse(), true)
}

fn of_two(s: &Option<[isize; 2]>) -> Option<&[isize]> {
    s.as_ref().map(<[isize; 2]>::as_slice)
}

fn whole(
    name: &'static str,
    x: &Tensor,
    s: Option<&[isize]>,
    dims: Option<&[isize]>,
    inverse: bool,
    scale: FftScale,
) -> Result<Tensor> {
    let mut x = complex(name, x)?;
    for (axis, n) in lengths(name, &x, s, dims)? {
        x = resized(name, &x, axis, n.unwrap_or(x.dims()[axis]))?;
        x = run(&Op::Fft(Fft::ComplexToComplex { axis, inverse, scale }), &[&x])?;
    }
    Ok(x)
}

/// The first coefficients of the last dimension; conjugates of all of them, if asked for.
fn one_sided(
    name: &'static str,
    x: &Tensor,
    s: Option<&[isize]>,
    dims: Option<&[isize]>,
    scale: FftScale,
    conjugated: bool,
) -> Result<Tensor> {
    let x = real(name, x)?;
    let lengths = lengths(name, &x, s, dims)?;
    let ((axis, n), others) = last(name, &lengths)?;
    // Lengths first, so that none is refused after a transform.
    let mut x = resized(name, &x, axis, n.unwrap_or(x.dims()[axis]))?;
    for &(axis, n) in others {
        x = resized(name, &x, axis, n.unwrap_or(x.dims()[axis]))?;
    }
    x = run(&Op::Fft(Fft::RealToComplex { axis, scale }), &[&x])?;
    for &(axis, _) in others {
        x = run(&Op::Fft(Fft::ComplexToComplex { axis, inverse: false, scale }), &[&x])?;
    }
    if conjugated { x.conj() } else { Ok(x) }
}

fn to_real(
    name: &'static str,
    x: &Tensor,
    s: Option<&[isize]>,
    dims: Option<&[isize]>,
    scale: FftScale,
) -> Result<Tensor> {
    let mut x = complex(name, x)?;
    let lengths = lengths(name, &x, s, dims)?;
    let ((axis, n), others) = last(name, &lengths)?;
    let n = n.unwrap_or_else(|| 2 * x.dims()[axis].saturating_sub(1));
    has_points(name, axis, n)?;
    x = resized(name, &x, axis, n / 2 + 1)?;
    for &(axis, n) in others {
        x = resized(name, &x, axis, n.unwrap_or(x.dims()[axis]))?;
        x = run(&Op::Fft(Fft::ComplexToComplex { axis, inverse: true, scale }), &[&x])?;
    }
    run(&Op::Fft(Fft::ComplexToReal { axis, n, scale }), &[&x])
}

/// A dimension, and the length that it is given before the transform; none keeps its own.
type Length = (usize, Option<usize>);

/// The last dimension, and the others.
fn last<'a>(name: &'static str, lengths: &'a [Length]) -> Result<(Length, &'a [Length])> {
    let Some((last, others)) = lengths.split_last() else {
        return Err(Error::argument(name, "needs one dimension at least"));
    };
    Ok((*last, others))
}

fn lengths(
    name: &'static str,
    x: &Tensor,
    s: Option<&[isize]>,
    dims: Option<&[isize]>,
) -> Result<Vec<Length>> {
    let ndim = x.ndim();
    let axes: Vec<usize> = match (dims, s) {
        (Some(dims), _) => dims.iter().map(|&dim| x.dimension(name, dim)).collect::<Result<_>>()?,
        (None, None) => (0..ndim).collect(),
        (None, Some(s)) => match ndim.checked_sub(s.len()) {
            Some(first) => (first..ndim).collect(),
            None => {
                let message = format!("{} lengths are more than the tensor's {ndim} dimensions", s.len());
                return Err(Error::argument(name, message));
            }
        },
    };
    if let Some(s) = s
        && s.len() != axes.len()
    {
        return Err(Error::argument(name, format!("lengths {s:?} are not as many as dimensions {axes:?}")));
    }
    if let Some(twice) = (1..axes.len()).find(|&i| axes[..i].contains(&axes[i])) {
        return Err(Error::argument(name, format!("dimension {} is named twice", axes[twice])));
    }
    let length = |i: usize| match s.map(|s| s[i]) {
        None | Some(-1) => Ok(None),
        Some(n) => usize::try_from(n)
            .map(Some)
            .map_err(|_| Error::argument(name, format!("{n} is no length; −1 keeps the dimension's own"))),
    };
    axes.iter().enumerate().map(|(i, &axis)| Ok((axis, length(i)?))).collect()
}
