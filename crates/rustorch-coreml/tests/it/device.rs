//! Regions by Core ML, of which a scripted fake stands in, from the partition of a graph to the child process that examines its program.

use crate::fake::{Fake, Known, Script, known};
use rustorch_core::{Backend, CostModel, Device, Graph, Link};
use rustorch_coreml::admission::{
    AdmissionOptions, ModelCache, PreparedReference, Reference, Verdict, forget, serve, verdicts,
};
use rustorch_coreml::device::Assumptions;
use rustorch_coreml::{CoreMlDevice, DeviceOptions};
use rustorch_runtime::coreml::ExecutorReference;
use rustorch_runtime::{HybridExecutor, Placement, RegionReport};
use rustorch_tensor::{DType, Program, Tensor, TensorSpec, capture};
use rustorch_testkit::{child, is_child};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The CPU takes longer than it does, so that every right program is faster.
pub(crate) struct SlowMachine(pub(crate) ExecutorReference, pub(crate) Duration);

struct SlowReference(Box<dyn PreparedReference>, Duration);

impl Reference for SlowMachine {
    fn prepare(&self, region: &Graph, constants: &[Vec<u8>]) -> Result<Box<dyn PreparedReference>, String> {
        Ok(Box::new(SlowReference(self.0.prepare(region, constants)?, self.1)))
    }
}

impl PreparedReference for SlowReference {
    fn run_on_cpu(&self, inputs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        self.0.run_on_cpu(inputs)
    }

    fn time_best(&self, inputs: &[Vec<u8>]) -> Result<Duration, String> {
        Ok(self.0.time_best(inputs)? + self.1)
    }
}

pub(crate) const SCRIPT: &str = "RUSTORCH_COREML_TEST_SCRIPT";
const FOLDER: &str = "RUSTORCH_COREML_TEST_FOLDER";
const CHILD: &str = "device::a_process_that_nobody_asked_goes_on";

/// The child process of the tests below.
#[test]
fn a_process_that_nobody_asked_goes_on() {
    if is_child(CHILD) {
        let script = Script::named(&std::env::var(SCRIPT).unwrap());
        let folder = std::env::var_os(FOLDER).unwrap();
        std::process::exit(serve(&Fake::new(script), Path::new(&folder)));
    }
    rustorch_coreml::child();
}

fn launch(script: Script) -> impl Fn(&Path) -> Result<Command, String> + Send + Sync + 'static {
    move |folder| {
        let mut command = child(CHILD);
        command.env(SCRIPT, format!("{script:?}")).env(FOLDER, folder);
        Ok(command)
    }
}

/// A process with Core ML, whose child process follows a script.
pub(crate) struct Machine {
    pub(crate) fake: Arc<Fake>,
    cache: ModelCache,
    pub(crate) executor: HybridExecutor,
}

impl Machine {
    pub(crate) fn new(folder: &Path, script: Script) -> Machine {
        Machine::with(folder, script, |_| {})
    }

    fn with(folder: &Path, script: Script, change: impl FnOnce(&mut DeviceOptions)) -> Machine {
        let plain = HybridExecutor::builder().threads(1).cost(Device::CPU, cpu_cost()).build().unwrap();
        let reference = Arc::new(SlowMachine(ExecutorReference::new(plain), Duration::from_millis(5)));
        let cache = ModelCache::new(folder);
        let admission = AdmissionOptions {
            time_limit: Duration::from_secs(60),
            runs: 5,
            launcher: Arc::new(launch(script)),
            ..AdmissionOptions::default()
        };
        let mut options = DeviceOptions {
            cache: Some(cache.clone()),
            admission,
            assumptions: Assumptions { compile: 0.0, ..Assumptions::default() },
            ..DeviceOptions::default()
        };
        change(&mut options);
        let fake = Arc::new(Fake::new(if script == Script::FailLater { script } else { Script::Right }));
        let runtime: Arc<dyn rustorch_coreml::runtime::Runtime> = Arc::clone(&fake) as _;
        let device = Arc::new(CoreMlDevice::new(runtime, reference, options));
        let builder = HybridExecutor::builder().threads(1).backend(device as Arc<dyn Backend>);
        let builder = builder.cost(Device::CPU, cpu_cost()).placement(Placement::Prefer(Device::COREML));
        Machine { fake, cache, executor: builder.build().unwrap() }
    }

