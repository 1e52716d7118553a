//! The compiled regions of a program.

use super::capture::Captured;
use super::partition::{PartitionPlan, Region, Sides};
use crate::device_state::DeviceState;
use crate::executor::{Compiled, HybridExecutor, Operand, OutputVec, RegionCall, RegionFailure};
use crate::placement::Placement;
use crate::storage::Storage;
use rustorch_core::{
    Decline, Fault, Graph, OutputMeta, Result, Source, TensorMeta, UpdatedInput, ValueId, Work,
};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A region of a program, and what it was compiled to.
pub(super) struct CompiledPart {
    pub(super) state: Arc<DeviceState>,
    /// The nodes of the program's graph.
    pub(super) nodes: Range<usize>,
    /// The values of the program's graph that it reads and makes.
    pub(super) inputs: Vec<ValueId>,
    pub(super) outputs: Vec<ValueId>,
    /// For runs after a fault of it.
    pub(super) others: HybridExecutor,
    /// Updates states where they are.
    pub(super) resident: HybridExecutor,
    constants: Vec<ValueId>,
    graph: Graph,
    updates: Vec<UpdatedInput>,
    /// What the program has kept of inputs that it updates.
    kept: Mutex<Kept>,
    outs: Vec<OutputMeta>,
    work: Work,
    /// A number that no other region of the process has.
    id: u64,
    /// How many runs pay for compiling it.
    pays_after: u64,
    now: Mutex<Now>,
    counts: Counts,
}

/// What is compiled at the moment.
#[derive(Default)]
struct Now {
    compiled: Option<Arc<Compiled>>,
    /// Since somebody has written to constants: their versions in the last run, and in how many they were the same.
    unchanged: (Vec<u64>, u64),
    /// Why it was not ready in the last run.
    declined: Option<Decline>,
}

/// The inputs that a program keeps.
#[derive(Default)]
pub(super) struct Kept {
    program: Weak<Compiled>,
    /// By number, the versions that their states had when both held the same.
    versions: SmallVec<[(usize, u64); 4]>,
    /// The same of a run whose updates are not in the states yet: what will be their versions then.
    updating: Vec<(usize, Storage, u64)>,
}

impl Kept {
    /// Notes that the states were updated as the program has updated what it keeps. Where another thread has written meanwhile, the version is a later one.
    pub(super) fn settle(&mut self) {
        let updating = self.updating.drain(..).filter(|(_, state, version)| state.version() == *version);
        self.versions = updating.map(|(input, _, version)| (input, version)).collect();
    }
}

#[derive(Default)]
struct Counts {
    runs: AtomicU64,
    ns: AtomicU64,
    faults: AtomicU64,
    compiled: AtomicU64,
}

/// What became of a region so far: by device and nodes as in the [`PartitionPlan`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionReport {
    /// How often it ran as a whole.
    pub runs: u64,
    /// How long that took in all, with the moving of inputs, as the caller saw it: a device may still be computing.
    pub time: Duration,
    /// How often its device failed at it, and its operations ran one by one.
    pub faults: u64,
    /// How often it was compiled: again after its constants were written.
    pub compiled: u64,
    /// Why its operations ran one by one in the last run, if the compiled region was not ready.
    pub declined: Option<Decline>,
    /// Whether it is kept away from its device for now, because it failed there.
    pub quarantined: bool,
}

/// How a region did not run as a whole.
pub(super) enum Missed {
    /// Its operations are to run one by one.
    Passed,
    /// The same, because of a fault that is not known to be the device's: only if no result has NaN then is it quarantined.
    Doubted,
    /// Its device failed, and that is to be returned; or the caller made a mistake.
    Failed(Fault),
}

