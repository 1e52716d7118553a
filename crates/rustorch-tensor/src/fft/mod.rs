//! Fourier transforms: `torch.fft`.
//!
//! Transforms have PyTorch's names and arguments: a length `n` (or lengths `s`) to which dimensions are cut or padded with zeros before
//! they are transformed, dimensions, and a [normalization](FftNorm). Any length is computed in `O(n·log n)`. Dtypes are `F32`, `F64`,
//! `C64` and `C128`; integers become the default dtype. The CPU's kernels stand behind the Cargo feature `fft`; GPUs have none,
//! and leave transforms to the CPU.
//!
//! ```
//! use rustorch_tensor::{Tensor, fft, fft::FftNorm};
//! let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0])?;
//! let y = fft::rfft(&x, None, -1, FftNorm::Backward)?;
//! assert_eq!(y.view_as_real()?.to_vec::<f32>()?, [10.0, 0.0, -2.0, 2.0, -2.0, 0.0]);
//! assert_eq!(fft::irfft(&y, Some(4), -1, FftNorm::Backward)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```
//!
//! Short-time transforms are methods: [`Tensor::stft`], [`Tensor::istft`].

mod frequencies;
mod several;
mod short_time;

pub use frequencies::{fftfreq, fftshift, ifftshift, rfftfreq};
pub use several::{fft2, fftn, hfft2, hfftn, ifft2, ifftn, ihfft2, ihfftn, irfft2, irfftn, rfft2, rfftn};
pub use short_time::{IstftOptions, StftOptions, StftPadding};

use crate::Tensor;
use crate::dispatch::run;
use rustorch_core::{DType, Error, Fft, FftScale, Op, Result};

/// How a transform of `n` points is scaled. A transform and its inverse with the same normalization undo each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FftNorm {
    /// The inverse is divided by `n`.
    #[default]
    Backward,
    /// Both are divided by `√n`.
    Ortho,
    /// The forward transform is divided by `n`.
    Forward,
}

impl FftNorm {
    fn forward(self) -> FftScale {
        match self {
            FftNorm::Backward => FftScale::One,
            FftNorm::Ortho => FftScale::InverseSqrt,
            FftNorm::Forward => FftScale::Inverse,
        }
    }

    fn inverse(self) -> FftScale {
        match self {
            FftNorm::Backward => FftScale::Inverse,
            FftNorm::Ortho => FftScale::InverseSqrt,
            FftNorm::Forward => FftScale::One,
        }
    }
}

/// The transform of a dimension, complex: `yₖ = Σ xₜ·exp(−2πi·k·t/n)`. `n` is the dimension's length if it is not given.
///
/// ```
/// # use rustorch_tensor::{C64, Tensor, fft, fft::FftNorm};
/// let y = fft::fft(&Tensor::new([0.0f32, 1.0, 0.0, 0.0])?, None, -1, FftNorm::Backward)?;
/// assert_eq!(y.to_vec::<C64>()?, [C64::new(1.0, 0.0), C64::new(0.0, -1.0), C64::new(-1.0, 0.0), C64::new(0.0, 1.0)]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there is no such dimension, no point to transform, or the dtype has 16 bits.
pub fn fft(x: &Tensor, n: Option<usize>, dim: isize, norm: FftNorm) -> Result<Tensor> {
    whole("fft.fft", x, n, dim, false, norm.forward())
}

/// The inverse of [`fft`]: `xₜ = 1/n · Σ yₖ·exp(2πi·k·t/n)`.
///
/// ```
/// # use rustorch_tensor::{Tensor, fft, fft::FftNorm};
/// let x = Tensor::new([1.0f64, -2.0, 0.5])?;
/// let y = fft::ifft(&fft::fft(&x, None, 0, FftNorm::Ortho)?, None, 0, FftNorm::Ortho)?;
/// assert!(y.real()?.allclose(&x, 1e-12, 1e-12, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fft`].
pub fn ifft(x: &Tensor, n: Option<usize>, dim: isize, norm: FftNorm) -> Result<Tensor> {
    whole("fft.ifft", x, n, dim, true, norm.inverse())
}

/// The first `n / 2 + 1` coefficients of the transform of real points; the others are their conjugates.
///
/// ```
/// # use rustorch_tensor::{Tensor, fft, fft::FftNorm};
/// let y = fft::rfft(&Tensor::new([1.0f32, 2.0, 3.0])?, Some(8), -1, FftNorm::Backward)?;
/// assert_eq!(y.dims(), [5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fft`], and of complex numbers.
pub fn rfft(x: &Tensor, n: Option<usize>, dim: isize, norm: FftNorm) -> Result<Tensor> {
    one_sided("fft.rfft", x, n, dim, norm.forward())
}

/// The inverse of [`rfft`]: `n` real points of the first `n / 2 + 1` coefficients. Since an even and an odd `n` have as many
/// coefficients, it has to be given where it is odd; else it is twice the number of coefficients less 2. Imaginary parts that
/// coefficients of real points do not have, of the first and, for an even `n`, of the last, are not read.
///
/// ```
/// # use rustorch_tensor::{Tensor, fft, fft::FftNorm};
/// let x = Tensor::new([1.0f64, 2.0, 4.0])?;
/// let y = fft::rfft(&x, None, -1, FftNorm::Backward)?;
/// assert!(fft::irfft(&y, Some(3), -1, FftNorm::Backward)?.allclose(&x, 1e-12, 0.0, false)?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fft`].
pub fn irfft(x: &Tensor, n: Option<usize>, dim: isize, norm: FftNorm) -> Result<Tensor> {
    to_real("fft.irfft", x, n, dim, norm.inverse())
}

