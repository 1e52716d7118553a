//! PyTorch's files.

use super::Result;
use super::load::Load;
use super::sharing::{span, storage_id};
use super::view::strided;
use rustorch_formats::torch::{File, Storage, TensorView, Writer};
use rustorch_tensor::{DType, Tensor};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What a PyTorch file holds: a tree of dicts, lists, scalars and tensors, with accessors such as
/// [`get`](rustorch_formats::torch::Value::get) and [`state_dict`](rustorch_formats::torch::Value::state_dict).
pub type Value = rustorch_formats::torch::Value<Tensor>;

/// Loads a PyTorch file (`torch.save`), without executing anything.
///
/// Tensors that share a storage share memory here, too; unusual views, such as overlapping windows, are copied. Those that required
/// gradients require them. All are made on the current device, wherever they were.
///
/// ```
/// use rustorch::Tensor;
/// use rustorch::files::{Value, load_torch, save_torch};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("checkpoint.pt");
/// let weight = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// let model = Value::dict([("weight", Value::Tensor(weight))]);
/// save_torch(&path, &Value::dict([("model", model), ("epoch", Value::Int(3))]))?;
///
/// let checkpoint = load_torch(&path)?;
/// assert_eq!(checkpoint.get("epoch")?.as_int(), Some(3));
/// for (name, tensor) in checkpoint.get("model")?.state_dict()? {
///     println!("{name}: {:?}", tensor.dims());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file is no such file, or asks for an object that is not supported, such as `os.system`; see
/// [`ErrorKind`](rustorch_formats::torch::ErrorKind).
pub fn load_torch(path: impl AsRef<Path>) -> Result<Value> {
    load(&File::open(path)?, Load::Copied)
}

/// Maps the tensors of a PyTorch file into memory, else as [`load_torch`] does. Booleans are copied.
///
/// # Errors
/// As [`load_torch`].
///
/// # Safety
/// As long as any of the tensors lives, nobody overwrites the file in place or truncates it; see [`File::open_mapped`].
pub unsafe fn load_torch_mapped(path: impl AsRef<Path>) -> Result<Value> {
    // SAFETY: that nobody changes the file is this function's contract.
    load(&unsafe { File::open_mapped(path) }?, Load::Mapped)
}

fn load(file: &File, load: Load) -> Result<Value> {
    // The memory of each storage, as a tensor of one dimension.
    let mut storages: HashMap<(*const Storage, DType), Tensor> = HashMap::new();
    file.value().try_map(&mut |view: &TensorView| {
        let (storage, dtype) = (view.storage(), view.dtype());
        let key = (Arc::as_ptr(storage), dtype);
        if let std::collections::hash_map::Entry::Vacant(place) = storages.entry(key) {
            let len = storage.bytes().len() / dtype.block_bytes();
            let bytes = storage
                .bytes()
                .slice(0..len * dtype.block_bytes())
                .unwrap_or_else(|| storage.bytes().clone());
            place.insert(load.tensor(bytes, dtype, &[len])?);
        }
        let tensor = if view.numel() == 0 {
            Tensor::from_bytes(&[], dtype, view.shape())?
        } else {
            match strided(&storages[&key], view.shape(), view.strides(), view.offset())? {
                Some(tensor) => tensor,
                None => Tensor::from_bytes(&view.to_bytes()?, dtype, view.shape())?,
            }
        };
        if view.requires_grad() {
            tensor.requires_grad_(true)?;
        }
        Ok(tensor)
    })
}

/// Saves a value as a PyTorch file, which `torch.load(path, weights_only=True)` reads.
///
/// Tensors that share memory do so there, too. Of a storage, the part that the saved tensors have is saved.
///
/// # Errors
/// If PyTorch has no dtype of a tensor (block types), containers are nested deeper than 100 levels, or the disk refuses.
pub fn save_torch(path: impl AsRef<Path>, value: &Value) -> Result<()> {
    let mut spans: HashMap<(usize, DType), std::ops::Range<usize>> = HashMap::new();
    value.try_map(&mut |tensor: &Tensor| -> Result<()> {
        let span = span(tensor);
        let shared = spans.entry((storage_id(tensor), tensor.dtype())).or_insert_with(|| span.clone());
        *shared = shared.start.min(span.start)..shared.end.max(span.end);
        Ok(())
    })?;
    let mut memory: HashMap<(usize, DType), Vec<u8>> = HashMap::new();
    value.try_map(&mut |tensor: &Tensor| -> Result<()> {
        let key = (storage_id(tensor), tensor.dtype());
        let (size, span) = (size(tensor)?, &spans[&key]);
        let bytes = tensor.to_bytes()?;
        let shared = memory.entry(key).or_insert_with(|| vec![0; span.len() * size]);
        if tensor.is_contiguous() {
            let start = (tensor.layout().offset() - span.start) * size;
            shared[start..start + bytes.len()].copy_from_slice(&bytes);
        } else {
            for (element, place) in bytes.chunks_exact(size).zip(tensor.layout().indices()) {
                shared[(place - span.start) * size..][..size].copy_from_slice(element);
            }
        }
        Ok(())
    })?;
    let storages: HashMap<_, _> = memory.into_iter().map(|(key, bytes)| (key, Storage::new(bytes))).collect();
    let value = value.try_map(&mut |tensor: &Tensor| -> Result<TensorView> {
        let key = (storage_id(tensor), tensor.dtype());
        let offset = tensor.layout().offset() - spans[&key].start;
        let view = TensorView::new(
            Arc::clone(&storages[&key]),
            tensor.dtype(),
            tensor.dims(),
            tensor.strides(),
            offset,
        )?;
        Ok(view.with_requires_grad(tensor.requires_grad()))
    })?;
    Ok(Writer::new(&value).write_file(path)?)
}

/// The bytes of an element.
fn size(tensor: &Tensor) -> Result<usize> {
    let dtype = tensor.dtype();
    dtype.size().ok_or_else(|| {
        let error: rustorch_formats::torch::Error =
            rustorch_formats::torch::ErrorKind::UnsupportedDType { dtype }.into();
        error.into()
    })
}