impl CompiledPart {
    /// Compiles a region.
    ///
    /// # Errors
    /// If the compiler fails.
    pub(super) fn new(
        region: Region,
        (compile_us, saved_us): (f64, f64),
        (executor, resident): (&HybridExecutor, HybridExecutor),
        constants: &[Operand<'_>],
    ) -> Result<CompiledPart, Fault> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Region { state, nodes, extracted } = region;
        let meta = |id: &ValueId| {
            let value = &extracted.graph.values[id.index()];
            OutputMeta { dtype: value.dtype, shape: value.shape.clone() }
        };
        let outs: Vec<OutputMeta> =
            extracted.graph.outputs.iter().map(|output| meta(&output.value)).collect();
        let part = CompiledPart {
            others: executor.avoiding(&state),
            resident,
            state,
            nodes,
            work: work(&extracted.graph),
            inputs: extracted.inputs,
            outputs: extracted.outputs,
            constants: extracted.constants,
            graph: extracted.graph,
            updates: extracted.updates,
            kept: Mutex::default(),
            outs,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            // Saturates; 1 for what saves infinitely much.
            pays_after: (compile_us / saved_us.max(1e-3)).ceil().max(1.0) as u64,
            now: Mutex::default(),
            counts: Counts::default(),
        };
        let compiled = part.compile(executor, constants)?;
        part.lock().compiled = Some(compiled);
        Ok(part)
    }

