//! An index applied as far as views go, and what is left to gather.

use super::TensorIndex;
use crate::Tensor;
use rustorch_core::{DType, Dims, Error, Result, Shape};
use rustorch_runtime::DeviceGuard;
use smallvec::SmallVec;
use std::ops::Range;

/// An index applied to a tensor.
pub(super) struct Resolved {
    pub(super) op: &'static str,
    /// The tensor with its single elements, ranges and new dimensions applied.
    pub(super) view: Tensor,
    /// The shape of what is read.
    pub(super) shape: Shape,
    /// The tensors that index dimensions of the view, from the first on.
    indices: SmallVec<[Indexed; 2]>,
    /// The shape to which they broadcast.
    broadcast: Shape,
    /// Which dimension of the result is the first of that shape.
    place: usize,
}

/// Neighbouring dimensions of a view that a tensor indexes, flattened.
struct Indexed {
    axes: Range<usize>,
    index: Tensor,
    /// Of integers that may be out of range, the dimension of the tensor that they index; of a mask none.
    unchecked: Option<usize>,
}

/// What is gathered, or scattered to: one dimension of a tensor, by a vector of indices.
pub(super) struct Gather {
    /// The view with its indexed dimensions one behind the other.
    pub(super) ordered: Tensor,
    /// That, with these dimensions flattened into one.
    pub(super) merged: Tensor,
    /// Whether that took no copy.
    pub(super) is_view: bool,
    /// The dimension.
    pub(super) axis: usize,
    pub(super) index: Tensor,
}

/// Where the dimensions of tensors stand: whether one was met, and whether something came behind it.
enum Met {
    None,
    Together,
    Past,
}

/// The state of the walk along an index.
struct Walk<'a> {
    op: &'static str,
    x: &'a Tensor,
    view: Tensor,
    indices: SmallVec<[Indexed; 2]>,
    /// The next dimension of the view, and of the tensor.
    axis: usize,
    dim: usize,
    /// How many dimensions of the view tensors index.
    gathered: usize,
    met: Met,
    place: usize,
}

/// Applies an index to a tensor.
pub(super) fn resolve(op: &'static str, x: &Tensor, index: &[TensorIndex]) -> Result<Resolved> {
    let taken: usize = index.iter().map(dimensions).sum();
    let Some(rest) = x.ndim().checked_sub(taken) else {
        let why = format!("the index stands for {taken} dimensions, the tensor has {}", x.ndim());
        return Err(Error::shape(op, why, [x.shape()]));
    };
    if index.iter().filter(|item| matches!(item, TensorIndex::Ellipsis)).count() > 1 {
        return Err(Error::argument(op, "`..` is there twice; all of one dimension is `0..`"));
    }
    let has_tensors =
        index.iter().any(|item| matches!(item, TensorIndex::Tensor(_) | TensorIndex::Boolean(_)));
    let mut walk = Walk {
        op,
        x,
        view: x.clone(),
        indices: SmallVec::new(),
        axis: 0,
        dim: 0,
        gathered: 0,
        met: Met::None,
        place: 0,
    };
    for item in index {
        walk.step(item, rest, has_tensors)?;
    }
    walk.finish()
}

/// How many dimensions an item stands for.
fn dimensions(item: &TensorIndex) -> usize {
    match item {
        TensorIndex::Integer(_) | TensorIndex::Slice(_) => 1,
        TensorIndex::Ellipsis | TensorIndex::NewAxis | TensorIndex::Boolean(_) => 0,
        TensorIndex::Tensor(mask) if mask.dtype() == DType::Bool => mask.ndim(),
        TensorIndex::Tensor(_) => 1,
    }
}

