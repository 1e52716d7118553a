//! Matmuls by cuBLASLt, over a fake GPU and a fake library (`fake/cublasLt.c`), which computes them from its descriptions and
//! takes nothing that makes no sense.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests")]

use crate::common::fakes::{Blas, another, with_fake, with_fakes};
use crate::common::gemms::{ARRANGEMENTS, DTYPES, case, square};
use rustorch_core::profile::{DeviceProfiler, SpanKind};
use rustorch_core::{
    Backend, DType, Fault, Layout, MatMul, Op, Remarks, Shape, StreamScope, Streams, UnaryOp, View, ViewMut,
    run_checked,
};
use rustorch_cpu::CpuBackend;
use rustorch_cuda::{Cuda, Memory};
use rustorch_kernels::driver::{BatchedGemm, BlasLibrary, DriverLayer, GemmOutcome, MatrixBatch};
use rustorch_kernels::{Driver, Engine};
use rustorch_testkit::conformance::{self, Case, Outcome};
use rustorch_testkit::{Requirement, skip};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn open() -> Cuda {
    rustorch_cuda::discover().devices[0].open_with(None).unwrap()
}

fn engine() -> Engine<Cuda> {
    Engine::new(open()).unwrap()
}

/// How often the library was called so.
fn calls(what: &str) -> usize {
    let log = std::fs::read_to_string(std::env::var("FAKE_BLAS_LOG").unwrap()).unwrap_or_default();
    log.lines().filter(|line| *line == what).count()
}

/// How many kernels were compiled.
fn compiled() -> usize {
    std::fs::read_to_string(std::env::var("FAKE_COMPILED").unwrap()).unwrap_or_default().lines().count()
}

#[test]
fn matmuls_equal_the_cpu() {
    with_fake("blas::matmuls_equal_the_cpu", &[], || {
        let (engine, cpu) = (engine(), CpuBackend::new(1));
        assert_eq!(
            engine.remarks(),
            ["matmuls of f16, bf16, f32, f64, f32 by f16, f32 by bf16 matrices by cuBLASLt 13.4.1"]
        );
        let kernels = compiled();
        for dtype in DTYPES {
            for &(a, b, expected) in ARRANGEMENTS {
                let case = case(dtype, a, b);
                let (before, asked) = (calls("matmul"), calls("heuristic"));
                for round in 0..2 {
                    let outcome = conformance::check_case(&case, &engine, &cpu);
                    assert!(matches!(outcome, Outcome::Agreed), "{case}, {round}: {outcome:?}");
                }
                assert_eq!(calls("matmul") - before, 2 * expected, "{case}");
                // Calls of one operation may be less aligned than each other.
                assert!(calls("heuristic") - asked <= expected, "{case}: algorithms are remembered");
            }
        }
        assert_eq!(compiled(), kernels, "none was done by kernels");
        assert_eq!(calls("create"), 1);
        drop(engine);
        assert_eq!(calls("destroy"), 1);
    });
}

#[test]
fn what_no_library_is_asked_for() {
    with_fake("blas::what_no_library_is_asked_for", &[], || {
        let engine = engine();
        engine.remarks();
        let before = calls("matmul");
        let stays = |case: Case| by_kernels(&engine, &case);
        stays(case(DType::F32, (&[33, 40], &[80, 2], 0), (&[40, 35], &[35, 1], 0)));
        stays(case(DType::F32, (&[31, 32], &[32, 1], 0), (&[32, 32], &[32, 1], 0)));
        let op = Op::MatMul(MatMul { batch_invariant: true, ..MatMul::default() });
        stays(Case { op, ..square(DType::F32) });
        assert_eq!(calls("matmul"), before);
    });
}

/// The matmul is left to the engine's own kernels, which is seen by one that is compiled. The fake runs none.
fn by_kernels(engine: &Engine<Cuda>, case: &Case) {
    let before = compiled();
    match conformance::check_case(case, engine, &CpuBackend::new(1)) {
        Outcome::Agreed => {}
        Outcome::Failed(fault) => {
            let said = fault.to_string();
            assert!(said.contains("kernel `MatMul(MatMul"), "{case}: {said}");
        }
        other => panic!("{case}: {other:?}"),
    }
    assert!(compiled() > before, "{case}");
}

/// What measurements of the GPU are kept under.
fn identity() -> String {
    rustorch_cuda::discover().devices[0].hardware().driver.clone()
}

