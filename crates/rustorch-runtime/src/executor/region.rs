//! Compiled regions of graphs: compiling them, and running them as an operation would run.

use super::dispatch::kind;
use super::run::FreshOutput;
use super::{HybridExecutor, Operand, Output, OutputVec};
use crate::device_state::DeviceState;
use crate::storage::{ReadGuard, Storage};
use rustorch_core::{
    CompiledRegion, Compiler, Decline, Fault, Graph, OutputMeta, UpdatedInput, View, ViewMut, Work,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// A compiled region, with the constants that it was compiled with.
pub(crate) struct Compiled {
    /// Dropped first: it may refer to the memory of the constants.
    program: Box<dyn CompiledRegion>,
    /// Where the device reads the constants; these are kept for as long as the program.
    _constants: Vec<Output>,
    /// The constants, and the versions that they had.
    sources: Vec<(Storage, u64)>,
}

/// What a region is run with.
pub(crate) struct RegionCall<'a> {
    pub(crate) state: &'a Arc<DeviceState>,
    pub(crate) compiled: &'a Compiled,
    pub(crate) inputs: &'a [Operand<'a>],
    /// The inputs that the program kept since its last run, by number; no others than those that it [keeps](Compiled::keeps).
    pub(crate) kept: &'a [usize],
    pub(crate) outs: &'a [OutputMeta],
    pub(crate) work: Work,
}

/// Why a region did not run.
pub(crate) enum RegionFailure {
    /// It is not ready.
    Declined(Decline),
    /// Somebody has written to a constant since it was compiled.
    Stale,
    /// In moving inputs to its device.
    Moving(Fault),
    /// In making room for outputs, or running.
    Running(Fault),
    /// There is NaN among the outputs, which the CPU's may have as well.
    Nan(Fault),
}

impl Compiled {
    /// The inputs that the program keeps from run to run, once it has run.
    pub(crate) fn keeps(&self) -> &[usize] {
        self.program.keeps()
    }
}

