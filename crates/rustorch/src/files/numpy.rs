//! NumPy's files.

use super::Result;
use super::load::Load;
use rustorch_formats::numpy::{Array, Npz, NpzWriter};
use rustorch_tensor::Tensor;
use std::collections::BTreeMap;
use std::path::Path;

/// Loads the array of a `.npy` file. A column-major one becomes a view of its transpose.
///
/// ```
/// use rustorch::Tensor;
/// use rustorch::files::{load_npy, save_npy};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("x.npy");
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// save_npy(&path, &x)?;
/// assert_eq!(load_npy(&path)?.to_string(), x.to_string());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file is no such array; see [`ErrorKind`](rustorch_formats::numpy::ErrorKind).
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    tensor(&Array::open(path)?, Load::Copied)
}

/// Maps the array of a `.npy` file into memory, else as [`load_npy`] does. Booleans and big-endian arrays are copied.
///
/// # Errors
/// As [`load_npy`].
///
/// # Safety
/// As long as the tensor lives, nobody overwrites the file in place or truncates it; see [`Array::open_mapped`].
pub unsafe fn load_npy_mapped(path: impl AsRef<Path>) -> Result<Tensor> {
    // SAFETY: that nobody changes the file is this function's contract.
    tensor(&unsafe { Array::open_mapped(path) }?, Load::Mapped)
}

/// Saves a tensor as a `.npy` file, which NumPy's `load` reads.
///
/// # Errors
/// If NumPy has no such dtype (`bf16`, block types), or the disk refuses.
pub fn save_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    Ok(array(tensor)?.write_file(path)?)
}

/// Loads the arrays of an `.npz` file by name.
///
/// ```
/// use rustorch::Tensor;
/// use rustorch::files::{load_npz, save_npz};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("xy.npz");
/// let (x, y) = (Tensor::new([1.0f32, 2.0])?, Tensor::new(7i64)?);
/// save_npz(&path, [("x", &x), ("y", &y)])?;
/// let arrays = load_npz(&path)?;
/// assert_eq!(arrays["x"].to_string(), "tensor([1., 2.])");
/// assert_eq!(arrays["y"].ndim(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file is no such archive; see [`ErrorKind`](rustorch_formats::numpy::ErrorKind).
pub fn load_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    let file = Npz::open(path)?;
    file.names().map(|name| Ok((name.to_owned(), tensor(&file.array(name)?, Load::Copied)?))).collect()
}

/// Saves tensors as an `.npz` file, as `numpy.savez` does.
///
/// # Errors
/// If NumPy has no dtype of a tensor, two have one name, or the disk refuses.
pub fn save_npz<'a, K: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (K, &'a Tensor)>,
) -> Result<()> {
    save(path.as_ref(), tensors, NpzWriter::new())
}

/// Saves tensors as a compressed `.npz` file, as `numpy.savez_compressed` does.
///
/// # Errors
/// As [`save_npz`].
pub fn save_npz_compressed<'a, K: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (K, &'a Tensor)>,
) -> Result<()> {
    save(path.as_ref(), tensors, NpzWriter::compressed())
}

fn save<'a, K: AsRef<str>>(
    path: &Path,
    tensors: impl IntoIterator<Item = (K, &'a Tensor)>,
    writer: NpzWriter<'_>,
) -> Result<()> {
    let arrays: Vec<_> =
        tensors.into_iter().map(|(name, tensor)| Ok((name, array(tensor)?))).collect::<Result<_>>()?;
    // Shortens the writer's lifetime to that of the arrays.
    let mut writer = writer;
    for (name, array) in &arrays {
        writer.array(name.as_ref(), array)?;
    }
    Ok(writer.write_file(path)?)
}

fn array(tensor: &Tensor) -> Result<Array> {
    Ok(Array::new(tensor.dims(), tensor.dtype(), tensor.to_bytes()?)?)
}

fn tensor(array: &Array, load: Load) -> Result<Tensor> {
    if !array.fortran_order() {
        return Ok(load.tensor(array.shared_bytes(), array.dtype(), array.shape())?);
    }
    let reversed: Vec<_> = array.shape().iter().rev().copied().collect();
    let order: Vec<_> = (0..reversed.len() as isize).rev().collect();
    Ok(load.tensor(array.shared_bytes(), array.dtype(), &reversed)?.permute(order)?)
}
