//! Sampling at points of a grid.

use super::expect_float;
use rustorch_tensor::{DType, Error, Expr, Result, Tensor, fuse};

/// How [`grid_sample`] computes a value between elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridSampleMode {
    /// From the 4 nearest ones (of volumes, 8), linearly along each dimension: PyTorch's `bilinear`.
    #[default]
    Linear,
    /// The nearest one; of two at the same distance, the even one.
    Nearest,
    /// From the 4 nearest ones along each dimension, by cubic convolution with a = −0.75.
    Bicubic,
}

/// What [`grid_sample`] finds outside the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridSamplePadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The element at the border.
    Border,
    /// The input mirrored, as often as is needed.
    Reflection,
}

/// How [`grid_sample`] samples; the default is PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GridSampleOptions {
    /// How values between elements are computed.
    pub mode: GridSampleMode,
    /// What there is outside.
    pub padding: GridSamplePadding,
    /// Whether −1 and 1 are the centres of the first and the last element, or the outer edges of them.
    pub align_corners: bool,
}

/// Values of an input at points: of `[n, c, h, w]` at `[n, .., .., 2]`, or of `[n, c, d, h, w]` at `[n, .., .., .., 3]`, as
/// `torch.nn.functional.grid_sample`. The coordinates of a point are those of the last dimension first, from −1 to 1.
///
/// ```
/// use rustorch_nn::functional::{self as F, GridSampleOptions};
/// use rustorch_tensor::Tensor;
/// let x = Tensor::new([[[[1.0f32, 2.0], [3.0, 4.0]]]])?;
/// let middle = Tensor::new([[[[0.0f32, 0.0]]]])?;
/// assert_eq!(F::grid_sample(&x, &middle, GridSampleOptions::default())?.to_vec::<f32>()?, [2.5]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not fit, or if the input has no elements to sample.
pub fn grid_sample(x: &Tensor, grid: &Tensor, options: GridSampleOptions) -> Result<Tensor> {
    const NAME: &str = "grid_sample";
    expect_float(NAME, x)?;
    if grid.dtype() != x.dtype() {
        return Err(Error::dtype(NAME, "needs input and grid of one dtype", [x.dtype(), grid.dtype()]));
    }
    let wrong = |message: &str| Err(Error::shape(NAME, message, [x.shape(), grid.shape()]));
    let count = x.ndim().wrapping_sub(2);
    if !(2..=3).contains(&count) || grid.ndim() != x.ndim() {
        return wrong("takes [n, c, h, w] and [n, .., .., 2], or [n, c, d, h, w] and [n, .., .., .., 3]");
    }
    if grid.dims()[0] != x.dims()[0] || grid.dims()[count + 1] != count {
        return wrong(
            "the grid has the input's batch, and a last dimension with as many coordinates as the input has spatial dimensions",
        );
    }
    let spatial = &x.dims()[2..];
    if spatial.contains(&0) {
        return wrong("the input has no elements to sample");
    }
    let half = matches!(x.dtype(), DType::F16 | DType::BF16);
    let wide = |x: &Tensor| if half { x.to_dtype(DType::F32) } else { Ok(x.clone()) };
    let length = |dims: &[usize]| dims.iter().product::<usize>() as isize;
    let [batch, channels] = [x.dims()[0] as isize, x.dims()[1] as isize];
    let elements = wide(x)?.reshape([batch, channels, length(spatial)])?;
    let at = wide(grid)?.reshape([batch, length(&grid.dims()[1..=count]), count as isize])?;
    let mut terms: Option<Taps> = None;
    for (axis, &size) in spatial.iter().enumerate() {
        // The last dimension is the first coordinate.
        let taps = taps(&at.select(-1, (count - 1 - axis) as isize)?.unsqueeze(1)?, size, options)?;
        terms = Some(match terms {
            None => taps,
            Some(before) => before.along(&taps, size)?,
        });
    }
    let Some(Taps { index, weight }) = terms else { unreachable!("there are two axes at least") };
    let sums = elements.gather_sum(&index, &weight)?;
    let dims: Vec<isize> = x.dims()[..2].iter().chain(&grid.dims()[1..=count]).map(|&n| n as isize).collect();
    let sums = sums.reshape(dims)?;
    if half { sums.to_dtype(x.dtype()) } else { Ok(sums) }
}

