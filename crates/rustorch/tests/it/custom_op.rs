//! Custom operations on the CPU, on Vulkan, OpenCL and CUDA devices of the machine, and on the emulated CUDA device.

use crate::common::executor;
use crate::common::fakes::{emulates, everywhere};
use rustorch::core::{Decline, Device, Op, OpKind, Verdict};
use rustorch::runtime::{Explanation, HybridExecutor, Operand};
use rustorch::{CustomOp, CustomOpBuilder, DType, Error, OutputMeta, Shape, Tensor};
use std::sync::Mutex;

/// The example, which `cargo test` builds by itself, too.
#[path = "../../examples/custom_op.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

/// Calls `test` with each device that is not the CPU, and an executor with it.
fn on_each(test: impl Fn(Device, &HybridExecutor)) {
    let names = if emulates() { &["cuda"][..] } else { &["vulkan", "opencl", "cuda"] };
    for name in names {
        match executor(name) {
            Some((device, executor)) => executor.scope(|| test(device, &executor)),
            None => assert!(!emulates(), "the emulated GPU is not found"),
        }
    }
}

/// An op of one result like its first argument, without a kernel yet.
fn like_first(name: &'static str) -> CustomOpBuilder {
    CustomOp::builder(name, 1)
        .infer(|args, _| Ok(vec![OutputMeta { dtype: args[0].dtype, shape: args[0].shape().clone() }]))
}

/// WGSL of one argument and one result of `f32`, with this as the body of `main`, which 64 invocations execute.
fn wgsl(body: &str) -> String {
    format!(
        "@group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{ let i = id.x; {body} }}"
    )
}

/// Runs an op on a device's tensors, and tells of the dispatch.
fn explained(executor: &HybridExecutor, op: &CustomOp, args: &[&Tensor]) -> (Tensor, Explanation) {
    let (outs, explanation) = executor.explain(|| Tensor::custom(op, args).unwrap());
    (outs.into_iter().next().unwrap(), explanation)
}

fn ran_on(explanation: &Explanation, op: &CustomOp) -> Option<Device> {
    let record = explanation.records().iter().find(|record| record.op == OpKind::Custom(op.kind())).unwrap();
    record.device
}

/// Why a device declined an op, which then ran on the CPU.
fn declined(device: Device, executor: &HybridExecutor, op: &CustomOp, args: &[&Tensor]) -> String {
    let (_, explanation) = explained(executor, op, args);
    assert_eq!(ran_on(&explanation, op), Some(Device::CPU));
    let text = explanation.to_string();
    let considered = explanation.records().iter().flat_map(|record| &record.considered);
    for (which, verdict) in considered {
        if let (true, Verdict::Declined(Decline::Kernel(reason))) = (*which == device, verdict) {
            assert!(text.contains(&**reason) && text.contains(op.name()), "{text}");
            return reason.to_string();
        }
    }
    panic!("{device} did not decline:\n{text}");
}

/// `0, 1, ..` on a device.
fn range(len: i64, device: Device) -> Tensor {
    Tensor::arange(0, len, 1).unwrap().to_dtype(DType::F32).unwrap().to_device(device).unwrap()
}

#[test]
fn saxpy_is_five() {
    everywhere("custom_op::saxpy_is_five", || {
        let saxpy = example::saxpy().unwrap().with_params([2.0_f32]);
        let run = |device: Device, executor: &HybridExecutor| {
            let x = Tensor::ones([3, 100], (DType::F32, device)).unwrap();
            let y = Tensor::full([3, 100], 3.0, (DType::F32, device)).unwrap();
            let (out, explanation) = explained(executor, &saxpy, &[&x, &y]);
            assert_eq!(ran_on(&explanation, &saxpy), Some(device), "{explanation}");
            assert!(explanation.to_string().contains("saxpy"), "{explanation}");
            assert_eq!((out.device(), out.dims()), (device, &[3, 100][..]));
            assert_eq!(out.to_vec::<f32>().unwrap(), [5.0; 300]);
        };
        run(Device::CPU, &HybridExecutor::builder().build().unwrap());
        on_each(run);
    });
}

