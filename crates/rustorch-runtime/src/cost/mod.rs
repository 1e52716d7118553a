//! What devices cost, by measurement.
//!
//! A [`CostModel`](rustorch_core::CostModel) comes from the first of these that has one: whoever built the executor
//! ([`Builder::cost`](crate::Builder::cost)), the backend itself, a file of an earlier measurement, a measurement now.
//! None of this happens before a choice depends on it: with the processor alone, or under a policy that does not ask
//! for costs, nothing is measured and no file is read.

mod cache;
mod calibration;
mod measure;
mod probe;

pub use cache::{CostCache, cache_dir};
pub use calibration::Calibration;

use rustorch_core::{Backend, CostModel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What was found out in this process: several executors may share a backend.
static KNOWN: Mutex<Vec<(Weak<dyn Backend>, CostModel)>> = Mutex::new(Vec::new());

/// How long a device takes: as its backend says, or as was found earlier in this process or is in the cache, or by a
/// measurement now. A device that cannot be measured gets [`CostModel::UNKNOWN`].
pub fn cost_of(backend: &Arc<dyn Backend>, cache: Option<&CostCache>) -> CostModel {
    if let Some(given) = backend.cost() {
        return given.clone();
    }
    let weak = Arc::downgrade(backend);
    // The list is valid whatever happened under the lock.
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, model)) = known().iter().find(|(other, _)| other.ptr_eq(&weak)) {
        return model.clone();
    }
    let model = match cache.and_then(|cache| cache.load(&**backend)) {
        Some(earlier) if earlier.is_settled() => earlier.model,
        earlier => measured(&**backend, cache, earlier.map_or(0, |earlier| earlier.attempts)),
    };
    let mut known = known();
    known.retain(|(other, _)| other.strong_count() > 0);
    known.push((weak, model.clone()));
    model
}

fn measured(backend: &dyn Backend, cache: Option<&CostCache>, attempts: u32) -> CostModel {
    match Calibration::measure(backend) {
        Ok(mut calibration) => {
            calibration.attempts = attempts.saturating_add(1);
            if let Some(cache) = cache {
                cache.store(&calibration);
            }
            calibration.model
        }
        Err(fault) => {
            let device = backend.device();
            tracing::warn!(%device, "{fault}; it could not be measured, and is chosen last");
            CostModel::UNKNOWN
        }
    }
}
