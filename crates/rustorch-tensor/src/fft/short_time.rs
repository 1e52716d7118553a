//! Short-time Fourier transforms: of windows of a signal, and back.

use super::{FftNorm, fft, floating, ifft, irfft, rfft};
use crate::{Tensor, is_capturing};
use rustorch_core::{DType, Dims, Error, Result, Shape};
use rustorch_runtime::DeviceGuard;

/// What stands before and after a signal whose first frame is centered at its first sample, by PyTorch's names. For `a b c`:
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StftPadding {
    /// `c b a b c b a`
    #[default]
    Reflect,
    /// `0 0 a b c 0 0`
    Constant,
    /// `a a a b c c c`
    Replicate,
    /// `b c a b c a b`
    Circular,
}

/// Parameters of [`Tensor::stft`], with PyTorch's defaults.
#[derive(Clone, Debug)]
pub struct StftOptions {
    /// Samples from one frame to the next; if not given, `n_fft / 4`.
    pub hop_length: Option<usize>,
    /// The window's length, at most `n_fft`; the window is padded with zeros on both sides. If not given, `n_fft`.
    pub win_length: Option<usize>,
    /// The window, of `win_length` elements; if not given, ones.
    pub window: Option<Tensor>,
    /// Whether frame `t` is centered at sample `t · hop_length`, for which the signal is padded by `n_fft / 2` on both sides, or
    /// begins there.
    pub center: bool,
    /// With what the signal is padded.
    pub pad_mode: StftPadding,
    /// Whether transforms are divided by `√n_fft`.
    pub normalized: bool,
    /// Whether the first `n_fft / 2 + 1` coefficients are returned, which are all that a real signal has, or `n_fft`. If not
    /// given, so it is for a real signal and a real window.
    pub onesided: Option<bool>,
}

impl Default for StftOptions {
    fn default() -> StftOptions {
        StftOptions {
            hop_length: None,
            win_length: None,
            window: None,
            center: true,
            pad_mode: StftPadding::default(),
            normalized: false,
            onesided: None,
        }
    }
}

/// Parameters of [`Tensor::istft`], which have to be those that the transform was made with, with PyTorch's defaults.
#[derive(Clone, Debug)]
pub struct IstftOptions {
    /// As in [`StftOptions`].
    pub hop_length: Option<usize>,
    /// As in [`StftOptions`].
    pub win_length: Option<usize>,
    /// As in [`StftOptions`].
    pub window: Option<Tensor>,
    /// As in [`StftOptions`]: the padding is cut off.
    pub center: bool,
    /// As in [`StftOptions`].
    pub normalized: bool,
    /// As in [`StftOptions`]; if not given, so it is unless there are `n_fft` coefficients.
    pub onesided: Option<bool>,
    /// How many samples are wanted: others are cut off, missing ones zero.
    pub length: Option<usize>,
    /// Whether the signal is complex, which takes all `n_fft` coefficients.
    pub return_complex: bool,
}

impl Default for IstftOptions {
    fn default() -> IstftOptions {
        IstftOptions {
            hop_length: None,
            win_length: None,
            window: None,
            center: true,
            normalized: false,
            onesided: None,
            length: None,
            return_complex: false,
        }
    }
}

impl Tensor {
    /// The short-time Fourier transform of a signal `[n]` or of a batch of them `[b, n]`: the transforms of its frames of `n_fft` samples
    /// times a window, complex `[.., coefficients, frames]`. PyTorch's `torch.stft` with `return_complex`.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor, fft::{IstftOptions, StftOptions}};
    /// let x = Tensor::arange(0, 32, 1)?.to_dtype(DType::F64)?.sin()?;
    /// let y = x.stft(8, &StftOptions::default())?;
    /// assert_eq!(y.dims(), [5, 17]);
    /// assert!(y.istft(8, &IstftOptions::default())?.allclose(&x, 1e-9, 1e-12, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of integers and 16-bit floats; if the signal is shorter than a frame, or than its padding by reflection; if lengths do not fit.
    pub fn stft(&self, n_fft: usize, options: &StftOptions) -> Result<Tensor> {
        let name = "stft";
        if !(self.dtype().is_float() || self.dtype().is_complex()) {
            return Err(Error::dtype(
                name,
                "takes floating-point or complex signals; cast first",
                [self.dtype()],
            ));
        }
        let x = floating(name, self)?;
        if !(1..=2).contains(&x.ndim()) {
            return Err(Error::shape(
                name,
                "takes a signal or a batch of them: one or two dimensions",
                [x.shape()],
            ));
        }
        let frame = Frame::new(name, n_fft, options.hop_length, options.win_length, options.window.as_ref())?;
        let _beside = DeviceGuard::beside(x.storage());
        let x = if options.center { padded(name, &x, n_fft / 2, options.pad_mode)? } else { x };
        let len = x.dims()[x.ndim() - 1];
        if len < n_fft {
            return Err(Error::argument(
                name,
                format!("a frame of {n_fft} samples is longer than the signal's {len}"),
            ));
        }
        let complex = x.dtype().is_complex() || frame.window.as_ref().is_some_and(|w| w.dtype().is_complex());
        let onesided = options.onesided.unwrap_or(!complex);
        if onesided && complex {
            return Err(Error::argument(name, "a complex signal or window has no one-sided transform"));
        }
        let frames = x.unfold(-1, n_fft, frame.hop)?;
        let frames = match &frame.window {
            Some(window) => frames.mul(window)?,
            None => frames,
        };
        let norm = if options.normalized { FftNorm::Ortho } else { FftNorm::Backward };
        let transform = if onesided { rfft } else { fft };
        transform(&frames, None, -1, norm)?.transpose(-2, -1)
    }

