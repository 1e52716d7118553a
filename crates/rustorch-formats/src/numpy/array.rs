//! Arrays, and the `.npy` files that have one each.

use super::header::{self, Header};
use super::{Error, ErrorKind, MAX_DIMS, Result};
use crate::SharedBytes;
use crate::atomic::AtomicFile;
use crate::load::{Load, contents, map, read_file};
use rustorch_core::DType;
use std::io::Write;
use std::path::Path;

/// An array: dtype, shape, and data that is a range of a file or of its own.
#[derive(Clone, Debug)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    fortran_order: bool,
    data: SharedBytes,
}

impl Array {
    /// An array of little-endian scalars, row by row.
    ///
    /// # Errors
    /// If NumPy has no such dtype, or `data` is not as long as shape and dtype say.
    pub fn new(shape: &[usize], dtype: DType, data: impl Into<SharedBytes>) -> Result<Self> {
        header::descr(dtype)?;
        let (data, expected) = (data.into(), size(shape, dtype)?);
        if data.len() != expected {
            let (shape, actual) = (shape.to_vec(), data.len());
            return Err(ErrorKind::DataLength { shape, dtype, expected, actual }.into());
        }
        Ok(Self { dtype, shape: shape.to_vec(), fortran_order: false, data })
    }

    /// Reads the `.npy` file at `path`.
    ///
    /// # Errors
    /// The first of the malformations of [`ErrorKind`] that is met, with the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_by(path.as_ref(), read_file)
    }

    /// Opens the `.npy` file at `path` by mapping it into memory, else as [`open`](Self::open) does. Big-endian data is copied.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As long as this or any bytes or tensors of it live, nobody overwrites the file in place or truncates it, be it another
    /// process. The mapping shows such a change in the midst of a computation: values that Rust's rules take for constant become
    /// others, and reading a page that is gone ends the process (`SIGBUS`).
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: that nobody changes the file is this function's contract.
        Self::open_by(path.as_ref(), |file, len| unsafe { map(file, len) })
    }

    fn open_by(path: &Path, load: Load) -> Result<Self> {
        let fail = |kind| Error::at(Some(path), kind);
        let bytes =
            contents(path, load).map_err(|e| fail(e.into()))?.ok_or_else(|| fail(ErrorKind::NotAFile))?;
        Self::parse(bytes).map_err(fail)
    }

    /// Reads a `.npy` file that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<SharedBytes>) -> Result<Self> {
        Ok(Self::parse(bytes.into())?)
    }

    pub(super) fn parse(file: SharedBytes) -> Result<Self, ErrorKind> {
        let (Header { dtype, big_endian, fortran_order, shape }, start) = header::parse(&file)?;
        let expected = size(&shape, dtype)?;
        let actual = file.len() - start;
        if actual < expected {
            return Err(ErrorKind::TruncatedData { expected, actual });
        }
        if actual > expected {
            return Err(ErrorKind::TrailingBytes { len: actual - expected });
        }
        let data = file.slice(start..file.len()).expect("the header ends within the file");
        let data = if big_endian { swapped(&data, dtype).into() } else { data };
        Ok(Self { dtype, shape, fortran_order, data })
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
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![0; self.shape.len()];
        let mut stride = 1;
        let mut set = |axis: usize| {
            strides[axis] = stride;
            // Checked when the array was made; a length of zero counts as one.
            stride *= self.shape[axis].max(1);
        };
        if self.fortran_order {
            (0..self.shape.len()).for_each(&mut set);
        } else {
            (0..self.shape.len()).rev().for_each(&mut set);
        }
        strides
    }

    /// Whether the data is column by column, as Fortran's: the first dimension has stride 1.
    pub fn fortran_order(&self) -> bool {
        self.fortran_order
    }

    /// The data: little-endian scalars in the order of [`strides`](Self::strides).
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The data with a share in the mapping or buffer that holds it.
    pub fn shared_bytes(&self) -> SharedBytes {
        self.data.clone()
    }

    /// The array as a `.npy` file.
    ///
    /// # Errors
    /// None that an array of [`new`](Self::new) or of a file has.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = header::encode(self.dtype, &self.shape, self.fortran_order)?;
        out.extend_from_slice(&self.data);
        Ok(out)
    }

    /// Writes the array to a `.npy` file, which replaces that at `path` when it is complete on the disk.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let at = |kind| Error::at(Some(path), kind);
        let header = header::encode(self.dtype, &self.shape, self.fortran_order).map_err(at)?;
        let mut file = AtomicFile::create(path).map_err(|e| at(e.into()))?;
        file.write_all(&header).map_err(|e| at(e.into()))?;
        file.write_all(&self.data).map_err(|e| at(e.into()))?;
        file.commit().map_err(|e| at(e.into()))
    }
}

/// The bytes of an array, everything about its shape checked.
fn size(shape: &[usize], dtype: DType) -> Result<usize, ErrorKind> {
    if shape.len() > MAX_DIMS {
        return Err(ErrorKind::TooManyDims);
    }
    // Strides of empty arrays must not overflow either.
    let nonzero = shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim.max(1)));
    let bytes = nonzero.and_then(|n| dtype.bytes_for(n)).filter(|&bytes| bytes <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(|| ErrorKind::TooLarge { shape: shape.to_vec() })?;
    Ok(if shape.contains(&0) { 0 } else { bytes })
}

/// Scalars in the other byte order; complex ones have two.
fn swapped(data: &[u8], dtype: DType) -> Vec<u8> {
    let mut data = data.to_vec();
    for scalar in data.chunks_exact_mut(dtype.to_real().block_bytes()) {
        scalar.reverse();
    }
    data
}
