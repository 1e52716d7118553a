//! Compiled kernels that outlive the process.
//!
//! Where wgpu has a pipeline cache (Vulkan), its contents are kept in a file: read when a device is opened, written some
//! time after the last new kernel and when the device is closed. The file is only a shortcut: whatever is wrong with it,
//! kernels are compiled.

mod file;

use crate::faults::lock;
use file::{hash, replace, unwrap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A cache of compiled kernels, with the file that it is kept in.
pub(crate) struct Cache {
    kept: Option<(wgpu::PipelineCache, PathBuf)>,
    /// When the oldest kernel came that is not in the file.
    unsaved: Mutex<Option<Instant>>,
}

/// How long kernels wait for company before they are written.
const QUIET: Duration = Duration::from_secs(2);

impl Cache {
    /// The cache of a device. `folder` is where files are; none keeps nothing.
    pub(crate) fn open(
        wgpu: &wgpu::Device,
        info: &wgpu::AdapterInfo,
        driver: &str,
        folder: Option<&Path>,
    ) -> Cache {
        let kept =
            folder.filter(|_| wgpu.features().contains(wgpu::Features::PIPELINE_CACHE)).and_then(|folder| {
                // wgpu's key tells vendors and devices apart; two drivers of one device must not overwrite each other's file.
                let key = wgpu::util::pipeline_cache_key(info)?;
                let file = folder.join("wgpu").join(format!("{key}_{:016x}", hash(driver.as_bytes())));
                let data = fs::read(&file).ok().and_then(|file| unwrap(&file).map(<[u8]>::to_vec));
                // SAFETY: the data is what `get_data` returned for a device of this key, whole, which the hash proves; the
                // driver checks that its version is the one that wrote it, and starts anew where not.
                let cache = unsafe {
                    wgpu.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                        label: None,
                        data: data.as_deref(),
                        fallback: true,
                    })
                };
                Some((cache, file))
            });
        Cache { kept, unsaved: Mutex::new(None) }
    }

    /// The handle for making pipelines.
    pub(crate) fn pipelines(&self) -> Option<&wgpu::PipelineCache> {
        self.kept.as_ref().map(|(cache, _)| cache)
    }

    /// Records a new kernel.
    pub(crate) fn grew(&self) {
        if self.kept.is_some() {
            lock(&self.unsaved).get_or_insert_with(Instant::now);
        }
    }

    /// Writes the file if it misses kernels for some time. Called when the program waits anyway.
    pub(crate) fn save_if_quiet(&self) {
        let mut unsaved = lock(&self.unsaved);
        if unsaved.is_some_and(|since| since.elapsed() >= QUIET) {
            *unsaved = None;
            drop(unsaved);
            self.save();
        }
    }

    fn save(&self) {
        let Some((cache, file)) = &self.kept else { return };
        let Some(data) = cache.get_data() else { return };
        if let Err(error) = replace(file, &data) {
            tracing::warn!(file = %file.display(), %error, "compiled kernels were not kept");
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if lock(&self.unsaved).take().is_some() {
            self.save();
        }
    }
}
