//! Tensors of given strides as views.

use rustorch_tensor::{Result, Tensor};

/// The view of `base`, which is one-dimensional, with this shape, strides and offset in elements; `None` where slices, selections,
/// permutations and repetitions do not make it, as with overlapping windows.
pub(super) fn strided(
    base: &Tensor,
    shape: &[usize],
    strides: &[usize],
    offset: usize,
) -> Result<Option<Tensor>> {
    // Dimensions that go on in memory, from the widest stride to the narrowest.
    let mut axes: Vec<_> = (0..shape.len()).filter(|&axis| shape[axis] != 1 && strides[axis] != 0).collect();
    axes.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));

    let mut view = base.clone();
    let (mut len, mut rest) = (base.numel(), offset);
    for &axis in &axes {
        // What is left of memory, in rows as long as the stride, of which the view has some.
        let (stride, dim) = (strides[axis], shape[axis]);
        let first = rest / stride;
        if first + dim > len / stride {
            // Of the last row only the beginning may be there.
            return if axes.len() == 1 { last_row(&view, shape, strides, offset, axis) } else { Ok(None) };
        }
        view = view.narrow(-1, 0, len / stride * stride)?.unflatten(-1, [len / stride, stride])?;
        view = view.narrow(-2, first, dim)?;
        (len, rest) = (stride, rest % stride);
    }
    let index = isize::try_from(rest).unwrap_or(isize::MAX);
    finish(view.select(-1, index)?, &axes, shape)
}

/// A view of one dimension whose last element is in a row that is not complete.
fn last_row(
    base: &Tensor,
    shape: &[usize],
    strides: &[usize],
    offset: usize,
    axis: usize,
) -> Result<Option<Tensor>> {
    let (stride, dim) = (strides[axis], shape[axis]);
    let view = base.narrow(0, offset, (dim - 1) * stride + 1)?.slice(0, .., stride)?;
    finish(view, &[axis], shape)
}

/// Brings the dimensions of `view`, which are `axes`, into order, and adds the others.
fn finish(view: Tensor, axes: &[usize], shape: &[usize]) -> Result<Option<Tensor>> {
    let mut order: Vec<_> = (0..axes.len() as isize).collect();
    order.sort_by_key(|&place| axes[place as usize]);
    let mut view = view.permute(order)?;
    for axis in (0..shape.len()).filter(|axis| !axes.contains(axis)) {
        view = view.unsqueeze(axis as isize)?;
    }
    Ok(Some(view.broadcast_to(shape)?))
}