/// The library is out for good, for this reason.
fn without(words: &str) {
    let engine = engine();
    for dtype in DTYPES {
        by_kernels(&engine, &square(dtype));
    }
    let said = engine.remarks().join("\n");
    assert!(said.contains(words), "{said}");
    assert_eq!(calls("create"), calls("matmul").min(1));
}

#[test]
fn a_machine_without_the_library() {
    with_fakes("blas::a_machine_without_the_library", Blas::Nothing, &[], || {
        if std::path::Path::new("/usr/local/cuda").exists() {
            return skip(
                Requirement::System,
                "the CUDA toolkit is installed, where cuBLASLt is found without a path",
            );
        }
        assert!(identity().contains("without cuBLASLt"), "{}", identity());
        without("cuBLASLt, NVIDIA's BLAS library (libcublasLt.so), is not found");
        assert!(open().blas().unwrap().is_err_and(|why| why.contains("pip install nvidia-cublas-cu12")));
    });
}

#[test]
fn a_library_that_lacks_a_function() {
    with_fakes("blas::a_library_that_lacks_a_function", Blas::Another, &[], || {
        without("cuBLASLt has no function cublasLtCreate");
    });
}

#[test]
fn a_path_that_leads_nowhere() {
    with_fake("blas::a_path_that_leads_nowhere", &[("CUBLASLT_PATH", "/nonexistent/lib")], || {
        assert!(identity().contains("without cuBLASLt"), "{}", identity());
        without("CUBLASLT_PATH is /nonexistent/lib, but there is no cuBLASLt that can be loaded");
    });
}

#[test]
fn the_users_library_counts_and_not_the_systems() {
    let Some(folder) = another("cublasLt", 120805, "libcublasLt.so.12") else { return };
    let path = folder.path().to_str().unwrap();
    with_fake("blas::the_users_library_counts_and_not_the_systems", &[("CUBLASLT_PATH", path)], || {
        assert_eq!(open().blas().unwrap().unwrap().name(), "cuBLASLt 12.8.5");
        assert!(identity().contains(", cuBLASLt libcublasLt.so.12 of "), "{}", identity());
    });
}

#[test]
fn a_library_that_does_not_start() {
    with_fake("blas::a_library_that_does_not_start", &[("FAKE_BLAS_CREATE", "1")], || {
        without(
            "cuBLASLt 13.4.1 does not start, so RusTorch's own kernels multiply: cublasLtCreate says CUBLAS_STATUS_NOT_INITIALIZED (1); it may be newer than the GPU's driver",
        );
    });
}

#[test]
fn a_library_that_fails_by_itself() {
    with_fake("blas::a_library_that_fails_by_itself", &[("FAKE_BLAS_CREATE", "14")], || {
        let driver = open();
        let Some(Err(why)) = driver.blas() else { panic!("it does not start") };
        assert!(why.ends_with("cublasLtCreate says CUBLAS_STATUS_INTERNAL_ERROR (14)"), "{why}");
    });
}

#[test]
fn a_library_that_has_no_memory_to_start_with() {
    let variables = [("FAKE_BLAS_CREATE", "3"), ("FAKE_BLAS_CREATE_UNTIL", "2")];
    with_fake("blas::a_library_that_has_no_memory_to_start_with", &variables, || {
        let engine = engine();
        assert!(engine.driver().blas().unwrap().is_err_and(|why| why.contains("at present")));
        by_kernels(&engine, &square(DType::F32));
        let outcome = conformance::check_case(&square(DType::F32), &engine, &CpuBackend::new(1));
        assert!(matches!(outcome, Outcome::Agreed), "{outcome:?}");
        assert_eq!(calls("create"), 1);
    });
}

#[test]
fn a_library_without_algorithms() {
    with_fake("blas::a_library_without_algorithms", &[("FAKE_BLAS_ALGORITHMS", "0")], || {
        let engine = engine();
        by_kernels(&engine, &square(DType::F32));
        by_kernels(&engine, &case(DType::F32, (&[64, 40], &[40, 1], 0), (&[40, 35], &[35, 1], 0)));
        assert_eq!((calls("heuristic"), calls("matmul")), (1, 0), "the dtype is out");
        let said = engine.remarks().join("\n");
        assert!(said.contains("matmuls of f32 matrices are not by cuBLASLt 13.4.1: it has none"), "{said}");
    });
}

