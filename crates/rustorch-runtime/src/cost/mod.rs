//! Measured cost models of devices.
//!
//! A [`CostModel`](rustorch_core::CostModel) comes from the first of these that has one: whoever built the executor
//! ([`Builder::cost`](crate::Builder::cost)), the backend itself, a file of an earlier measurement, a measurement now.
//! None of this happens before a choice depends on it: with the CPU alone, or under a policy that does not ask
//! for costs, nothing is measured and no file is read.

mod busy;
mod cache;
mod calibration;
mod corner;
mod measure;
mod plausible;
mod probe;
mod values;

pub use cache::{CostCache, cache_dir};
pub use calibration::Calibration;

use rustorch_core::{Backend, CostModel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// What was found out in this process: several executors may share a backend.
static KNOWN: Mutex<Vec<(Weak<dyn Backend>, CostModel)>> = Mutex::new(Vec::new());

/// How long a device takes: as its backend says, or as was found earlier in this process or is in the cache, or by a
/// measurement now. A device that cannot be measured gets [`CostModel::UNKNOWN`].
pub fn cost_of(backend: &Arc<dyn Backend>, cache: Option<&CostCache>) -> CostModel {
    if let Some(given) = backend.cost() {
        return given.clone();
    }
    let weak = Arc::downgrade(backend);
    let known = known().iter().find(|(other, _)| other.ptr_eq(&weak)).map(|(_, model)| model.clone());
    known.unwrap_or_else(|| match cache.and_then(|cache| cache.load(&**backend)) {
        Some(earlier) if earlier.is_settled() => {
            remember(weak, &earlier.model);
            earlier.model
        }
        earlier => {
            measure_after(backend, cache, calibration::BUDGET, earlier.map_or(0, |earlier| earlier.attempts))
        }
    })
}

/// Measures a device now, whatever was known of it, in a few seconds at most, for this process and, unless something
/// [disturbed](Calibration::disturbed) the measurement, for the cache. A device that cannot be measured gets
/// [`CostModel::UNKNOWN`].
pub fn measure_again(backend: &Arc<dyn Backend>, cache: Option<&CostCache>) -> CostModel {
    measure_after(backend, cache, 4 * calibration::BUDGET, 0)
}

fn measure_after(
    backend: &Arc<dyn Backend>,
    cache: Option<&CostCache>,
    limit: Duration,
    attempts: u32,
) -> CostModel {
    let device = backend.device();
    let model = match Calibration::measure_within(&**backend, limit) {
        Ok(mut calibration) => {
            calibration.attempts = attempts.saturating_add(1);
            if let Some(cache) = cache {
                cache.store(&calibration);
            }
            calibration.model
        }
        Err(fault) => {
            tracing::warn!(%device, "{fault}; it could not be measured, and is chosen last");
            CostModel::UNKNOWN
        }
    };
    remember(Arc::downgrade(backend), &model);
    model
}

/// The list is valid whatever happened under the lock.
fn known() -> MutexGuard<'static, Vec<(Weak<dyn Backend>, CostModel)>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember(backend: Weak<dyn Backend>, model: &CostModel) {
    let mut known = known();
    known.retain(|(other, _)| other.strong_count() > 0 && !other.ptr_eq(&backend));
    known.push((backend, model.clone()));
}
