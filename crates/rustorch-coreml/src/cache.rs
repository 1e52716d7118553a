//! Compiled programs on disk: a folder each, bounded by their size, shared by processes.
//!
//! An entry is the folder `KEY` with `model.mlmodelc` and `files.json`, which lists the files of the former; it is made beside its place and
//! renamed, so that it is whole or not there. `KEY.lock` is locked for reading by whoever uses the entry, and for writing by whoever removes it
//! for want of room. `KEY.json` is what was found out of the program ([`Verdict`](crate::admission::Verdict)), and stays.

use crate::package::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Files up to this size are hashed when an entry is opened; of larger ones the size is compared.
const HASHED: u64 = 1 << 20;

/// What a compiled program is for: a package, a system, compute units.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The key of these parts.
    pub fn new(parts: &[&str]) -> Key {
        let mut hash = Sha256::new();
        for part in parts {
            // No two lists of parts are written alike.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Key(hex(&hash.finalize()[..16]))
    }

    /// A key that was printed, if it is one.
    pub fn parse(text: &str) -> Option<Key> {
        let is_key =
            text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        is_key.then(|| Key(text.to_owned()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A folder of compiled programs.
#[derive(Clone, Debug)]
pub struct ModelCache {
    folder: PathBuf,
    limit: u64,
}

/// A file of an entry.
#[derive(Serialize, Deserialize)]
struct Listed {
    path: PathBuf,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// A compiled program, kept from being removed while this lives.
#[derive(Debug)]
pub struct CachedModel {
    path: PathBuf,
    #[allow(dead_code, reason = "a lock, held for its drop")]
    in_use: File,
}

impl CachedModel {
    /// The compiled program.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl ModelCache {
    /// How many bytes entries may have together, by default: 8 GiB.
    pub const LIMIT: u64 = 8 << 30;

    /// The cache in a folder, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> ModelCache {
        ModelCache { folder: folder.into(), limit: ModelCache::LIMIT }
    }

    /// Sets how many bytes entries may have together: those that were used least recently are removed.
    pub fn with_limit(self, limit: u64) -> ModelCache {
        ModelCache { limit, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until nobody else, in this process or another, has this lock, and takes it.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let file = self.lock_file("admission")?;
        file.lock()?;
        Ok(file)
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(format!("{name}.lock")))
    }

    /// A path in the folder that nothing has.
    pub(crate) fn temporary(&self) -> PathBuf {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("work-{}-{n}", std::process::id()))
    }

    /// The compiled program of a key, if there is one. One whose files are not as they were written is removed.
    pub fn get(&self, key: &Key) -> Option<CachedModel> {
        let entry = self.folder.join(&key.0);
        if !entry.exists() {
            return None;
        }
        let in_use = self.lock_file(&key.0).ok()?;
        in_use.lock_shared().ok()?;
        match check(&entry) {
            Ok(()) => {
                // The time of its last use. Without it, it is removed sooner than it ought to be.
                let listed = OpenOptions::new().write(true).open(entry.join(LIST));
                let _ = listed.and_then(|file| file.set_modified(SystemTime::now()));
                Some(CachedModel { path: entry.join(MODEL), in_use })
            }
            Err(why) => {
                tracing::warn!("{}: {why}; the program is compiled again", entry.display());
                self.discard(&entry);
                None
            }
        }
    }

    /// Moves a compiled program into the cache, from the same disk, and removes others where there is no room for all. The caller has
    /// the [lock](Self::lock).
    pub(crate) fn put(&self, key: &Key, compiled: &Path) -> io::Result<CachedModel> {
        let made = self.temporary();
        fs::create_dir_all(&made)?;
        let whole = fs::rename(compiled, made.join(MODEL)).and_then(|()| {
            let files = serde_json::to_vec(&list(&made.join(MODEL))?)?;
            fs::write(made.join(LIST), files)
        });
        let entry = self.folder.join(&key.0);
        let in_use = whole.and_then(|()| {
            let in_use = self.lock_file(&key.0)?;
            in_use.lock_shared()?;
            // An entry that was found damaged.
            self.discard(&entry);
            fs::rename(&made, &entry)?;
            Ok(in_use)
        });
        if in_use.is_err() {
            // The error that led here is the one to report.
            let _ = fs::remove_dir_all(&made);
        }
        let cached = CachedModel { path: entry.join(MODEL), in_use: in_use? };
        self.make_room(key);
        Ok(cached)
    }

    /// Removes what processes that were killed have left.
    pub(crate) fn sweep(&self) {
        let Ok(folder) = fs::read_dir(&self.folder) else { return };
        let old = |item: &fs::DirEntry| {
            let age = item.metadata().and_then(|meta| meta.modified()).ok()?.elapsed().ok()?;
            Some(age > Duration::from_secs(24 * 3600))
        };
        for item in folder.filter_map(Result::ok) {
            if item.file_name().to_string_lossy().starts_with("work-") && old(&item) == Some(true) {
                // Tried again by the next one.
                let _ = fs::remove_dir_all(item.path()).or_else(|_| fs::remove_file(item.path()));
            }
        }
    }

    /// Removes an entry at once for whoever looks, whoever uses it.
    fn discard(&self, entry: &Path) {
        let away = self.temporary();
        if fs::rename(entry, &away).is_ok() {
            // What stays is removed by `sweep`.
            let _ = fs::remove_dir_all(&away);
        }
    }

    /// Removes entries that nobody uses, those first that were used least recently, until the others fit.
    fn make_room(&self, keep: &Key) {
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.used);
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries {
            if total <= self.limit {
                break;
            }
            if entry.key != *keep && self.remove(&entry.key) {
                total -= entry.bytes;
            }
        }
    }

    /// Removes the compiled program of a key, unless somebody uses it: whether it is gone.
    pub fn remove(&self, key: &Key) -> bool {
        let Ok(lock) = self.lock_file(&key.0) else { return false };
        // A process that is being started has the open files of the one that starts it, for a moment.
        let is_free = (0..20).any(|_| {
            let is_free = lock.try_lock().is_ok();
            if !is_free {
                std::thread::sleep(Duration::from_millis(5));
            }
            is_free
        });
        if !is_free {
            return false;
        }
        self.discard(&self.folder.join(&key.0));
        !self.folder.join(&key.0).exists()
    }

    /// What is in the cache.
    pub fn entries(&self) -> Vec<CacheEntry> {
        let Ok(folder) = fs::read_dir(&self.folder) else { return Vec::new() };
        let entries = folder.filter_map(|item| {
            let item = item.ok()?;
            let key = Key::parse(item.file_name().to_str()?)?;
            let list = item.path().join(LIST);
            let used = fs::metadata(&list).and_then(|list| list.modified()).ok()?;
            let files: Vec<Listed> = serde_json::from_slice(&fs::read(&list).ok()?).ok()?;
            Some(CacheEntry { key, bytes: files.iter().map(|file| file.bytes).sum(), used })
        });
        entries.collect()
    }
}

/// A compiled program of a [`ModelCache`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// What it is for.
    pub key: Key,
    /// Its size.
    pub bytes: u64,
    /// When it was made or used last.
    pub used: SystemTime,
}

const MODEL: &str = "model.mlmodelc";
const LIST: &str = "files.json";

/// The files of a folder and of those in it.
fn list(folder: &Path) -> io::Result<Vec<Listed>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        for item in fs::read_dir(folder.join(&inside))? {
            let item = item?;
            let path = inside.join(item.file_name());
            if item.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = item.metadata()?.len();
            let sha256 = if bytes <= HASHED { Some(hash(&item.path())?) } else { None };
            files.push(Listed { path, bytes, sha256 });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Whether an entry's files are those that it lists.
fn check(entry: &Path) -> Result<(), String> {
    let text = fs::read(entry.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let files: Vec<Listed> = serde_json::from_slice(&text).map_err(|error| format!("{LIST}: {error}"))?;
    if files.is_empty() {
        return Err(format!("{LIST} lists no files"));
    }
    for file in files {
        let path = entry.join(MODEL).join(&file.path);
        let damaged = |why: String| Err(format!("{}: {why}", file.path.display()));
        match fs::metadata(&path) {
            Ok(found) if found.len() != file.bytes => {
                return damaged(format!("{} bytes, {} were written", found.len(), file.bytes));
            }
            Ok(_) => {}
            Err(error) => return damaged(error.to_string()),
        }
        if let Some(expected) = &file.sha256
            && hash(&path).map_err(|error| error.to_string())? != *expected
        {
            return damaged("other bytes than were written".to_owned());
        }
    }
    Ok(())
}

fn hash(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(hex(&Sha256::digest(&bytes)))
}

/// Copies a folder with all that is in it to a place where nothing is.
#[cfg_attr(not(target_vendor = "apple"), allow(dead_code, reason = "for temporary folders of Core ML"))]
pub(crate) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        fs::create_dir(to.join(&inside))?;
        for item in fs::read_dir(from.join(&inside))? {
            let item = item?;
            let path = inside.join(item.file_name());
            if item.file_type()?.is_dir() {
                folders.push(path);
            } else {
                fs::copy(item.path(), to.join(&path))?;
            }
        }
    }
    Ok(())
}
