//! Hashes the sources of this crate, so that measurements of older kernels do not count.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::Result;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut hasher = DefaultHasher::new();
    hash(Path::new("src"), &mut hasher)?;
    println!("cargo::rustc-env=KERNEL_SOURCES={}", hasher.finish());
    Ok(())
}

/// Adds a file, or the files of a folder in the order of their names.
fn hash(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    if path.is_file() {
        hasher.write(&fs::read(path)?);
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| hash(entry, hasher))
}
