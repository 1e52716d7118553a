//! From `--backend` and its companions to an executor, and to the place of a model's weights.

use crate::args::{AssumedSystem, DeviceArgs};
use crate::failure::Failure;
use crate::{output, without_effect};
use rustorch::core::Device;
use rustorch::coreml::DeviceOptions;
use rustorch::devices;
use rustorch::llm::LanguageModel;
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, Placement, Target, assumed};
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

/// How Core ML is to be used.
fn core_ml_options(args: &DeviceArgs) -> DeviceOptions {
    let units = args.coreml_units.unwrap_or_default();
    DeviceOptions { units, allow_f16: args.allow_f16, ..DeviceOptions::default() }
}

impl Backend {
    /// The devices that the options ask for.
    pub(crate) fn new(args: &DeviceArgs) -> Result<Backend, Failure> {
        let refused = |e: rustorch::Error| Failure::Backend(e.to_string());
        if args.coreml_units.is_some() || args.allow_f16 {
            devices::set_coreml(core_ml_options(args)).map_err(refused)?;
        }
        let target = devices::target(args.backend.device, args.threads).map_err(refused)?;
        Backend::of_target(args, target)
    }

    /// The devices that the options ask for, on another system: for plans.
    pub(crate) fn assumed(args: &DeviceArgs, system: AssumedSystem) -> Result<Backend, Failure> {
        let refused = |e: rustorch::Error| Failure::Backend(e.to_string());
        let executor = match system {
            AssumedSystem::Apple => assumed::apple(args.threads, core_ml_options(args)).map_err(refused)?,
        };
        Backend::of_target(args, executor.resolve(args.backend.device).map_err(refused)?)
    }

    fn of_target(args: &DeviceArgs, target: Target) -> Result<Backend, Failure> {
        let refused = |e: rustorch::Error| Failure::Backend(e.to_string());
        let (weights, executor) = match args.backend.device {
            DeviceType::Auto => (Weights::Fastest, target.executor),
            // Core ML gets regions of graphs, and no weights of its own.
            DeviceType::Hybrid
            | DeviceType::Only(Device::COREML)
            | DeviceType::CoreMlHybrid(_)
            | DeviceType::MacHybrid => (Weights::InFile, target.executor),
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
        let backend = Backend { executor, weights, numerics };
        backend.report_without_core_ml(args);
        Ok(backend)
    }

    /// Reports options for Core ML where it gets nothing.
    fn report_without_core_ml(&self, args: &DeviceArgs) {
        let given = [(args.coreml_units.is_some(), "--coreml-units"), (args.allow_f16, "--allow-f16")];
        let is_asked = given.iter().any(|(given, _)| *given);
        let has_core_ml = || match args.backend.device {
            DeviceType::Only(device) => device == Device::COREML,
            DeviceType::CoreMlHybrid(_) | DeviceType::MacHybrid => true,
            DeviceType::Auto => false,
            DeviceType::Hybrid => {
                self.executor.fallback_order().is_ok_and(|order| order.contains(&Device::COREML))
            }
        };
        if is_asked && !has_core_ml() {
            let given = given.into_iter().filter(|(given, _)| *given);
            given.for_each(|(_, option)| without_effect::note(option, "Core ML is not among the devices"));
        }
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
