//! What programs say of themselves: regions, the reasons of what is in none, and what crosses.

use crate::common::graphs::{SIDE, matrix, random, run};
use crate::common::regions::{captured, cpu_cost, price, product, program, slow_cpu, unary};
use crate::common::{CUDA, OPENCL, builder, fake, upload};
use rustorch_core::{DTypeSet, Decline, Device, Op, OpType, Softmax, UnaryOp, Verdict};
use rustorch_runtime::{Output, Pass, Placement, Program, Reason, TransferMethod};
use rustorch_testkit::{Act, FakeCompiler, Point, Rule};
use std::sync::Arc;

/// Two regions with what cannot be compiled between them.
fn two_regions(x: &Output) -> Vec<Output> {
    let first = unary(UnaryOp::Tanh, &product(x, x));
    let between = unary(UnaryOp::Relu, &first);
    vec![product(&between, &first)]
}

fn without_relu() -> FakeCompiler {
    price(2.0, 1.0, 100.0).accepts_ops(|op| *op != Op::Unary(UnaryOp::Relu))
}

#[test]
fn regions_have_devices_times_and_bytes_each_way_by_method() {
    let (_, executor) = slow_cpu(without_relu(), Placement::FirstSupported);
    let program = program(&executor, two_regions);
    let explanation = program.explain().unwrap();
    let bytes = (SIDE * SIDE * 4) as u64;
    assert_eq!(explanation.regions.len(), 2, "{explanation}");
    let first = &explanation.regions[0];
    assert_eq!((first.plan.device, first.plan.nodes.clone(), first.measured()), (CUDA, 0..2, None));
    let crossing = &first.plan.inputs[0];
    assert_eq!(
        (crossing.from, crossing.to, crossing.bytes, crossing.method),
        (Device::CPU, CUDA, bytes, TransferMethod::Copy)
    );
    assert!(first.plan.run_us == 4.0 && first.plan.outside_us > first.plan.run_us, "{explanation}");
    // Where nodes are, and why one is in no region: the device's own word.
    let places: Vec<_> = explanation.nodes.iter().map(|node| (node.op, node.region, node.device)).collect();
    let here = Some(CUDA);
    assert_eq!(
        places,
        [("matmul", Some(0), here), ("tanh", Some(0), here), ("relu", None, here), ("matmul", Some(1), here)]
    );
    let relu = &explanation.nodes[2];
    assert_eq!(relu.reasons[..], [(CUDA, Reason::Declined("there is no relu".into()))]);
    assert_eq!(relu.expected.map(|time| time.as_micros()), Some(12), "a launch of the device");
    // The input, once.
    assert_eq!(explanation.copies.iter().map(|copy| copy.bytes).sum::<u64>(), bytes);

    let text = explanation.to_string();
    for part in [
        "0       cuda:0  0 to 1",
        "not yet",
        "144 B by copy",
        "relu           1  cuda:0",
        "cuda:0: there is no relu",
        "from cpu to cuda:0 in each run: 1 value of 144 B by copy",
        "4 operations: 1 on cuda:0 (12.0 µs), 3 in 2 regions",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains("no device compiles"), "{text}");
}

#[test]
fn what_was_measured_stands_beside_what_was_expected() {
    let (cuda, executor) = slow_cpu(without_relu(), Placement::FirstSupported);
    let program = program(&executor, two_regions);
    let x = upload(&executor, &matrix(0), &[SIDE, SIDE]);
    (0..3).for_each(|_| _ = program.run(&[x.operand()], || []).unwrap());
    let explanation = program.explain().unwrap();
    for region in &explanation.regions {
        assert_eq!(region.report.runs, 3);
        assert_eq!(region.measured(), Some(region.report.time / 3));
    }
    assert!(explanation.to_string().contains(" in 3 runs"), "{explanation}");
    // What went wrong, too.
    cuda.script(Rule::at(Point::RunRegion).times(1).act(Act::Fail));
    program.run(&[x.operand()], || []).unwrap();
    let explanation = program.explain().unwrap();
    assert!(explanation.to_string().contains("1 fault, quarantined"), "{explanation}");
}

#[test]
fn without_a_compiler_each_device_says_why_it_does_not_run_a_node() {
    let opencl = fake(OPENCL)
        .cost(|cost| cost.launch_us = 12.0)
        .capability(|can| can.dtypes[OpType::Activation as usize] = DTypeSet::EMPTY);
    let executor = builder(&[&Arc::new(opencl)]).cost(Device::CPU, cpu_cost(1000.0)).build().unwrap();
    let made = captured(&executor, &[256, 256], |x| {
        let softmax = Op::Softmax(Softmax { axis: 1, log: false });
        vec![product(&run(&softmax, &[(x, &x.layout)]), x), unary(UnaryOp::Relu, x)]
    });
    let program = Program::new(&executor, made, Pass::ALL).unwrap();
    assert_eq!(program.plan(), None);
    let explanation = program.explain().unwrap();
    let softmax = explanation.nodes.iter().find(|node| node.op == "softmax").unwrap();
    assert_eq!(softmax.device, Some(Device::CPU));
    assert!(
        matches!(&softmax.considered[..], [(OPENCL, Verdict::Declined(Decline::DType(_) | Decline::Op(_)))]),
        "{explanation}"
    );
    let product = explanation.nodes.iter().find(|node| node.op == "matmul").unwrap();
    assert_eq!(product.device, Some(OPENCL), "{explanation}");
    assert_eq!(product.considered[..], [(Device::CPU, Verdict::Costlier)]);
    let text = explanation.to_string();
    assert!(text.contains("no device compiles regions") && text.contains("opencl:0 declined: "), "{text}");
    assert!(text.contains("from cpu to opencl:0 in each run: "), "{text}");
    // Each node by itself.
    let each = format!("{explanation:#}");
    let rows = each.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    assert_eq!(rows.count(), 1 + explanation.nodes.len(), "{each}");
}

#[test]
fn random_programs_say_of_each_node_where_it_is_and_why() {
    for seed in 0..60 {
        let cuda = Arc::new(fake(CUDA).with_compiler(without_relu()));
        let executor = builder(&[&cuda, &Arc::new(fake(OPENCL))]).cost(Device::CPU, cpu_cost(1000.0));
        let executor = executor.build().unwrap();
        let (captured, _states) = random(&executor, seed, 20, seed % 2 == 0);
        let program = Program::new(&executor, captured, &[]).unwrap();
        let plan = program.plan().unwrap();
        let explanation = program.explain().unwrap();
        assert_eq!(explanation.nodes.len(), program.graph().nodes.len());
        assert_eq!(explanation.copies, plan.copies, "seed {seed}\n{explanation}");
        for (i, region) in plan.regions.iter().enumerate() {
            assert_eq!(&explanation.regions[i].plan, region, "seed {seed}");
            let nodes = &explanation.nodes[region.nodes.clone()];
            assert!(
                nodes.iter().all(|node| (node.region, node.device) == (Some(i), Some(CUDA))),
                "seed {seed}"
            );
        }
        for outside in &plan.outside {
            let node = &explanation.nodes[outside.node];
            assert_eq!(
                (node.op, node.region, node.device),
                (outside.op, None, outside.device),
                "seed {seed}"
            );
            assert!(
                !node.reasons.is_empty() && node.reasons == outside.reasons,
                "seed {seed}\n{explanation}"
            );
        }
    }
}
