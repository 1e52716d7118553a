//! IDX files: arrays of numbers, in which MNIST comes; often compressed by gzip.
//!
//! The format is described at <http://yann.lecun.com/exdb/mnist/>: two zero bytes, the type, the number of dimensions, their lengths and then
//! the numbers, all big-endian.

use flate2::bufread::GzDecoder;
use rustorch_core::DType;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The result of reading IDX files.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with the file that it happened in, where there is one.
pub type Error = crate::Error<ErrorKind>;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to read, or the file is no whole gzip file.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not begin as an IDX file.
    #[error(
        "not an IDX file: it begins with {found:02x?}, two zero bytes, a type and a number of dimensions were expected"
    )]
    BadMagic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// The type of the numbers is none of the format's.
    #[error("the type 0x{code:02x} is none of IDX files (0x08, 0x09, 0x0b to 0x0e)")]
    UnknownType {
        /// The type as the file has it.
        code: u8,
    },
    /// The lengths of dimensions multiply to more than can be addressed.
    #[error("{dims:?} are more numbers than can be addressed")]
    TooLarge {
        /// The lengths.
        dims: Vec<u32>,
    },
    /// The file ends early.
    #[error("file is truncated: {expected} bytes of numbers were expected, {actual} are there")]
    Truncated {
        /// The bytes that its header announces.
        expected: u64,
        /// The bytes that are there.
        actual: u64,
    },
    /// There is something behind the last number.
    #[error("there are bytes behind the last number")]
    TrailingBytes,
}

/// An array of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    /// Reads a file, compressed or not.
    ///
    /// # Errors
    /// See [`ErrorKind`]. Memory is taken for the numbers that are there, not for those that a header announces.
    pub fn open(path: impl AsRef<Path>) -> Result<Array> {
        let path = path.as_ref();
        let file =
            File::open(path).map_err(ErrorKind::from).and_then(|file| Array::decode(BufReader::new(file)));
        file.map_err(|kind| Error::at(Some(path), kind))
    }

    /// Reads an array of bytes, compressed or not.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// ```
    /// use rustorch_formats::idx::Array;
    /// let array = Array::from_bytes(&[0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])?;
    /// assert_eq!((array.shape(), array.bytes()), (&[3][..], &[7, 8, 9][..]));
    /// # Ok::<(), rustorch_formats::idx::Error>(())
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Array> {
        Ok(Array::decode(bytes)?)
    }

    /// The dtype of its numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The lengths of its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers, little-endian, row by row.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn decode(mut file: impl BufRead) -> Result<Array, ErrorKind> {
        if file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
            return Array::read(GzDecoder::new(file));
        }
        Array::read(file)
    }

    fn read(mut file: impl Read) -> Result<Array, ErrorKind> {
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        let [0, 0, code, ndim] = *magic.as_slice() else { return Err(ErrorKind::BadMagic { found: magic }) };
        let (dtype, size): (DType, usize) = match code {
            0x08 => (DType::U8, 1),
            0x09 => (DType::I8, 1),
            0x0b => (DType::I16, 2),
            0x0c => (DType::I32, 4),
            0x0d => (DType::F32, 4),
            0x0e => (DType::F64, 8),
            code => return Err(ErrorKind::UnknownType { code }),
        };
        let lengths = exactly(&mut file, 4 * u64::from(ndim))?;
        let dims: Vec<u32> = lengths.as_chunks().0.iter().map(|&bytes| u32::from_be_bytes(bytes)).collect();
        let total = dims.iter().try_fold(size, |n, &dim| n.checked_mul(dim as usize));
        let total = total.filter(|&n| isize::try_from(n).is_ok());
        let Some(total) = total else { return Err(ErrorKind::TooLarge { dims }) };
        let mut bytes = exactly(&mut file, total as u64)?;
        if file.read(&mut [0])? != 0 {
            return Err(ErrorKind::TrailingBytes);
        }
        bytes.chunks_mut(size).for_each(<[u8]>::reverse);
        Ok(Array { dtype, shape: dims.into_iter().map(|dim| dim as usize).collect(), bytes })
    }
}

/// So many bytes, for which memory is taken as they come.
fn exactly(file: &mut impl Read, expected: u64) -> Result<Vec<u8>, ErrorKind> {
    let mut bytes = Vec::new();
    let actual = file.take(expected).read_to_end(&mut bytes)? as u64;
    if actual < expected { Err(ErrorKind::Truncated { expected, actual }) } else { Ok(bytes) }
}