#[test]
fn the_gradient_of_saxpy_is_where_its_arguments_are() {
    everywhere("custom_op::the_gradient_of_saxpy_is_where_its_arguments_are", || {
        let saxpy = example::saxpy().unwrap().with_params([2.0_f32]);
        let run = |device: Device, executor: &HybridExecutor| {
            let x = range(300, device);
            let y = range(300, device);
            x.requires_grad_(true).unwrap();
            y.requires_grad_(true).unwrap();
            executor.scope(|| {
                let out = Tensor::custom(&saxpy, &[&x, &y]).unwrap().remove(0);
                out.sum_all().unwrap().backward().unwrap();
            });
            for (leaf, expected) in [(&x, 2.0), (&y, 1.0)] {
                let grad = leaf.grad().unwrap();
                assert_eq!((grad.device(), grad.to_vec::<f32>().unwrap()), (device, vec![expected; 300]));
            }
        };
        run(Device::CPU, &HybridExecutor::builder().build().unwrap());
        on_each(run);
    });
}

#[test]
fn arguments_are_contiguous_and_results_are_zero_at_first() {
    everywhere("custom_op::arguments_are_contiguous_and_results_are_zero_at_first", || {
        // Every other element is written, and added to what is there.
        let op = like_first("every_other")
            .cpu(|args, outs, _| {
                let (x, y) = (args[0].slice::<f32>()?, outs[0].slice_mut::<f32>()?);
                y.iter_mut().zip(x).step_by(2).for_each(|(y, x)| *y += x);
                Ok(())
            })
            .wgsl(wgsl("if i < arrayLength(&x) && i % 2u == 0u { y[i] += x[i]; }"), |_, _, _| [1, 1, 1])
            .build()
            .unwrap();
        let run = |device: Device, executor: &HybridExecutor| {
            let whole = range(30, device).reshape([5, 6]).unwrap();
            for x in [whole.t().unwrap(), whole.narrow(0, 1, 3).unwrap(), whole.narrow(1, 1, 2).unwrap()] {
                let (y, explanation) = explained(executor, &op, &[&x]);
                assert_eq!(ran_on(&explanation, &op), Some(device), "{explanation}");
                let mut want = x.to_vec::<f32>().unwrap();
                want.iter_mut().skip(1).step_by(2).for_each(|x| *x = 0.0);
                assert_eq!(y.to_vec::<f32>().unwrap(), want);
            }
            // A destination in the middle of a tensor, and one with gaps.
            let x = range(4, device).reshape([2, 2]).unwrap();
            for axis in [0, 1] {
                let all = Tensor::full([4, 4], 7.0, (DType::F32, device)).unwrap();
                let place = all.narrow(axis, 1, 2).unwrap().narrow(1 - axis, 0, 2).unwrap();
                let [from, to] = [&x, &place].map(operand);
                executor.run_into(&op.clone().into(), &[from], &[to]).unwrap();
                assert_eq!(place.to_vec::<f32>().unwrap(), [0.0, 0.0, 2.0, 0.0]);
                assert_eq!(all.eq(7.0).unwrap().sum_all().unwrap().item().unwrap().to_i64(), 12);
            }
        };
        run(Device::CPU, &HybridExecutor::builder().build().unwrap());
        on_each(run);
    });
}

fn operand(x: &Tensor) -> Operand<'_> {
    Operand { storage: x.storage(), dtype: x.dtype(), layout: x.layout() }
}