#[test]
fn a_library_that_finds_no_algorithm_by_a_failure() {
    with_fake(
        "blas::a_library_that_finds_no_algorithm_by_a_failure",
        &[("FAKE_BLAS_HEURISTIC", "14")],
        || {
            let engine = engine();
            by_kernels(&engine, &square(DType::F64));
            assert_eq!((calls("heuristic"), calls("matmul")), (1, 0));
        },
    );
}

#[test]
fn wrong_results_are_found_out() {
    // Numbers of the types: 2 is f16.
    with_fake("blas::wrong_results_are_found_out", &[("FAKE_BLAS_WRONG", "2")], || {
        let engine = engine();
        by_kernels(&engine, &square(DType::F16));
        let outcome = conformance::check_case(&square(DType::F32), &engine, &CpuBackend::new(1));
        assert!(matches!(outcome, Outcome::Agreed), "{outcome:?}");
        let said = engine.remarks();
        assert_eq!(said[0], "matmuls of bf16, f32, f64, f32 by bf16 matrices by cuBLASLt 13.4.1");
        assert!(
            said[1].starts_with("matmuls of f16 matrices are not by cuBLASLt 13.4.1: it gives"),
            "{said:?}"
        );
    });
}

#[test]
fn a_matmul_that_fails_is_not_tried_again() {
    // The two matmuls of the proof and one more succeed.
    let variables = [("FAKE_BLAS_MATMUL", "13"), ("FAKE_BLAS_FROM", "3")];
    with_fake("blas::a_matmul_that_fails_is_not_tried_again", &variables, || {
        let (engine, cpu) = (engine(), CpuBackend::new(1));
        assert!(matches!(conformance::check_case(&square(DType::F32), &engine, &cpu), Outcome::Agreed));
        by_kernels(&engine, &square(DType::F32));
        assert_eq!((calls("heuristic"), calls("matmul")), (3, 4));
        let _ = conformance::check_case(&square(DType::F32), &engine, &cpu);
        assert_eq!((calls("heuristic"), calls("matmul")), (3, 4));
        // Another shape is another matter.
        let other = case(DType::F32, (&[64, 40], &[40, 1], 0), (&[40, 35], &[35, 1], 0));
        let _ = conformance::check_case(&other, &engine, &cpu);
        assert_eq!((calls("heuristic"), calls("matmul")), (4, 5));
    });
}

#[test]
fn a_proof_without_memory_is_tried_again() {
    // The proof's first matmul fails as for lack of temporary memory.
    let variables = [("FAKE_BLAS_MATMUL", "3"), ("FAKE_BLAS_UNTIL", "1")];
    with_fake("blas::a_proof_without_memory_is_tried_again", &variables, || {
        let engine = engine();
        by_kernels(&engine, &square(DType::F32));
        let outcome = conformance::check_case(&square(DType::F32), &engine, &CpuBackend::new(1));
        assert!(matches!(outcome, Outcome::Agreed), "{outcome:?}");
        assert_eq!(calls("matmul"), 4);
        assert!(
            engine.remarks()[0]
                .starts_with("matmuls of f16, bf16, f32, f64, f32 by f16, f32 by bf16 matrices by cuBLASLt")
        );
    });
}

#[test]
fn without_memory_for_what_surrounds_the_library_kernels_multiply() {
    let name = "blas::without_memory_for_what_surrounds_the_library_kernels_multiply";
    with_fake(name, &[("FAKE_MEMORY", "1000000")], || {
        let engine = engine();
        // Room for the operands, but not for those of the proof.
        let held = engine.alloc(960_000).unwrap();
        by_kernels(&engine, &square(DType::F32));
        assert_eq!(calls("matmul"), 0);
        let said = engine.remarks().join("\n");
        let not_now =
            "matmuls of f32 matrices are not by cuBLASLt 13.4.1: there is no memory to try it at present";
        assert!(said.contains(not_now), "{said}");
        drop(held);
        let outcome = conformance::check_case(&square(DType::F32), &engine, &CpuBackend::new(1));
        assert!(matches!(outcome, Outcome::Agreed), "{outcome:?}");
        // Nor for the sums of a matmul to which a function is applied.
        let _held = engine.alloc(200_000).unwrap();
        let plain = case(DType::F32, (&[300, 40], &[40, 1], 0), (&[40, 300], &[300, 1], 0));
        let op = Op::MatMul(MatMul { activation: Some(UnaryOp::Relu), ..MatMul::default() });
        let before = calls("matmul");
        by_kernels(&engine, &Case { op, ..plain });
        assert_eq!(calls("matmul"), before);
    });
}

