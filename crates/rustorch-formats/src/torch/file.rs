//! Opening files.

use super::{Error, ErrorKind, MAX_PICKLE_LEN, Result, Storage, TensorView, Value, pickle};
use crate::SharedBytes;
use crate::load::{Load, contents, map, read_file};
use crate::zip::Archive;
use std::path::Path;

/// How every zip archive begins.
const ARCHIVE_START: &[u8] = b"PK\x03\x04";
/// The pickle of a number by which files from before PyTorch 1.6 begin.
const LEGACY_START: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";
/// Where archives of `tar`, which the first versions of PyTorch wrote, have their name.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
const PICKLE: &str = "/data.pkl";

/// An open PyTorch file: a value, in which tensors are views of storages that lie in the file.
///
/// Storages of files that another program compressed expand when the file is opened, to at most 64 times the size of the file,
/// or 1 GiB if that is more.
#[derive(Clone, Debug)]
pub struct File {
    value: Value<TensorView>,
}

impl File {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The first of the malformations of [`ErrorKind`] that is met, with the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_by(path.as_ref(), read_file)
    }

    /// Opens the file at `path` by mapping it into memory, else as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As long as any tensors of the file live, nobody overwrites it in place or truncates it, be it another process. The mapping
    /// shows such a change in the midst of a computation: values that Rust's rules take for constant become others, and reading a
    /// page that is gone ends the process (`SIGBUS`).
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: that nobody changes the file is this function's contract.
        Self::open_by(path.as_ref(), |file, len| unsafe { map(file, len) })
    }

    fn open_by(path: &Path, load: Load) -> Result<Self> {
        let fail = |kind| Error::at(Some(path), kind);
        let bytes =
            contents(path, load).map_err(|e| fail(e.into()))?.ok_or_else(|| fail(ErrorKind::NotAFile))?;
        parse(bytes).map(|value| Self { value }).map_err(fail)
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<SharedBytes>) -> Result<Self> {
        Ok(Self { value: parse(bytes.into())? })
    }

    /// What the file holds.
    pub fn value(&self) -> &Value<TensorView> {
        &self.value
    }

    /// What the file holds, taken out of it. Tensors keep their memory alive.
    pub fn into_value(self) -> Value<TensorView> {
        self.value
    }
}

fn parse(file: SharedBytes) -> Result<Value<TensorView>, ErrorKind> {
    if !file.starts_with(ARCHIVE_START) {
        let (tar, magic) = TAR_MAGIC;
        if file.starts_with(LEGACY_START) || file.get(tar..).is_some_and(|rest| rest.starts_with(magic)) {
            return Err(ErrorKind::Legacy);
        }
        return Err(ErrorKind::NotAnArchive { found: file[..file.len().min(9)].to_vec() });
    }
    let archive = Archive::parse(file)?;
    // Everything is in one folder, which is called as the file was.
    let mut roots = archive.members().filter_map(|member| member.name.strip_suffix(PICKLE));
    let root = roots.find(|root| !root.contains('/')).ok_or(ErrorKind::NoPickle)?.to_owned();
    if archive.find(&format!("{root}/constants.pkl")).is_some() {
        return Err(ErrorKind::TorchScript);
    }
    if let Some(order) = archive.find(&format!("{root}/byteorder"))
        && *archive.read(order, false)? == *b"big"
    {
        return Err(ErrorKind::BigEndian);
    }
    let pickle = archive.find(&format!("{root}{PICKLE}")).ok_or(ErrorKind::NoPickle)?;
    if pickle.size > MAX_PICKLE_LEN {
        return Err(ErrorKind::PickleTooLong { len: pickle.size as u64 });
    }
    let pickle = archive.read(pickle, true)?;
    pickle::run(&pickle, &mut |key, dtype, len| {
        let missing = || ErrorKind::MissingStorage { key: key.to_owned() };
        let member = archive.find(&format!("{root}/data/{key}")).ok_or_else(missing)?;
        let expected = len.saturating_mul(dtype.map_or(1, |dtype| dtype.block_bytes() as u64));
        let actual = member.size as u64;
        if actual != expected {
            return Err(ErrorKind::StorageSize { key: key.to_owned(), expected, actual });
        }
        // As PyTorch, without reading all of it for its checksum.
        Ok(Storage::new(archive.read(member, false)?))
    })
}