#[test]
fn indices_out_of_bounds_touch_no_neighbours() {
    everywhere("custom_op::indices_out_of_bounds_touch_no_neighbours", || {
        // Far and near, above and below; of storage, an array of the function and one of the workgroup.
        let source = wgsl(
            "var own = array<f32, 3>(1.0, 1.0, 1.0);
            let wild = array<u32, 8>(256u, 300u, 511u, 4096u, 65536u, 0x3fffffffu, 0xffffffffu, 0x80000000u);
            for (var k = i; k < 1000u; k++) {
                let at = wild[k % 11u];
                own[at + k] = 1.0;
                tile[i32(at) * 5] = own[i32(at) - 7];
                y[at] = x[at + k] + tile[at] - own[at * k];
                y[i32(k) - 1000] = x[i32(k) - 2000];
                copy(i32(at));
            }",
        )
        .replace("(64)", "(1)")
            + "var<workgroup> tile: array<f32, 5>;
            fn copy(at: i32) { for (var k = 0; k < 3; k++) { y[at + k] = x[at - k]; } }";
        let op = like_first("wild").wgsl(source, |_, _, _| [1, 1, 1]).build().unwrap();
        on_each(|device, executor| {
            let secret = Tensor::full([3, 256], 1e9, (DType::F32, device)).unwrap();
            let x = secret.narrow(0, 1, 1).unwrap();
            x.copy_(&Tensor::full([1, 256], 2.0, (DType::F32, device)).unwrap()).unwrap();
            let all = Tensor::full([3, 256], 7.0, (DType::F32, device)).unwrap();
            let y = all.narrow(0, 1, 1).unwrap();
            let (result, explanation) =
                executor.explain(|| executor.run_into(&op.clone().into(), &[operand(&x)], &[operand(&y)]));
            result.unwrap();
            assert_eq!(ran_on(&explanation, &op), Some(device), "{explanation}");
            let all = all.to_vec::<f32>().unwrap();
            assert!(
                all[..256].iter().chain(&all[512..]).all(|&x| x == 7.0),
                "{device}: a neighbour is written"
            );
            assert!(all[256..512].iter().all(|x| x.abs() < 10.0), "{device}: a neighbour is read");
        });
    });
}

#[test]
fn what_is_wrong_with_wgsl_is_told_and_the_cpu_computes() {
    everywhere("custom_op::what_is_wrong_with_wgsl_is_told_and_the_cpu_computes", || {
        on_each(|device, executor| {
            let x = range(4, device);
            let reason = |source: &str, grid: u32| {
                let op = like_first("copy_of")
                    .cpu(|args, outs, _| {
                        outs[0].slice_mut::<f32>()?.copy_from_slice(args[0].slice()?);
                        Ok(())
                    })
                    .wgsl(source, move |_, _, _| [grid, 1, 1])
                    .build()
                    .unwrap();
                declined(device, executor, &op, &[&x])
            };
            for (source, words) in [
                ("fn main( {".into(), "line 1, column 10: expected"),
                (wgsl("\n y[i] = z[i];"), "line 5, column 9: no definition in scope for identifier: `z`"),
                (wgsl("y[i] = u32(x[i]);"), "line 4"),
                (wgsl("y[i] = x[0];").replace("read_write", "read"), "line 4"),
                (wgsl("y[i] = 1.0;"), "`main` must use `x`, binding 0"),
                (wgsl("y[i] = x[i];").replace("main", "run"), "its entry point is `run`"),
                (
                    wgsl("y[i] = x[i];").replace("(64)", "(1024, 64)"),
                    "65536 invocations, the device's at most",
                ),
                (
                    wgsl("y[i] = x[i];").replace("storage, read>", "storage, read_write>"),
                    "must be `var<storage, read>`",
                ),
                (
                    wgsl("y[i] = f32(x[i]);").replace("x: array<f32>", "x: array<i32>"),
                    "`x`, binding 0, is an argument of f32",
                ),
                (
                    wgsl("y[i] = x[i];").replace("x: array<f32>", "x: array<f32, 5>"),
                    "needs 20 bytes at least: the tensor has 16",
                ),
                (
                    wgsl("y[i] = x[i] + p.a;")
                        + "struct P { a: f32 } @group(0) @binding(2) var<uniform> p: P;",
                    "members [f32], for parameters []",
                ),
                (
                    wgsl("y[i] = x[i] + z[i];") + "@group(0) @binding(2) var<storage> z: array<f32>;",
                    "3 storage buffers, for 1 arguments and 1 results",
                ),
                (wgsl("y[i] = x[i];").replace("binding(1)", "binding(2)"), "there is no binding 1"),
                (wgsl("y[i] = x[i] * k;") + "override k: f32 = 1.0;", "override"),
                (
                    wgsl("var own: array<f32, 9999>; own[i] = x[i]; y[i] = own[i];"),
                    "its variables take 39996 bytes",
                ),
            ] {
                let said = reason(&source, 1);
                assert!(said.contains(words) && !said.contains('\n'), "{words}: {said}");
            }
            assert!(reason(&wgsl("y[i] = x[i];"), 0).contains("its grid is [0, 1, 1]"));
            let integers = range(4, device).to_dtype(DType::I64).unwrap();
            let truth = like_first("truth")
                .cpu(|_, _, _| Ok(()))
                .wgsl(
                    "@group(0) @binding(0) var<storage> x: array<u32>;
                    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
                    @compute @workgroup_size(1) fn main() { y[0] = x[0]; }",
                    |_, _, _| [1, 1, 1],
                )
                .build()
                .unwrap();
            let (y, explanation) = explained(executor, &truth, &[&integers]);
            assert_eq!((ran_on(&explanation, &truth), y.dtype()), (Some(device), DType::I64));
            let condition = x.gt(1.0).unwrap();
            assert!(declined(device, executor, &truth, &[&condition]).contains("cannot be bool"));
        });
    });
}

