//! How files come into memory.

use crate::SharedBytes;
use memmap2::Mmap;
use std::io;
use std::path::Path;

/// How the bytes of a file, of which there are so many, come into memory.
pub(crate) type Load = fn(std::fs::File, usize) -> io::Result<SharedBytes>;

/// The bytes of the file at `path`; `None` where it is a directory, a pipe or a device.
pub(crate) fn contents(path: &Path, load: Load) -> io::Result<Option<SharedBytes>> {
    // Asked of the path, since opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let len = usize::try_from(metadata.len()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    if len == 0 {
        // Some systems refuse to map nothing; the parsers have the right errors for it.
        return Ok(Some(SharedBytes::from(&[])));
    }
    load(std::fs::File::open(path)?, len).map(Some)
}

/// Maps the file.
///
/// # Safety
/// Nobody changes the file as long as the bytes live; see [`gguf::File::open_mapped`](crate::gguf::File::open_mapped).
pub(crate) unsafe fn map(file: std::fs::File, _len: usize) -> io::Result<SharedBytes> {
    // SAFETY: the mapping is read-only, and that nobody else writes to the file is this function's contract. What parsers need
    // later (metadata, names, ranges) is copied out, and ranges are checked against the length of the mapping, which does not
    // change: a broken promise could not lead beyond it.
    Ok(unsafe { Mmap::map(&file)? }.into())
}
