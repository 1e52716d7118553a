//! The file that compiled kernels are kept in.

use std::hash::Hasher;
use std::path::Path;
use std::{fs, io, process};

/// What the file begins with; changes with its layout: this, a hash of the rest, the rest.
const MAGIC: [u8; 8] = *b"RTWGPUP1";

/// Replaces the file in one step: readers see the old or the new contents.
pub(super) fn replace(file: &Path, data: &[u8]) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let fresh = file.with_extension(format!("{}.new", process::id()));
    let contents = [&MAGIC[..], &hash(data).to_le_bytes(), data].concat();
    fs::write(&fresh, contents).and_then(|()| fs::rename(&fresh, file)).inspect_err(|_| {
        // It is of no use; that it cannot be removed either changes nothing.
        let _ = fs::remove_file(&fresh);
    })
}

/// The contents of a file, if it is whole.
pub(super) fn unwrap(file: &[u8]) -> Option<&[u8]> {
    let (sum, data) = file.strip_prefix(&MAGIC)?.split_first_chunk()?;
    (hash(data) == u64::from_le_bytes(*sum)).then_some(data)
}

/// A hash that is the same in every process of a build of the standard library; where builds differ, kernels are compiled.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    #[expect(
        deprecated,
        reason = "the only hasher of the standard library with fixed keys that can be named"
    )]
    let mut hasher = std::hash::SipHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/kernels");
        replace(&file, b"compiled").unwrap();
        let mut whole = fs::read(&file).unwrap();
        assert_eq!(unwrap(&whole), Some(&b"compiled"[..]));
        for length in 0..whole.len() {
            assert_eq!(unwrap(&whole[..length]), None, "{length} bytes");
        }
        *whole.last_mut().unwrap() ^= 1;
        assert_eq!(unwrap(&whole), None);
        // Nothing but the file is left.
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