#[test]
fn a_kernel_has_scalars_words_and_several_results() {
    everywhere("custom_op::a_kernel_has_scalars_words_and_several_results", || {
        // Bytes in words; two results, of which one is a scalar that all invocations add to.
        let source = "
            struct Params { add: i32, least: u32, scale: f32 }
            @group(0) @binding(0) var<storage, read> x: array<u32>;
            @group(0) @binding(1) var<storage, read_write> y: array<vec4<i32>>;
            @group(0) @binding(2) var<storage, read_write> count: atomic<u32>;
            @group(0) @binding(3) var<uniform> params: Params;
            @compute @workgroup_size(32)
            fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x >= arrayLength(&x) { return; }
                for (var k = 0u; k < 4u; k++) {
                    let byte = extractBits(x[id.x], 8u * k, 8u);
                    y[id.x][k] = i32(f32(byte) * params.scale) + params.add;
                    if byte >= params.least { atomicAdd(&count, 1u); }
                }
            }";
        let op = CustomOp::builder("scaled", 3)
            .infer(|args, _| {
                let count = OutputMeta { dtype: DType::U32, shape: Shape::scalar() };
                Ok(vec![OutputMeta { dtype: DType::I32, shape: args[0].shape().clone() }, count])
            })
            .wgsl(source, |args, _, _| [args[0].shape().numel().div_ceil(128) as u32, 1, 1])
            .build()
            .unwrap()
            .with_params([rustorch::CustomParam::I32(-3), 250_u32.into(), 0.5_f32.into()]);
        on_each(|device, executor| {
            let bytes: Vec<u8> = (0..1000).map(|i| (i % 256) as u8).collect();
            let x = Tensor::from_slice(&bytes, [10, 100]).unwrap().to_device(device).unwrap();
            let (outs, explanation) = executor.explain(|| Tensor::custom(&op, &[&x]).unwrap());
            assert_eq!(ran_on(&explanation, &op), Some(device), "{explanation}");
            let want: Vec<i32> = bytes.iter().map(|&byte| i32::from(byte) / 2 - 3).collect();
            assert_eq!(outs[0].to_vec::<i32>().unwrap(), want);
            assert_eq!(outs[1].item().unwrap().to_i64(), 18);
        });
    });
}