    /// The signal of a short-time Fourier transform, `[.., coefficients, frames]`: its frames, each times the window again, are added where
    /// they overlap, and divided by the sum of the squared windows. PyTorch's `torch.istft`.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor, fft::{IstftOptions, StftOptions}};
    /// let x = Tensor::randn([2, 100], DType::F64)?;
    /// let window = Tensor::new([0.2f64, 0.7, 1.0, 1.0, 0.7, 0.2])?;
    /// let options = StftOptions { window: Some(window.clone()), win_length: Some(6), hop_length: Some(3), ..Default::default() };
    /// let back = IstftOptions { window: Some(window), win_length: Some(6), hop_length: Some(3), length: Some(100), ..Default::default() };
    /// assert!(x.stft(8, &options)?.istft(8, &back)?.allclose(&x, 1e-9, 1e-9, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Of real numbers; if lengths do not fit, or a sample is in no window, or next to none.
    pub fn istft(&self, n_fft: usize, options: &IstftOptions) -> Result<Tensor> {
        let name = "istft";
        if !self.dtype().is_complex() {
            return Err(Error::dtype(
                name,
                "takes complex coefficients, as `stft` returns them",
                [self.dtype()],
            ));
        }
        let &[.., coefficients, count] = self.dims() else {
            return Err(Error::shape(name, "needs two dimensions: coefficients and frames", [self.shape()]));
        };
        if self.ndim() > 3 || self.numel() == 0 {
            return Err(Error::shape(
                name,
                "takes two or three dimensions, none of them empty",
                [self.shape()],
            ));
        }
        let frame = Frame::new(name, n_fft, options.hop_length, options.win_length, options.window.as_ref())?;
        let hop = frame.hop;
        if hop > options.win_length.unwrap_or(n_fft) {
            return Err(Error::argument(
                name,
                format!("frames {hop} samples apart are farther than the window is long"),
            ));
        }
        let onesided = options.onesided.unwrap_or(coefficients != n_fft);
        let wants = if onesided { n_fft / 2 + 1 } else { n_fft };
        if coefficients != wants {
            let message = format!("n_fft of {n_fft} has {wants} coefficients, but here are {coefficients}");
            return Err(Error::shape(name, message, [self.shape()]));
        }
        let complex_window = frame.window.as_ref().is_some_and(|w| w.dtype().is_complex());
        if options.return_complex && onesided {
            return Err(Error::argument(
                name,
                "a complex signal needs coefficients of both sides: `onesided` false",
            ));
        }
        if complex_window && !options.return_complex {
            return Err(Error::argument(
                name,
                "a complex window gives a complex signal: ask for it by `return_complex`",
            ));
        }
        let _beside = DeviceGuard::beside(self.storage());
        let norm = if options.normalized { FftNorm::Ortho } else { FftNorm::Backward };
        let frames = self.transpose(-2, -1)?;
        let frames = if options.return_complex {
            ifft(&frames, None, -1, norm)?
        } else {
            irfft(&frames, Some(n_fft), -1, norm)?
        };
        let window = match frame.window {
            Some(window) => window,
            None => Tensor::ones([n_fft], frames.dtype().to_real())?,
        };
        let too_long = || Error::argument(name, format!("{count} frames {hop} samples apart are too many"));
        let whole = (count - 1).checked_mul(hop).and_then(|n| n.checked_add(n_fft)).ok_or_else(too_long)?;
        let starts = Tensor::arange(0, count as i64, 1)?.mul(hop as i64)?.unsqueeze(-1)?;
        let places = starts.add(&Tensor::arange(0, n_fft as i64, 1)?)?.flatten(0, -1)?;
        let overlapped = |frames: &Tensor| {
            let flat = frames.flatten(-2, -1)?;
            let mut dims = Dims::from_slice(flat.dims());
            dims[flat.ndim() - 1] = whole;
            Tensor::zeros(Shape::new(dims)?, flat.dtype())?.index_add(-1, &places, &flat)
        };
        let signal = overlapped(&frames.mul(&window)?)?;
        let weights = overlapped(&window.square()?.expand([count as isize, n_fft as isize])?)?;
        let margin = if options.center { n_fft / 2 } else { 0 };
        let end = match options.length {
            Some(length) => margin.checked_add(length).ok_or_else(too_long)?,
            None => whole - margin,
        };
        let kept = end.min(whole).saturating_sub(margin);
        if kept == 0 {
            return Err(Error::argument(
                name,
                format!("no sample is left of {whole}, of which the first {margin} are padding"),
            ));
        }
        let weights = weights.narrow(-1, margin, kept)?;
        let covered = weights.detach().abs()?.lt(1e-11)?.logical_not()?;
        if is_capturing() {
            covered.assert(UNCOVERED)?;
        } else if !covered.all_all()?.item()?.to_bool() {
            return Err(Error::argument(name, UNCOVERED));
        }
        let signal = signal.narrow(-1, margin, kept)?.div(&weights)?;
        let missing = isize::try_from(end - margin - kept).map_err(|_| too_long())?;
        if missing == 0 { Ok(signal) } else { signal.pad([0, missing], 0) }
    }
}

