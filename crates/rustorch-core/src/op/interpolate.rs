//! Interpolation: resampling the trailing, spatial dimensions, one to three of them. All leading dimensions are batch.

use super::{OpType, Operation, float, in_elements, one, out_elements, same_dense};
use crate::{Dims, Error, OutputMeta, Outputs, Result, Shape, TensorMeta};
use smallvec::SmallVec;

/// How the value at a point between elements is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub enum InterpolateMode {
    /// The element at `⌊i·scale⌋`, like OpenCV's buggy `INTER_NEAREST`.
    Nearest,
    /// The element at `⌊(i + ½)·scale⌋`, the nearest in truth.
    NearestExact,
    /// Linear in every dimension: of two, bilinear; of three, trilinear.
    Linear,
    /// Cubic convolution with a = −¾ in every dimension: of two, bicubic.
    Cubic,
}

impl InterpolateMode {
    /// How many elements along a dimension make a value.
    pub const fn taps(self) -> usize {
        match self {
            InterpolateMode::Nearest | InterpolateMode::NearestExact => 1,
            InterpolateMode::Linear => 2,
            InterpolateMode::Cubic => 4,
        }
    }
}

/// Resampling to a given size, with the coordinates of `torch.nn.functional.interpolate`.
///
/// Coordinates and weights are computed in `F64` for `F64`, else in `F32`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Interpolate {
    /// How.
    pub mode: InterpolateMode,
    /// The lengths of the spatial dimensions of the result.
    pub size: Dims,
    /// Where given, the factor by which a dimension was asked to grow, whose inverse is the scale; else the scale is the
    /// input's length over the output's. One for each spatial dimension.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::float"))]
    pub factors: SmallVec<[Option<f64>; 3]>,
    /// Whether the first and the last elements of input and output are at the same positions; else their outer borders are.
    /// Of linear and cubic interpolation only.
    pub align_corners: bool,
}

impl Interpolate {
    /// The number of spatial dimensions.
    fn check(&self, name: &'static str, shape: &Shape) -> Result<usize> {
        let n = self.size.len();
        if !(1..=3).contains(&n) || n > shape.ndim() {
            return Err(Error::shape(
                name,
                format!("takes one to three spatial dimensions, {n} were given"),
                [shape],
            ));
        }
        if self.factors.len() != n {
            return Err(Error::argument(name, format!("{} factors for {n} dimensions", self.factors.len())));
        }
        if let Some(factor) = self.factors.iter().flatten().find(|f| !(f.is_finite() && **f > 0.0)) {
            return Err(Error::argument(name, format!("the factor {factor} must be positive and finite")));
        }
        if self.size.contains(&0) {
            return Err(Error::argument(name, format!("size {:?} must be positive", &self.size[..])));
        }
        if self.align_corners && self.mode.taps() == 1 {
            return Err(Error::argument(name, "align_corners is for linear and cubic interpolation"));
        }
        Ok(n)
    }

    /// Multiplications and additions that lead to so many elements.
    fn sums(&self, elements: u64) -> u64 {
        match self.mode.taps() {
            1 => 0,
            taps => 2 * (taps as u64).pow(self.size.len() as u32) * elements,
        }
    }
}

/// The gradient of the input of [`Interpolate`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct InterpolateBackward {
    /// The interpolation.
    pub interpolate: Interpolate,
    /// The spatial dimensions of the input.
    pub spatial: Dims,
}

impl Interpolate {
    /// The operation's name.
    pub const NAME: &'static str = "interpolate";
}

impl Operation for Interpolate {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = Self::NAME;
        let dtype = same_dense(name, args, 1..=1)?;
        float(name, dtype)?;
        let shape = args[0].shape();
        let n = self.check(name, shape)?;
        let (lead, spatial) = shape.split_at(shape.ndim() - n);
        if spatial.contains(&0) {
            return Err(Error::shape(name, "a spatial dimension is empty", [shape]));
        }
        one(dtype, joined(lead, &self.size)?)
    }

    /// Multiplications and additions.
    fn flops(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        self.sums(out_elements(outs))
    }
}

impl InterpolateBackward {
    /// The operation's name.
    pub const NAME: &'static str = "interpolate_backward";
}

impl Operation for InterpolateBackward {
    const CLASS: OpType = OpType::Pooling;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let (name, spatial, op) = (Self::NAME, &self.spatial, &self.interpolate);
        let dtype = same_dense(name, args, 1..=1)?;
        float(name, dtype)?;
        let grad = args[0].shape();
        let n = op.check(name, grad)?;
        if spatial.len() != n || spatial.contains(&0) {
            return Err(Error::argument(
                name,
                format!("{spatial:?} cannot be the {n} spatial dimensions of the input"),
            ));
        }
        let (lead, outputs) = grad.split_at(grad.ndim() - n);
        if outputs != &op.size[..] {
            return Err(Error::shape(
                name,
                format!("the gradient's spatial dimensions must be {:?}", &op.size[..]),
                [grad],
            ));
        }
        one(dtype, joined(lead, spatial)?)
    }

    fn flops(&self, args: &[TensorMeta<'_>], _: &[OutputMeta]) -> u64 {
        self.interpolate.sums(in_elements(args))
    }
}

fn joined(lead: &[usize], spatial: &[usize]) -> Result<Shape> {
    let mut dims = Dims::from_slice(lead);
    dims.extend_from_slice(spatial);
    Shape::new(dims)
}