#[test]
fn an_op_without_a_kernel_for_the_cpu_runs_on_devices() {
    everywhere("custom_op::an_op_without_a_kernel_for_the_cpu_runs_on_devices", || {
        let op = like_first("on_devices")
            .wgsl(wgsl("if i < arrayLength(&y) { y[i] = x[i]; }"), |_, _, _| [1, 1, 1])
            .build()
            .unwrap();
        let x = range(4, Device::CPU);
        let alone = HybridExecutor::builder().build().unwrap();
        let said =
            [alone.scope(|| Tensor::custom(&op, &[&x])), alone.explain(|| Tensor::custom(&op, &[&x])).0];
        for said in said.map(|result| result.unwrap_err().to_string()) {
            assert!(said.contains("no device ran on_devices(f32[4])"), "{said}");
            assert!(said.contains("cpu: declined: kernel: it has none for the CPU"), "{said}");
        }
        on_each(|device, executor| {
            let (y, explanation) = explained(executor, &op, &[&x]);
            assert_eq!((ran_on(&explanation, &op), y.device()), (Some(device), Device::CPU), "{explanation}");
            let unwatched = Tensor::custom(&op, &[&x]).unwrap();
            assert_eq!(unwatched[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
        });
    });
}

#[test]
fn errors_and_panics_of_closures_name_the_op() {
    let saxpy = example::saxpy().unwrap().with_params([2.0_f32]);
    let [x, y] = [2, 3].map(|len| range(len, Device::CPU));
    let said = |op: &CustomOp, args: &[&Tensor]| match Tensor::custom(op, args).unwrap_err() {
        Error::Custom { op: name, version, message } => {
            assert_eq!((name, version), (op.name(), op.kind().version()));
            message
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(said(&saxpy, &[&x]), "takes x and y, not 1 tensors");
    assert_eq!(said(&saxpy, &[&x, &y]), "x is [2] and y is [3]: they must have one shape");
    let integers = x.to_dtype(DType::I32).unwrap();
    assert!(said(&saxpy, &[&integers, &integers]).contains("f32 elements"));
    assert!(
        said(&saxpy.with_params([0.0_f32; 0]), &[&x, &x])
            .contains("its CPU kernel panicked: index out of bounds")
    );

    let fails = like_first("fails").cpu(|_, _, _| Err("out of luck".into())).build().unwrap();
    assert_eq!(said(&fails, &[&x]), "out of luck");
    assert_eq!(
        said(&fails, &[]),
        "its `infer` panicked: index out of bounds: the len is 0 but the index is 0"
    );
    let nothing =
        CustomOp::builder("nothing", 2).infer(|_, _| Ok(vec![])).cpu(|_, _, _| Ok(())).build().unwrap();
    assert!(said(&nothing, &[&x]).contains("no result"));

    // In the middle of its work, with a lock of the user's held, from several threads.
    static SEEN: Mutex<u32> = Mutex::new(0);
    let panics = like_first("panics")
        .cpu(|args, outs, _| {
            outs[0].slice_mut::<f32>()?.fill(f32::NAN);
            *SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            assert_eq!(args.len(), 2, "on purpose");
            Ok(())
        })
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert!(
                    said(&panics, &[&x]).contains("panicked") && said(&panics, &[&x]).contains("on purpose")
                )
            });
        }
    });
    assert_eq!(*SEEN.lock().unwrap(), 8);
    // The CPU works as before.
    let big = Tensor::ones([1 << 20], DType::F32).unwrap();
    assert_eq!(big.add(&big).unwrap().sum_all().unwrap().item().unwrap().to_f64(), f64::from(2 << 20));
}

#[test]
fn ops_are_told_apart_by_name_version_and_parameters() {
    let op = |name, version| {
        let op = CustomOp::builder(name, version).infer(|_, _| Err("never".into())).cpu(|_, _, _| Ok(()));
        op.build().unwrap()
    };
    assert_eq!(op("a", 1), op("a", 1));
    assert_ne!(op("a", 1), op("a", 2));
    assert_ne!(op("a", 1), op("b", 1));
    assert_eq!(op("a", 1).with_params([1_i32]), op("a", 1).with_params([1_i32]));
    assert_ne!(op("a", 1).with_params([1_i32]), op("a", 1).with_params([1_u32]));
    let [one, two] = [1, 2].map(|version| Op::from(op("a", version)).kind());
    assert_ne!(one, two);
    assert_eq!(
        (one.name(), one.to_string(), one),
        ("a", "a".to_string(), Op::from(op("a", 1).with_params([2_u32])).kind())
    );

    let said = |builder: CustomOpBuilder| builder.build().unwrap_err().to_string();
    assert!(said(CustomOp::builder("matmul", 1)).contains("`matmul` is empty or a built-in operation"));
    assert!(said(CustomOp::builder("", 1)).contains("choose another name"));
    assert!(said(CustomOp::builder("a", 1).cpu(|_, _, _| Ok(()))).contains("has no `infer`"));
    assert!(said(like_first("a")).contains("has no kernel"));
}
