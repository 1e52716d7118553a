//! Writing files.

use super::pickle::*;
use super::{Error, ErrorKind, MAX_DEPTH, Result, Storage, TensorView, Value, dtype};
use crate::atomic::AtomicFile;
use crate::zip::{Compression, ZipWriter};
use rustorch_core::DType;
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// The folder that everything is in.
const ROOT: &str = "archive";
/// The data of storages begins at a multiple of so many bytes.
const ALIGNMENT: u64 = 64;
/// How many items Python adds to a container at once.
const BATCH: usize = 1000;

/// Writes a PyTorch file, which `torch.load(path, weights_only=True)` reads.
///
/// Tensors that share a storage do so in the file.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    value: &'a Value<TensorView>,
}

impl<'a> Writer<'a> {
    /// A writer of a file that holds `value`.
    pub fn new(value: &'a Value<TensorView>) -> Self {
        Self { value }
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// [`ErrorKind::TooDeep`], [`ErrorKind::TwoDTypes`], [`ErrorKind::StringTooLong`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.write(Vec::new())?)
    }

    /// Writes the file, which replaces that at `path` when it is complete on the disk.
    ///
    /// # Errors
    /// As [`to_bytes`](Self::to_bytes), or if the disk refuses.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let at = |kind| Error::at(Some(path), kind);
        let mut file = AtomicFile::create(path).map_err(|e| at(e.into()))?;
        self.write(BufWriter::new(&mut file)).map_err(at)?;
        file.commit().map_err(|e| at(e.into()))
    }

    fn write<W: Write>(&self, out: W) -> Result<W, ErrorKind> {
        let mut pickler = Pickler { out: vec![PROTO, 2], storages: Vec::new(), places: HashMap::new() };
        pickler.value(self.value, 0)?;
        pickler.out.push(STOP);
        let mut zip = ZipWriter::new(out);
        let mut add = |name: &str, data: &[u8]| {
            zip.add(&format!("{ROOT}/{name}"), data, Compression::Stored, ALIGNMENT)
        };
        add("data.pkl", &pickler.out)?;
        add(".format_version", b"1")?;
        add(".storage_alignment", ALIGNMENT.to_string().as_bytes())?;
        add("byteorder", b"little")?;
        for (key, (storage, _)) in pickler.storages.iter().enumerate() {
            add(&format!("data/{key}"), storage.bytes())?;
        }
        add("version", b"3\n")?;
        Ok(zip.finish()?)
    }
}

/// Writes a pickle of protocol 2.
struct Pickler<'a> {
    out: Vec<u8>,
    /// The storages by key, each with the dtype of its elements.
    storages: Vec<(&'a Arc<Storage>, DType)>,
    /// The key of each storage by its address.
    places: HashMap<*const Storage, usize>,
}

impl<'a> Pickler<'a> {
    fn value(&mut self, value: &'a Value<TensorView>, depth: usize) -> Result<(), ErrorKind> {
        if depth > MAX_DEPTH {
            return Err(ErrorKind::TooDeep);
        }
        match value {
            Value::None => self.out.push(NONE),
            Value::Bool(value) => self.boolean(*value),
            Value::Int(value) => self.integer(*value),
            Value::Float(value) => {
                self.out.push(BINFLOAT);
                self.out.extend(value.to_be_bytes());
            }
            Value::Str(text) => self.string(text)?,
            Value::Bytes(bytes) => {
                self.global("_codecs", "encode");
                self.out.push(MARK);
                let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
                self.string(&text)?;
                self.string("latin1")?;
                self.out.extend([TUPLE, REDUCE]);
            }
            Value::List(items) => self.list(items, depth)?,
            Value::Tuple(items) => {
                self.out.push(MARK);
                for item in items {
                    self.value(item, depth + 1)?;
                }
                self.out.push(TUPLE);
            }
            Value::Set(items) => {
                self.global("__builtin__", "set");
                self.list(items, depth)?;
                self.out.extend([TUPLE1, REDUCE]);
            }
            Value::Dict(entries) => {
                self.out.push(EMPTY_DICT);
                for batch in entries.chunks(BATCH) {
                    self.out.push(MARK);
                    for (key, value) in batch {
                        self.value(key, depth + 1)?;
                        self.value(value, depth + 1)?;
                    }
                    self.out.push(SETITEMS);
                }
            }
            Value::DType(dtype) => {
                let (name, _) = dtype::names(*dtype).ok_or(ErrorKind::UnsupportedDType { dtype: *dtype })?;
                self.global("torch", name);
            }
            Value::Device(name) => {
                self.global("torch", "device");
                self.string(name)?;
                self.out.extend([TUPLE1, REDUCE]);
            }
            Value::Tensor(tensor) if tensor.is_parameter() => {
                self.global("torch._utils", "_rebuild_parameter");
                self.out.push(MARK);
                self.tensor(tensor, false)?;
                self.boolean(tensor.requires_grad());
                self.hooks();
                self.out.extend([TUPLE, REDUCE]);
            }
            Value::Tensor(tensor) => self.tensor(tensor, tensor.requires_grad())?,
        }
        Ok(())
    }