    pub(super) fn sides(&self) -> Sides<'_> {
        let CompiledPart { state, nodes, inputs, outputs, .. } = self;
        Sides { state, nodes: nodes.clone(), inputs, outputs }
    }

    fn compile(&self, executor: &HybridExecutor, constants: &[Operand<'_>]) -> Result<Arc<Compiled>, Fault> {
        let Some(compiler) = self.state.backend.compiler() else {
            let message = "its compiler is gone".to_owned();
            return Err(Fault::Backend { device: self.state.device, message });
        };
        let compiled =
            executor.compile_region(&self.state, compiler, (&self.graph, &self.updates), constants)?;
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(compiled))
    }

    /// The memory of constants, among those of the program.
    fn storages<'a>(constants: &[ValueId], graph: &Graph, storages: &'a [Storage]) -> Vec<&'a Storage> {
        let storage = |id: &ValueId| match graph.values[id.index()].source {
            Source::Constant(i) => storages.get(i as usize),
            _ => None,
        };
        constants.iter().filter_map(storage).collect()
    }

    /// The nodes of the program's graph that update states, which run again once the region is done.
    pub(super) fn updating_nodes(&self) -> Vec<usize> {
        let nodes = self.updates.iter().flat_map(|update| &update.nodes);
        let mut nodes: Vec<usize> = nodes.map(|node| self.nodes.start + node).collect();
        nodes.sort_unstable();
        nodes
    }

    /// The states that it updates, by the values that they hold before.
    pub(super) fn updated(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.updates.iter().map(|update| self.inputs[update.input])
    }

    /// What its program has kept, until the states are updated as well: other threads' runs wait.
    pub(super) fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        // What a run that ended early leaves is not settled.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs it as a whole on its device, if that is possible now. `kept` is given where the states that it updates are the same memory in every run.
    ///
    /// # Errors
    /// Why its results are not there.
    pub(super) fn run(
        &self,
        executor: &HybridExecutor,
        inputs: &[Operand<'_>],
        (graph, constants): (&Graph, &[Storage]),
        kept: Option<&mut Kept>,
    ) -> Result<OutputVec, Missed> {
        if self.state.health.is_lost() || self.state.health.is_region_quarantined(self.id) {
            return Err(Missed::Passed);
        }
        let compiled = self.lock().compiled.clone();
        let compiled = match compiled {
            Some(compiled) => compiled,
            None => self.compile_again(executor, graph, constants)?,
        };
        let (state, outs) = (&self.state, &self.outs[..]);
        let started = Instant::now();
        // Read once, and before the elements are: what is given may be newer than its version says, but never older.
        let versions: Vec<u64> = inputs.iter().map(|input| input.storage.version()).collect();
        let (kept, same) = take_kept(kept, &compiled, &versions);
        let call = RegionCall { state, compiled: &compiled, inputs, kept: &same, outs, work: self.work };
        let failure = match executor.run_region(&call) {
            Ok(outputs) => {
                if let Some(kept) = kept {
                    let keeps = compiled.keeps();
                    let updates = self.updates.iter().filter(|update| keeps.contains(&update.input));
                    // Each node writes once.
                    kept.updating = updates
                        .map(|UpdatedInput { input, nodes }| {
                            let version = versions[*input] + nodes.len() as u64;
                            (*input, inputs[*input].storage.clone(), version)
                        })
                        .collect();
                    kept.program = Arc::downgrade(&compiled);
                }
                self.counts.runs.fetch_add(1, Ordering::Relaxed);
                if let now @ Now { declined: Some(_), .. } = &mut *self.lock() {
                    now.declined = None;
                }
                let ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.counts.ns.fetch_add(ns, Ordering::Relaxed);
                return Ok(outputs);
            }
            Err(failure) => failure,
        };
        let fault = match failure {
            RegionFailure::Declined(decline) => {
                self.lock().declined = Some(decline);
                return Err(Missed::Passed);
            }
            RegionFailure::Stale => {
                // The memory of its program goes now, and not when it is compiled again.
                let is_that = |now: &mut Arc<Compiled>| Arc::ptr_eq(now, &compiled);
                drop(self.lock().compiled.take_if(is_that));
                return Err(Missed::Passed);
            }
            RegionFailure::Moving(fault @ Fault::Invalid(_))
            | RegionFailure::Running(fault @ Fault::Invalid(_)) => {
                return Err(Missed::Failed(fault));
            }
            RegionFailure::Moving(fault) => {
                self.note(executor, &fault);
                fault
            }
            RegionFailure::Running(fault) => {
                self.note(executor, &fault);
                self.quarantine(executor);
                fault
            }
            RegionFailure::Nan(fault) => {
                self.note(executor, &fault);
                return Err(if executor.returns_faults() { Missed::Failed(fault) } else { Missed::Doubted });
            }
        };
        Err(if executor.returns_faults() { Missed::Failed(fault) } else { Missed::Passed })
    }

    /// Compiles it with constants that somebody has written to, once they have been the same for as many runs as pay for it.
    fn compile_again(
        &self,
        executor: &HybridExecutor,
        graph: &Graph,
        constants: &[Storage],
    ) -> Result<Arc<Compiled>, Missed> {
        let storages = CompiledPart::storages(&self.constants, graph, constants);
        let versions: Vec<u64> = storages.iter().map(|storage| storage.version()).collect();
        let mut now = self.lock();
        match now.unchanged.0 == versions {
            true => now.unchanged.1 += 1,
            false => now.unchanged = (versions, 0),
        }
        if now.unchanged.1 < self.pays_after {
            return Err(Missed::Passed);
        }
        // Another thread's runs pass meanwhile.
        now.unchanged.1 = 0;
        drop(now);
        let whole: Vec<_> = self.constants.iter().map(|id| graph.whole(*id)).collect();
        let operands: Vec<Operand<'_>> = (storages.iter().zip(&whole))
            .map(|(storage, whole)| Operand { storage, dtype: whole.dtype, layout: &whole.layout })
            .collect();
        match self.compile(executor, &operands) {
            Ok(compiled) => {
                self.lock().compiled = Some(Arc::clone(&compiled));
                Ok(compiled)
            }
            Err(fault @ Fault::Invalid(_)) => Err(Missed::Failed(fault)),
            Err(fault) => {
                self.note(executor, &fault);
                self.quarantine(executor);
                Err(if executor.returns_faults() { Missed::Failed(fault) } else { Missed::Passed })
            }
        }
    }

    fn note(&self, executor: &HybridExecutor, fault: &Fault) {
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        executor.note_region_fault(&self.state, fault);
    }

    /// Keeps it away from its device for some time.
    pub(super) fn quarantine(&self, executor: &HybridExecutor) {
        executor.quarantine_region(&self.state, self.id);
    }

    pub(super) fn report(&self) -> RegionReport {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RegionReport {
            runs: get(&self.counts.runs),
            time: Duration::from_nanos(get(&self.counts.ns)),
            faults: get(&self.counts.faults),
            compiled: get(&self.counts.compiled),
            declined: self.lock().declined.clone(),
            quarantined: self.state.health.is_region_quarantined(self.id),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // Each change is whole.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which inputs a program has kept that are as their states are still. Nothing is kept from here on, until a run has gone well.
fn take_kept<'a>(
    kept: Option<&'a mut Kept>,
    program: &Arc<Compiled>,
    versions: &[u64],
) -> (Option<&'a mut Kept>, SmallVec<[usize; 4]>) {
    let Some(kept) = kept else { return (None, SmallVec::new()) };
    let Kept { program: of, versions: known, .. } = std::mem::take(kept);
    let is_same = |(input, version): &(usize, u64)| versions[*input] == *version;
    let same = match Weak::ptr_eq(&of, &Arc::downgrade(program)) {
        true => known.into_iter().filter(is_same).map(|(input, _)| input).collect(),
        false => SmallVec::new(),
    };
    (Some(kept), same)
}

/// Compiles the regions of a partition; those that cannot be compiled are taken out of the plan, with the reason.
///
/// # Errors
/// If a region is refused as a mistake of the caller; or fails, and failures are to be returned.
pub(super) fn compile_all(
    plan: &mut PartitionPlan,
    regions: Vec<Region>,
    executor: &HybridExecutor,
    captured: &Captured,
) -> Result<Vec<CompiledPart>> {
    let Captured { graph, constants, .. } = captured;
    let resident = executor.with_policy(Placement::Resident)?;
    let mut parts = Vec::with_capacity(regions.len());
    for region in regions {
        // Those of the plan before are compiled.
        let at = parts.len();
        let planned = &plan.regions[at];
        let gain = (planned.compile_us, planned.outside_us - planned.run_us - planned.crossing_us);
        let storages = CompiledPart::storages(&region.extracted.constants, graph, constants);
        let whole: Vec<_> = region.extracted.constants.iter().map(|id| graph.whole(*id)).collect();
        let operands: Vec<Operand<'_>> = (storages.into_iter().zip(&whole))
            .map(|(storage, whole)| Operand { storage, dtype: whole.dtype, layout: &whole.layout })
            .collect();
        let state = Arc::clone(&region.state);
        if cfg!(debug_assertions) {
            region.extracted.graph.verify()?;
        }
        match CompiledPart::new(region, gain, (executor, resident.clone()), &operands) {
            Ok(part) => parts.push(part),
            Err(Fault::Invalid(error)) => return Err(*error),
            Err(fault) if executor.returns_faults() => return Err(fault.into()),
            Err(fault) => {
                executor.note_region_fault(&state, &fault);
                plan.drop_region(at, graph, fault.to_string());
            }
        }
    }
    Ok(parts)
}

/// The work of all nodes.
fn work(graph: &Graph) -> Work {
    let mut sum = Work::default();
    for node in &graph.nodes {
        let metas: Vec<TensorMeta<'_>> = node.args.iter().map(|arg| graph.meta(arg)).collect();
        let outs: Vec<OutputMeta> = (node.results.iter())
            .map(|result| {
                let value = &graph.values[result.value.index()];
                OutputMeta { dtype: value.dtype, shape: value.shape.clone() }
            })
            .collect();
        let work = node.op.work(&metas, &outs);
        sum.flops = sum.flops.saturating_add(work.flops);
        sum.bytes = sum.bytes.saturating_add(work.bytes);
    }
    sum
}
