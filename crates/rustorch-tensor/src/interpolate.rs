//! Interpolation of images and other spatial data.

use crate::args::Sizes;
use crate::dispatch::run;
use crate::{IntoShape, Tensor};
use rustorch_core::{
    AdaptiveAvgPool, AdaptiveAvgPoolBackward, Dims, Error, Interpolate, InterpolateBackward, InterpolateMode,
    Op, Result,
};
use smallvec::SmallVec;

/// How interpolation finds values, by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The element at or before; one to three spatial dimensions.
    Nearest,
    /// The nearest element; one to three spatial dimensions.
    NearestExact,
    /// Linear; one spatial dimension.
    Linear,
    /// Linear; two spatial dimensions.
    Bilinear,
    /// Linear; three spatial dimensions.
    Trilinear,
    /// Cubic convolution; two spatial dimensions.
    Bicubic,
    /// The mean of the elements that an output covers; one to three spatial dimensions.
    Area,
}

impl Interpolation {
    /// PyTorch's name: `"bilinear"`.
    pub fn name(self) -> &'static str {
        match self {
            Interpolation::Nearest => "nearest",
            Interpolation::NearestExact => "nearest-exact",
            Interpolation::Linear => "linear",
            Interpolation::Bilinear => "bilinear",
            Interpolation::Trilinear => "trilinear",
            Interpolation::Bicubic => "bicubic",
            Interpolation::Area => "area",
        }
    }

    /// The operation's mode, and the number of spatial dimensions if it is fixed. Means of areas are another operation.
    fn mode(self) -> (Option<InterpolateMode>, Option<usize>) {
        match self {
            Interpolation::Nearest => (Some(InterpolateMode::Nearest), None),
            Interpolation::NearestExact => (Some(InterpolateMode::NearestExact), None),
            Interpolation::Linear => (Some(InterpolateMode::Linear), Some(1)),
            Interpolation::Bilinear => (Some(InterpolateMode::Linear), Some(2)),
            Interpolation::Trilinear => (Some(InterpolateMode::Linear), Some(3)),
            Interpolation::Bicubic => (Some(InterpolateMode::Cubic), Some(2)),
            Interpolation::Area => (None, None),
        }
    }
}

/// Factors by which spatial dimensions grow: one (`2.0`), or one for each (`[2.0, 1.5]`).
#[derive(Clone, Debug)]
pub struct ScaleFactors(SmallVec<[f64; 3]>);

impl ScaleFactors {
    /// The factors: one, or one for each spatial dimension.
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }
}

impl From<f64> for ScaleFactors {
    fn from(factor: f64) -> ScaleFactors {
        ScaleFactors(SmallVec::from_slice(&[factor]))
    }
}

impl<const N: usize> From<[f64; N]> for ScaleFactors {
    fn from(factors: [f64; N]) -> ScaleFactors {
        ScaleFactors(SmallVec::from_slice(&factors))
    }
}

impl From<&[f64]> for ScaleFactors {
    fn from(factors: &[f64]) -> ScaleFactors {
        ScaleFactors(SmallVec::from_slice(factors))
    }
}

/// The arguments of [`Tensor::interpolate`], with PyTorch's defaults.
#[derive(Clone, Debug)]
pub struct InterpolateOptions {
    /// How large the result is.
    pub target: InterpolationTarget,
    /// How values are found.
    pub mode: Interpolation,
    /// Whether the centres of the first and the last elements of input and output are at the same positions.
    pub align_corners: bool,
    /// Whether positions are found by the ratio of the lengths instead of the factor that was given.
    pub recompute_scale_factor: bool,
}

/// How large the result of an interpolation is.
#[derive(Clone, Debug)]
pub enum InterpolationTarget {
    /// One length for all spatial dimensions, or one for each.
    Size(Sizes),
    /// One factor for all spatial dimensions, or one for each.
    Factors(ScaleFactors),
}

impl InterpolateOptions {
    /// To a size: one length for all spatial dimensions, or one for each.
    pub fn size(size: impl Into<Sizes>) -> InterpolateOptions {
        InterpolateOptions::new(InterpolationTarget::Size(size.into()))
    }

    /// By a factor: one for all spatial dimensions, or one for each. Lengths are rounded down; positions are found by the
    /// factor itself.
    pub fn scale_factor(factor: impl Into<ScaleFactors>) -> InterpolateOptions {
        InterpolateOptions::new(InterpolationTarget::Factors(factor.into()))
    }

    fn new(target: InterpolationTarget) -> InterpolateOptions {
        InterpolateOptions {
            target,
            mode: Interpolation::Nearest,
            align_corners: false,
            recompute_scale_factor: false,
        }
    }

    /// How values are found; if not said, [`Interpolation::Nearest`].
    pub fn mode(mut self, mode: Interpolation) -> InterpolateOptions {
        self.mode = mode;
        self
    }

    /// Whether the centres of the first and the last elements of input and output are at the same positions; else their
    /// outer borders are. Of linear and cubic interpolation only.
    pub fn align_corners(mut self, align_corners: bool) -> InterpolateOptions {
        self.align_corners = align_corners;
        self
    }

    /// Whether positions are found by the ratio of the lengths instead of the factor that was given.
    pub fn recompute_scale_factor(mut self, recompute: bool) -> InterpolateOptions {
        self.recompute_scale_factor = recompute;
        self
    }