    /// Runs a program until its region is admitted or refused: what became of it.
    fn settle(&self, known: &Known) -> RegionReport {
        self.executor.scope(|| {
            let program = known.capture();
            let expected = expected(known);
            let started = Instant::now();
            loop {
                check(&program, known, &expected);
                let reports = reports(&program);
                let [report] = &reports[..] else { panic!("{}", program.explain().unwrap()) };
                let is_compiling = matches!(report.declined, Some(rustorch_core::Decline::Compiling));
                if !is_compiling {
                    return report.clone();
                }
                assert!(started.elapsed() < Duration::from_secs(100), "{report:?}");
                sleep(Duration::from_millis(20));
            }
        })
    }

    /// Why the program is refused.
    fn refusal(&self, known: &Known) -> String {
        let report = self.settle(known);
        assert_eq!((report.runs, report.faults), (0, 0), "{report:?}");
        report.declined.unwrap().to_string()
    }

    fn verdict(&self) -> Verdict {
        let mut found = verdicts(&self.cache);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).1
    }
}

/// 10 ms a call, beside which every region pays.
pub(crate) fn cpu_cost() -> CostModel {
    CostModel {
        launch_us: 1e4,
        flops: 1e10,
        bandwidth: 1e10,
        rates: vec![],
        upload: Link::NONE,
        download: Link::NONE,
    }
}

pub(crate) fn reports(program: &Program) -> Vec<RegionReport> {
    program.explain().unwrap().regions.into_iter().map(|region| region.report).collect()
}

/// The CPU's results.
fn expected(known: &Known) -> Vec<Vec<u8>> {
    let cpu = HybridExecutor::builder().threads(1).build().unwrap();
    cpu.scope(|| (known.function)(&known.inputs).unwrap().iter().map(|x| x.to_bytes().unwrap()).collect())
}

fn check(program: &Program, known: &Known, expected: &[Vec<u8>]) {
    let results = program.run(&known.inputs.iter().collect::<Vec<_>>()).unwrap();
    let bytes: Vec<Vec<u8>> = results.iter().map(|x| x.to_bytes().unwrap()).collect();
    assert_eq!(bytes, expected);
}

#[test]
fn admitted_programs_run_whole() {
    for known in known() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::new(folder.path(), Script::Right);
        let report = machine.settle(&known);
        assert!(report.runs > 0 && report.faults == 0, "{report:?}");
        let verdict = machine.verdict();
        assert_eq!((&verdict.refused, verdict.in_place), (&None, Some(true)), "{verdict:?}");
        assert_eq!(verdict.error, Some(0.0));
        assert!(verdict.seconds.unwrap() < verdict.seconds_without.unwrap(), "{verdict:?}");
        assert_eq!(verdict.plan.unwrap().to_string(), "CPU 25 %, GPU 0 %, Neural Engine 75 %");
        // The child process compiled it, not this one.
        assert_eq!(machine.fake.compiled.load(Ordering::Relaxed), 0);
        assert_eq!(machine.cache.entries().len(), 1);
        // Nothing but the entry, its lock, the verdict and the lock of all is left.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
        let remarks = machine.executor.backend(Device::COREML).unwrap().extensions().remarks();
        assert!(remarks[0].starts_with("1 programs admitted, 0 refused"), "{remarks:?}");
    }
}

#[test]
fn what_was_found_out_is_remembered() {
    let [known, _] = known();
    let folder = tempfile::tempdir().unwrap();
    assert!(Machine::new(folder.path(), Script::Right).settle(&known).runs > 0);
    // Another process: its child process would fail.
    let second = Machine::new(folder.path(), Script::Abort);
    assert!(second.settle(&known).runs > 0);
    let (key, _) = verdicts(&second.cache).remove(0);
    // In use, so that the compiled program stays; but it is examined again.
    drop(second);
    assert!(forget(&ModelCache::new(folder.path()), &key).unwrap());
    assert!(!forget(&ModelCache::new(folder.path()), &key).unwrap());
    let third = Machine::new(folder.path(), Script::Abort);
    assert!(third.refusal(&known).contains("signal 6"));
    // So are refusals.
    let fourth = Machine::new(folder.path(), Script::Right);
    assert!(fourth.refusal(&known).contains("signal 6"));
    assert!(forget(&fourth.cache, &key).unwrap());
    assert!(Machine::new(folder.path(), Script::Right).settle(&known).runs > 0);
}

