//! Operands and outputs of operations.

use crate::storage::{Storage, truth_fits};
use rustorch_core::{DType, Device, Error, Layout, Result, Shape, TensorMeta, View, bytes_reached};
use smallvec::SmallVec;

/// An argument of an operation or a place for a result: a storage, and how to see it.
///
/// Checked when an operation takes it: the layout must stay inside the storage, the address must be aligned to the
/// dtype, and booleans are read only from a storage that holds them.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The memory.
    pub storage: &'a Storage,
    /// The dtype of its elements.
    pub dtype: DType,
    /// Which of them, in which order.
    pub layout: &'a Layout,
}

/// A result of an operation: fresh memory that nobody else holds, contiguous.
#[derive(Clone, Debug)]
pub struct Output {
    /// The memory.
    pub storage: Storage,
    /// The dtype of its elements.
    pub dtype: DType,
    /// Its shape, contiguous from the start of the memory.
    pub layout: Layout,
}

/// Where something new goes.
#[derive(Clone, Copy, Debug)]
pub enum TargetDevice<'a> {
    /// Where the thread makes new tensors: see [`with_device`](crate::with_device).
    Default,
    /// To a device of the executor.
    Device(Device),
    /// To the device of another storage, whether the executor has it or not.
    Beside(&'a Storage),
}

impl From<Device> for TargetDevice<'_> {
    fn from(device: Device) -> Self {
        TargetDevice::Device(device)
    }
}

impl From<Option<Device>> for TargetDevice<'_> {
    fn from(device: Option<Device>) -> Self {
        device.map_or(TargetDevice::Default, TargetDevice::Device)
    }
}

impl<'a> From<&'a Storage> for TargetDevice<'a> {
    fn from(storage: &'a Storage) -> Self {
        TargetDevice::Beside(storage)
    }
}

/// The results of an operation; nearly always one.
pub type OutputVec = SmallVec<[Output; 1]>;

/// What a result becomes for who asked for it.
pub trait FromOutput: Sized {
    /// From fresh memory in which the elements of a shape are contiguous: in parts, since to make one thing of them only to
    /// take it apart takes longer than adding two scalars.
    fn packed(storage: Storage, dtype: DType, shape: &Shape) -> Self;

    /// From any result.
    fn output(output: Output) -> Self;
}

impl FromOutput for Output {
    fn packed(storage: Storage, dtype: DType, shape: &Shape) -> Output {
        Output { storage, dtype, layout: Layout::contiguous(shape.clone()) }
    }

    fn output(output: Output) -> Output {
        output
    }
}

impl Output {
    /// The result as an argument of the next operation.
    pub fn operand(&self) -> Operand<'_> {
        Operand { storage: &self.storage, dtype: self.dtype, layout: &self.layout }
    }
}

impl<'a> Operand<'a> {
    /// Where the bytes are.
    #[inline]
    pub fn device(&self) -> Device {
        self.storage.device()
    }

    /// What planning sees of it.
    #[inline]
    pub fn meta(&self) -> TensorMeta<'a> {
        TensorMeta { dtype: self.dtype, layout: self.layout, device: self.device() }
    }

    #[inline]
    pub(super) fn is_valid(&self) -> bool {
        self.is_inside() && self.is_readable()
    }

    /// Whether it is what [`is_valid`](Self::is_valid) asks for, but for the memory.
    pub(super) fn is_valid_symbol(&self) -> bool {
        self.is_inside() && truth_fits(self.dtype, self.storage.holds_truth(), false)
    }

    /// Whether the storage can be read as this dtype, wherever the elements are.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.is_aligned() && truth_fits(self.dtype, self.storage.holds_truth(), false)
    }

    #[inline]
    fn is_inside(&self) -> bool {
        bytes_reached(self.dtype, self.layout).is_some_and(|n| n <= self.storage.bytes())
    }

    #[inline]
    fn is_aligned(&self) -> bool {
        // Blocks are bytes, and a complex number is aligned like its parts.
        let align = self.dtype.to_real().size().unwrap_or(1);
        align <= self.storage.align()
    }

    /// Checks that the elements may be read, for what is no operation.
    pub(crate) fn check_for(&self, op: &'static str) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        let message = if let Some(origin) = self.storage.symbol_origin() {
            format!(
                "is asked of a symbolic tensor, which stands for {origin} in a capture and has no value: not in the captured \
                 function, nor after it, nor on another thread or executor"
            )
        } else if !self.is_inside() {
            format!(
                "a {} view of shape {} reaches beyond the {} bytes of its storage",
                self.dtype,
                self.layout.shape(),
                self.storage.bytes()
            )
        } else if !self.is_aligned() {
            format!("the storage is aligned to {} bytes, too few for {}", self.storage.align(), self.dtype)
        } else {
            format!("a storage that was not made for bool cannot be read as {}", self.dtype)
        };
        Err(Error::argument(op, message))
    }

    /// Checks that the elements may be written.
    pub(crate) fn check_destination(&self, op: &'static str) -> Result<()> {
        if self.storage.is_read_only() {
            return Err(Error::argument(
                op,
                "the destination is read-only memory, such as a mapped file; copy it first",
            ));
        }
        if !truth_fits(self.dtype, self.storage.holds_truth(), true) {
            return Err(Error::argument(
                op,
                format!("a storage of bool values cannot be written as {}", self.dtype),
            ));
        }
        if self.layout.overlaps_itself() {
            return Err(Error::argument(
                op,
                format!(
                    "the destination of shape {} and strides {:?} reaches elements twice; make it contiguous first",
                    self.layout.shape(),
                    self.layout.strides()
                ),
            ));
        }
        Ok(())
    }

    /// A window for reading.
    ///
    /// # Safety
    /// The operand was checked, and the storage's guard is held for as long as the window lives.
    #[inline]
    pub(crate) unsafe fn view(&self) -> View<'a> {
        // SAFETY: checked to be inside the buffer, and of valid values: every byte of a storage is initialised, and
        // booleans are apart. The guard keeps writers out.
        unsafe { View::new(self.storage.buffer(), self.dtype, self.layout) }
    }

    /// A window for reading elements that a destination of the same operation overwrites.
    ///
    /// # Safety
    /// As of [`view`](Self::view), with the guard for writing.
    #[inline]
    pub(super) unsafe fn aliased_view(&self) -> View<'a> {
        // SAFETY: as in `view`; only the destination is written.
        unsafe { View::aliased(self.storage.buffer(), self.dtype, self.layout) }
    }
}
