//! Real devices in trouble and in company: parts of a model, too little memory, loss in the middle, operations that they lack.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail by a panic and say what it saw"
)]

use crate::common::{carried, executor, session, text};
use rustorch::core::{Backend, C128, DType, Decline, Device, Fault, Verdict};
use rustorch::llm::model::Offload;
use rustorch::runtime::{HybridExecutor, OnFault, Placement};
use rustorch::{Error, Tensor, linalg};
use rustorch_kernels::Engine;
use rustorch_testkit::{Requirement, skip};
use std::sync::Arc;

const DEVICES: [&str; 2] = ["vulkan", "opencl"];

fn on_each(test: impl Fn(Device, &HybridExecutor)) {
    for name in DEVICES {
        if let Some((device, executor)) = executor(name) {
            executor.scope(|| test(device, &executor));
        }
    }
}

fn reference(tokens: usize) -> String {
    text(&mut session(&carried(), None).0, tokens, &mut |_| {})
}

#[test]
fn a_model_split_between_devices_writes_the_same() {
    let want = reference(24);
    on_each(|device, _| {
        for (blocks, bytes) in [(Some(0), None), (Some(2), None), (None, Some(600 << 10)), (None, None)] {
            let (mut session, moved) = session(&carried(), Some(&Offload { device, blocks, bytes }));
            println!("{device}: {moved:?}");
            assert!(blocks.is_none_or(|most| moved.blocks <= most), "{moved:?}");
            assert!(bytes.is_none_or(|most| moved.bytes <= most), "{moved:?}");
            assert_eq!(moved.output, blocks.is_none() && bytes.is_none());
            assert_eq!(text(&mut session, 24, &mut |_| {}), want);
        }
    });
}

#[test]
fn a_prompt_read_at_once_is_a_prompt_read_token_by_token() {
    on_each(|device, _| {
        let whole = Offload { device, blocks: None, bytes: None };
        let tokens: Vec<u32> = (1..40).map(|i| i * 7 % 300).collect();
        let at_once = session(&carried(), Some(&whole)).0.feed(&tokens).unwrap().to_vec();
        let (mut one, _) = session(&carried(), Some(&whole));
        for token in &tokens {
            one.feed(&[*token]).unwrap();
        }
        assert_eq!(one.logits().unwrap(), at_once, "{device}");
        let cpu = session(&carried(), None).0.feed(&tokens).unwrap().to_vec();
        assert_eq!(at_once, cpu, "{device}");
    });
}

#[test]
fn a_device_lost_in_the_middle_changes_no_token() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    let want = reference(24);
    let engine = Arc::new(Engine::new(adapters[0].open().unwrap()).unwrap());
    let backend: Arc<dyn Backend> = engine.clone();
    let device = backend.device();
    let executor = HybridExecutor::builder().backend(backend).placement(Placement::Resident).build().unwrap();
    let got = executor.scope(|| {
        let (mut session, moved) = session(&carried(), Some(&Offload { device, blocks: None, bytes: None }));
        assert!(moved.output);
        text(&mut session, 24, &mut |token| {
            if token == 10 {
                engine.driver().lose();
            }
        })
    });
    assert_eq!(got, want);
    assert_eq!(executor.health().lost(), [device]);
}

#[test]
fn what_a_device_lacks_runs_elsewhere_and_comes_home() {
    on_each(|device, executor| {
        // No device but the CPU computes powers of c128.
        let x = [C128::new(3.0, 1.0), C128::I, C128::new(0.5, -2.0)];
        let there = Tensor::from_slice(&x, [3]).unwrap().to_device(device).unwrap();
        let (y, explanation) = executor.explain(|| there.pow(&there));
        let y = y.unwrap();
        assert_eq!(y.device(), device, "the result comes home");
        let want = x.map(|x| (x * x.ln()).exp());
        for (got, want) in y.to_vec::<C128>().unwrap().iter().zip(want) {
            assert!((got - want).norm() <= 1e-14 * want.norm(), "{got} is not {want}");
        }
        let record = explanation.records().iter().find(|r| r.op.name() == "pow").unwrap();
        assert_eq!((record.device, record.returned_to), (Some(Device::CPU), Some(device)));
        assert!(matches!(record.considered[0], (d, Verdict::Declined(_)) if d == device), "{explanation}");
    });
}