impl HybridExecutor {
    /// Has a device compile a region with these constants.
    pub(crate) fn compile_region(
        &self,
        state: &Arc<DeviceState>,
        compiler: &dyn Compiler,
        (region, updates): (&Graph, &[UpdatedInput]),
        constants: &[Operand<'_>],
    ) -> Result<Compiled, Fault> {
        state.usable()?;
        // Read before the elements are: what was copied may be newer than its version says, but never older.
        let sources = constants.iter().map(|x| (x.storage.clone(), x.storage.version())).collect();
        let mut there: Vec<Output> = Vec::with_capacity(constants.len());
        for constant in constants {
            let moved = self.retrying(state, || self.move_to(constant, state))?.operand().to_output();
            there.push(moved);
        }
        let guards: Vec<ReadGuard<'_>> = there.iter().map(|constant| constant.storage.read()).collect();
        // SAFETY: `Program::new` checked the constants, or the executor made the copies; the guards outlive the views.
        let views: Vec<View<'_>> =
            there.iter().map(Output::operand).map(|x| unsafe { operand_view(x) }).collect();
        // SAFETY: the region is made of nodes of a graph that was verified, the views are of its constants and where the device reads them.
        // `Compiled` keeps the memory for as long as the program, and `run_region` looks at the versions of the constants before each run, under guards.
        let program = state.noted(unsafe { compiler.compile(region, updates, &views) })?;
        drop(views);
        drop(guards);
        Ok(Compiled { program, _constants: there, sources })
    }

    /// Runs a region on its device: results in fresh memory there.
    pub(crate) fn run_region(&self, call: &RegionCall<'_>) -> Result<OutputVec, RegionFailure> {
        let state = call.state;
        let _sequence = self.sequence();
        state.usable().map_err(RegionFailure::Running)?;
        if let Err(decline) = call.compiled.program.ready() {
            if call.compiled.program.wants_inputs() {
                self.show_inputs(call)?;
            }
            return Err(RegionFailure::Declined(decline));
        }
        let result = self.with_memory(
            state,
            || self.run_region_once(call),
            |failure| match failure {
                RegionFailure::Moving(fault) | RegionFailure::Running(fault) => Some(fault),
                _ => None,
            },
        );
        let outputs = result?;
        if self.0.check_numbers
            && !state.device.is_cpu()
            && self.any_nan(outputs.iter().map(Output::operand)).map_err(RegionFailure::Running)?
        {
            let message = "the result of a compiled region has NaN".to_owned();
            return Err(RegionFailure::Nan(Fault::Numeric { device: state.device, message }));
        }
        state.counters.ran(call.work);
        self.sample_memory();
        Ok(outputs)
    }

    /// Shows a region that is not ready the inputs of a run.
    fn show_inputs(&self, call: &RegionCall<'_>) -> Result<(), RegionFailure> {
        let moved = self.moved_inputs(call)?;
        let moved = || moved.iter().flatten();
        let _inputs: SmallVec<[ReadGuard<'_>; 4]> = moved().map(|input| input.storage.read()).collect();
        let views: SmallVec<[View<'_>; 4]> = (moved().map(Output::operand))
            // SAFETY: the program checked its inputs, and the executor made the rest; the guards outlive the views.
            .map(|x| unsafe { operand_view(x) })
            .collect();
        // SAFETY: views have dtypes and shapes of the region's inputs, which are whole values; what is not ready has kept none.
        unsafe { call.compiled.program.show_inputs(&views) };
        Ok(())
    }

    /// The inputs where the device reads them; none for those that it kept.
    fn moved_inputs(&self, call: &RegionCall<'_>) -> Result<SmallVec<[Option<Output>; 4]>, RegionFailure> {
        let moved = call.inputs.iter().enumerate().map(|(i, input)| {
            if call.kept.contains(&i) {
                return Ok(None);
            }
            let there = self.move_to(input, call.state).map_err(RegionFailure::Moving)?;
            Ok(Some(there.operand().to_output()))
        });
        moved.collect()
    }

    fn run_region_once(&self, call: &RegionCall<'_>) -> Result<OutputVec, RegionFailure> {
        let state = call.state;
        let moved = self.moved_inputs(call)?;
        let mut results: SmallVec<[FreshOutput; 1]> = SmallVec::new();
        for out in call.outs {
            results.push(FreshOutput::new(state, out.dtype, &out.shape).map_err(RegionFailure::Running)?);
        }
        let sources = &call.compiled.sources;
        let _constants: SmallVec<[ReadGuard<'_>; 8]> =
            sources.iter().map(|(storage, _)| storage.read()).collect();
        if sources.iter().any(|(storage, version)| storage.version() != *version) {
            return Err(RegionFailure::Stale);
        }
        let _inputs: SmallVec<[ReadGuard<'_>; 4]> =
            moved.iter().flatten().map(|input| input.storage.read()).collect();
        let views: SmallVec<[Option<View<'_>>; 4]> = moved
            .iter()
            // SAFETY: the program checked its inputs, and the executor made the rest; the guards outlive the views.
            .map(|x| x.as_ref().map(|x| unsafe { operand_view(x.operand()) }))
            .collect();
        let mut places: SmallVec<[ViewMut<'_>; 1]> = results.iter_mut().map(FreshOutput::place).collect();
        // SAFETY: views and places have dtypes and shapes of the region's inputs and outputs, which are whole values; missing are
        // inputs that it has kept alone; the constants are guarded, and of the versions with which the region was compiled.
        let ran = unsafe { call.compiled.program.run(&views, &mut places) };
        state.noted(ran).map_err(RegionFailure::Running)?;
        drop(places);
        // SAFETY: the region has written every element.
        Ok(results.into_iter().map(|result| unsafe { result.assume_init() }).collect())
    }

    /// Notes that a region failed on its device; whoever hears of a cause for the first time is warned.
    pub(crate) fn note_region_fault(&self, state: &DeviceState, fault: &Fault) {
        let device = state.device;
        state.counters.failed();
        if self.0.shared.warnings.first(None, device, kind(fault)) {
            tracing::warn!(%device, "a compiled region of a graph failed, and its operations run elsewhere: {fault}");
        } else {
            tracing::debug!(%device, "a compiled region of a graph failed: {fault}");
        }
    }

    /// Keeps a region away from its device for some time.
    pub(crate) fn quarantine_region(&self, state: &DeviceState, region: u64) {
        state.health.quarantine_region(region, self.0.shared.quarantine);
    }

    /// Whether some of these results have NaN.
    pub(crate) fn any_nan<'a>(&self, mut results: impl Iterator<Item = Operand<'a>>) -> Result<bool, Fault> {
        results.try_fold(false, |found, result| Ok(found || self.holds_nan(&result)?))
    }
}

/// A window for reading.
///
/// # Safety
/// As of [`Operand::view`].
unsafe fn operand_view<'a>(operand: Operand<'a>) -> View<'a> {
    // SAFETY: this function's contract.
    unsafe { operand.view() }
}

impl Operand<'_> {
    /// The same elements, with a handle of their own to the memory.
    fn to_output(self) -> Output {
        Output { storage: self.storage.clone(), dtype: self.dtype, layout: self.layout.clone() }
    }
}
