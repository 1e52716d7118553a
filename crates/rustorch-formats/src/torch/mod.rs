//! PyTorch's files (`.pt`, `.pth`), read without executing anything, and written for `torch.load(weights_only=True)`.
//!
//! Such a file is a zip archive of a pickle, which describes objects, and the bytes of storages. The pickle is a program for a
//! stack machine; [`File`] has a machine of its own, which knows containers, scalars and tensors, and refuses by name whatever
//! else a file asks for (`os.system`). It reads tensors of all dense dtypes with the storages that they share, parameters, nested
//! dicts, lists, tuples and sets, and with these the checkpoints of models and optimizers. An `OrderedDict` or a `Counter`
//! becomes a dict without attributes.
//!
//! Files from before PyTorch 1.6, which are no archives, and TorchScript are refused with an error that says how to convert them.
//!
//! ```
//! use rustorch_core::DType;
//! use rustorch_formats::torch::{File, TensorView, Value, Writer};
//! # fn main() -> Result<(), rustorch_formats::torch::Error> {
//! let weight = TensorView::contiguous(DType::F32, &[2], [1.0f32, 2.0].map(f32::to_le_bytes).concat())?;
//! let model = Value::dict([("weight", Value::Tensor(weight))]);
//! let checkpoint = Value::dict([("model", model), ("epoch", Value::Int(3))]);
//!
//! let file = File::from_bytes(Writer::new(&checkpoint).to_bytes()?)?;
//! assert_eq!(file.value().get("epoch")?.as_int(), Some(3));
//! let (name, weight) = file.value().get("model")?.state_dict()?[0];
//! assert_eq!((name, weight.shape(), weight.dtype()), ("weight", &[2][..], DType::F32));
//! # Ok(())
//! # }
//! ```

mod dtype;
mod error;
mod file;
mod pickle;
mod tensor;
mod value;
mod writer;

pub use error::{Error, ErrorKind, Result};
pub use file::File;
pub use tensor::{Storage, TensorView};
pub use value::Value;
pub use writer::Writer;

/// The most dimensions that a tensor may have: PyTorch's limit.
pub const MAX_DIMS: usize = 64;
/// The longest pickle that is read, in bytes. Data of tensors is not in it.
pub const MAX_PICKLE_LEN: usize = 1 << 28;
/// The most opcodes of a pickle that are run.
pub const MAX_OPCODES: usize = 1 << 24;
/// The most items on the stack of the pickle machine, which is the longest tuple; lists and dicts are pickled in batches.
pub const MAX_STACK: usize = 1 << 15;
/// The deepest nesting of containers.
pub const MAX_DEPTH: usize = 100;
