//! Networks from the field that other runtimes cut into many parts.

use crate::common::graphs::{SIDE, run};
use crate::common::regions::{captured, cpu_cost, matmul, one_device, price, product, slow_cpu, unary};
use crate::common::{CUDA, builder, bytes, fake, upload};
use rustorch_core::{Concat, Conv, ConvParams, Device, IndexSelect, Link, Op, Rewrite, UnaryOp};
use rustorch_runtime::{Captured, HybridExecutor, Output, Pass, Placement, Program};
use rustorch_testkit::{FakeCompiler, Point, Rule};
use std::sync::Arc;

/// `x` with its borders reflected along two dimensions, as `ReflectionPad2d` does it.
fn reflect(executor: &HybridExecutor, x: &Output, by: usize) -> Output {
    let mut x = x.clone();
    for axis in [2usize, 3] {
        let len = x.layout.dims()[axis] as i64;
        let by = by as i64;
        let source = |at: i64| {
            if at < 0 {
                -at
            } else if at >= len {
                2 * (len - 1) - at
            } else {
                at
            }
        };
        let index: Vec<i64> = (-by..len + by).map(source).collect();
        let index = upload(executor, &index, &[index.len()]);
        x = run(&Op::IndexSelect(IndexSelect { axis }), &[(&x, &x.layout), (&index, &index.layout)]);
    }
    x
}

/// A style network: convolutions between reflected borders.
fn style_network(executor: &HybridExecutor, convolutions: usize) -> Captured {
    let weight: Vec<f32> = (0..4 * 4 * 9).map(|i| (i % 11) as f32 * 0.03 - 0.15).collect();
    let weight = upload(executor, &weight, &[4, 4, 3, 3]);
    captured(executor, &[1, 4, 12, 12], |x| {
        let recorder = HybridExecutor::current();
        let mut x = x.clone();
        for i in 0..convolutions {
            if i > 0 {
                x = reflect(&recorder, &x, 1);
            }
            let conv = Op::from(Conv { params: ConvParams::new(2), activation: None });
            x = unary(UnaryOp::Relu, &run(&conv, &[(&x, &x.layout), (&weight, &weight.layout)]));
        }
        vec![x]
    })
}

#[test]
fn reflecting_pads_no_longer_cut_a_network() {
    let accepts = |op: &Op| !matches!(op, Op::IndexSelect(_));
    let (_, executor) = one_device(FakeCompiler::new().accepts_ops(accepts));
    let cut = Program::new(&executor, style_network(&executor, 14), &[]).unwrap();
    assert_eq!(cut.plan().unwrap().regions.len(), 14, "{}", cut.plan().unwrap());
    let compiler = FakeCompiler::new().accepts_ops(accepts).rewrites(&[Rewrite::ReflectPad]);
    let (cuda, executor) = one_device(compiler);
    let whole = Program::new(&executor, style_network(&executor, 14), &[]).unwrap();
    let plan = whole.plan().unwrap();
    assert_eq!((plan.regions.len(), plan.outside.len()), (1, 0), "{plan}");
    assert!(whole.graph().nodes.iter().any(|node| matches!(node.op, Op::Concat(Concat { axis: 3 }))));

    // The same bits, on the CPU as well.
    let numbers: Vec<f32> = (0..4 * 144).map(|i| (i % 29) as f32 * 0.1 - 1.3).collect();
    let x = upload(&executor, &numbers, &[1, 4, 12, 12]);
    let result = |executor: &HybridExecutor, program: &Program| {
        bytes(executor, &program.run(&[x.operand()], || []).unwrap()[0].operand())
    };
    let cpu = executor.with_policy(Placement::CpuOnly).unwrap();
    let plain = Program::new(&cpu, style_network(&executor, 14), Pass::ALL).unwrap();
    assert!(plain.graph().nodes.iter().any(|node| matches!(node.op, Op::IndexSelect(_))), "nobody asks");
    let expected = result(&cpu, &plain);
    assert_eq!(result(&executor, &whole), expected);
    assert_eq!(cuda.calls_at(Point::RunRegion), 1);
    cuda.script(Rule::at(Point::RunRegion));
    assert_eq!(result(&executor, &whole), expected, "one by one");
}

