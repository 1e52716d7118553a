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

/// Reads the file, a large one by several threads: one alone is bound by clearing and copying pages.
pub(crate) fn read_file(file: std::fs::File, len: usize) -> io::Result<SharedBytes> {
    #[cfg(unix)]
    if len >= 2 * PART {
        return SharedBytes::fill(len, |pages| read_parts(&file, pages));
    }
    SharedBytes::read(file, len)
}

/// The least that is worth a thread.
#[cfg(unix)]
const PART: usize = 16 << 20;

#[cfg(unix)]
fn read_parts(file: &std::fs::File, pages: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    // Parts begin on huge pages, of which no two threads then clear the same.
    let part = pages.len().div_ceil(threads).max(PART).next_multiple_of(2 << 20);
    std::thread::scope(|scope| {
        let reads: Vec<_> = pages
            .chunks_mut(part)
            .enumerate()
            .map(|(i, pages)| scope.spawn(move || file.read_exact_at(pages, (i * part) as u64)))
            .collect();
        // The threads have nothing in them that panics; if one did, so does this one.
        reads
            .into_iter()
            .try_for_each(|read| read.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
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
