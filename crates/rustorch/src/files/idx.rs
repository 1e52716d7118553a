//! IDX files.

use super::Result;
use rustorch_formats::idx::Array;
use rustorch_tensor::Tensor;
use std::path::Path;

/// Loads the array of an IDX file, such as MNIST's, compressed by gzip or not.
///
/// ```no_run
/// let images = rustorch::files::load_idx("train-images-idx3-ubyte.gz")?;
/// assert_eq!(images.dims(), [60_000, 28, 28]);
/// # Ok::<(), rustorch::files::Error>(())
/// ```
///
/// # Errors
/// If the file is no such array; see [`ErrorKind`](rustorch_formats::idx::ErrorKind).
pub fn load_idx(path: impl AsRef<Path>) -> Result<Tensor> {
    let array = Array::open(path)?;
    Ok(Tensor::from_bytes(array.bytes(), array.dtype(), array.shape())?)
}
