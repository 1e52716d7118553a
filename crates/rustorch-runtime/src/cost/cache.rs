//! Calibrations on disk.

use super::calibration::Calibration;
use rustorch_core::Backend;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where RusTorch keeps what it can find out again: `RUSTORCH_CACHE_DIR`, else a folder `rustorch` where the platform
/// has its caches (`XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`). `None` where the variables of
/// the platform are missing.
pub fn cache_dir(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let get = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = get("RUSTORCH_CACHE_DIR") {
        return Some(dir);
    }
    let base = if cfg!(windows) {
        get("LOCALAPPDATA")?
    } else if cfg!(target_vendor = "apple") {
        get("HOME")?.join("Library/Caches")
    } else {
        // A relative path is to be ignored, says the specification.
        match get("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()) {
            Some(dir) => dir,
            None => get("HOME")?.join(".cache"),
        }
    };
    Some(base.join("rustorch"))
}

/// A folder with the measurements of devices, one file for each device, driver and version of RusTorch.
///
/// It is a convenience: what cannot be read is measured again, and what cannot be written is lost, with a warning.
#[derive(Clone, Debug)]
pub struct CostCache {
    dir: PathBuf,
    keeps_disturbed: bool,
}

impl CostCache {
    /// A cache in a folder, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> CostCache {
        CostCache { dir: dir.into(), keeps_disturbed: false }
    }

    /// Keeps what was measured beside other programs, too: for machines that are never idle, where every process would
    /// measure anew.
    pub fn keep_disturbed(self) -> CostCache {
        CostCache { keeps_disturbed: true, ..self }
    }

    /// What an earlier measurement of this device by this version of RusTorch found, if there is one.
    pub fn load(&self, backend: &dyn Backend) -> Option<Calibration> {
        let capability = backend.capability();
        let version = env!("CARGO_PKG_VERSION");
        let path = self.path([backend.device().kind().name(), &capability.name, &capability.driver, version]);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("{}: {error}; the device is measured again", path.display());
                return None;
            }
        };
        match Calibration::from_json(&text) {
            // Another one only if two names have one hash.
            Ok(calibration) => calibration.fits(backend).then_some(calibration),
            Err(error) => {
                tracing::warn!("{}: {error}; the device is measured again", path.display());
                None
            }
        }
    }

    /// Keeps a measurement, unless something [disturbed](Calibration::disturbed) it.
    pub fn store(&self, calibration: &Calibration) {
        let Calibration { family, name, driver, version, .. } = calibration;
        if let Some(why) = calibration.disturbed.as_ref().filter(|_| !self.keeps_disturbed) {
            tracing::info!(device = name, "measured for this process only: {why}");
            return;
        }
        let path = self.path([family, name, driver, version]);
        if let Err(error) = write(&path, calibration.to_json().as_bytes()) {
            tracing::warn!("{}: {error}; the next program measures the device again", path.display());
        }
    }

    fn path(&self, key: [&str; 4]) -> PathBuf {
        // FNV-1a, with the parts kept apart.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in key.iter().flat_map(|part| part.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.dir.join(format!("cost-{}-{hash:016x}.json", key[0]))
    }
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{n}.tmp", std::process::id()));
    let result = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // Nothing can be done about a failure here, and the error that led here is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    result
}
