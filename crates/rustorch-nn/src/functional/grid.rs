//! Sampling at points of a grid.

use super::expect_float;
use rustorch_tensor::{DType, Error, Result, Tensor};

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
    let (batch, channels) = (x.dims()[0], x.dims()[1]);
    let points: usize = grid.dims()[1..=count].iter().product();
    let half = matches!(x.dtype(), DType::F16 | DType::BF16);
    let wide = |x: &Tensor| if half { x.to_dtype(DType::F32) } else { Ok(x.clone()) };
    let elements =
        wide(x)?.reshape([batch as isize, channels as isize, spatial.iter().product::<usize>() as isize])?;
    let at = wide(grid)?.reshape([batch as isize, points as isize, count as isize])?;
    let mut sum: Option<Tensor> = None;
    let axes = (0..count)
        .map(|axis| taps(&at.select(-1, (count - 1 - axis) as isize)?, spatial[axis], options))
        .collect::<Result<Vec<_>>>()?;
    let combinations: usize = axes.iter().map(Vec::len).product();
    for mut combination in 0..combinations {
        let mut found: Option<Tap> = None;
        for (taps, &size) in axes.iter().zip(spatial) {
            let tap = &taps[combination % taps.len()];
            combination /= taps.len();
            found = Some(match found {
                None => tap.clone(),
                Some(before) => before.along(tap, size)?,
            });
        }
        let Some(Tap { index, inside, weight }) = found else { unreachable!("there are two axes at least") };
        let index = index.unsqueeze(1)?.broadcast_to([batch, channels, points])?;
        let mut value = elements.gather(2, &index)?;
        if let Some(weight) = weight {
            value = value.mul(&weight.unsqueeze(1)?)?;
        }
        let value = inside.unsqueeze(1)?.where_cond(&value, 0.0)?;
        sum = Some(match sum {
            None => value,
            Some(sum) => sum.add(&value)?,
        });
    }
    let Some(sum) = sum else { unreachable!("there is a combination at least") };
    let dims: Vec<isize> =
        [batch, channels].iter().chain(&grid.dims()[1..=count]).map(|&n| n as isize).collect();
    let sum = sum.reshape(dims)?;
    if half { sum.to_dtype(x.dtype()) } else { Ok(sum) }
}

/// An element that counts at each point.
#[derive(Clone)]
struct Tap {
    /// Its index; 0 outside.
    index: Tensor,
    /// Whether it is in the input.
    inside: Tensor,
    /// By what it counts; 1, if there is none.
    weight: Option<Tensor>,
}

impl Tap {
    /// An element at a whole coordinate.
    fn new(at: &Tensor, size: usize, weight: Option<Tensor>) -> Result<Tap> {
        let at = at.detach();
        let inside = at.ge(0)?.logical_and(&at.le((size - 1) as f64)?)?;
        let index = inside.where_cond(&at, 0.0)?.to_dtype(DType::I64)?;
        Ok(Tap { index, inside, weight })
    }

    /// The element at this one's place and, along the next dimension, of `size`, at the other's.
    fn along(self, next: &Tap, size: usize) -> Result<Tap> {
        let weight = match (self.weight, &next.weight) {
            (Some(a), Some(b)) => Some(a.mul(b)?),
            (a, b) => a.or_else(|| b.clone()),
        };
        let index = self.index.mul(size as i64)?.add(&next.index)?;
        Ok(Tap { index, inside: self.inside.logical_and(&next.inside)?, weight })
    }
}

/// The elements along a dimension that count at each point.
fn taps(grid: &Tensor, size: usize, options: GridSampleOptions) -> Result<Vec<Tap>> {
    let n = size as f64;
    let at = match options.align_corners {
        true => grid.add(1)?.mul((n - 1.0) / 2.0)?,
        false => grid.add(1)?.mul(n)?.sub(1)?.mul(0.5)?,
    };
    match options.mode {
        GridSampleMode::Nearest => {
            // A gradient of zeros, as PyTorch's, instead of none.
            let weight = if at.requires_grad() { Some(at.mul(0)?.add(1)?) } else { None };
            Ok(vec![Tap::new(&padded(&at, size, options)?.round()?, size, weight)?])
        }
        GridSampleMode::Linear => {
            let at = padded(&at, size, options)?;
            let low = at.detach().floor()?;
            let above = at.sub(&low)?;
            let below = above.neg()?.add(1)?;
            Ok(vec![Tap::new(&low, size, Some(below))?, Tap::new(&low.add(1)?, size, Some(above))?])
        }
        GridSampleMode::Bicubic => {
            let low = at.detach().floor()?;
            let t = at.sub(&low)?;
            let weights = [far(&t.add(1)?)?, near(&t)?, near(&t.neg()?.add(1)?)?, far(&t.neg()?.add(2)?)?];
            let taps = weights.into_iter().enumerate().map(|(i, weight)| {
                let at = padded(&low.add(i as f64 - 1.0)?, size, options)?;
                Tap::new(&at.trunc()?, size, Some(weight))
            });
            taps.collect()
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
