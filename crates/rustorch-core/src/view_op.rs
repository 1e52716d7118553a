//! View ops: reshape, permute, slice and the like as data, applied to a `Layout`.

use crate::{DType, Device, Dims, Error, Layout, Result, Shape, TensorMeta};

/// A view of a tensor with its parameters: a value that can be recorded, replayed on another tensor of the same shape, and
/// differentiated. Axes are counted from 0, and lists are held inline up to ndim 6, so that making one allocates nothing.
///
/// ```
/// use rustorch_core::{DType, Layout, Shape, ViewOp};
///
/// let x = Layout::contiguous(Shape::new([2, 3].as_slice())?);
/// let (dtype, row) = ViewOp::Select { axis: 0, index: 1 }.apply(DType::F32, &x)?;
/// assert_eq!((dtype, row.dims(), row.offset()), (DType::F32, &[3][..], 3));
/// # Ok::<(), rustorch_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ViewOp {
    /// The same elements, in row-major order, in another shape.
    Reshape(Shape),
    /// Without a dimension of length 1.
    Squeeze {
        /// The dimension.
        axis: usize,
    },
    /// With a dimension of length 1 before dimension `axis`, or behind the last.
    Unsqueeze {
        /// The new dimension.
        axis: usize,
    },
    /// Dimension `i` of the view is dimension `axes[i]` of the tensor.
    Permute(Dims),
    /// Two dimensions swapped.
    Transpose {
        /// The dimensions.
        axes: [usize; 2],
    },
    /// Repeated along dimensions of length 1 and new ones in front, to this shape.
    Expand(Shape),
    /// `len` elements of a dimension from `start`, `step` apart.
    Slice {
        /// The dimension.
        axis: usize,
        /// The first element.
        start: usize,
        /// The number of elements.
        len: usize,
        /// From one element to the next; at least 1.
        step: usize,
    },
    /// Without a dimension, at one index of it.
    Select {
        /// The dimension.
        axis: usize,
        /// The index.
        index: usize,
    },
    /// The diagonal of the plane of two dimensions, as a new last dimension.
    Diagonal {
        /// Above 0 for a diagonal above the main one, below 0 for one below it.
        offset: isize,
        /// The dimensions of the plane's rows and columns, which differ.
        axes: [usize; 2],
    },
    /// Windows of a dimension: its length becomes the number of windows, and their elements are a new last dimension.
    Unfold {
        /// The dimension.
        axis: usize,
        /// The length of a window.
        size: usize,
        /// From the start of one window to that of the next; at least 1.
        step: usize,
    },
    /// Pairs of real numbers along the last dimension as complex numbers.
    AsComplex,
    /// Complex numbers as pairs of real ones along a new last dimension.
    AsReal,
    /// The real parts of complex numbers.
    Real,
    /// The imaginary parts of complex numbers.
    Imag,
}

impl ViewOp {
    /// The name, as in error messages and records.
    pub fn name(&self) -> &'static str {
        match self {
            ViewOp::Reshape(_) => "reshape",
            ViewOp::Squeeze { .. } => "squeeze",
            ViewOp::Unsqueeze { .. } => "unsqueeze",
            ViewOp::Permute(_) => "permute",
            ViewOp::Transpose { .. } => "transpose",
            ViewOp::Expand(_) => "expand",
            ViewOp::Slice { .. } => "slice",
            ViewOp::Select { .. } => "select",
            ViewOp::Diagonal { .. } => "diagonal",
            ViewOp::Unfold { .. } => "unfold",
            ViewOp::AsComplex => "view_as_complex",
            ViewOp::AsReal => "view_as_real",
            ViewOp::Real => "real",
            ViewOp::Imag => "imag",
        }
    }

    /// Whether the view has some of the tensor's elements, each once, as they are.
    pub fn is_slice(&self) -> bool {
        matches!(self, ViewOp::Slice { .. } | ViewOp::Select { .. })
    }

    /// Dtype and layout of the view of a tensor of this dtype and layout.
    ///
    /// # Errors
    /// If the parameters do not fit the shape, the strides do not allow a reshape without a copy, the view would cut the blocks
    /// of a block type, or the dtype is not complex (or, for [`AsComplex`](ViewOp::AsComplex), not `F32` or `F64`).
    pub fn apply(&self, dtype: DType, layout: &Layout) -> Result<(DType, Layout)> {
        let (mut to, mut view) = (dtype, layout.clone());
        if !self.apply_(&mut to, &mut view)? {
            return Err(self.needs_copy(layout));
        }
        Ok((to, view))
    }

    /// As [`apply`](Self::apply), in place; false where the strides do not allow a reshape without a copy. After that or an error, dtype
    /// and layout are not to be used.
    ///
    /// # Errors
    /// As there, but for that.
    // Where the view is known, nothing is left of the choice.
    #[inline(always)]
    pub fn apply_(&self, dtype: &mut DType, layout: &mut Layout) -> Result<bool> {
        let from = *dtype;
        match self {
            ViewOp::Reshape(shape) => {
                if !layout.reshape_(shape)? {
                    return Ok(false);
                }
            }
            &ViewOp::Squeeze { axis } => layout.squeeze_(axis)?,
            &ViewOp::Unsqueeze { axis } => layout.unsqueeze_(axis)?,
            ViewOp::Permute(axes) => layout.permute_(axes)?,
            &ViewOp::Transpose { axes: [a, b] } => layout.transpose_(a, b)?,
            ViewOp::Expand(shape) => layout.broadcast_to_(shape, self.name())?,
            &ViewOp::Slice { axis, start, len, step } => layout.slice_(axis, start, len, step)?,
            &ViewOp::Select { axis, index } => layout.select_(axis, index)?,
            &ViewOp::Diagonal { offset, axes } => *layout = diagonal(layout, offset, axes)?,
            &ViewOp::Unfold { axis, size, step } => *layout = unfold(layout, axis, size, step)?,
            ViewOp::AsComplex => (*dtype, *layout) = as_complex(from, layout)?,
            ViewOp::AsReal => (*dtype, *layout) = as_real(self.name(), from, layout)?,
            ViewOp::Real => (*dtype, *layout) = part(self.name(), from, layout, 0)?,
            ViewOp::Imag => (*dtype, *layout) = part(self.name(), from, layout, 1)?,
        }
        if dtype.is_quant() {
            TensorMeta { dtype: *dtype, layout, device: Device::CPU }.check(self.name())?;
        }
        Ok(true)
    }

    /// The error of a view that takes a copy: of a reshape that the strides do not allow.
    #[cold]
    pub fn needs_copy(&self, layout: &Layout) -> Error {
        Error::shape(
            "view",
            format!("strides {:?} do not allow it without a copy; use reshape", layout.strides()),
            [layout.shape()].into_iter().chain(match self {
                ViewOp::Reshape(shape) => Some(shape),
                _ => None,
            }),
        )
    }
}

