//! The tensor handle.

use crate::autograd::History;
use crate::recycled::{Recycle, Recycled, SpareBlocks};
use rustorch_core::{DType, Device, Error, Layout, Result, Shape, TensorMeta};
use rustorch_runtime::{FromOutput, Output, Storage};
use std::mem::MaybeUninit;
use std::thread::LocalKey;

/// A multi-dimensional array: a cheap handle to memory on a device, with a dtype and a layout.
///
/// Cloning and making views share the memory; [`copy`](Self::copy) does not. Methods return `Result`; the operators
/// `+ - * /` panic with the same message instead.
///
/// ```
/// use rustorch_tensor::Tensor;
/// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// let b = a.t()?.matmul(&a)?;
/// assert_eq!(b.to_vec::<f32>()?, [10.0, 14.0, 14.0, 20.0]);
/// assert_eq!((&b * 2.0).item_at(&[0, 0])?.to_f64(), 20.0);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor(Recycled<Inner>);

/// What a handle leads to.
pub(crate) struct Inner {
    pub(crate) storage: Storage,
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
    /// Where gradients go from here.
    pub(crate) history: History,
}

impl Recycle for Inner {
    #[inline]
    fn spare() -> &'static LocalKey<SpareBlocks<Inner>> {
        thread_local! {
            static SPARE: SpareBlocks<Inner> = const { SpareBlocks::new() };
        }
        &SPARE
    }
}

impl FromOutput for Tensor {
    /// The parts of a tensor whose elements are contiguous from the start of a storage: made where they stay.
    #[inline]
    fn packed(storage: Storage, dtype: DType, shape: &Shape) -> Tensor {
        // SAFETY: the layout is initialised.
        unsafe { Tensor::in_place(storage, dtype, |place| Layout::contiguous_in(place, shape)) }
    }

    fn output(out: Output) -> Tensor {
        Tensor::from_parts(out.storage, out.dtype, out.layout)
    }
}

impl Tensor {
    /// The handle to a layout of a storage.
    ///
    /// The caller has checked that the layout stays inside the storage and that its elements are valid for the dtype.
    #[inline]
    pub(crate) fn from_parts(storage: Storage, dtype: DType, layout: Layout) -> Tensor {
        Tensor(Recycled::new(Inner { storage, layout, dtype, history: History::none() }))
    }

    /// As [`from_parts`](Self::from_parts), of a layout that is copied to where it stays.
    #[inline]
    pub(crate) fn from_parts_of(storage: Storage, dtype: DType, layout: &Layout) -> Tensor {
        // SAFETY: the layout is initialised.
        unsafe { Tensor::in_place(storage, dtype, |place| layout.copy_in(place)) }
    }

    /// Another handle to a tensor's memory, whose dtype and layout are changed where they stay; `None` if that says so.
    #[inline(always)]
    pub(crate) fn changed_view(
        x: &Tensor,
        change: impl FnOnce(&mut DType, &mut Layout) -> Result<bool>,
    ) -> Result<Option<Tensor>> {
        let mut view = Tensor::from_parts_of(x.storage().clone(), x.dtype(), x.layout());
        let Inner { dtype, layout, .. } = view.inner_mut().expect("a new tensor has one handle");
        Ok(change(dtype, layout)?.then_some(view))
    }

    /// The handle to a layout of a storage, which is written where it stays.
    ///
    /// # Safety
    /// `layout` initialises what it is given.
    #[inline(always)]
    unsafe fn in_place(
        storage: Storage,
        dtype: DType,
        layout: impl FnOnce(&mut MaybeUninit<Layout>),
    ) -> Tensor {
        // SAFETY: each part is written. The layout's place may be uninitialised, as its type says.
        Tensor(unsafe {
            Recycled::made_by(|place: *mut Inner| {
                // Reads nothing, but names every part: another one does not compile until it is written here, too.
                let Inner { storage: _, dtype: _, layout: _, history: _ } = *place;
                (&raw mut (*place).storage).write(storage);
                (&raw mut (*place).dtype).write(dtype);
                (&raw mut (*place).history).write(History::none());
                layout(&mut *(&raw mut (*place).layout).cast());
            })
        })
    }

    /// Where gradients go from here.
    #[inline]
    pub(crate) fn history(&self) -> &History {
        &self.0.history
    }

    /// The parts, where this is the only handle.
    pub(crate) fn inner_mut(&mut self) -> Option<&mut Inner> {
        self.0.get_mut()
    }

    /// Whether both are handles to one tensor, not to two views of the same memory.
    #[inline]
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        self.0.same(&other.0)
    }

    /// The memory.
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Shape, strides and offset, in elements.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// The type of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where the memory is.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.storage.device()
    }

    /// The shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.0.layout.shape()
    }

    /// The lengths of the dimensions.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.0.layout.dims()
    }

    /// The number of dimensions.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.0.layout.ndim()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.0.layout.numel()
    }

    /// The length of one dimension, which may count from the end.
    ///
    /// # Errors
    /// If there is no such dimension.
    pub fn size(&self, dim: isize) -> Result<usize> {
        let axis = self.axis("size", dim)?;
        self.dims().get(axis).copied().ok_or(Error::Axis { op: "size", axis: dim, ndim: 0 })
    }

    /// The strides, in elements.
    #[inline]
    pub fn strides(&self) -> &[usize] {
        self.0.layout.strides()
    }

    /// Whether the elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.0.layout.is_contiguous()
    }

    /// Whether two tensors are views of the same memory.
    pub fn shares_memory(&self, other: &Tensor) -> bool {
        self.0.storage.same(&other.0.storage)
    }

    /// The tensor as planning sees it.
    pub fn meta(&self) -> TensorMeta<'_> {
        TensorMeta { dtype: self.0.dtype, layout: &self.0.layout, device: self.device() }
    }

    /// Turns an axis that may count from the end into an index. A scalar accepts 0 and −1.
    #[inline]
    pub(crate) fn axis(&self, op: &'static str, axis: isize) -> Result<usize> {
        self.shape().axis(op, axis)
    }
}
