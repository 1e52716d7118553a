//! What people are told about the devices that compute.

use rustorch::core::Device;
use rustorch::llm::LanguageModel;
use rustorch::llm::model::Stage;
use rustorch::runtime::HybridExecutor;
use std::collections::BTreeSet;

/// The devices that hold a model's layers, and hence compute them: `vulkan:0 (llvmpipe), 12 of 12 layers`.
pub(crate) fn layers(executor: &HybridExecutor, model: &LanguageModel) -> String {
    let blocks = model.model().config().blocks;
    let holders: Vec<BTreeSet<Device>> =
        (0..blocks).map(|block| holders(executor, model, Stage::Block(block))).collect();
    let all: BTreeSet<Device> = holders.iter().flatten().copied().collect();
    // The fallback order, so that the fastest stands first.
    let described =
        executor.memory().devices().into_iter().filter(|device| all.contains(device)).map(|device| {
            let on = holders.iter().filter(|holders| holders.contains(&device));
            let (whole, part): (Vec<_>, Vec<_>) = on.partition(|holders| holders.len() == 1);
            let name = executor.backend(device).map(|b| b.capability().name.clone()).unwrap_or_default();
            let share = match (whole.len(), part.len()) {
                (n, 0) if device.is_cpu() && n == blocks => String::new(),
                (n, 0) => format!(", {n} of {blocks} layers"),
                (0, n) => format!(", parts of {n} layers"),
                (n, m) => format!(", {n} of {blocks} layers and parts of {m}"),
            };
            format!("{device} ({name}){share}")
        });
    described.collect::<Vec<_>>().join("; ")
}

/// The devices that hold a stage's matrices; those of a lost device are read from the file, by the CPU.
fn holders(executor: &HybridExecutor, model: &LanguageModel, stage: Stage) -> BTreeSet<Device> {
    let holder = |device| if executor.health().is_lost(device) { Device::CPU } else { device };
    let matrices = model.model().weights().of(stage).filter(|weight| weight.is_matrix());
    matrices.map(|weight| holder(weight.tensor().device())).collect()
}

/// One line about devices that were lost, failed at operations, or declined most of what they were meant to compute; `None` where all
/// went well.
pub(crate) fn troubles(executor: &HybridExecutor) -> Option<String> {
    let health = executor.health();
    let quarantined = health.quarantined();
    let mut troubles = Vec::new();
    for device in executor.memory().devices().into_iter().filter(|device| !device.is_cpu()) {
        if health.is_lost(device) {
            troubles.push(format!("{device} was lost, and its work went to other devices"));
            continue;
        }
        let failed: BTreeSet<&str> =
            quarantined.iter().filter(|(on, _)| *on == device).map(|(_, key)| key.op.name()).collect();
        if !failed.is_empty() {
            let failed: Vec<&str> = failed.into_iter().collect();
            troubles.push(format!("{device} failed at {}, which went to other devices", failed.join(", ")));
            continue;
        }
        let counts = executor.counts(device).unwrap_or_default();
        // One that ran nothing had nothing to do.
        if counts.ran > 0 && counts.declined_flops > counts.ran_flops {
            let share =
                100.0 * counts.declined_flops as f64 / (counts.ran_flops + counts.declined_flops) as f64;
            troubles.push(format!(
                "{device} declined {share:.0} % of the work, which went to other devices (`explain` says why)"
            ));
        }
    }
    (!troubles.is_empty()).then(|| format!("warning: {}", troubles.join("; ")))
}