/// What is wrong with windows whose squares add up to nothing somewhere.
const UNCOVERED: &str =
    "some samples are in no window, or next to none: frames have to overlap where a window is zero";

/// Window and step of the frames.
struct Frame {
    hop: usize,
    /// Padded to the length of a transform; none stands for ones.
    window: Option<Tensor>,
}

impl Frame {
    fn new(
        name: &'static str,
        n_fft: usize,
        hop_length: Option<usize>,
        win_length: Option<usize>,
        window: Option<&Tensor>,
    ) -> Result<Frame> {
        let refuse = |message: String| Err(Error::argument(name, message));
        let (hop, len) = (hop_length.unwrap_or(n_fft / 4), win_length.unwrap_or(n_fft));
        if n_fft == 0 {
            return refuse("n_fft is 0; a transform needs a point at least".into());
        }
        if hop == 0 {
            return refuse(format!(
                "hop_length is 0 (n_fft / 4 if not given; n_fft is {n_fft}); frames would not advance"
            ));
        }
        if !(1..=n_fft).contains(&len) {
            return refuse(format!("win_length is {len}, but has to be from 1 to n_fft, {n_fft}"));
        }
        let window = match window {
            Some(window) if window.dims() != [len] => {
                let message = format!("the window has to have win_length, {len}, elements");
                return Err(Error::shape(name, message, [window.shape()]));
            }
            Some(window) => Some(floating(name, window)?),
            None if len == n_fft => None,
            None => Some(Tensor::ones([len], DType::F32)?),
        };
        let before = (n_fft - len) / 2;
        let window = match window {
            Some(window) if len < n_fft => {
                Some(window.pad([before as isize, (n_fft - len - before) as isize], 0)?)
            }
            window => window,
        };
        Ok(Frame { hop, window })
    }
}

/// A signal with so many samples more on both sides.
fn padded(name: &'static str, x: &Tensor, by: usize, mode: StftPadding) -> Result<Tensor> {
    let len = x.dims()[x.ndim() - 1];
    let most = match mode {
        StftPadding::Constant => usize::MAX,
        StftPadding::Reflect => len.saturating_sub(1),
        StftPadding::Circular => len,
        StftPadding::Replicate => {
            if len == 0 {
                0
            } else {
                usize::MAX
            }
        }
    };
    if by > most {
        let message = format!(
            "{by} samples before and after, as `center` wants them, do not fit {mode:?} padding of {len}"
        );
        return Err(Error::shape(name, message, [x.shape()]));
    }
    if by == 0 {
        return Ok(x.clone());
    }
    if mode == StftPadding::Constant {
        return x.pad([by as isize, by as isize], 0);
    }
    if mode == StftPadding::Replicate {
        let ends = [x.narrow(-1, 0, 1)?, x.narrow(-1, len - 1, 1)?];
        let [before, after] = ends.map(|end| {
            let mut dims = Dims::from_slice(end.dims());
            dims[x.ndim() - 1] = by;
            end.expand(&Shape::new(dims)?)
        });
        return Tensor::cat(&[before?, x.clone(), after?], -1);
    }
    // Neither takes more than the signal has.
    let (by, len) = (by as i64, len as i64);
    let source = |at: i64| match mode {
        StftPadding::Reflect if at < 0 => -at,
        StftPadding::Reflect if at >= len => 2 * (len - 1) - at,
        StftPadding::Reflect => at,
        _ => at.rem_euclid(len),
    };
    let sources: Vec<i64> = (-by..len + by).map(source).collect();
    let count = sources.len();
    x.index_select(-1, &Tensor::from_vec(sources, [count])?)
}
