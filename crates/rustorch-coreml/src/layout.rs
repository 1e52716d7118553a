//! Layouts as operations: MIL has no strides, so a view of a value becomes a short chain of slices, reshapes and transposes.

use rustorch_core::Layout;

/// The most dimensions that Core ML takes.
pub(crate) const MAX_RANK: usize = 5;

/// An operation of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The same elements in another shape.
    Reshape(Vec<usize>),
    /// Along each dimension: the first index, how many, how far apart.
    Slice(Vec<(usize, usize, usize)>),
    /// Dimension `i` of the result is dimension `order[i]`.
    Transpose(Vec<usize>),
    /// Repetitions along each dimension.
    Tile(Vec<usize>),
    /// These elements of one dimension.
    Gather(Vec<usize>),
}

/// The operations that make the elements which `layout` shows, in its shape, of a contiguous value of shape `dims`. Every shape on the way has
/// [`MAX_RANK`] dimensions at most, if `dims` and the layout have. Neither is empty, and the layout stays within the value.
///
/// What is no slice of a reshape of the value (overlapping windows) is gathered by index; `None` if that takes more than `most` indices.
pub(crate) fn chain(dims: &[usize], layout: &Layout, most: usize) -> Option<Vec<Step>> {
    let elements: usize = dims.iter().product();
    // A value is never without a dimension.
    let scalar = &[1][..];
    let shape = if layout.ndim() == 0 { scalar } else { layout.dims() };
    if layout.is_contiguous() && layout.numel() == elements {
        let is_same = shape == dims;
        return Some(if is_same { Vec::new() } else { vec![Step::Reshape(shape.to_vec())] });
    }
    // Repeated dimensions come last, by tiling.
    let is_repeated = |i: usize| shape[i] > 1 && layout.strides()[i] == 0;
    let core: Vec<usize> = (0..shape.len()).filter(|&i| shape[i] > 1 && !is_repeated(i)).collect();
    let kept: Vec<usize> = (0..shape.len()).map(|i| if is_repeated(i) { 1 } else { shape[i] }).collect();
    let axes: Vec<(usize, usize)> = core.iter().map(|&i| (shape[i], layout.strides()[i])).collect();
    let mut made = Steps { dims: dims.to_vec(), steps: Vec::new() };
    let strided =
        sliced(dims, &axes, layout.offset(), false).or_else(|| sliced(dims, &axes, layout.offset(), true));
    match strided {
        Some((cells, slices, order)) => {
            made.reshape(cells);
            made.slice(slices);
            // The cells that no axis walks along have length 1 now.
            made.reshape(order.iter().map(|&axis| axes[axis].0).collect());
            let mut places = vec![0; order.len()];
            for (at, &axis) in order.iter().enumerate() {
                places[axis] = at;
            }
            made.transpose(places);
        }
        None => {
            let count: usize = axes.iter().map(|&(len, _)| len).product();
            if count > most {
                return None;
            }
            made.reshape(vec![elements]);
            made.steps.push(Step::Gather(indices(&axes, layout.offset())));
            made.dims = vec![count];
        }
    }
    made.reshape(kept.clone());
    if kept != shape {
        let repeats = (0..shape.len()).map(|i| if is_repeated(i) { shape[i] } else { 1 }).collect();
        made.steps.push(Step::Tile(repeats));
    }
    Some(made.steps)
}

struct Steps {
    /// The shape so far.
    dims: Vec<usize>,
    steps: Vec<Step>,
}

impl Steps {
    fn reshape(&mut self, dims: Vec<usize>) {
        let dims = if dims.is_empty() { vec![1] } else { dims };
        if dims == self.dims {
            return;
        }
        // Of two reshapes the second is enough.
        if let Some(Step::Reshape(_)) = self.steps.last() {
            self.steps.pop();
        }
        self.steps.push(Step::Reshape(dims.clone()));
        self.dims = dims;
    }

    fn slice(&mut self, slices: Vec<(usize, usize, usize)>) {
        let dims: Vec<usize> = slices.iter().map(|&(_, len, _)| len).collect();
        if dims != self.dims {
            self.steps.push(Step::Slice(slices));
            self.dims = dims;
        }
    }

    fn transpose(&mut self, order: Vec<usize>) {
        if !order.is_sorted() {
            self.dims = order.iter().map(|&axis| self.dims[axis]).collect();
            self.steps.push(Step::Transpose(order));
        }
    }
}

/// A shape for the value, slices of it, and which axis walks along each of its cells that are longer than 1.
type Sliced = (Vec<usize>, Vec<(usize, usize, usize)>, Vec<usize>);

/// Axes (length and stride) as slices of the value, reshaped so that each axis walks along a dimension of its own: with steps of 1, or of
/// several where `steps` allows.
fn sliced(dims: &[usize], axes: &[(usize, usize)], offset: usize, steps: bool) -> Option<Sliced> {
    let elements: usize = dims.iter().product();
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(axes[axis].1));
    let mut cells = Vec::new();
    let mut slices = Vec::new();
    let mut outer = elements;
    for &axis in &order {
        let (len, stride) = axes[axis];
        let base = if steps { base_stride(dims, stride) } else { stride };
        let step = stride / base;
        if !outer.is_multiple_of(base) || outer / base == 1 {
            return None;
        }
        let (cell, start) = (outer / base, offset % outer / base);
        if start + (len - 1) * step >= cell {
            return None;
        }
        cells.push(cell);
        slices.push((start, len, step));
        outer = base;
    }
    if outer > 1 || cells.is_empty() {
        cells.push(outer);
        slices.push((offset % outer, 1, 1));
    }
    (cells.len() <= MAX_RANK).then_some((cells, slices, order))
}

/// The largest stride of the contiguous value of which `stride` is a multiple.
fn base_stride(dims: &[usize], stride: usize) -> usize {
    let mut base = 1;
    let mut best = 1;
    for &dim in dims.iter().rev() {
        if stride.is_multiple_of(base) {
            best = base;
        }
        base *= dim;
    }
    best
}

/// The index of every element, in order.
fn indices(axes: &[(usize, usize)], offset: usize) -> Vec<usize> {
    let mut all = vec![offset];
    for &(len, stride) in axes {
        all = all.iter().flat_map(|&at| (0..len).map(move |i| at + i * stride)).collect();
    }
    all
}