#[test]
fn linear_algebra_runs_elsewhere_and_comes_home() {
    on_each(|device, executor| {
        let a = Tensor::new([[4.0f32, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]]).unwrap();
        let b = Tensor::new([5.0f32, 5.0, 3.0]).unwrap();
        let (a, b) = (a.to_device(device).unwrap(), b.to_device(device).unwrap());
        let (x, explanation) = executor.explain(|| linalg::solve(&a, &b));
        let x = x.unwrap();
        assert_eq!(x.device(), device, "the result comes home");
        assert!(
            x.allclose(&Tensor::ones(3, DType::F32).unwrap().to_device(device).unwrap(), 1e-5, 0.0, false)
                .unwrap()
        );
        // A device that multiplies matrices in f32 does not solve in f32: that is a class of its own.
        let record = explanation.records().iter().find(|r| r.op.name() == "linalg.solve").unwrap();
        assert_eq!((record.device, record.returned_to), (Some(Device::CPU), Some(device)), "{explanation}");
        assert_eq!(
            record.considered[0],
            (device, Verdict::Declined(Decline::Op("linalg.solve"))),
            "{explanation}"
        );
        assert!(explanation.to_string().contains("operation linalg.solve is not supported"), "{explanation}");
        // Work on the device goes on with the result.
        let (product, explanation) = executor.explain(|| a.matmul(&x));
        assert_eq!(product.unwrap().device(), device);
        assert_eq!(explanation.records().last().unwrap().device, Some(device), "{explanation}");
        // Results of several parts and dtypes come home, too.
        let (p, l, u) = linalg::lu(&a).unwrap();
        assert_eq!([p.device(), l.device(), u.device()], [device; 3]);
        assert!(p.matmul(&l).unwrap().matmul(&u).unwrap().allclose(&a, 1e-5, 1e-6, false).unwrap());
        // What no device could do is an error at once, of the matrix.
        let error = linalg::cholesky(&a.neg().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Matrix { op: "linalg.cholesky", .. }), "{error}");
    });
}

#[test]
fn more_than_the_memory_falls_back_or_fails_as_asked() {
    on_each(|device, executor| {
        // 64 KiB are allowed, a megabyte is asked for.
        executor.memory().set_limit(device, Some(64 << 10));
        let x = Tensor::zeros([1 << 18], DType::F32).unwrap();
        let prefer = executor.with_policy(Placement::Prefer(device)).unwrap();
        let (sum, explanation) = prefer.explain(|| x.add(&x));
        assert_eq!(sum.unwrap().to_vec::<f32>().unwrap(), vec![0.0; 1 << 18]);
        let record = explanation.records().iter().find(|r| r.op.name() == "add").unwrap();
        assert_eq!(record.device, Some(Device::CPU), "{explanation}");
        assert!(
            record.considered.iter().any(|(d, v)| *d == device && matches!(v, Verdict::Failed(_))),
            "{explanation}"
        );
        let strict = prefer.with_on_fault(OnFault::Error);
        let error = strict.scope(|| x.add(&x)).unwrap_err();
        assert!(
            matches!(error, Error::Dispatch(_)) && error.to_string().contains("out of memory"),
            "{error}"
        );
        executor.memory().set_limit(device, None);
    });
}

/// Elements whose f32 take 120 MiB.
const LARGE: usize = 30 << 20;

/// The child of [`memory_that_the_system_lacks_is_released_and_then_had_elsewhere`].
#[test]
#[ignore = "run by another test in a process that may have little memory"]
fn exhaust() {
    let (device, executor) = executor("vulkan").unwrap();
    // What the CPU will have room in, when there is no more.
    let alone = executor.with_policy(Placement::CpuOnly).unwrap();
    alone.scope(|| drop(Tensor::ones([LARGE], DType::F32).unwrap()));
    let prefer = executor.with_policy(Placement::Prefer(device)).unwrap();
    prefer.scope(|| {
        let one = Tensor::from_slice(&[1.5f32], [1]).unwrap().to_device(device).unwrap();
        let mut kept = Vec::new();
        let record = loop {
            assert!(kept.len() < 64, "the limit does not work");
            let (made, explanation) = prefer.explain(|| one.expand([LARGE]).unwrap().copy());
            let record = explanation.records().iter().find(|r| r.op.name() == "copy").unwrap().clone();
            match record.device {
                Some(ran) if ran == device => kept.push(made.unwrap()),
                _ => break record,
            }
        };
        println!("{} fit; then: {:?}", kept.len(), record.considered);
        let failed = |(d, v): &(Device, Verdict)| {
            *d == device && matches!(v, Verdict::Failed(Fault::OutOfMemory { .. }))
        };
        assert!(record.considered.iter().any(failed), "{record:?}");
        println!("fell back: {}", record.device == Some(Device::CPU));

        // Two that the allocator keeps make room for one of another size, once it has let go of them.
        kept.truncate(kept.len() - 2);
        let (more, explanation) = prefer.explain(|| one.expand([LARGE + LARGE / 20]).unwrap().copy());
        let record = explanation.records().iter().find(|r| r.op.name() == "copy").unwrap();
        assert_eq!(record.device, Some(device), "{explanation}");
        let last = more.unwrap().narrow(0, LARGE, 1).unwrap().to_vec::<f32>().unwrap();
        println!(
            "released and tried again: {}",
            last == [1.5] && executor.memory().stats(device).unwrap().faults > 0
        );
    });
}

#[test]
#[cfg(target_os = "linux")]
fn memory_that_the_system_lacks_is_released_and_then_had_elsewhere() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    if !adapters[0].is_software() {
        return skip(Requirement::Feature, "only a software device's memory can be limited");
    }
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 3000000; exec \"$0\" devices_at_work::exhaust --exact --ignored --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for wanted in ["fell back: true", "released and tried again: true"] {
        assert!(said.contains(wanted), "{said}");
    }
}
