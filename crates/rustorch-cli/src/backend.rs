//! From `--backend` and its companions to an executor, and to the place of a model's weights.

use crate::args::DeviceArgs;
use crate::failure::Failure;
use crate::output;
use rustorch::DeviceType;
use rustorch::core::Device;
use rustorch::devices;
use rustorch::llm::LanguageModel;
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement};

/// What the options ask for.
pub(crate) struct Backend {
    /// Runs operations where their data is.
    pub(crate) executor: HybridExecutor,
    /// The device that is meant; none if the fastest is.
    device: Option<Device>,
}

impl Backend {
    /// The devices that the options ask for.
    pub(crate) fn new(args: &DeviceArgs) -> Result<Backend, Failure> {
        let refused = |e: rustorch::Error| Failure::Backend(e.to_string());
        let target = devices::target(args.backend, args.threads).map_err(refused)?;
        let executor = target.executor.with_policy(Placement::Resident).map_err(refused)?;
        let device = (args.backend != DeviceType::Auto).then_some(target.device);
        Ok(Backend { executor, device })
    }

    /// Puts a model's weights where they are wanted.
    pub(crate) fn place(&self, model: &mut LanguageModel, args: &DeviceArgs) -> Result<(), Failure> {
        let bytes = model.file().summary().bytes;
        // Norms, projections, rotations, attention, feed-forward: about twenty operations a block.
        let launches = 20 * model.network().hyperparameters().blocks;
        let device =
            self.device.unwrap_or_else(|| devices::fastest_for_weights(&self.executor, bytes, launches));
        if device.is_cpu() {
            return Ok(());
        }
        let offload = Offload { device, blocks: args.layers_on_device, bytes: args.device_memory };
        let done = model.offload(&offload)?;
        let blocks = model.network().hyperparameters().blocks;
        if done.blocks < blocks && args.layers_on_device.is_none_or(|wanted| done.blocks < wanted.min(blocks)) {
            output::note(format_args!(
                "{} of {blocks} layers fit on {device}; the CPU computes the others",
                done.blocks
            ));
        }
        if !done.kept.is_empty() {
            let kept: Vec<String> = done.kept.iter().map(ToString::to_string).collect();
            output::note(format_args!(
                "{device} does not multiply with {} weights; the CPU does",
                kept.join(", ")
            ));
        }
        Ok(())
    }
}