impl Walk<'_> {
    fn step(&mut self, item: &TensorIndex, rest: usize, has_tensors: bool) -> Result<()> {
        let axis = self.axis as isize;
        match item {
            &TensorIndex::Integer(index) => {
                let len = self.x.dims()[self.dim];
                let at = if index < 0 { index.checked_add_unsigned(len as u64) } else { Some(index) };
                let Some(at) = at.filter(|at| (0..len as i64).contains(at)) else {
                    return Err(out_of_range(self.op, index, self.dim, len));
                };
                self.view = self.view.select(axis, at as isize)?;
                self.dim += 1;
                if has_tensors {
                    self.meet();
                }
            }
            TensorIndex::Slice(slice) => {
                let (range, step) = slice.bounds(self.op)?;
                self.view = self.view.slice(axis, range, step)?;
                self.axis += 1;
                self.dim += 1;
                self.pass();
            }
            TensorIndex::Ellipsis => {
                self.axis += rest;
                self.dim += rest;
                self.pass();
            }
            TensorIndex::NewAxis => {
                self.view = self.view.unsqueeze(axis)?;
                self.axis += 1;
                self.pass();
            }
            &TensorIndex::Boolean(holds) => {
                self.view = self.view.unsqueeze(axis)?;
                self.index_by(1, zeros(self.x, usize::from(holds))?, None);
            }
            TensorIndex::Tensor(mask) if mask.dtype() == DType::Bool => self.mask(mask)?,
            TensorIndex::Tensor(index) if index.dtype().is_int() => {
                self.index_by(1, index.clone(), Some(self.dim));
                self.dim += 1;
            }
            TensorIndex::Tensor(other) => {
                let why = "a tensor in an index must be of integers or bool; convert it with to_dtype";
                return Err(Error::dtype(self.op, why, [other.dtype()]));
            }
        }
        Ok(())
    }

    fn mask(&mut self, mask: &Tensor) -> Result<()> {
        let covered = &self.x.dims()[self.dim..self.dim + mask.ndim()];
        if let Some(i) = (0..mask.ndim()).find(|&i| mask.dims()[i] != covered[i]) {
            let why = format!(
                "dimension {i} of the mask has the length {}, and dimension {} of the tensor, which it covers, {}",
                mask.dims()[i],
                self.dim + i,
                covered[i]
            );
            return Err(Error::shape(self.op, why, [self.x.shape(), mask.shape()]));
        }
        if mask.ndim() == 0 {
            self.view = self.view.unsqueeze(self.axis as isize)?;
        }
        // In the flattened dimensions, so that the places of elements are one number each.
        let places = mask.flatten(0, -1)?.nonzero()?.flatten(0, -1)?;
        self.index_by(mask.ndim().max(1), places, None);
        self.dim += mask.ndim();
        Ok(())
    }

    /// The next dimensions of the view, so many, are indexed by a tensor.
    fn index_by(&mut self, count: usize, index: Tensor, unchecked: Option<usize>) {
        self.meet();
        self.indices.push(Indexed { axes: self.axis..self.axis + count, index, unchecked });
        self.axis += count;
        self.gathered += count;
    }

    /// A tensor was met, or what counts as one.
    fn meet(&mut self) {
        match self.met {
            Met::None => {
                self.place = self.axis - self.gathered;
                self.met = Met::Together;
            }
            Met::Together => {}
            // Apart from each other: their dimensions come first.
            Met::Past => self.place = 0,
        }
    }

    /// Something else was met.
    fn pass(&mut self) {
        if let Met::Together = self.met {
            self.met = Met::Past;
        }
    }

    fn finish(self) -> Result<Resolved> {
        let Walk { op, view, indices, place, .. } = self;
        let mut broadcast = Shape::scalar();
        for Indexed { index, .. } in &indices {
            broadcast = broadcast.broadcast(index.shape(), op)?;
        }
        let rest: Dims = (0..view.ndim())
            .filter(|axis| !is_indexed(&indices, *axis))
            .map(|axis| view.dims()[axis])
            .collect();
        let mut dims: Dims = rest[..place].into();
        dims.extend_from_slice(broadcast.dims());
        dims.extend_from_slice(&rest[place..]);
        Ok(Resolved { op, view, shape: Shape::new(dims)?, indices, broadcast, place })
    }
}

fn is_indexed(indices: &[Indexed], axis: usize) -> bool {
    indices.iter().any(|Indexed { axes, .. }| axes.contains(&axis))
}

/// Zeros, as indices beside a tensor.
fn zeros(x: &Tensor, len: usize) -> Result<Tensor> {
    let _beside = DeviceGuard::beside(x.storage());
    Tensor::zeros([len], DType::I64)
}