    fn list(&mut self, items: &'a [Value<TensorView>], depth: usize) -> Result<(), ErrorKind> {
        self.out.push(EMPTY_LIST);
        for batch in items.chunks(BATCH) {
            self.out.push(MARK);
            for item in batch {
                self.value(item, depth + 1)?;
            }
            self.out.push(APPENDS);
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &'a TensorView, requires_grad: bool) -> Result<(), ErrorKind> {
        let (storage, dtype) = (tensor.storage(), tensor.dtype());
        let (dtype_name, storage_type) = dtype::names(dtype).ok_or(ErrorKind::UnsupportedDType { dtype })?;
        let key = *self.places.entry(Arc::as_ptr(storage)).or_insert_with(|| {
            self.storages.push((storage, dtype));
            self.storages.len() - 1
        });
        let (_, first) = self.storages[key];
        if first != dtype {
            return Err(ErrorKind::TwoDTypes { first, second: dtype });
        }
        // A storage without a type is for dtypes that have none, and for bytes that are no whole elements.
        let size = dtype.block_bytes();
        let storage_type = storage_type.filter(|_| storage.bytes().len().is_multiple_of(size));
        let typed = storage_type.is_some();
        self.global("torch._utils", if typed { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" });
        self.out.extend([MARK, MARK]);
        self.string("storage")?;
        match storage_type {
            Some(name) => self.global("torch", name),
            None => self.global("torch.storage", "UntypedStorage"),
        }
        self.string(&key.to_string())?;
        self.string("cpu")?;
        let unit = if typed { size } else { 1 };
        self.integer(integer(storage.bytes().len() / unit)?);
        self.out.extend([TUPLE, BINPERSID]);
        self.integer(integer(tensor.offset())?);
        self.sizes(tensor.shape())?;
        self.sizes(tensor.strides())?;
        self.boolean(requires_grad);
        self.hooks();
        if !typed {
            self.global("torch", dtype_name);
        }
        self.out.extend([TUPLE, REDUCE]);
        Ok(())
    }

    fn sizes(&mut self, sizes: &[usize]) -> Result<(), ErrorKind> {
        self.out.push(MARK);
        for &size in sizes {
            self.integer(integer(size)?);
        }
        self.out.push(TUPLE);
        Ok(())
    }

    /// The hooks of a backward pass, of which there are none.
    fn hooks(&mut self) {
        self.global("collections", "OrderedDict");
        self.out.extend([EMPTY_TUPLE, REDUCE]);
    }

    fn global(&mut self, module: &str, name: &str) {
        self.out.push(GLOBAL);
        self.out.extend(format!("{module}\n{name}\n").bytes());
    }

    fn boolean(&mut self, value: bool) {
        self.out.push(if value { NEWTRUE } else { NEWFALSE });
    }

    fn integer(&mut self, value: i64) {
        if let Ok(value) = u8::try_from(value) {
            self.out.extend([BININT1, value]);
        } else if let Ok(value) = i32::try_from(value) {
            self.out.push(BININT);
            self.out.extend(value.to_le_bytes());
        } else {
            self.out.extend([LONG1, 8]);
            self.out.extend(value.to_le_bytes());
        }
    }

    fn string(&mut self, text: &str) -> Result<(), ErrorKind> {
        let len = u32::try_from(text.len()).map_err(|_| ErrorKind::StringTooLong { len: text.len() })?;
        self.out.push(BINUNICODE);
        self.out.extend(len.to_le_bytes());
        self.out.extend(text.as_bytes());
        Ok(())
    }
}

/// A size as Python's integer. Sizes of memory fit, and the lengths of empty tensors need not.
fn integer(size: usize) -> Result<i64, ErrorKind> {
    i64::try_from(size).map_err(|_| ErrorKind::TensorTooLarge { shape: vec![size] })
}
