//! Opening files.

use super::parse::{Parsed, parse};
use super::split;
use super::tensor::TensorInfo;
use super::{Error, ErrorKind, Metadata, Result, Summary, TensorRef};
use crate::SharedBytes;
use crate::load::{Load, contents, map, read_file};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// An open GGUF file, whole or in parts.
///
/// [`open`](Self::open) reads all of it into memory. [`open_mapped`](Self::open_mapped) reads the metadata and the table of
/// tensors, and leaves data of tensors to the operating system, which reads it at its first use and shares it between processes.
#[derive(Debug)]
pub struct File {
    parts: Vec<Part>,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    index: HashMap<Arc<str>, usize>,
}

/// One file of those that a model is split into, or the only one.
#[derive(Clone, Debug)]
pub struct Part {
    path: Option<Arc<Path>>,
    version: u32,
    alignment: u32,
    bytes: SharedBytes,
}

impl Part {
    /// The path of the file; `None` for bytes in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of tensor data in the file, in bytes; a power of two.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// The whole file.
    pub fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }
}

impl File {
    /// Reads the file at `path`.
    ///
    /// Where it is one of the parts of a split file (`model-00001-of-00003.gguf`; any of them), opens all parts as one.
    ///
    /// # Errors
    /// The first of the malformations of [`ErrorKind`] that is met, with the path of the file that has it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_by(path.as_ref(), read_file)
    }

    /// Opens the file at `path` by mapping it into memory, else as [`open`](Self::open) does. Replacing the file by renaming
    /// another over it, as [`Writer::write_file`](super::Writer::write_file) does, is safe.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As long as this or any bytes or tensors of it live, nobody overwrites the file (or another part of the model) in place or
    /// truncates it, be it another process. The mapping shows such a change in the midst of a computation: values that Rust's
    /// rules take for constant become others, and reading a page that is gone ends the process (`SIGBUS`).
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: that nobody changes the file is this function's contract.
        Self::open_by(path.as_ref(), |file, len| unsafe { map(file, len) })
    }

    fn open_by(path: &Path, bytes: Load) -> Result<Self> {
        let given = Opened::open(path, bytes)?;
        match split::of(&given.parsed.metadata).map_err(|e| given.error(e.into_kind()))? {
            None => Self::join(vec![given]),
            Some(this) => {
                let mut parts = Vec::new();
                let mut given = Some(given);
                for (no, path) in split::sibling_paths(path, this)?.into_iter().enumerate() {
                    parts.push(match given.take_if(|_| no == this.no as usize) {
                        Some(part) => part,
                        None => Opened::open(&path, bytes)?,
                    });
                }
                Self::join(parts)
            }
        }
    }

    /// Reads a file that is in memory, such as one embedded by `include_bytes!`.
    ///
    /// Takes `Vec<u8>`, `Arc<[u8]>`, `&'static [u8]` or a [`SharedBytes`]; nothing is copied.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`ErrorKind::SplitInMemory`] for one of several parts.
    pub fn from_bytes(bytes: impl Into<SharedBytes>) -> Result<Self> {
        let given = Opened::parse(None, bytes.into())?;
        match split::of(&given.parsed.metadata)? {
            None => Self::join(vec![given]),
            Some(this) => Err(ErrorKind::SplitInMemory { count: this.count }.into()),
        }
    }

    /// Reads the parts of a split file, in order, from memory.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`ErrorKind::SplitPartsGiven`] where parts are missing or too many.
    pub fn from_parts<B: Into<SharedBytes>>(parts: impl IntoIterator<Item = B>) -> Result<Self> {
        let parts =
            parts.into_iter().map(|bytes| Opened::parse(None, bytes.into())).collect::<Result<_>>()?;
        Self::join(parts)
    }

    /// One file of `opened`, which are all of its parts, in order.
    fn join(opened: Vec<Opened>) -> Result<Self> {
        split::check(&opened)?;
        let total = opened.iter().map(|part| part.parsed.tensors.len()).sum();
        let (mut parts, mut tensors) = (Vec::with_capacity(opened.len()), Vec::with_capacity(total));
        let mut metadata = None;
        let mut index = HashMap::with_capacity(total);
        for (no, part) in opened.into_iter().enumerate() {
            let Opened { path, bytes, parsed } = part;
            let Parsed { version, alignment, metadata: of_part, tensors: found } = parsed;
            for mut info in found {
                info.part = no;
                if index.insert(Arc::clone(&info.name), tensors.len()).is_some() {
                    let name = info.name.to_string();
                    return Err(Error::at(path.as_deref(), ErrorKind::DuplicateTensor { name }));
                }
                tensors.push(info);
            }
            metadata.get_or_insert(of_part);
            parts.push(Part { path, version, alignment, bytes });
        }
        Ok(Self { parts, metadata: metadata.unwrap_or_default(), tensors, index })
    }

    /// The metadata; of a split file, that of the first part, which has all of it.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors in the order of the file, those of all parts one after the other.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorRef<'_>> + DoubleEndedIterator + Clone {
        self.tensors.iter().map(|info| TensorRef::new(info, &self.parts[info.part].bytes))
    }

    /// The tensor called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::MissingTensor`] where there is none.
    pub fn tensor(&self, name: &str) -> Result<TensorRef<'_>> {
        self.find_tensor(name).ok_or_else(|| {
            let path = self.parts.first().and_then(Part::path);
            Error::at(path, ErrorKind::MissingTensor { name: name.to_owned() })
        })
    }

    /// The tensor called `name`, if there is one.
    pub fn find_tensor(&self, name: &str) -> Option<TensorRef<'_>> {
        let info = &self.tensors[*self.index.get(name)?];
        Some(TensorRef::new(info, &self.parts[info.part].bytes))
    }

    /// The files that this one consists of; one, unless it is split.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Totals over the tensors.
    pub fn summary(&self) -> Summary {
        Summary::of(self.tensors())
    }
}

/// A file that is parsed and not yet joined with others.
pub(super) struct Opened {
    pub(super) path: Option<Arc<Path>>,
    pub(super) parsed: Parsed,
    bytes: SharedBytes,
}

impl Opened {
    fn open(path: &Path, bytes: Load) -> Result<Self> {
        let at = |kind| Error::at(Some(path), kind);
        let bytes =
            contents(path, bytes).map_err(|e| at(e.into()))?.ok_or_else(|| at(ErrorKind::NotAFile))?;
        Self::parse(Some(path), bytes)
    }

    fn parse(path: Option<&Path>, bytes: SharedBytes) -> Result<Self> {
        let mut parsed = parse(&bytes, 0).map_err(|kind| Error::at(path, kind))?;
        let path: Option<Arc<Path>> = path.map(Arc::from);
        parsed.metadata.set_path(path.clone());
        Ok(Self { path, parsed, bytes })
    }

    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::at(self.path.as_deref(), kind)
    }
}
