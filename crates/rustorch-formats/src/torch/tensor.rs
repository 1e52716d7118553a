//! Tensors: views of storages.

use super::{ErrorKind, MAX_DIMS, Result, dtype};
use crate::SharedBytes;
use rustorch_core::DType;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The most bytes that a copy of a tensor with repeated elements may have, where its storage's size does not allow more.
const MIN_EXPANSION_LIMIT: usize = 1 << 30;
/// The multiple of its storage's size that it may have.
const EXPANSION_FACTOR: usize = 64;

/// The memory of a tensor, which several may share.
#[derive(Debug)]
pub struct Storage {
    bytes: SharedBytes,
}

impl Storage {
    /// A storage of these bytes.
    pub fn new(bytes: impl Into<SharedBytes>) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.into() })
    }

    /// The bytes.
    pub fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }
}

/// A tensor: dtype, shape and strides over a storage, as in PyTorch.
#[derive(Clone)]
pub struct TensorView {
    storage: Arc<Storage>,
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
    requires_grad: bool,
    parameter: bool,
}

impl TensorView {
    /// A tensor over `storage`; strides and offset are in elements.
    ///
    /// # Errors
    /// If PyTorch has no such dtype, or the tensor reaches beyond the storage.
    pub fn new(
        storage: Arc<Storage>,
        dtype: DType,
        shape: &[usize],
        strides: &[usize],
        offset: usize,
    ) -> Result<Self> {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        Ok(Self::checked(storage, dtype, shape, strides, offset)?)
    }

    /// A tensor of its own storage: little-endian scalars, row by row.
    ///
    /// # Errors
    /// If PyTorch has no such dtype, or `data` is not as long as shape and dtype say.
    pub fn contiguous(dtype: DType, shape: &[usize], data: impl Into<SharedBytes>) -> Result<Self> {
        let storage = Storage::new(data);
        let actual = storage.bytes.len();
        let mut strides = vec![1usize; shape.len()];
        for axis in (1..shape.len()).rev() {
            let stride = strides[axis].checked_mul(shape[axis].max(1));
            strides[axis - 1] = stride.ok_or_else(|| ErrorKind::TensorTooLarge { shape: shape.to_vec() })?;
        }
        let expected = size(shape, dtype)?;
        if actual != expected {
            return Err(ErrorKind::DataLength { shape: shape.to_vec(), dtype, expected, actual }.into());
        }
        Ok(Self::checked(storage, dtype, shape.to_vec(), strides, 0)?)
    }

    pub(super) fn checked(
        storage: Arc<Storage>,
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<usize>,
        offset: usize,
    ) -> Result<Self, ErrorKind> {
        if shape.len() > MAX_DIMS {
            return Err(ErrorKind::TooManyDims { dims: shape.len() });
        }
        if shape.len() != strides.len() {
            return Err(ErrorKind::BadStrides { shape, strides });
        }
        size(&shape, dtype)?;
        let last = shape.iter().zip(&strides).try_fold(offset, |last, (&dim, &stride)| {
            dim.saturating_sub(1).checked_mul(stride)?.checked_add(last)
        });
        let empty = shape.contains(&0);
        let end = last.and_then(|last| dtype.bytes_for(if empty { offset } else { last.checked_add(1)? }));
        let len = storage.bytes.len();
        if end.is_none_or(|end| end > len) {
            return Err(ErrorKind::OutOfStorage { shape, strides, offset, len });
        }
        Ok(Self { storage, dtype, shape, strides, offset, requires_grad: false, parameter: false })
    }

    /// The same tensor with this flag.
    #[must_use]
    pub fn with_requires_grad(mut self, requires_grad: bool) -> Self {
        self.requires_grad = requires_grad;
        self
    }

    /// The same tensor as an `nn.Parameter`, or not as one.
    #[must_use]
    pub fn with_parameter(mut self, parameter: bool) -> Self {
        self.parameter = parameter;
        self
    }

    /// The storage; tensors share memory where these are [the same](Arc::ptr_eq).
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape, outermost dimension first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The distance between elements along each dimension, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Where in the storage the first element is, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether gradients are recorded for the tensor.
    pub fn requires_grad(&self) -> bool {
        self.requires_grad
    }

    /// Whether the tensor is an `nn.Parameter`.
    pub fn is_parameter(&self) -> bool {
        self.parameter
    }

    /// The number of values.
    pub fn numel(&self) -> usize {
        // Checked when the tensor was made.
        self.shape.iter().product()
    }

    /// The number of bytes of the values.
    pub fn nbytes(&self) -> usize {
        // Checked when the tensor was made.
        self.numel() * self.dtype.block_bytes()
    }

    /// Whether the values are contiguous in the storage, row by row.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.contains(&0)
            || self.shape.iter().zip(&self.strides).rev().all(|(&dim, &stride)| {
                let fits = dim == 1 || stride == expected;
                expected *= dim;
                fits
            })
    }

    /// The values, if they [are contiguous](Self::is_contiguous), with a share in the storage.
    pub fn shared_bytes(&self) -> Option<SharedBytes> {
        let start = self.offset * self.dtype.block_bytes();
        if self.is_contiguous() { self.storage.bytes.slice(start..start + self.nbytes()) } else { None }
    }

    /// The values, little-endian and row by row: borrowed if they [are contiguous](Self::is_contiguous), else copied.
    ///
    /// # Errors
    /// [`ErrorKind::TooMuchExpansion`] for a copy of over 1 GiB that has each byte of the storage over 64 times.
    pub fn to_bytes(&self) -> Result<Cow<'_, [u8]>> {
        let (size, len) = (self.dtype.block_bytes(), self.storage.bytes.len());
        if self.is_contiguous() {
            let start = self.offset * size;
            return Ok(Cow::Borrowed(&self.storage.bytes[start..start + self.nbytes()]));
        }
        if self.nbytes() > MIN_EXPANSION_LIMIT.max(len.saturating_mul(EXPANSION_FACTOR)) {
            return Err(ErrorKind::TooMuchExpansion { shape: self.shape.clone(), len }.into());
        }
        let mut out = Vec::with_capacity(self.nbytes());
        // Not contiguous, hence not 0-d and not empty.
        let mut index = vec![0; self.shape.len()];
        let mut at = self.offset;
        for _ in 0..self.numel() {
            out.extend_from_slice(&self.storage.bytes[at * size..(at + 1) * size]);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                at -= self.strides[axis] * self.shape[axis];
                index[axis] = 0;
            }
        }
        Ok(Cow::Owned(out))
    }
}

impl fmt::Debug for TensorView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({:?}, {}", self.shape, self.dtype)?;
        if !self.is_contiguous() {
            write!(f, ", strides {:?}", self.strides)?;
        }
        f.write_str(")")
    }
}

/// The bytes of the values of a tensor.
fn size(shape: &[usize], dtype: DType) -> Result<usize, ErrorKind> {
    if dtype::names(dtype).is_none() {
        return Err(ErrorKind::UnsupportedDType { dtype });
    }
    // An empty tensor's other dimensions must not overflow either.
    let nonzero = shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim.max(1)));
    let bytes = nonzero.and_then(|n| dtype.bytes_for(n)).filter(|&bytes| bytes <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(|| ErrorKind::TensorTooLarge { shape: shape.to_vec() })?;
    Ok(if shape.contains(&0) { 0 } else { bytes })
}
