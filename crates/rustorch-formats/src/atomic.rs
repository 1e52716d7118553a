//! Files that appear whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file under a temporary name beside its target, which it replaces on [`commit`](Self::commit). Dropped before that, it is removed.
///
/// ```
/// use rustorch_formats::AtomicFile;
/// use std::io::Write;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.txt");
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"whole")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"whole");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    temporary: PathBuf,
    file: fs::File,
    committed: bool,
}

impl AtomicFile {
    /// Begins a file that is to replace `target`.
    ///
    /// # Errors
    /// If the path names no file, or a file beside it cannot be created.
    pub fn create(target: &Path) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if target.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path does not end in a file name"));
        }
        loop {
            let n = COUNTER.fetch_add(1, Ordering::Relaxed);
            // In the same directory, since a rename does not cross file systems.
            let temporary = target.with_file_name(format!(".rustorch-{}-{n}.tmp", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    return Ok(Self { target: target.to_path_buf(), temporary, file, committed: false });
                }
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes sure that the contents are on the disk and gives the file its name.
    ///
    /// # Errors
    /// If that fails; the target is then as it was.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.committed = true;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing can be done about a failure here, and the error that led here is the one to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
