//! Programs that were saved and loaded: the same bits, states that go on, and what does not fit a graph. Files themselves are tested
//! in `rustorch-formats`, and random programs from files in `programs`.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{process_generator, program_bytes, program_of, saved};
use rustorch_core::{BinaryOp, Fill, Graph, Node, Op, Scalar, Shape, Source, UnaryOp, Value};
use rustorch_tensor::{
    C128, CustomOp, DType, Device, OutputMeta, Program, QuantType, Tensor, TensorSpec, bf16, capture, f16,
    manual_seed,
};
use rustorch_testkit::allocations::peak_bytes;

fn bytes(tensors: &[Tensor]) -> Vec<(DType, Vec<usize>, Vec<u8>)> {
    tensors.iter().map(|x| (x.dtype(), x.dims().to_vec(), x.to_bytes().unwrap())).collect()
}

#[track_caller]
fn refused<T>(result: Result<T, impl std::fmt::Display>, part: &str) {
    let error = result.err().expect("an error").to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn states_go_on_where_they_were_saved() {
    let (count, average) = (Tensor::new(0.0f64).unwrap(), Tensor::new([1.0f32, -2.0]).unwrap());
    let spec = [TensorSpec::new(2, DType::F32).unwrap()];
    let program = capture(&spec, |x| {
        count.add_(1)?;
        average.mul_(0.75)?;
        average.add_(&x[0].mul(0.25)?)?;
        Ok(vec![average.mul(&x[0])?, count.add(0)?])
    })
    .unwrap();
    let x = [[3.0f32, 5.0], [0.1, -7.0], [1e-3, 1e3]].map(|x| Tensor::new(x).unwrap());
    program.run(&[&x[0]]).unwrap();
    let loaded = saved(&program);
    assert_eq!(bytes(&loaded.states()), bytes(&program.states()));
    for x in &x[1..] {
        assert_eq!(bytes(&loaded.run(&[x]).unwrap()), bytes(&program.run(&[x]).unwrap()));
    }
    assert_eq!(bytes(&loaded.states()), bytes(&program.states()));
    assert_eq!(count.item().unwrap().to_f64(), 3.0);
    // Each has states of its own.
    loaded.run(&[&x[0]]).unwrap();
    assert_eq!(count.item().unwrap().to_f64(), 3.0);
    assert_eq!(saved(&loaded).run(&[&x[0]]).unwrap()[1].item().unwrap().to_f64(), 5.0);
}

#[test]
fn random_numbers_are_those_of_the_seed() {
    let _draws = process_generator();
    let program = capture(&[], |_| {
        let x = Tensor::randn([5], DType::F32)?;
        Ok(vec![x.dropout(0.5, true)?, Tensor::rand([3], DType::F32)?, x])
    })
    .unwrap();
    let loaded = saved(&program);
    let twice = |program: &Program| {
        manual_seed(7);
        [bytes(&program.run(&[]).unwrap()), bytes(&program.run(&[]).unwrap())]
    };
    let want = twice(&program);
    assert_ne!(want[0], want[1]);
    assert_eq!(twice(&loaded), want);
}

#[test]
fn constants_of_every_dtype_come_back() {
    let wide = Tensor::arange(0, 256, 1).unwrap().to_dtype(DType::F32).unwrap().div(256).unwrap();
    let mut tensors = vec![
        Tensor::new([true, false, true]).unwrap(),
        Tensor::new([C128::new(1.5, f64::NAN), C128::new(-0.0, f64::INFINITY)]).unwrap(),
        Tensor::new([f16::from_f32(0.1)]).unwrap(),
        Tensor::new([bf16::from_f32(0.1), bf16::NEG_INFINITY]).unwrap(),
        Tensor::zeros([0, 3], DType::F32).unwrap(),
    ];
    for dtype in DType::DENSE {
        tensors.push(Tensor::new([0u8, 1, 1]).unwrap().to_dtype(*dtype).unwrap());
    }
    // Those for which there is a quantizer without importance.
    for quant in [QuantType::Q4_0, QuantType::Q8_0, QuantType::Q4_K, QuantType::Q6_K, QuantType::MXFP4] {
        tensors.push(wide.to_dtype(DType::Quant(quant)).unwrap());
    }
    let program = capture(&[], |_| tensors.iter().map(|x| x.copy()).collect()).unwrap();
    let loaded = saved(&program);
    assert_eq!(bytes(&loaded.run(&[]).unwrap()), bytes(&tensors));
    assert_eq!(bytes(&loaded.constants()), bytes(&program.constants()));
}

#[test]
fn functions_that_are_no_data_are_refused() {
    let twice = CustomOp::builder("twice", 1)
        .infer(|args, _| Ok(vec![OutputMeta { dtype: args[0].dtype, shape: args[0].shape().clone() }]))
        .cpu(|args, outs, _| {
            let x = args[0].slice::<f32>()?;
            outs[0].slice_mut::<f32>()?.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
            Ok(())
        })
        .build()
        .unwrap();
    let spec = [TensorSpec::new(2, DType::F32).unwrap()];
    let program = capture(&spec, |x| Tensor::custom(&twice, &[&x[0]])).unwrap();
    refused(program_bytes(&program), "the custom operation twice is made of Rust functions");

    let weight = Tensor::new([1.0f32, 2.0]).unwrap();
    weight.requires_grad_(true).unwrap();
    let program = capture(&spec, |x| {
        x[0].mul(&weight)?.sum_all()?.backward()?;
        Ok(vec![])
    })
    .unwrap();
    assert!(program.changes_gradients());
}

#[test]
fn tensors_are_those_of_the_graph() {
    let (weight, count) = (Tensor::new([[1.0f32, 2.0]]).unwrap(), Tensor::new(0i64).unwrap());
    let program = capture(&[], |_| {
        count.add_(1)?;
        Ok(vec![weight.mul(2)?])
    })
    .unwrap();
    let graph = || program.graph().clone();
    let new = |x: [f32; 2]| Tensor::new(x).unwrap();
    let state = || Tensor::new([5i64]).unwrap();
    let of = |constant: Tensor, state: Tensor| Program::from_parts(graph(), vec![constant], vec![state]);
    assert_eq!(
        of(new([3.0, 4.0]), state()).unwrap().run(&[]).unwrap()[0].to_vec::<f32>().unwrap(),
        [6.0, 8.0]
    );
    refused(Program::from_parts(graph(), vec![], vec![state()]), "0 tensors were given for 1 constants");
    refused(Program::from_parts(graph(), vec![new([1.0, 2.0])], vec![]), "0 tensors were given for 1 states");
    refused(
        of(new([1.0, 2.0]).reshape([2, 1]).unwrap(), state()),
        "the tensor of constant 0 is f32[2, 1], and the graph's is f32[2]",
    );
    refused(
        of(new([1.0, 2.0]), Tensor::new([5i32]).unwrap()),
        "the tensor of state 0 is i32[1], and the graph's is i64[1]",
    );
    let whole = Tensor::new([1.0f32, 2.0, 3.0]).unwrap();
    refused(of(whole.narrow(0, 1, 2).unwrap(), state()), "the tensor of constant 0 is a view");
    let every_second = Tensor::new([1.0f32, 2.0, 3.0, 4.0]).unwrap().slice(0, .., 2).unwrap();
    refused(of(every_second, state()), "the tensor of constant 0 is a view");
    let mut damaged = graph();
    damaged.nodes[0].args[0].value.0 = 99;
    refused(Program::from_parts(damaged, vec![new([1.0, 2.0])], vec![state()]), "there is no value %99");
    let pair = new([1.0, 2.0]);
    let program = capture(&[], |_| Ok(vec![weight.mul(&pair)?])).unwrap();
    refused(
        Program::from_parts(program.graph().clone(), vec![pair.clone(), pair.clone()], vec![]),
        "tensors 0 and 1, constants first, are the same memory",
    );
}

fn value(source: Source, dims: &[usize], device: Device) -> Value {
    Value { source, dtype: DType::F32, shape: Shape::new(dims).unwrap(), device }
}

#[test]
fn a_device_that_is_not_here_is_named() {
    let mut graph = Graph::default();
    let x = graph.add_value(value(Source::Input(0), &[2], Device::dx12(7)));
    graph.inputs.push(x);
    graph.outputs.push(graph.whole(x));
    refused(Program::from_parts(graph, vec![], vec![]), "dx12:7 is not here");
}

/// A graph that makes `count` tensors of `elements` numbers, all alive at once, and returns an element of their sum.
fn claims(count: u32, elements: usize) -> Program {
    let mut graph = Graph::default();
    let shape = Shape::new([elements].as_slice()).unwrap();
    let next = |graph: &mut Graph, op: Op, args: &[rustorch_core::ValueId]| {
        let node = graph.nodes.len() as u32;
        let id = graph.add_value(value(Source::Result { node, index: 0 }, &[elements], Device::CPU));
        let args: Vec<_> = args.iter().map(|arg| graph.whole(*arg)).collect();
        graph.nodes.push(Node::new(op, args, [id]));
        id
    };
    let fill = Fill { shape: shape.clone(), dtype: DType::F32, value: Scalar::Float(1.0) };
    let filled: Vec<_> = (0..count).map(|_| next(&mut graph, fill.clone().into(), &[])).collect();
    let mut sum = filled[0];
    for x in &filled[1..] {
        sum = next(&mut graph, BinaryOp::Add.into(), &[sum, *x]);
    }
    let last = next(&mut graph, UnaryOp::Exp.into(), &[sum]);
    let mut output = graph.whole(last);
    output.layout = output.layout.slice(0, 0, 1, 1).unwrap();
    graph.outputs.push(output);
    Program::from_parts(graph, vec![], vec![]).unwrap()
}

/// What a graph claims costs nothing before it runs, and then it is an error.
#[test]
fn temporaries_that_no_memory_has_are_an_error_of_the_run() {
    assert_eq!(claims(3, 4).run(&[]).unwrap()[0].to_vec::<f32>().unwrap(), [3.0f32.exp()]);
    for (count, elements) in
        [(1, 1 << 60), (1, (1 << 61) - 1), (4, 1 << 59), (40, 1 << 60), (2, (1 << 61) - 1)]
    {
        let (program, peak) = peak_bytes(|| saved(&claims(count, elements)));
        assert!(peak < 1 << 20, "{peak}");
        refused(program.run(&[]), "out of memory");
    }
}

#[test]
fn graphs_are_compact() {
    let weights: Vec<Tensor> = (0..4).map(|_| Tensor::ones([64, 64], DType::F32).unwrap()).collect();
    let spec = [TensorSpec::new([8, 64], DType::F32).unwrap()];
    let program = rustorch_tensor::capture_with(&[], &spec, |x| {
        let mut x = x[0].clone();
        for i in 0..200 {
            x = x
                .matmul(&weights[i % 4])?
                .add(0.5)?
                .layer_norm([64], None, None, 1e-5)?
                .gelu()?
                .softmax(-1)?;
        }
        Ok(vec![x])
    })
    .unwrap();
    let nodes = program.graph().nodes.len();
    assert!(nodes >= 1000, "{nodes}");
    let file = program_bytes(&program).unwrap();
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    assert!(header < 300 * nodes, "{header} bytes for {nodes} nodes");
    let (loaded, peak) = peak_bytes(|| program_of(file.clone()).unwrap());
    println!(
        "{nodes} nodes: header of {header} bytes, {peak} bytes at most beside {} of the file",
        file.len()
    );
    assert_eq!(loaded.graph(), program.graph());
}
