//! `.npz` files: zip archives of `.npy` files.

use super::{Array, Error, ErrorKind, Result};
use crate::SharedBytes;
use crate::atomic::AtomicFile;
use crate::load::{Load, contents, map, read_file};
use crate::zip::{Archive, Compression, ZipWriter};
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The end of the names of arrays in an archive.
const SUFFIX: &str = ".npy";

/// An open `.npz` file: arrays by name.
///
/// Stored arrays are ranges of the file; compressed ones expand when they are asked for. What compressed arrays expand to
/// together is limited to 64 times the size of the file, or 1 GiB if that is more.
#[derive(Clone, Debug)]
pub struct Npz {
    archive: Archive,
    path: Option<PathBuf>,
}

impl Npz {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Zip`] with the first malformation that is met, with the path. Arrays are checked by [`array`](Self::array).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_by(path.as_ref(), read_file)
    }

    /// Opens the file at `path` by mapping it into memory, else as [`open`](Self::open) does. Checksums of stored arrays are
    /// compared when these are asked for, which reads all of them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As [`Array::open_mapped`].
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: that nobody changes the file is this function's contract.
        Self::open_by(path.as_ref(), |file, len| unsafe { map(file, len) })
    }

    fn open_by(path: &Path, load: Load) -> Result<Self> {
        let fail = |kind| Error::at(Some(path), kind);
        let bytes =
            contents(path, load).map_err(|e| fail(e.into()))?.ok_or_else(|| fail(ErrorKind::NotAFile))?;
        let archive = Archive::parse(bytes).map_err(|e| fail(e.into()))?;
        Ok(Self { archive, path: Some(path.to_path_buf()) })
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: impl Into<SharedBytes>) -> Result<Self> {
        let archive = Archive::parse(bytes.into()).map_err(ErrorKind::from)?;
        Ok(Self { archive, path: None })
    }

    /// The names of the arrays, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.members().filter_map(|member| member.name.strip_suffix(SUFFIX))
    }

    /// The array called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::MissingArray`] where there is none, [`ErrorKind::Member`] with the malformation where it cannot be read.
    pub fn array(&self, name: &str) -> Result<Array> {
        let fail = |kind| Error::at(self.path.as_deref(), kind);
        let Some(member) = self.archive.find(&format!("{name}{SUFFIX}")) else {
            return Err(fail(ErrorKind::MissingArray { name: name.to_owned() }));
        };
        let array = self.archive.read(member, true).map_err(ErrorKind::from).and_then(Array::parse);
        array.map_err(|kind| fail(ErrorKind::Member { name: name.to_owned(), kind: Box::new(kind) }))
    }
}

/// Writes `.npz` files.
#[derive(Debug, Default)]
pub struct NpzWriter<'a> {
    compression: Compression,
    arrays: Vec<(String, &'a Array)>,
    names: HashSet<String>,
}

impl<'a> NpzWriter<'a> {
    /// A writer of a file whose arrays are stored as they are, as by `numpy.savez`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A writer of a file whose arrays are compressed, as by `numpy.savez_compressed`.
    pub fn compressed() -> Self {
        Self { compression: Compression::Deflated, ..Self::default() }
    }

    /// Adds an array.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateArray`] where there is one of this name.
    pub fn array(&mut self, name: &str, array: &'a Array) -> Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Err(ErrorKind::DuplicateArray { name: name.to_owned() }.into());
        }
        self.arrays.push((name.to_owned(), array));
        Ok(())
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// If a name is longer than zip archives allow.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.write(Vec::new())?)
    }

    /// Writes the file, which replaces that at `path` when it is complete on the disk.
    ///
    /// # Errors
    /// If the disk refuses, or a name is longer than zip archives allow.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let at = |kind| Error::at(Some(path), kind);
        let mut file = AtomicFile::create(path).map_err(|e| at(e.into()))?;
        self.write(BufWriter::new(&mut file)).map_err(at)?;
        file.commit().map_err(|e| at(e.into()))
    }

    fn write<W: Write>(&self, out: W) -> Result<W, ErrorKind> {
        let mut zip = ZipWriter::new(out);
        for (name, array) in &self.arrays {
            let file = array.to_bytes().map_err(Error::into_kind)?;
            zip.add(&format!("{name}{SUFFIX}"), &file, self.compression, 1)?;
        }
        Ok(zip.finish()?)
    }
}