fn expect_axis(op: &'static str, layout: &Layout, axis: usize) -> Result<()> {
    if axis < layout.ndim() {
        return Ok(());
    }
    Err(Error::Axis { op, axis: isize::try_from(axis).unwrap_or(isize::MAX), ndim: layout.ndim() })
}

fn diagonal(layout: &Layout, offset: isize, [a, b]: [usize; 2]) -> Result<Layout> {
    const NAME: &str = "diagonal";
    expect_axis(NAME, layout, a)?;
    expect_axis(NAME, layout, b)?;
    if a == b {
        return Err(Error::argument(NAME, format!("needs two dimensions, got {a} twice")));
    }
    let (all, strides) = (layout.dims(), layout.strides());
    let (down, right) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
    let len = all[a].saturating_sub(down).min(all[b].saturating_sub(right));
    let others = (0..layout.ndim()).filter(|&i| i != a && i != b);
    let mut dims: Dims = others.clone().map(|i| all[i]).collect();
    let mut steps: Dims = others.map(|i| strides[i]).collect();
    dims.push(len);
    steps.push(strides[a].saturating_add(strides[b]));
    // An empty view keeps the offset: there may be no element at the diagonal's start.
    let start = if dims.contains(&0) { 0 } else { down * strides[a] + right * strides[b] };
    Layout::new(Shape::new(dims)?, steps, layout.offset() + start)
}

fn unfold(layout: &Layout, axis: usize, size: usize, step: usize) -> Result<Layout> {
    const NAME: &str = "unfold";
    expect_axis(NAME, layout, axis)?;
    let mut dims: Dims = layout.dims().into();
    let mut strides: Dims = layout.strides().into();
    let last = dims[axis].checked_sub(size).and_then(|rest| rest.checked_div(step));
    // A dimension of an empty tensor may be as long as numbers go.
    let Some(windows) = last.and_then(|last| last.checked_add(1)) else {
        return Err(Error::shape(
            NAME,
            format!("dimension {axis} has no windows of {size} at a step of {step}"),
            [layout.shape()],
        ));
    };
    dims[axis] = windows;
    dims.push(size);
    strides.push(strides[axis]);
    strides[axis] = strides[axis].saturating_mul(step);
    Layout::new(Shape::new(dims)?, strides, layout.offset())
}

fn as_real(op: &'static str, dtype: DType, layout: &Layout) -> Result<(DType, Layout)> {
    if !dtype.is_complex() {
        return Err(Error::dtype(op, "needs complex numbers", [dtype]));
    }
    let mut dims: Dims = layout.dims().into();
    dims.push(2);
    let mut strides: Dims = layout.strides().iter().map(|s| s.saturating_mul(2)).collect();
    strides.push(1);
    let pairs = Layout::new(Shape::new(dims)?, strides, layout.offset().saturating_mul(2))?;
    Ok((dtype.to_real(), pairs))
}

fn part(op: &'static str, dtype: DType, layout: &Layout, index: usize) -> Result<(DType, Layout)> {
    let (dtype, pairs) = as_real(op, dtype, layout)?;
    Ok((dtype, pairs.select(layout.ndim(), index)?))
}

fn as_complex(dtype: DType, layout: &Layout) -> Result<(DType, Layout)> {
    const NAME: &str = "view_as_complex";
    let to = match dtype {
        DType::F32 => DType::C64,
        DType::F64 => DType::C128,
        other => return Err(Error::dtype(NAME, "needs f32 or f64", [other])),
    };
    let (Some((&2, dims)), Some((&1, strides))) = (layout.dims().split_last(), layout.strides().split_last())
    else {
        let message = "the last dimension must be of length 2 and stride 1";
        return Err(Error::shape(NAME, message, [layout.shape()]));
    };
    let empty = layout.numel() == 0;
    let paired = |(&dim, &stride): (&usize, &usize)| dim == 1 || stride.is_multiple_of(2);
    let even = dims.iter().zip(strides).all(paired) && layout.offset().is_multiple_of(2);
    if !empty && !even {
        let offset = layout.offset();
        return Err(Error::shape(
            NAME,
            format!("strides {strides:?} at offset {offset} do not fall on pairs; use copy"),
            [layout.shape()],
        ));
    }
    let strides: Dims = strides.iter().map(|s| s / 2).collect();
    let offset = if empty { 0 } else { layout.offset() / 2 };
    Ok((to, Layout::new(Shape::new(dims)?, strides, offset)?))
}
