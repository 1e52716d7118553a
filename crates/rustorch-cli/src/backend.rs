//! From `--backend` and its companions to an executor, and to the place of a model's weights.

use crate::args::DeviceArgs;
use crate::failure::Failure;
use crate::output;
use rustorch::core::Device;
use rustorch::devices;
use rustorch::llm::LanguageModel;
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement};
use rustorch::{DeviceType, Numerics};

/// What the options ask for.
pub(crate) struct Backend {
    /// Runs operations where their data is; under `hybrid`, where each is cheapest.
    pub(crate) executor: HybridExecutor,
    /// Where the weights are to be.
    weights: Weights,
    /// How the model rounds.
    numerics: Numerics,
}

/// Where a model's weights are to be.
enum Weights {
    /// On the device where they are read fastest.
    Fastest,
    /// On this device.
    On(Device),
    /// In the file; devices copy what they compute with.
    InFile,
}

impl Backend {
    /// The devices that the options ask for.
    pub(crate) fn new(args: &DeviceArgs) -> Result<Backend, Failure> {
        let refused = |e: rustorch::Error| Failure::Backend(e.to_string());
        let target = devices::target(args.backend.device, args.threads).map_err(refused)?;
        let (weights, executor) = match args.backend.device {
            DeviceType::Auto => (Weights::Fastest, target.executor),
            DeviceType::Hybrid => (Weights::InFile, target.executor),
            // Operations follow the weights; what the device declines returns there.
            DeviceType::Only(device) => {
                let executor = target.executor.with_policy(Placement::Resident).map_err(refused)?;
                (Weights::On(device), executor)
            }
        };
        let numerics = match (args.backend.numerics, args.numerics) {
            (Some(of_backend), Some(other)) if other != of_backend => {
                let backend = args.backend;
                return Err(Failure::Backend(format!(
                    "-b {backend} has numerics {of_backend}, not {other}; leave out --numerics, or take another -b"
                )));
            }
            (of_backend, given) => given.or(of_backend).unwrap_or_default(),
        };
        Ok(Backend { executor, weights, numerics })
    }

    /// Whether no other device computes with the weights.
    pub(crate) fn computes_on_cpu(&self) -> bool {
        match self.weights {
            Weights::On(device) => device.is_cpu(),
            Weights::Fastest | Weights::InFile => self
                .executor
                .fallback_order()
                .is_ok_and(|devices| devices.iter().all(|device| device.is_cpu())),
        }
    }

    /// Sets a model's numerics, and puts its weights where they are wanted.
    pub(crate) fn place(&self, model: &mut LanguageModel, args: &DeviceArgs) -> Result<(), Failure> {
        model.set_numerics(self.numerics);
        model.set_eager(args.eager);
        let device = match self.weights {
            Weights::On(device) => device,
            Weights::InFile => return Ok(()),
            Weights::Fastest => {
                let weights = model.file().summary().by_dtype;
                // Norms, projections, rotations, attention, feed-forward: about twenty operations a block.
                let launches = 20 * model.model().config().blocks;
                devices::fastest_for_weights(&self.executor, &weights, launches)
                    .map_err(|error| Failure::Backend(error.to_string()))?
            }
        };
        if device.is_cpu() {
            return Ok(());
        }
        let offload = Offload { device, blocks: args.layers_on_device, bytes: args.device_memory };
        let done = model.offload(&offload)?;
        let blocks = model.model().config().blocks;
        if done.blocks < blocks && args.layers_on_device.is_none_or(|wanted| done.blocks < wanted.min(blocks))
        {
            output::note(format_args!(
                "{} of {blocks} layers fit on {device}; the CPU computes the others",
                done.blocks
            ));
        }
        if !done.unsupported.is_empty() {
            let unsupported: Vec<String> = done.unsupported.iter().map(ToString::to_string).collect();
            output::note(format_args!(
                "{device} has no matmul for {} weights; they stay on the CPU",
                unsupported.join(", ")
            ));
        }
        Ok(())
    }
}