#[test]
fn programs_that_fail_are_refused_with_the_reason() {
    let [known, _] = known();
    for (script, reason) in [
        (Script::HangCompiling, "compiling took longer than 3 s"),
        (Script::HangPredicting, "predicting took longer than 3 s"),
        (Script::Abort, "the child process was ended by signal 6 while compiling"),
        (Script::Kill, "the child process was ended by signal 9 while predicting"),
        (Script::Panic, "the child process ended with code 101 while predicting"),
        (Script::Refuse, "compiling failed: the program has an operation that is not known"),
        (Script::Wrong, "output_0 differs from the CPU's by"),
        (Script::Nan, "output_0 is NaN at 0, and 0."),
        (Script::Slow, "without Core ML; it must be 15 % faster"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::with(folder.path(), script, |options| {
            if matches!(script, Script::HangCompiling | Script::HangPredicting) {
                options.admission.time_limit = Duration::from_secs(3);
            }
        });
        let refusal = machine.refusal(&known);
        assert!(refusal.contains(reason), "{script:?}: {refusal}");
        assert_eq!(machine.verdict().refused.as_deref(), Some(&*refusal));
        assert_eq!((machine.cache.entries().len(), machine.fake.loaded.load(Ordering::Relaxed)), (0, 0));
        let remarks = machine.executor.backend(Device::COREML).unwrap().extensions().remarks();
        assert_eq!(remarks[1], format!("refused: {refusal}"));
    }
}

#[test]
fn integers_are_equal_or_refused() {
    let [_, known] = known();
    let folder = tempfile::tempdir().unwrap();
    let refusal = Machine::new(folder.path(), Script::WrongInteger).refusal(&known);
    assert_eq!(refusal, "output_0 differs from the CPU's in 1 of 4 integers");
}

#[test]
fn integers_beyond_32_bits_run_elsewhere() {
    let [_, mut known] = known();
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::Right);
    assert!(machine.settle(&known).runs > 0);
    machine.executor.scope(|| {
        let program = known.capture();
        let fitting = expected(&known);
        let started = Instant::now();
        while reports(&program)[0].runs == 0 {
            check(&program, &known, &fitting);
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", reports(&program));
        }
        known.inputs[1] = Tensor::new([1i64 << 40, -(1 << 40), 3, 20]).unwrap();
        check(&program, &known, &expected(&known));
        let report = reports(&program).remove(0);
        assert_eq!((report.faults, report.quarantined), (1, true), "{report:?}");
    });
}

#[test]
fn results_that_core_ml_put_elsewhere_are_copied() {
    let [known, _] = known();
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::IgnoreBackings);
    assert!(machine.settle(&known).runs > 0);
    assert_eq!(machine.verdict().in_place, Some(false));
}

#[test]
fn a_full_disk_says_nothing_of_a_program() {
    let [known, _] = known();
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::FullDisk);
    let refusal = machine.refusal(&known);
    assert!(refusal.starts_with("compiling failed:") && refusal.contains("no storage space"), "{refusal}");
    assert!(verdicts(&machine.cache).is_empty());
    assert!(Machine::new(folder.path(), Script::Right).settle(&known).runs > 0);
    // A folder that cannot be one.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refusal = Machine::new(&file, Script::Right).refusal(&known);
    assert!(refusal.contains(file.to_str().unwrap()), "{refusal}");
    let refusal = Machine::with(folder.path(), Script::Right, |options| options.cache = None).refusal(&known);
    assert!(refusal.contains("set RUSTORCH_CACHE_DIR"), "{refusal}");
}

#[test]
fn damaged_entries_are_made_anew() {
    let [known, _] = known();
    let folder = tempfile::tempdir().unwrap();
    assert!(Machine::new(folder.path(), Script::Right).settle(&known).runs > 0);
    let entry = |cache: &ModelCache| folder.path().join(cache.entries()[0].key.to_string());
    let damages: [fn(&Path); 4] = [
        |entry| fs::write(entry.join("model.mlmodelc/inside/digest"), "0".repeat(64)).unwrap(),
        |entry| fs::write(entry.join("model.mlmodelc/large"), "short").unwrap(),
        |entry| fs::remove_file(entry.join("model.mlmodelc/large")).unwrap(),
        |entry| fs::write(entry.join("files.json"), "[]").unwrap(),
    ];
    for damage in damages {
        let machine = Machine::new(folder.path(), Script::Right);
        damage(&entry(&machine.cache));
        assert!(machine.settle(&known).runs > 0);
        assert_eq!(fs::read(entry(&machine.cache).join("model.mlmodelc/large")).unwrap().len(), 2 << 20);
    }
    // A verdict that nobody can read.
    let machine = Machine::new(folder.path(), Script::Right);
    let (key, _) = verdicts(&machine.cache).remove(0);
    fs::write(folder.path().join(format!("{key}.json")), "{").unwrap();
    assert!(machine.settle(&known).runs > 0);
    assert_eq!(machine.verdict().refused, None);
}