#[test]
fn indices_that_somebody_has_or_of_many_slices_are_left_as_they_are() {
    let compiler = || {
        FakeCompiler::new()
            .accepts_ops(|op| !matches!(op, Op::IndexSelect(_)))
            .rewrites(&[Rewrite::ReflectPad])
    };
    let select = |x: &Output, index: &Output| {
        run(&Op::IndexSelect(IndexSelect { axis: 0 }), &[(x, &x.layout), (index, &index.layout)])
    };
    let rewritten = |index: &[i64], is_held: bool| {
        let (_, executor) = one_device(compiler());
        let mut held = None;
        let captured = captured(&executor, &[200, 4], |x| {
            let index = upload(&HybridExecutor::current(), index, &[index.len()]);
            held = is_held.then(|| index.clone());
            let x = select(x, &index);
            let square = x.layout.slice(0, 0, 4, 1).unwrap();
            vec![run(&matmul(), &[(&x, &square), (&x, &square)])]
        });
        let program = Program::new(&executor, captured, &[]).unwrap();
        program.graph().nodes.iter().any(|node| matches!(node.op, Op::Concat(_)))
    };
    assert!(rewritten(&[1, 0, 1, 2, 3, 2], false));
    // Somebody may write there.
    assert!(!rewritten(&[1, 0, 1, 2, 3, 2], true));
    // A gather, and an index that is out of range, of which the operation says so.
    assert!(!rewritten(&(0..130).map(|i| i * 37 % 200).collect::<Vec<i64>>(), false));
    assert!(!rewritten(&[1, 0, 1, 2, 3, 200], false));
    assert!(!rewritten(&[1, 0, 1, 2, -1, 2], false));
}

#[test]
fn many_small_parts_become_one_region_or_none() {
    // 513 nodes of which 274 are claimed, in 87 parts: 86 of two, and one of 102.
    let build = |executor: &HybridExecutor| {
        captured(executor, &[SIDE, SIDE], |x| {
            let mut y = x.clone();
            for _ in 0..86 {
                // Claimed, then what cuts.
                y = unary(UnaryOp::Tanh, &product(&y, x));
                y = unary(UnaryOp::Relu, &unary(UnaryOp::Relu, &y));
            }
            for _ in 0..51 {
                y = unary(UnaryOp::Tanh, &product(&y, x));
            }
            for _ in 0..67 {
                y = unary(UnaryOp::Relu, &y);
            }
            vec![y]
        })
    };
    let accepts = |op: &Op| !matches!(op, Op::Unary(UnaryOp::Relu));
    let plan = |compiler: FakeCompiler| {
        let (_, executor) = slow_cpu(compiler.accepts_ops(accepts), Placement::Auto);
        let captured = build(&executor);
        assert_eq!(captured.graph.nodes.len(), 513);
        Program::new(&executor, captured, &[]).unwrap().plan().unwrap().clone()
    };
    let free = {
        // Nothing costs anything: each part is a region.
        let compiler = FakeCompiler::new().accepts_ops(accepts);
        let near = fake(CUDA).cost(|cost| {
            cost.launch_us = 12.0;
            (cost.upload, cost.download) = (Link::NONE, Link::NONE);
        });
        let cuda = Arc::new(near.with_compiler(compiler));
        let executor = builder(&[&cuda]).cost(Device::CPU, cpu_cost(10.0)).build().unwrap();
        Program::new(&executor, build(&executor), &[]).unwrap().plan().unwrap().clone()
    };
    assert_eq!(free.regions.len(), 87, "{free}");
    assert_eq!(free.regions.iter().map(|region| region.nodes.len()).sum::<usize>(), 274);
    // A call of 300 µs, 2 µs for each node: only the large part pays, or nothing where a node takes 9.
    let one = plan(price(300.0, 2.0, 50_000.0));
    assert_eq!(one.regions.iter().map(|region| region.nodes.len()).collect::<Vec<_>>(), [102], "{one}");
    assert_eq!(plan(price(300.0, 9.0, 50_000.0)).regions, []);
}
