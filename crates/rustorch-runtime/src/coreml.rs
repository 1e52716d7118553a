//! Core ML as a device of the process, and what its programs are compared with.

use crate::registry::{DeviceCandidate, Discovery, Registry};
use crate::{Captured, HybridExecutor, Operand, Output, OutputVec, Placement, Program};
use rustorch_core::{CopyOp, Device, Error, Graph, Op, PhiloxKey, Result, Value, packed_bytes};
use rustorch_coreml::admission::{ModelCache, PreparedReference, Reference};
use rustorch_coreml::runtime::system_runtime;
use rustorch_coreml::{CoreMlDevice, DeviceOptions};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Computes regions by an executor: results on the CPU, times where they are cheapest.
pub struct ExecutorReference(Executor);

enum Executor {
    Given(HybridExecutor),
    /// The one over the devices of the process, without Core ML.
    OfProcess,
}

impl ExecutorReference {
    /// That of an executor, which has no Core ML.
    pub fn new(executor: HybridExecutor) -> ExecutorReference {
        ExecutorReference(Executor::Given(executor))
    }

    fn best(&self) -> Result<HybridExecutor> {
        match &self.0 {
            Executor::Given(executor) => executor.with_policy(Placement::Auto),
            Executor::OfProcess => {
                let registry = Registry::get();
                let base = HybridExecutor::of_registry(registry).with_policy(Placement::Auto)?;
                Ok(base.avoiding(&registry.find(Device::COREML)?))
            }
        }
    }
}

impl Reference for ExecutorReference {
    fn prepare(
        &self,
        region: &Graph,
        constants: &[Vec<u8>],
    ) -> std::result::Result<Box<dyn PreparedReference>, String> {
        let best = self.best().map_err(text)?;
        let cpu = best.with_policy(Placement::CpuOnly).map_err(text)?;
        let on_cpu = Prepared::program(&cpu, region, constants).map_err(text)?;
        let program = Prepared::program(&best, region, constants).map_err(text)?;
        Ok(Box::new(Prepared { cpu, on_cpu, best, program }))
    }
}

struct Prepared {
    cpu: HybridExecutor,
    on_cpu: Program,
    best: HybridExecutor,
    program: Program,
}

impl Prepared {
    fn program(executor: &HybridExecutor, region: &Graph, constants: &[Vec<u8>]) -> Result<Program> {
        let mut graph = region.clone();
        graph.values.iter_mut().for_each(|value| value.device = Device::CPU);
        let ids = graph.constants();
        let storages = ids.iter().zip(constants).map(|(id, bytes)| {
            let value = &graph.values[id.index()];
            Ok(executor.upload(bytes, value.dtype, &value.shape, Device::CPU)?.storage)
        });
        let constants = storages.collect::<Result<_>>()?;
        let states = graph.states.iter().map(|state| {
            let Value { dtype, shape, .. } = &graph.values[state.first.index()];
            let zeros = vec![0; packed_bytes(*dtype, shape.numel())];
            Ok(executor.upload(&zeros, *dtype, shape, Device::CPU)?.storage)
        });
        let states = states.collect::<Result<_>>()?;
        Program::new(executor, Captured { graph, constants, states }, &[])
    }

    /// What the states of a program hold, by its memory.
    fn states(program: &Program) -> impl Iterator<Item = Output> + '_ {
        program.graph().states.iter().zip(program.states()).map(|(state, storage)| {
            let whole = program.graph().whole(state.first);
            Output { storage: storage.clone(), dtype: whole.dtype, layout: whole.layout }
        })
    }

    /// Runs a program: the outputs, then what states hold, and how long it took.
    fn run(
        executor: &HybridExecutor,
        program: &Program,
        inputs: &[Vec<u8>],
    ) -> Result<(OutputVec, Duration)> {
        let graph = program.graph();
        let uploaded = graph.inputs.iter().zip(inputs).map(|(id, bytes)| {
            let value = &graph.values[id.index()];
            executor.upload(bytes, value.dtype, &value.shape, Device::CPU)
        });
        let uploaded = uploaded.collect::<Result<Vec<_>>>()?;
        for (state, bytes) in Prepared::states(program).zip(&inputs[uploaded.len()..]) {
            let given = executor.upload(bytes, state.dtype, state.layout.shape(), Device::CPU)?;
            executor.run_into(&Op::Copy(CopyOp), &[given.operand()], &[state.operand()])?;
        }
        let operands: Vec<Operand<'_>> = uploaded.iter().map(Output::operand).collect();
        let started = Instant::now();
        // Regions draw no random numbers.
        let mut outputs = program.run(&operands, || [] as [PhiloxKey; 0])?;
        for output in &outputs {
            if !output.storage.device().is_cpu() {
                executor.synchronize(output.storage.device())?;
            }
        }
        let time = started.elapsed();
        outputs.extend(Prepared::states(program));
        Ok((outputs, time))
    }
}

impl PreparedReference for Prepared {
    fn run_on_cpu(&self, inputs: &[Vec<u8>]) -> std::result::Result<Vec<Vec<u8>>, String> {
        let (outputs, _) = Prepared::run(&self.cpu, &self.on_cpu, inputs).map_err(text)?;
        let bytes = outputs.iter().map(|output| {
            let mut bytes = vec![0; packed_bytes(output.dtype, output.layout.numel())];
            self.cpu.download(&output.operand(), &mut bytes).map_err(text)?;
            Ok(bytes)
        });
        bytes.collect()
    }

    fn time_best(&self, inputs: &[Vec<u8>]) -> std::result::Result<Duration, String> {
        Ok(Prepared::run(&self.best, &self.program, inputs).map_err(text)?.1)
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

/// With what the process's device is opened.
static OPTIONS: Mutex<Wanted> = Mutex::new(Wanted { options: None, is_open: false });

struct Wanted {
    options: Option<DeviceOptions>,
    is_open: bool,
}

/// Sets how Core ML is used in this process: before it is used first. Where the options name no cache it is that of
/// [`model_cache`].
///
/// # Errors
/// If it was used already.
pub fn set_options(options: DeviceOptions) -> Result<()> {
    let mut wanted = OPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if wanted.is_open {
        let message = "Core ML is in use already; set its options before the first operation";
        return Err(Error::argument("coreml", message));
    }
    wanted.options = Some(options);
    Ok(())
}

/// Where this process keeps compiled programs, and what was found out of them: the folder `coreml` in `RUSTORCH_CACHE_DIR`, or in the platform's folder
/// for RusTorch's caches. None if the platform's variables are missing.
pub fn model_cache() -> Option<ModelCache> {
    Some(ModelCache::new(Registry::get().environment.cache_dir()?.join("coreml")))
}

/// Looks for Core ML.
pub(crate) fn discover() -> Discovery {
    match system_runtime() {
        Err(why) => Discovery { missing: vec![why], ..Discovery::default() },
        Ok(runtime) => {
            let open = move || {
                let mut wanted = OPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
                wanted.is_open = true;
                let mut options = wanted.options.clone().unwrap_or_default();
                options.cache = options.cache.or_else(model_cache);
                let reference = Arc::new(ExecutorReference(Executor::OfProcess));
                let device = CoreMlDevice::new(Arc::clone(&runtime), reference, options);
                Ok(Arc::new(device) as Arc<dyn rustorch_core::Backend>)
            };
            Discovery { devices: vec![DeviceCandidate::hardware(open)], missing: Vec::new() }
        }
    }
}