/// The elements that count at each point: `[batch, taps, points]`.
struct Taps {
    /// Their indices; −1 outside.
    index: Tensor,
    /// By what they count.
    weight: Tensor,
}

impl Taps {
    /// Elements at whole coordinates along a dimension of a length.
    fn new(at: &Tensor, size: usize, weight: Tensor) -> Result<Taps> {
        let index = fuse(|[at]| index(at, size))?;
        Ok(Taps { index: index.apply(&[&at.detach()])?, weight })
    }

    /// The elements at each of these places and, along the next dimension, of a length, at each of the others'.
    fn along(&self, next: &Taps, size: usize) -> Result<Taps> {
        let index = fuse(|[a, b]| {
            let inside = a.ge(0).logical_and(b.ge(0));
            inside.where_cond(a * size as i64 + b, -1)
        })?;
        // Both broadcast to [batch, taps, others, points].
        let index = index.apply(&[&self.index.unsqueeze(2)?, &next.index.unsqueeze(1)?])?;
        let weight = self.weight.unsqueeze(2)?.mul(&next.weight.unsqueeze(1)?)?;
        Ok(Taps { index: index.flatten(1, 2)?, weight: weight.flatten(1, 2)? })
    }
}

/// The index of a whole coordinate along a dimension of a length; −1 outside.
fn index(at: Expr<'_>, size: usize) -> Expr<'_> {
    let inside = at.ge(0.0).logical_and(at.le((size - 1) as f64));
    inside.where_cond(at, -1.0).to_dtype(DType::I32)
}

/// The elements along a dimension that count at each point: of coordinates `[batch, 1, points]`.
fn taps(grid: &Tensor, size: usize, options: GridSampleOptions) -> Result<Taps> {
    let n = size as f64;
    let at = match options.align_corners {
        true => fuse(|[grid]| (grid + 1.0) * ((n - 1.0) / 2.0))?,
        false => fuse(|[grid]| ((grid + 1.0) * n - 1.0) * 0.5)?,
    };
    let at = at.apply(&[grid])?;
    // Numbers for each of the taps.
    let each = |numbers: &[f64]| {
        let numbers = Tensor::from_vec(numbers.to_vec(), [1, numbers.len(), 1])?;
        numbers.to_dtype(at.dtype())?.to_device(at.device())
    };
    match options.mode {
        GridSampleMode::Nearest => {
            // A gradient of zeros, as PyTorch's, instead of none.
            let weight = if at.requires_grad() { at.mul(0)?.add(1)? } else { at.ones_like()? };
            Taps::new(&padded(&at, size, options)?.round()?, size, weight)
        }
        GridSampleMode::Linear => {
            let at = padded(&at, size, options)?;
            let index = fuse(|[at, step]| index(at.floor() + step, size))?;
            // One less the distance from the lower one, and that distance.
            let weight = fuse(|[at, start, slope]| (at - at.floor()) * slope + start)?;
            Ok(Taps {
                index: index.apply(&[&at.detach(), &each(&[0.0, 1.0])?])?,
                weight: weight.apply(&[&at, &each(&[1.0, 0.0])?, &each(&[-1.0, 1.0])?])?,
            })
        }
        GridSampleMode::Bicubic => {
            let low = at.detach().floor()?;
            let t = at.sub(&low)?;
            let weights = [far(&t.add(1)?)?, near(&t)?, near(&t.neg()?.add(1)?)?, far(&t.neg()?.add(2)?)?];
            let places = padded(&low.add(&each(&[-1.0, 0.0, 1.0, 2.0])?)?, size, options)?;
            Taps::new(&places.trunc()?, size, Tensor::cat(&weights.each_ref(), 1)?)
        }
    }
}

/// Keys' cubic convolution, of distances up to 1.
fn near(t: &Tensor) -> Result<Tensor> {
    t.mul(1.25)?.sub(2.25)?.mul(t)?.mul(t)?.add(1)
}

/// Of distances from 1 to 2.
fn far(t: &Tensor) -> Result<Tensor> {
    t.mul(-0.75)?.add(3.75)?.mul(t)?.sub(6)?.mul(t)?.add(3)
}

/// Coordinates moved into the input, as the padding says.
fn padded(at: &Tensor, size: usize, options: GridSampleOptions) -> Result<Tensor> {
    let last = (size - 1) as f64;
    let at = match options.padding {
        GridSamplePadding::Zeros => return Ok(at.clone()),
        GridSamplePadding::Border => at.clone(),
        GridSamplePadding::Reflection => {
            let (low, span) = if options.align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
            if span == 0.0 {
                return at.mul(0.0);
            }
            let distance = at.sub(low)?.abs()?;
            let turns = distance.detach().div(span)?.floor()?;
            let rest = distance.sub(&turns.mul(span)?)?;
            let back = turns.remainder(2.0)?.ne(0)?;
            back.where_cond(&rest.neg()?.add(span)?, &rest)?.add(low)?
        }
    };
    at.clamp(0.0, last)
}

/// The grid of points that affine maps `theta`, `[n, 2, 3]` or `[n, 3, 4]`, make of the points of `size`, `[n, c, h, w]` or
/// `[n, c, d, h, w]`: the argument of [`grid_sample`], as `torch.nn.functional.affine_grid`.
///
/// ```
/// use rustorch_nn::functional as F;
/// use rustorch_tensor::Tensor;
/// let identity = Tensor::new([[[1.0f32, 0.0, 0.0], [0.0, 1.0, 0.0]]])?;
/// let grid = F::affine_grid(&identity, &[1, 1, 1, 2], false)?;
/// assert_eq!(grid.to_vec::<f32>()?, [-0.5, 0.0, 0.5, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If shapes do not fit, or of other dtypes than floats.
pub fn affine_grid(theta: &Tensor, size: &[usize], align_corners: bool) -> Result<Tensor> {
    const NAME: &str = "affine_grid";
    expect_float(NAME, theta)?;
    let count = size.len().wrapping_sub(2);
    let fits = (2..=3).contains(&count) && theta.dims() == [size[0], count, count + 1];
    if !fits || size.contains(&0) {
        let message = format!(
            "takes maps of [n, 2, 3] for a size [n, c, h, w], or of [n, 3, 4] for [n, c, d, h, w], not for {size:?}"
        );
        return Err(Error::shape(NAME, message, [theta.shape()]));
    }
    let spatial = &size[2..];
    let points: usize = spatial.iter().product();
    let mut base = Vec::with_capacity(points * (count + 1));
    for point in 0..points {
        let mut rest = point;
        let mut at = vec![1.0f64; count + 1];
        for (axis, &n) in spatial.iter().enumerate().rev() {
            let i = rest % n;
            rest /= n;
            // The last dimension is the first coordinate.
            at[count - 1 - axis] = match (n, align_corners) {
                (1, _) => 0.0,
                (_, true) => 2.0 * i as f64 / (n - 1) as f64 - 1.0,
                (_, false) => (2 * i + 1) as f64 / n as f64 - 1.0,
            };
        }
        base.extend(at);
    }
    let base =
        Tensor::from_vec(base, [points, count + 1])?.to_dtype(theta.dtype())?.to_device(theta.device())?;
    let grid = base.unsqueeze(0)?.matmul(&theta.transpose(1, 2)?)?;
    let dims: Vec<isize> = size[..1].iter().chain(spatial).chain(&[count]).map(|&n| n as isize).collect();
    grid.reshape(dims)
}