    /// The operation on an input with these spatial dimensions.
    fn op(&self, name: &'static str, spatial: &[usize]) -> Result<Kind> {
        let n = spatial.len();
        let (mode, only) = self.mode.mode();
        if let Some(only) = only.filter(|&only| only != n) {
            return Err(Error::argument(
                name,
                format!(
                    "{:?} takes {} dimensions, {only} of them spatial; the input has {}",
                    self.mode,
                    only + 2,
                    n + 2
                ),
            ));
        }
        if self.align_corners && only.is_none() {
            return Err(Error::argument(
                name,
                format!("align_corners is for linear and cubic interpolation, not for {:?}", self.mode),
            ));
        }
        let (size, factors) = match &self.target {
            InterpolationTarget::Size(_) if self.recompute_scale_factor => {
                return Err(Error::argument(name, "recompute_scale_factor makes no sense with a size"));
            }
            InterpolationTarget::Size(size) => (size.each(name, "size", n)?, SmallVec::from_elem(None, n)),
            InterpolationTarget::Factors(factors) => resized(name, factors, spatial)?,
        };
        let Some(mode) = mode else {
            if size.contains(&0) {
                return Err(Error::argument(name, format!("size {:?} must be positive", &size[..])));
            }
            return Ok(Kind::Area(size));
        };
        let mut interpolate = Interpolate { mode, size, factors, align_corners: self.align_corners };
        // PyTorch leaves a factor aside where lengths stay as they are, and in small planes also where they double. (It
        // does so in large ones, too, if they have four channels or more that lie innermost; here strides do not count.)
        let small =
            n == 2 && interpolate.size.iter().fold(0usize, |sum, &len| sum.saturating_add(len)) <= 128;
        for ((factor, &out), &len) in interpolate.factors.iter_mut().zip(&interpolate.size).zip(spatial) {
            let aside = match mode {
                InterpolateMode::Linear => out == len,
                InterpolateMode::Nearest => small && (out == len || out == 2 * len),
                InterpolateMode::NearestExact | InterpolateMode::Cubic => false,
            };
            if aside || self.recompute_scale_factor {
                *factor = None;
            }
        }
        Ok(Kind::Points(interpolate))
    }
}

/// What an interpolation turns out to be.
enum Kind {
    Points(Interpolate),
    Area(Dims),
}

/// Lengths times factors, rounded down, and the factors.
fn resized(
    name: &'static str,
    factors: &ScaleFactors,
    spatial: &[usize],
) -> Result<(Dims, SmallVec<[Option<f64>; 3]>)> {
    let given = &factors.0[..];
    if given.len() != 1 && given.len() != spatial.len() {
        return Err(Error::argument(
            name,
            format!("scale_factor is {given:?}, but must be one number, or {}", spatial.len()),
        ));
    }
    if let Some(factor) = given.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
        return Err(Error::argument(name, format!("scale_factor {factor} must be positive and finite")));
    }
    let factor = |i: usize| given[if given.len() == 1 { 0 } else { i }];
    // Beyond what can be addressed, the conversion stays at the largest number, which no shape takes.
    let size = spatial.iter().enumerate().map(|(i, &len)| (len as f64 * factor(i)).floor() as usize);
    Ok((size.collect(), (0..spatial.len()).map(|i| Some(factor(i))).collect()))
}

impl Tensor {
    /// Resamples the spatial dimensions of `[n, c, l]`, `[n, c, h, w]` or `[n, c, d, h, w]`, as
    /// `torch.nn.functional.interpolate` without antialiasing.
    ///
    /// ```
    /// # use rustorch_tensor::{InterpolateOptions, Interpolation, Tensor};
    /// let x = Tensor::new([[[0.0f32, 2.0]]])?;
    /// let y = x.interpolate(&InterpolateOptions::scale_factor(2.0))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 2.0, 2.0]);
    /// let y = x.interpolate(&InterpolateOptions::size(3).mode(Interpolation::Linear).align_corners(true))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the mode is for another number of dimensions, a length is or would be zero, or the dtype is no float.
    pub fn interpolate(&self, options: &InterpolateOptions) -> Result<Tensor> {
        let name = "interpolate";
        match options.op(name, self.spatial(name)?)? {
            Kind::Points(interpolate) => run(&Op::from(interpolate), &[self]),
            Kind::Area(size) => run(&Op::AdaptiveAvgPool(AdaptiveAvgPool { size }), &[self]),
        }
    }

    /// The gradient of the input of an [interpolation](Self::interpolate) with these arguments, for this gradient of the
    /// output; `spatial` are the trailing dimensions of the input.
    ///
    /// # Errors
    /// If such an interpolation of such an input has another shape.
    pub fn interpolate_backward(
        &self,
        spatial: impl IntoShape,
        options: &InterpolateOptions,
    ) -> Result<Tensor> {
        let name = "interpolate_backward";
        let (spatial, outputs) = (Dims::from_slice(&spatial.into_shape()?), self.spatial(name)?);
        if spatial.len() != outputs.len() {
            return Err(Error::argument(
                name,
                format!(
                    "{:?} cannot be the spatial dimensions of the input of {}",
                    &spatial[..],
                    self.shape()
                ),
            ));
        }
        match options.op(name, &spatial)? {
            Kind::Points(interpolate) => {
                run(&Op::from(InterpolateBackward { interpolate, spatial }), &[self])
            }
            Kind::Area(size) if size[..] == *outputs => {
                run(&Op::AdaptiveAvgPoolBackward(AdaptiveAvgPoolBackward { spatial }), &[self])
            }
            Kind::Area(size) => Err(Error::shape(
                name,
                format!("the gradient's spatial dimensions must be {:?}", &size[..]),
                [self.shape()],
            )),
        }
    }

    /// The one to three dimensions behind batch and channels.
    fn spatial(&self, name: &'static str) -> Result<&[usize]> {
        match self.dims() {
            [_, _, spatial @ ..] if (1..=3).contains(&spatial.len()) => Ok(spatial),
            _ => Err(Error::shape(
                name,
                "takes three to five dimensions: batch, channels, and one to three spatial ones",
                [self.shape()],
            )),
        }
    }
}
