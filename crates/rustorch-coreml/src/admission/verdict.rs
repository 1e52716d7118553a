//! What was found out of a program, on disk.

use super::{Key, ModelCache};
use crate::runtime::{ComputeUnits, PlanShares};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;

/// What was found out of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Why it is refused; `None` if it is admitted.
    pub refused: Option<String>,
    /// Its operations, in a line.
    pub program: String,
    /// On which system.
    pub system: String,
    /// What Core ML was allowed to use.
    pub units: ComputeUnits,
    /// Whether it computes in `f16`.
    pub f16: bool,
    /// What Core ML's own plan prefers; `None` if the system does not tell, or it did not come so far.
    pub plan: Option<PlanShares>,
    /// The largest difference from the CPU's results, relative to the largest of these in its output.
    pub error: Option<f64>,
    /// Seconds of a prediction, the median.
    pub seconds: Option<f64>,
    /// Seconds without Core ML, the median.
    pub seconds_without: Option<f64>,
    /// Whether all outputs were written where Core ML was asked to; else they are copied.
    pub in_place: Option<bool>,
}

fn path(cache: &ModelCache, key: &Key) -> PathBuf {
    cache.folder().join(format!("{key}.json"))
}

/// What was found out of a key's program. What cannot be read is found out again.
pub(super) fn load(cache: &ModelCache, key: &Key) -> Option<Verdict> {
    let path = path(cache, key);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!("{}: {error}; the program is examined again", path.display());
            return None;
        }
    };
    match serde_json::from_slice(&text) {
        Ok(verdict) => Some(verdict),
        Err(error) => {
            tracing::warn!("{}: {error}; the program is examined again", path.display());
            None
        }
    }
}

/// Keeps a verdict, whole or not at all.
pub(super) fn store(cache: &ModelCache, key: &Key, verdict: &Verdict) -> io::Result<()> {
    let temporary = cache.temporary();
    fs::create_dir_all(cache.folder())?;
    let written = fs::write(&temporary, serde_json::to_vec_pretty(verdict)?)
        .and_then(|()| fs::rename(&temporary, path(cache, key)));
    if written.is_err() {
        // The error that led here is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Every program that was examined, with what was found out, sorted by key.
pub fn verdicts(cache: &ModelCache) -> Vec<(Key, Verdict)> {
    let Ok(folder) = fs::read_dir(cache.folder()) else { return Vec::new() };
    let keys = folder.filter_map(|item| {
        let name = item.ok()?.file_name();
        Key::parse(name.to_str()?.strip_suffix(".json")?)
    });
    let mut found: Vec<_> = keys.filter_map(|key| Some((key.clone(), load(cache, &key)?))).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Forgets what was found out of a program, so that it is examined again, and removes the compiled program if nobody uses it. Whether
/// there was something to forget.
///
/// # Errors
/// If the disk fails.
pub fn forget(cache: &ModelCache, key: &Key) -> io::Result<bool> {
    match fs::remove_file(path(cache, key)) {
        Ok(()) => {
            cache.remove(key);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