fn out_of_range(op: &'static str, index: i64, dim: usize, len: usize) -> Error {
    Error::argument(op, format!("index {index} is out of range for dimension {dim} of length {len}"))
}

impl Resolved {
    /// What is gathered; nothing where the index is a view.
    pub(super) fn gather(&self) -> Result<Option<Gather>> {
        if self.indices.is_empty() {
            return Ok(None);
        }
        let (view, place) = (&self.view, self.place);
        let others = (0..view.ndim()).filter(|&axis| !is_indexed(&self.indices, axis));
        let mut order: SmallVec<[isize; 6]> = others.map(|axis| axis as isize).collect();
        let indexed: SmallVec<[isize; 6]> =
            self.indices.iter().flat_map(|indexed| indexed.axes.clone()).map(|axis| axis as isize).collect();
        order.insert_many(place, indexed.iter().copied());
        let ordered = if order.is_sorted() { view.clone() } else { view.permute(&order)? };
        let count = indexed.len();
        let mut dims: Dims = ordered.dims()[..place].into();
        dims.push(ordered.dims()[place..place + count].iter().product());
        dims.extend_from_slice(&ordered.dims()[place + count..]);
        let shape = Shape::new(dims)?;
        let is_view = ordered.has_view(&shape)?;
        let merged = ordered.reshape_to(shape)?;
        let index = self.index()?.flatten(0, -1)?;
        Ok(Some(Gather { ordered, merged, is_view, axis: place, index }))
    }

    /// The length of the dimensions that a tensor indexes.
    fn len(&self, indexed: &Indexed) -> usize {
        self.view.dims()[indexed.axes.clone()].iter().product()
    }

    /// The indices of the flattened dimensions. Of one tensor the operation that reads or writes there checks them, if it has anything
    /// to do.
    fn index(&self) -> Result<Tensor> {
        let from_start = |indexed: &Indexed| match indexed.unchecked {
            Some(_) => indexed.index.counted_from_start(self.op, self.len(indexed)),
            None => Ok(indexed.index.clone()),
        };
        let _beside = DeviceGuard::beside(self.view.storage());
        if let [one] = &self.indices[..]
            && (self.shape.numel() != 0 || one.unchecked.is_none())
        {
            return from_start(one);
        }
        // Where no place is left, what the others say does not count, as in NumPy.
        if self.broadcast.numel() == 0 {
            return Tensor::zeros(self.broadcast.clone(), DType::I64);
        }
        let mut sum: Option<Tensor> = None;
        let mut stride = 1i64;
        for indexed in self.indices.iter().rev() {
            let len = self.len(indexed);
            let given = indexed.index.to_index(self.op)?.to_dtype(DType::I64)?;
            let index = match indexed.unchecked {
                Some(dim) if !given.are_known_within(len)? => {
                    let index = from_start(indexed)?;
                    // One element, seen so many times, is enough to find what is out of range.
                    let probe = Tensor::zeros([1], DType::U8)?.broadcast_to([len].as_slice());
                    probe?
                        .index_select(0, &index.flatten(0, -1)?)
                        .map_err(|error| named(self.op, error, dim, len))?;
                    index
                }
                _ => given,
            };
            let part = if stride == 1 { index } else { index.mul(stride)? };
            sum = Some(match sum {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
            stride = stride.wrapping_mul(len as i64);
        }
        sum.expect("there is one at least").broadcast_to(&self.broadcast)
    }

    /// The error of an index out of range, with the dimension of the only tensor.
    pub(super) fn out_of_range(&self, error: Error) -> Error {
        match &self.indices[..] {
            [one] => match one.unchecked {
                Some(dim) => named(self.op, error, dim, self.len(one)),
                None => error,
            },
            _ => error,
        }
    }
}

/// The error of an operation that found an index out of range, with the index as it was given.
fn named(op: &'static str, error: Error, dim: usize, len: usize) -> Error {
    match error {
        Error::Index { index, .. } if index < 0 => out_of_range(op, index.wrapping_sub(len as i64), dim, len),
        Error::Index { index, .. } => out_of_range(op, index, dim, len),
        other => other,
    }
}