/// The transform, real, of a Hermitian signal given by its first `n / 2 + 1` elements: [`irfft`] of the conjugates, scaled as a
/// forward transform.
///
/// ```
/// # use rustorch_tensor::{C64, Tensor, fft, fft::FftNorm};
/// let x = Tensor::new([C64::new(1.0, 0.0), C64::new(0.0, 1.0)])?;
/// assert_eq!(fft::hfft(&x, Some(2), -1, FftNorm::Backward)?.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`fft`].
pub fn hfft(x: &Tensor, n: Option<usize>, dim: isize, norm: FftNorm) -> Result<Tensor> {
    to_real("fft.hfft", &x.conj()?, n, dim, norm.forward())
}

/// The inverse of [`hfft`]: the first `n / 2 + 1` elements of the Hermitian signal whose transform is real.
///
/// ```
/// # use rustorch_tensor::{Tensor, fft, fft::FftNorm};
/// let y = fft::ihfft(&Tensor::new([1.0f32, 1.0])?, None, -1, FftNorm::Backward)?;
/// assert_eq!(y.real()?.to_vec::<f32>()?, [1.0, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As for [`rfft`].
pub fn ihfft(x: &Tensor, n: Option<usize>, dim: isize, norm: FftNorm) -> Result<Tensor> {
    one_sided("fft.ihfft", x, n, dim, norm.inverse())?.conj()
}

fn whole(
    name: &'static str,
    x: &Tensor,
    n: Option<usize>,
    dim: isize,
    inverse: bool,
    scale: FftScale,
) -> Result<Tensor> {
    let x = complex(name, x)?;
    let axis = x.dimension(name, dim)?;
    let x = resized(name, &x, axis, n.unwrap_or(x.dims()[axis]))?;
    run(&Op::Fft(Fft::ComplexToComplex { axis, inverse, scale }), &[&x])
}

fn one_sided(
    name: &'static str,
    x: &Tensor,
    n: Option<usize>,
    dim: isize,
    scale: FftScale,
) -> Result<Tensor> {
    let x = real(name, x)?;
    let axis = x.dimension(name, dim)?;
    let x = resized(name, &x, axis, n.unwrap_or(x.dims()[axis]))?;
    run(&Op::Fft(Fft::RealToComplex { axis, scale }), &[&x])
}

fn to_real(name: &'static str, x: &Tensor, n: Option<usize>, dim: isize, scale: FftScale) -> Result<Tensor> {
    let x = complex(name, x)?;
    let axis = x.dimension(name, dim)?;
    let n = n.unwrap_or_else(|| 2 * x.dims()[axis].saturating_sub(1));
    has_points(name, axis, n)?;
    let x = resized(name, &x, axis, n / 2 + 1)?;
    run(&Op::Fft(Fft::ComplexToReal { axis, n, scale }), &[&x])
}

/// In a dtype that transforms take.
fn floating(name: &'static str, x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F32 | DType::F64 | DType::C64 | DType::C128 => Ok(x.clone()),
        DType::F16 | DType::BF16 => {
            Err(Error::dtype(name, "needs f32, f64, c64 or c128; cast first", [x.dtype()]))
        }
        dtype if dtype.is_quant() => {
            Err(Error::dtype(name, "does not take a block-quantized tensor; cast it to f32 first", [dtype]))
        }
        _ => match rustorch_runtime::default_dtype() {
            DType::F64 => x.to_dtype(DType::F64),
            _ => x.to_dtype(DType::F32),
        },
    }
}

fn real(name: &'static str, x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(Error::dtype(
            name,
            "takes real points; `fft` and its kin take complex ones",
            [x.dtype()],
        ));
    }
    floating(name, x)
}

fn complex(name: &'static str, x: &Tensor) -> Result<Tensor> {
    let x = floating(name, x)?;
    let dtype = x.dtype().to_complex();
    if x.dtype() == dtype { Ok(x) } else { x.to_dtype(dtype) }
}

fn has_points(name: &'static str, axis: usize, n: usize) -> Result<()> {
    if n == 0 {
        let message = format!("dimension {axis} would have 0 points; a transform needs one at least");
        return Err(Error::argument(name, message));
    }
    Ok(())
}

/// Cut, or padded with zeros, to `len` elements along an axis.
fn resized(name: &'static str, x: &Tensor, axis: usize, len: usize) -> Result<Tensor> {
    has_points(name, axis, len)?;
    let have = x.dims()[axis];
    if len <= have {
        return x.narrow(axis as isize, 0, len);
    }
    let Ok(more) = isize::try_from(len - have) else {
        return Err(Error::argument(name, format!("{len} points along dimension {axis} are too many")));
    };
    let mut widths = vec![0; 2 * (x.ndim() - axis)];
    widths[2 * (x.ndim() - axis) - 1] = more;
    x.pad(widths, 0)
}