/// A matmul by the driver, of packed operands.
fn multiply(
    driver: &Cuda,
    [m, n, k]: [usize; 3],
    accumulate: bool,
    memories: [&Memory; 3],
) -> Result<GemmOutcome, Fault> {
    let matrices = |pitch| MatrixBatch { pitch, transposed: false, step: 0 };
    let (a, b, out) = (matrices(k), matrices(n), matrices(n));
    let product =
        BatchedGemm { dtype: DType::F32, out_dtype: DType::F32, m, n, k, batch: 1, a, b, out, accumulate };
    let library = driver.blas().unwrap().unwrap();
    library.multiply(&product, (memories[0], 0), (memories[1], 0), (memories[2], 0))
}

fn memory(driver: &Cuda, values: &[f32]) -> Memory {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let memory = driver.allocate(bytes.len().next_multiple_of(16)).unwrap();
    driver.write(&memory, 0, &bytes).unwrap();
    memory
}

fn values(driver: &Cuda, memory: &Memory, count: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * count];
    driver.read(memory, 0, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn added_up() {
    let driver = open();
    let a = memory(&driver, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = memory(&driver, &[1.0, 10.0, 100.0]);
    let out = memory(&driver, &[f32::NAN, f32::NAN, 7.0, 7.0]);
    let operands = [&a, &b, &out];
    assert_eq!(multiply(&driver, [2, 1, 3], false, operands), Ok(GemmOutcome::Given));
    assert_eq!(multiply(&driver, [2, 1, 3], true, operands), Ok(GemmOutcome::Given));
    assert_eq!(values(&driver, &out, 4), [642.0, 1308.0, 7.0, 7.0]);
    // More than the memories have is the caller's error.
    let fault = multiply(&driver, [3, 1, 3], false, operands).unwrap_err();
    assert!(matches!(fault, Fault::Invalid(_)), "{fault}");
    let fault = multiply(&driver, [2, 1, 3], false, [&a, &b, &memory(&open(), &[0.0; 4])]).unwrap_err();
    assert!(matches!(fault, Fault::Invalid(_)), "{fault}");
    driver.lose("pulled out");
    let fault = multiply(&driver, [2, 1, 3], false, operands).unwrap_err();
    assert!(matches!(fault, Fault::DeviceLost { .. }), "{fault}");
}

#[test]
fn matmuls_are_added_to_what_is_there() {
    with_fake("blas::matmuls_are_added_to_what_is_there", &[], added_up);
}

#[test]
fn without_a_pool_there_is_no_temporary_memory() {
    with_fake("blas::without_a_pool_there_is_no_temporary_memory", &[("FAKE_POOL", "0")], added_up);
}

#[test]
fn temporary_memory_that_there_is_not() {
    let variables = [("FAKE_MEMORY", "1000000"), ("FAKE_BLAS_WORKSPACE", "2000000")];
    with_fake("blas::temporary_memory_that_there_is_not", &variables, || {
        let driver = open();
        let one = memory(&driver, &[1.0; 4]);
        assert_eq!(multiply(&driver, [1, 1, 1], false, [&one; 3]), Ok(GemmOutcome::NotNow));
        assert_eq!(calls("matmul"), 0);
    });
}

#[test]
fn so_many_matmuls_are_remembered() {
    with_fake("blas::so_many_matmuls_are_remembered", &[], || {
        let driver = open();
        let [a, b, out] = [1.0, 2.0, 0.0].map(|x| memory(&driver, &[x; 1100]));
        let run = |k| {
            assert_eq!(multiply(&driver, [1, 1, k], false, [&a, &b, &out]), Ok(GemmOutcome::Given));
        };
        (1..=1024).for_each(run);
        run(1);
        assert_eq!(calls("heuristic"), 1024);
        run(1025);
        run(1);
        assert_eq!(calls("heuristic"), 1026, "all were forgotten");
        assert_eq!(values(&driver, &out, 1), [2.0]);
    });
}

#[test]
fn profiles_tell_of_the_library() {
    with_fake("blas::profiles_tell_of_the_library", &[], || {
        let driver = open();
        let one = [1.0, 1.0, 0.0].map(|x| memory(&driver, &[x; 16]));
        driver.start().unwrap();
        let given = multiply(&driver, [4, 4, 4], false, [&one[0], &one[1], &one[2]]);
        assert_eq!(given, Ok(GemmOutcome::Given));
        let spans = driver.take_spans().unwrap();
        let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.label.as_ref())).collect();
        assert_eq!(seen, [(SpanKind::Compute, "cuBLASLt matmul f32")]);
        assert_eq!(values(&driver, &one[2], 16), [4.0; 16]);
    });
}

