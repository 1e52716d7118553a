//! On-disk cache of compiled kernels, for drivers whose compilers are slow.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// What the files begin with; its last byte is the version of the format.
const MAGIC: &[u8; 8] = b"RTkern\0\x01";
/// The bytes before the key: magic, length of key, length of value, checksum of value.
const HEADER: usize = 32;
/// More than this in the folder, and the files written first go until half of it is left.
const MOST_BYTES: u64 = 512 << 20;

/// A folder of compiled kernels.
///
/// The key is everything the value depends on (source, compiler, options, device) and is stored in the file, so hash
/// collisions cannot return another kernel. Damaged files are ignored. Several processes may share a folder.
#[derive(Clone, Debug)]
pub struct KernelCache {
    folder: PathBuf,
}

impl KernelCache {
    /// The cache in a folder, created on first use. Deletes the oldest files if there are too many.
    pub fn open(folder: impl Into<PathBuf>) -> KernelCache {
        let cache = KernelCache { folder: folder.into() };
        cache.prune(MOST_BYTES);
        cache
    }

    /// The cache of this name in [`rustorch_core::cache_dir`]; `None` where there is no such folder.
    pub fn in_cache_dir(name: &str) -> Option<KernelCache> {
        rustorch_core::cache_dir().map(|dir| KernelCache::open(dir.join(name)))
    }

    /// What was last stored under the key.
    pub fn load(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        let file = match fs::read(&path) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::debug!(path = %path.display(), %error, "a compiled kernel cannot be read");
                }
                return None;
            }
        };
        let value = parse(&file, key);
        if value.is_none() {
            tracing::debug!(path = %path.display(), "a compiled kernel is damaged or of another key: ignored");
        }
        value.map(<[u8]>::to_vec)
    }

    /// Stores a value under a key. Failures are logged, not returned: they only cost time later.
    pub fn store(&self, key: &str, value: &[u8]) {
        let path = self.path(key);
        if let Err(error) = self.write(&path, key, value) {
            tracing::debug!(path = %path.display(), %error, "a compiled kernel cannot be kept");
        }
    }

    /// Where a key's value lies.
    pub fn path(&self, key: &str) -> PathBuf {
        // Two hashes of different seeds, since one of 64 bits may meet another.
        let (a, b) = (fnv(key.as_bytes(), 0xcbf2_9ce4_8422_2325), fnv(key.as_bytes(), 0x9ae1_6a3b_2f90_404f));
        self.folder.join(format!("{a:016x}{b:016x}.kernel"))
    }

    /// Writes beside and renames, so that no one ever reads half a file.
    fn write(&self, path: &Path, key: &str, value: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(&self.folder)?;
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{}-{unique}.tmp", std::process::id()));
        let result = (|| {
            let mut file = fs::File::create(&beside)?;
            file.write_all(MAGIC)?;
            for number in
                [key.len() as u64, value.len() as u64, fnv(value, fnv(key.as_bytes(), 0xcbf2_9ce4_8422_2325))]
            {
                file.write_all(&number.to_le_bytes())?;
            }
            file.write_all(key.as_bytes())?;
            file.write_all(value)?;
            drop(file);
            fs::rename(&beside, path)
        })();
        if result.is_err() {
            // Nothing more can be done about a leftover; the error that matters is the first.
            let _ = fs::remove_file(&beside);
        }
        result
    }

    /// Deletes the oldest files until half of `most` is left, if there is more than `most`.
    fn prune(&self, most: u64) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter(|entry| {
                Path::new(&entry.file_name()).extension().is_some_and(|e| e == "kernel" || e == "tmp")
            })
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= most {
            return;
        }
        files.sort();
        for (_, bytes, path) in files {
            if total <= most / 2 {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// The value in a file's bytes, if they are whole and of this key.
fn parse<'a>(file: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let (header, rest) = file.split_at_checked(HEADER)?;
    let (magic, numbers) = header.split_at_checked(MAGIC.len())?;
    let number = |i: usize| -> Option<u64> {
        Some(u64::from_le_bytes(numbers.get(8 * i..8 * i + 8)?.try_into().ok()?))
    };
    let (found, value) = rest.split_at_checked(key.len())?;
    let whole = magic == MAGIC
        && number(0)? == key.len() as u64
        && found == key.as_bytes()
        && number(1)? == value.len() as u64
        && number(2)? == fnv(value, fnv(found, 0xcbf2_9ce4_8422_2325));
    whole.then_some(value)
}

/// FNV-1a of 64 bits, from a seed: the same in every process and version.
fn fnv(bytes: &[u8], seed: u64) -> u64 {
    bytes.iter().fold(seed, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> KernelCache {
        let folder = std::env::temp_dir().join(format!("rustorch-kernels-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        KernelCache::open(folder)
    }

    #[test]
    fn keeps_what_it_is_given() {
        let cache = cache("keeps");
        assert_eq!(cache.load("a"), None);
        cache.store("a", b"one");
        cache.store("b", b"");
        assert_eq!(cache.load("a").as_deref(), Some(&b"one"[..]));
        assert_eq!(cache.load("b").as_deref(), Some(&b""[..]));
        cache.store("a", b"two");
        assert_eq!(cache.load("a").as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 2, "nothing is left beside the values");
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn takes_no_damaged_file_and_no_other_key() {
        let cache = cache("damage");
        cache.store("key", b"value of the key");
        let path = cache.path("key");
        let whole = fs::read(&path).unwrap();
        for i in 0..whole.len() {
            let mut bad = whole.clone();
            bad[i] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert_eq!(cache.load("key"), None, "byte {i}");
            fs::write(&path, &whole[..i]).unwrap();
            assert_eq!(cache.load("key"), None, "{i} bytes");
        }
        // As if the hashes of two keys were one.
        fs::write(cache.path("yek"), &whole).unwrap();
        assert_eq!(cache.load("yek"), None);
        fs::write(&path, &whole).unwrap();
        assert!(cache.load("key").is_some());
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn forgets_the_oldest() {
        let cache = cache("oldest");
        for i in 0..8 {
            cache.store(&format!("key {i}"), &[0; 1000]);
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + i);
            let file = fs::File::options().write(true).open(cache.path(&format!("key {i}"))).unwrap();
            file.set_modified(time).unwrap();
        }
        cache.prune(9000);
        assert!((0..8).all(|i| cache.load(&format!("key {i}")).is_some()), "not too many");
        cache.prune(8000);
        let left: Vec<bool> = (0..8).map(|i| cache.load(&format!("key {i}")).is_some()).collect();
        assert_eq!(left, [false, false, false, false, false, true, true, true]);
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn is_silent_where_nothing_can_be_written() {
        let cache = KernelCache::open("/dev/null/no/folder");
        cache.store("a", b"one");
        assert_eq!(cache.load("a"), None);
    }
}