#[test]
fn entries_that_were_used_least_recently_make_room() {
    let [first, second] = known();
    let folder = tempfile::tempdir().unwrap();
    let machine = |limit: u64| {
        Machine::with(folder.path(), Script::Right, |options| {
            options.cache = Some(ModelCache::new(folder.path()).with_limit(limit));
        })
    };
    // Room for one.
    let one = machine(3 << 20);
    assert!(one.settle(&first).runs > 0);
    // The thread that examined it may take a moment to end, and the processes that other tests start to close what they inherit.
    let lock = folder.path().join(format!("{}.lock", one.cache.entries()[0].key));
    let started = Instant::now();
    while fs::File::open(&lock).unwrap().try_lock().is_err() {
        assert!(started.elapsed() < Duration::from_secs(30), "the first program is in use for ever");
        sleep(Duration::from_millis(5));
    }
    assert!(one.settle(&second).runs > 0);
    let kept = one.cache.entries();
    assert_eq!(kept.len(), 1);
    assert_eq!(verdicts(&one.cache).len(), 2);
    // An entry that a process uses stays.
    let held = machine(3 << 20).cache.get(&kept[0].key).unwrap();
    assert!(machine(3 << 20).settle(&first).runs > 0);
    assert_eq!(one.cache.entries().len(), 2);
    assert!(held.path().exists());
    drop(held);
    assert!(one.cache.remove(&kept[0].key));
}

#[test]
fn two_processes_examine_a_program_once() {
    let [known, _] = known();
    let folder = tempfile::tempdir().unwrap();
    let launched = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counting = |options: &mut DeviceOptions| {
        let (launched, launch) = (Arc::clone(&launched), launch(Script::Right));
        options.admission.launcher = Arc::new(move |folder: &Path| {
            launched.fetch_add(
                usize::from(
                    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("work-")),
                ),
                Ordering::Relaxed,
            );
            launch(folder)
        });
    };
    // Locks of one process exclude each other as those of two do.
    let machines = [0, 1].map(|_| Machine::with(folder.path(), Script::Right, counting));
    std::thread::scope(|scope| {
        for machine in &machines {
            scope.spawn(|| assert!(machine.settle(&known).runs > 0));
        }
    });
    assert_eq!(launched.load(Ordering::Relaxed), 1);
}

#[test]
fn programs_without_a_child_process_are_told_so() {
    // In a process of its own, since another test calls `child`.
    rustorch_testkit::in_child(
        "device::programs_without_a_child_process_are_told_so",
        |_| {},
        || {
            let [known, _] = known();
            let folder = tempfile::tempdir().unwrap();
            let machine = Machine::with(folder.path(), Script::Right, |options| {
                options.admission.launcher = AdmissionOptions::default().launcher;
            });
            let refusal = machine.refusal(&known);
            assert!(refusal.contains("let its `main` call `rustorch::coreml::child()` first"), "{refusal}");
            assert!(verdicts(&machine.cache).is_empty());
        },
    );
}

#[test]
fn it_accepts_what_the_emitter_has_a_form_of() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path(), Script::Right);
    let reason = |dims: &[usize], dtype, f: &dyn Fn(&Tensor) -> rustorch_tensor::Result<Tensor>| {
        let cpu = HybridExecutor::builder().threads(1).build().unwrap();
        let specs = [TensorSpec::new(dims, dtype).unwrap()];
        let program = cpu.scope(|| capture(&specs, |x| Ok(vec![f(&x[0])?])).unwrap());
        let backend = machine.executor.backend(Device::COREML).unwrap();
        let graph = program.graph();
        let nodes = 0..graph.nodes.len();
        nodes.filter_map(|node| backend.compiler().unwrap().accepts(graph, node).err()).next()
    };
    assert_eq!(reason(&[4, 8], DType::F32, &|x| x.softmax(-1)), None);
    assert_eq!(reason(&[4, 8], DType::F32, &|x| x.argmax(-1, false)), None);
    for (dims, dtype, f, expected) in [
        (
            &[4usize, 8][..],
            DType::F32,
            (&|x: &Tensor| Ok(x.sort(0, false)?.0)) as &dyn Fn(&Tensor) -> _,
            "order of equal",
        ),
        (&[4], DType::F64, &|x: &Tensor| x.exp(), "F64 is not built"),
        (&[4], DType::C64, &|x: &Tensor| x.exp(), "C64 is not built"),
        (&[4], DType::I64, &|x: &Tensor| cases_embedding().embedding(x), "indices out of range"),
        (&[1, 1, 1, 1, 1, 2], DType::F32, &|x: &Tensor| x.exp(), "more than 5 dimensions"),
    ] {
        let reason = reason(dims, dtype, f).unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
}

fn cases_embedding() -> Tensor {
    crate::cases::values(&[10, 4], 1)
}