#[test]
fn matmuls_wait_for_other_streams() {
    with_fake("blas::matmuls_wait_for_other_streams", &[], || {
        let engine = engine();
        assert_eq!(engine.set_streams(3), 3);
        let layout = Layout::contiguous(Shape::new([40, 40].as_slice()).unwrap());
        let buffer = || engine.alloc(6400).unwrap();
        let (mut a, mut b, mut out) = (buffer(), buffer(), buffer());
        let fill = |buffer: &mut _, x: f32| {
            let bytes: Vec<u8> = [x; 1600].iter().flat_map(|x| x.to_le_bytes()).collect();
            // SAFETY: the buffer has the bytes, and nobody else uses it.
            engine.copy_in(&bytes, &mut unsafe { ViewMut::new(buffer, DType::F32, &layout) }).unwrap();
        };
        for round in 1..6 {
            let _scope = StreamScope::enter(round % 3);
            fill(&mut a, round as f32);
            fill(&mut b, 2.0);
            {
                let _scope = StreamScope::enter((round + 1) % 3);
                // SAFETY: the buffers have the bytes of the layout, and nobody else uses them.
                let args = [&a, &b].map(|buffer| unsafe { View::new(buffer, DType::F32, &layout) });
                // SAFETY: as above.
                let out = unsafe { ViewMut::new(&mut out, DType::F32, &layout) };
                run_checked(&engine, &Op::MatMul(MatMul::default()), &args, &mut [out]).unwrap();
            }
            let _scope = StreamScope::enter((round + 2) % 3);
            let mut bytes = vec![0; 6400];
            // SAFETY: as above.
            engine.copy_out(&unsafe { View::new(&out, DType::F32, &layout) }, &mut bytes).unwrap();
            let found =
                bytes.as_chunks::<4>().0.iter().all(|x| f32::from_le_bytes(*x) == 80.0 * round as f32);
            assert!(found, "{round}");
        }
    });
}

/// A GPU whose library tells another thread when it is asked for its first matmul, and then takes its time.
struct Slow {
    driver: Cuda,
    asked: Mutex<Option<Sender<()>>>,
    /// Whether the other thread is through.
    changed: Arc<AtomicBool>,
}

impl DriverLayer for Slow {
    type Inner = Cuda;

    fn inner(&self) -> &Cuda {
        &self.driver
    }

    fn blas(&self) -> Option<Result<&dyn BlasLibrary<Memory>, &str>> {
        Some(Ok(self))
    }
}

impl BlasLibrary<Memory> for Slow {
    fn name(&self) -> &str {
        "a slow library"
    }

    fn takes(&self, _product: &BatchedGemm) -> bool {
        true
    }

    fn multiply(
        &self,
        product: &BatchedGemm,
        a: (&Memory, usize),
        b: (&Memory, usize),
        out: (&Memory, usize),
    ) -> Result<GemmOutcome, Fault> {
        if let Some(asked) = self.asked.lock().unwrap().take() {
            asked.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            assert!(!self.changed.load(Ordering::SeqCst), "streams have changed while work is given");
        }
        self.driver.blas().unwrap().unwrap().multiply(product, a, b, out)
    }
}

#[test]
fn streams_stay_while_a_library_is_proven() {
    with_fake("blas::streams_stay_while_a_library_is_proven", &[], || {
        let (asked, wait) = channel();
        let changed = Arc::new(AtomicBool::new(false));
        let driver = Slow { driver: open(), asked: Mutex::new(Some(asked)), changed: Arc::clone(&changed) };
        let engine = Engine::new(driver).unwrap();
        let (engine, changed) = (&engine, &changed);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                wait.recv().unwrap();
                assert_eq!(engine.set_streams(2), 2);
                changed.store(true, Ordering::SeqCst);
            });
            assert_eq!(
                engine.remarks(),
                ["matmuls of f16, bf16, f32, f64, f32 by f16, f32 by bf16 matrices by a slow library"]
            );
        });
        assert!(changed.load(Ordering::SeqCst));
    });
}
