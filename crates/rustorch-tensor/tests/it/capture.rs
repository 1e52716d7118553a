//! Captured functions: the bits of eager execution, states, gradients, random numbers, and what cannot be captured.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::process_generator;
use rustorch_tensor::autograd::{self, no_grad};
use rustorch_tensor::{
    CrossEntropyOptions, DType, Device, Result, Tensor, TensorSpec, capture, compile, manual_seed,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn numbers(dims: &[usize], seed: usize) -> Tensor {
    let n = dims.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i * 7 + seed * 13) % 29) as f32 / 29.0 - 0.4).collect();
    Tensor::from_vec(values, dims).unwrap()
}

fn leaf(dims: &[usize], seed: usize) -> Tensor {
    let x = numbers(dims, seed);
    x.requires_grad_(true).unwrap();
    x
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn spec(x: &Tensor) -> TensorSpec {
    TensorSpec::from(x)
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn a_run_gives_eagers_bits_on_other_arguments() {
    let (w, b) = (numbers(&[16, 8], 1), numbers(&[8], 2));
    let f = |x: &Tensor| -> Result<Vec<Tensor>> {
        let h = x.matmul(&w)?.add(&b)?.gelu()?;
        let (values, indices) = h.t()?.topk(2, 0, true)?;
        Ok(vec![h.softmax(-1)?, values, indices, h.narrow(1, 2, 3)?])
    };
    let program = capture(&[spec(&numbers(&[4, 16], 3))], |x| f(&x[0])).unwrap();
    for seed in 3..6 {
        // Also a part of another tensor, and one whose elements are not in order.
        let whole = numbers(&[6, 16], seed);
        for x in [
            whole.narrow(0, 0, 4).unwrap(),
            whole.narrow(0, 2, 4).unwrap(),
            numbers(&[16, 4], seed).t().unwrap(),
        ] {
            let (got, want) = (program.run(&[&x]).unwrap(), f(&x).unwrap());
            for i in [0, 1, 3] {
                assert_eq!(bits(&got[i]), bits(&want[i]), "output {i}");
            }
            assert_eq!(got[2].to_vec::<i64>().unwrap(), want[2].to_vec::<i64>().unwrap());
            assert_eq!(got[3].dims(), [4, 3]);
        }
    }
}

#[test]
fn nothing_is_computed_while_a_function_is_captured() {
    let x = TensorSpec::new([1 << 20, 1 << 20], DType::F32).unwrap();
    // Four terabytes, if it were.
    let program = capture(&[x], |x| Ok(vec![x[0].exp()?.add(&x[0])?.sum_all()?])).unwrap();
    assert_eq!(program.graph().nodes.len(), 2);
}

#[test]
fn constants_are_read_when_the_program_runs() {
    let w = numbers(&[3], 1);
    let program = capture(&[spec(&w)], |x| Ok(vec![x[0].add(&w)?])).unwrap();
    w.fill_(2.0).unwrap();
    let x = Tensor::ones([3], DType::F32).unwrap();
    assert_eq!(program.run(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), [3.0; 3]);
}

#[test]
fn what_is_written_is_a_state_of_the_program() {
    let cache = Tensor::zeros([4, 2], DType::F32).unwrap();
    let row = TensorSpec::new([1, 2], DType::F32).unwrap();
    let at = TensorSpec::new([1], DType::I64).unwrap();
    let program = capture(&[row, at], |x| {
        cache.index_copy_(0, &x[1], &x[0])?;
        Ok(vec![cache.sum(0, false)?])
    })
    .unwrap();
    assert_eq!(cache.to_vec::<f32>().unwrap(), [0.0; 8], "the capture wrote");
    let run = |value: f32, at: i64| {
        let row = Tensor::full([1, 2], value, DType::F32).unwrap();
        program.run(&[&row, &Tensor::new([at]).unwrap()])
    };
    assert_eq!(run(1.0, 0).unwrap()[0].to_vec::<f32>().unwrap(), [1.0, 1.0]);
    assert_eq!(run(2.0, 3).unwrap()[0].to_vec::<f32>().unwrap(), [3.0, 3.0]);
    assert_eq!(cache.to_vec::<f32>().unwrap(), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0]);
    // A state that an output is a view of is the tensor itself.
    let same = capture(&[], |_| {
        cache.add_(1.0)?;
        Ok(vec![cache.select(0, 1)?])
    });
    let row = same.unwrap().run(&[]).unwrap().remove(0);
    assert!(row.storage().same(cache.storage()));
    assert_eq!(row.to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
fn a_run_that_fails_leaves_states_as_they_were() {
    let (first, second) = (numbers(&[4], 1), numbers(&[4], 2));
    let (was_first, was_second) = (bits(&first), bits(&second));
    let index = TensorSpec::new([1], DType::I64).unwrap();
    let program = capture(&[index], |x| {
        first.mul_(3.0)?;
        second.copy_(&first)?;
        // Fails for an index out of range, after both were written.
        Ok(vec![second.index_select(0, &x[0])?])
    })
    .unwrap();
    // Nor is it a write to those who saved them.
    let w = leaf(&[4], 3);
    let saved = w.mul(&first).unwrap().sum_all().unwrap();
    let error = message(program.run(&[&Tensor::new([9i64]).unwrap()]));
    saved.backward().unwrap();
    assert!(error.contains('9') && error.contains("index"), "{error}");
    assert_eq!((bits(&first), bits(&second)), (was_first, was_second));
    program.run(&[&Tensor::new([1i64]).unwrap()]).unwrap();
    assert_eq!(bits(&first), bits(&second));
}

#[test]
fn writes_that_overlap_what_is_read_are_computed_apart() {
    let make = || (numbers(&[6], 1), numbers(&[3, 3], 2));
    let write = |x: &Tensor, y: &Tensor| -> Result<Tensor> {
        x.narrow(0, 1, 5)?.copy_(&x.narrow(0, 0, 5)?)?;
        x.mul_(&x.flip([0])?)?;
        y.add_(&y.t()?)?;
        x.sum_all()?.add(&y.sum_all()?)
    };
    let (x, y) = make();
    let want = write(&x, &y).unwrap();
    let (a, b) = make();
    let program = capture(&[], |_| Ok(vec![write(&a, &b)?])).unwrap();
    assert_eq!(bits(&program.run(&[]).unwrap()[0]), bits(&want));
    assert_eq!((bits(&a), bits(&b)), (bits(&x), bits(&y)));
}

/// A classifier of two layers, its loss, and a step of gradient descent with momentum, which writes parameters and velocities.
struct Training {
    parameters: Vec<Tensor>,
    velocities: Vec<Tensor>,
}

impl Training {
    fn new() -> Training {
        let shapes: [&[usize]; 4] = [&[8, 16], &[16], &[16, 4], &[4]];
        let parameters = shapes.iter().enumerate().map(|(i, dims)| leaf(dims, i)).collect();
        let velocities = shapes.iter().map(|dims| Tensor::zeros(*dims, DType::F32).unwrap()).collect();
        Training { parameters, velocities }
    }

    fn step(&self, x: &Tensor, classes: &Tensor) -> Result<Tensor> {
        let [w1, b1, w2, b2] = &self.parameters[..] else { unreachable!() };
        for p in &self.parameters {
            p.zero_grad();
        }
        let h = x.matmul(w1)?.add(b1)?.relu()?.dropout(0.25, true)?;
        let loss = h.matmul(w2)?.add(b2)?.cross_entropy(classes, &CrossEntropyOptions::default())?;
        loss.backward()?;
        no_grad(|| -> Result<()> {
            for (p, v) in self.parameters.iter().zip(&self.velocities) {
                v.mul_(0.9)?;
                v.add_(&p.grad().unwrap())?;
                p.sub_(&v.mul(0.1)?)?;
            }
            Ok(())
        })?;
        Ok(loss.detach())
    }
}

#[test]
fn a_captured_training_step_gives_eagers_bits() {
    let _draws = process_generator();
    let batch = |i: usize| {
        let classes: Vec<i64> = (0..5).map(|j| ((i + 3 * j) % 4) as i64).collect();
        (numbers(&[5, 8], i), Tensor::from_vec(classes, [5]).unwrap())
    };
    let (eager, captured) = (Training::new(), Training::new());
    let (x, y) = batch(0);
    manual_seed(7);
    let program =
        capture(&[spec(&x), spec(&y)], |args| Ok(vec![captured.step(&args[0], &args[1])?])).unwrap();
    assert!(captured.parameters.iter().all(|p| p.grad().is_none()), "the capture left gradients");
    assert_eq!(program.graph().states.len(), 8);
    manual_seed(7);
    let want: Vec<Tensor> = (0..20).map(|i| eager.step(&batch(i).0, &batch(i).1).unwrap()).collect();
    manual_seed(7);
    for (i, want) in want.iter().enumerate() {
        let (x, y) = batch(i);
        let got = program.run(&[&x, &y]).unwrap();
        assert_eq!(bits(&got[0]), bits(want), "step {i}");
    }
    for (a, b) in captured.parameters.iter().zip(&eager.parameters) {
        assert_eq!(bits(a), bits(b));
        assert_eq!(bits(&a.grad().unwrap()), bits(&b.grad().unwrap()));
    }
}

#[test]
fn gradients_of_leaves_live_on_as_in_eager_execution() {
    let make = || leaf(&[3], 1);
    let pass = |w: &Tensor, x: &Tensor| w.mul(x)?.mul(w)?.sum_all()?.backward();
    let x = numbers(&[3], 2);
    let (eager, w) = (make(), make());
    let program = capture(&[spec(&x)], |x| pass(&w, &x[0]).map(|()| vec![])).unwrap();
    assert!(w.grad().is_none());
    for _ in 0..3 {
        pass(&eager, &x).unwrap();
        assert!(program.run(&[&x]).unwrap().is_empty());
        assert_eq!(bits(&w.grad().unwrap()), bits(&eager.grad().unwrap()), "gradients are added");
    }
    // One that is there before the capture is a state.
    let again = capture(&[spec(&x)], |x| pass(&w, &x[0]).map(|()| vec![])).unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&eager.grad().unwrap()));
    pass(&eager, &x).unwrap();
    again.run(&[&x]).unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&eager.grad().unwrap()));
    // One that is forgotten is forgotten by each run.
    let forget = capture(&[], |_| {
        w.zero_grad();
        Ok(vec![])
    });
    let forget = forget.unwrap();
    assert!(w.grad().is_some());
    forget.run(&[]).unwrap();
    assert!(w.grad().is_none());
}

#[test]
fn random_numbers_are_drawn_anew_in_eagers_order() {
    let _draws = process_generator();
    let f = || -> Result<Vec<Tensor>> {
        let x = Tensor::randn([5], DType::F32)?;
        let y = Tensor::rand([3], DType::F32)?;
        Ok(vec![x.dropout(0.5, true)?, y, x])
    };
    manual_seed(3);
    let want: Vec<Vec<u32>> = (0..3).flat_map(|_| f().unwrap()).map(|x| bits(&x)).collect();
    manual_seed(3);
    let program = capture(&[], |_| f()).unwrap();
    assert_eq!(program.graph().draws.len(), 3);
    let got: Vec<Vec<u32>> = (0..3).flat_map(|_| program.run(&[]).unwrap()).map(|x| bits(&x)).collect();
    assert_eq!(got, want);
    let own = rustorch_tensor::Generator::new(1);
    let error = message(capture(&[], |_| Ok(vec![own.randn([2], DType::F32)?])));
    assert!(error.contains("key") && error.contains("generator"), "{error}");
}

#[test]
fn values_cannot_be_asked_for() {
    let w = numbers(&[2], 1);
    let x = [spec(&w)];
    // Of a program without debug information nobody knows the lines.
    let names = |error: &str, n: u32| {
        error.contains(&format!("capture.rs:{n}")) || error.contains("debug information")
    };
    let error = message(capture(&x, |x| x[0].exp()?.sum_all()?.item().map(|_| vec![])));
    let here = line!() - 1;
    assert!(error.starts_with("item") && error.contains("sum") && names(&error, here), "{error}");
    let error = message(capture(&x, |x| x[0].to_vec::<f32>().map(|_| vec![])));
    let here = line!() - 1;
    assert!(error.starts_with("to_vec") && error.contains("input") && names(&error, here), "{error}");
    let error = message(capture(&x, |x| x[0].gt(0)?.nonzero().map(|n| vec![n])));
    assert!(error.starts_with("nonzero") && error.contains("gt"), "{error}");
    let error = message(capture(&x, |_| {
        w.add_(1.0)?;
        w.to_vec::<f32>().map(|_| vec![])
    }));
    assert!(error.contains("wrote"), "{error}");
    // A constant has its value.
    capture(&x, |_| w.to_vec::<f32>().map(|_| vec![])).unwrap();
    // A symbolic tensor prints as what it is.
    let mut text = String::new();
    capture(&x, |x| {
        text = x[0].exp()?.to_string();
        Ok(vec![])
    })
    .unwrap();
    assert!(text.contains("exp") && text.contains("f32[2]"), "{text}");
}

#[test]
fn symbolic_tensors_belong_to_their_capture() {
    let x = numbers(&[2], 1);
    let mut kept = None;
    capture(&[spec(&x)], |args| {
        kept = Some(args[0].exp()?);
        Ok(vec![])
    })
    .unwrap();
    let kept = kept.unwrap();
    for error in [
        message(kept.add(&x)),
        message(x.add_(&kept)),
        message(kept.add_(1.0)),
        message(kept.to_vec::<f32>()),
        message(kept.to_device("cpu").and_then(|y| y.add(1))),
        message(capture(&[], |_| Ok(vec![kept.add(1)?]))),
        message(capture(&[], |_| Ok(vec![kept.clone()]))),
        message(capture(&[spec(&x)], |x| Ok(vec![x[0].clone()])).unwrap().run(&[&kept])),
    ] {
        assert!(error.contains("exp"), "{error}");
    }
    // On another thread, where nothing is captured.
    let error = message(capture(&[spec(&x)], |args| {
        std::thread::scope(|scope| scope.spawn(|| args[0].exp()).join().unwrap()).map(|y| vec![y])
    }));
    assert!(error.contains("input") && error.contains("thread"), "{error}");
    // The executor of a capture, elsewhere and afterwards.
    let mut executor = None;
    capture(&[], |_| {
        executor = Some(rustorch_runtime::HybridExecutor::current());
        Ok(vec![])
    })
    .unwrap();
    let executor = executor.unwrap();
    let error = message(executor.scope(|| x.exp()));
    assert!(error.contains("ended"), "{error}");
    let error =
        message(std::thread::scope(|scope| scope.spawn(|| executor.scope(|| x.exp())).join().unwrap()));
    assert!(error.contains("thread"), "{error}");
}

#[test]
fn errors_and_panics_leave_the_thread_as_it_was() {
    let x = numbers(&[2], 1);
    let w = leaf(&[2], 2);
    let error = message(capture(&[spec(&x)], |_| capture(&[], |_| Ok(vec![])).map(|_| vec![])));
    assert!(error.contains("nest"), "{error}");
    // Nor by another executor.
    let other = rustorch_runtime::HybridExecutor::builder().threads(1).build().unwrap();
    let error =
        message(capture(&[spec(&x)], |_| other.scope(|| capture(&[], |_| Ok(vec![]))).map(|_| vec![])));
    assert!(error.contains("nest"), "{error}");
    let fail = |panics: bool| {
        capture(&[spec(&x)], |x| {
            w.mul(&x[0])?.sum_all()?.backward()?;
            assert!(!panics, "as the test wants");
            x[0].reshape([3]).map(|y| vec![y])
        })
    };
    assert!(message(fail(false)).contains("reshape"));
    assert!(catch_unwind(AssertUnwindSafe(|| fail(true))).is_err());
    assert!(w.grad().is_none());
    assert_eq!(x.add(1).unwrap().to_vec::<f32>().unwrap().len(), 2);
    assert!(capture(&[spec(&x)], |x| Ok(vec![x[0].exp()?])).is_ok());
    w.mul(&x).unwrap().sum_all().unwrap().backward().unwrap();
    assert!(w.grad().is_some());
}

#[test]
fn arguments_have_to_be_those_of_the_capture() {
    let x = numbers(&[2, 3], 1);
    let state = numbers(&[2, 3], 2);
    let program = capture(&[spec(&x)], |x| {
        state.add_(&x[0])?;
        Ok(vec![x[0].exp()?])
    })
    .unwrap();
    for (error, words) in [
        (message(program.run(&[])), ["0 inputs", "1"]),
        (message(program.run(&[&x, &x])), ["2 inputs", "1"]),
        (message(program.run(&[&numbers(&[3, 2], 1)])), ["f32[3, 2]", "f32[2, 3]"]),
        (message(program.run(&[&x.to_dtype(DType::F64).unwrap()])), ["f64", "f32"]),
        (message(program.run(&[&state])), ["input 0", "state 0"]),
        (message(capture(&[spec(&x)], |x| x[0].add_(1).map(|()| vec![]))), ["input 0", "copy"]),
    ] {
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert_eq!(bits(&state), bits(&numbers(&[2, 3], 2)), "a refused run wrote");
    let elsewhere = TensorSpec::new([2], DType::F32).unwrap().on(Device::cuda(99));
    assert!(message(capture(&[elsewhere], |x| Ok(x.to_vec()))).contains("cuda:99"));
}

#[test]
fn temporaries_share_memory() {
    let x = numbers(&[1 << 12], 1);
    let program = capture(&[spec(&x)], |x| {
        let mut y = x[0].add(1)?;
        for _ in 0..20 {
            y = y.reshape([64, 64])?.t()?.copy()?.reshape([1 << 12])?.softmax(0)?;
        }
        Ok(vec![y.sum_all()?])
    })
    .unwrap();
    let bytes = program.arena_bytes().unwrap();
    assert!(bytes <= 3 * 4 * (1 << 12), "{bytes} bytes");
    // Pointwise operations write over their arguments.
    let program = capture(&[spec(&x)], |x| Ok(vec![x[0].add(1)?.exp()?.neg()?.sqrt()?.sum_all()?])).unwrap();
    assert!(program.arena_bytes().unwrap() <= 4 * (1 << 12) + 64);
}

#[test]
fn programs_run_on_several_threads_at_once() {
    let x = numbers(&[64, 64], 1);
    let count = Tensor::zeros([1], DType::I64).unwrap();
    let f = |x: &Tensor| x.matmul(x)?.softmax(-1)?.matmul(x);
    let program = capture(&[spec(&x)], |x| {
        count.add_(1)?;
        Ok(vec![f(&x[0])?])
    })
    .unwrap();
    let want: Vec<Vec<u32>> = (0..4).map(|seed| bits(&f(&numbers(&[64, 64], seed)).unwrap())).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (program, want) = (&program, &want);
            scope.spawn(move || {
                for _ in 0..25 {
                    let got = program.run(&[&numbers(&[64, 64], seed)]).unwrap();
                    assert_eq!(bits(&got[0]), want[seed]);
                }
            });
        }
    });
    assert_eq!(count.to_vec::<i64>().unwrap(), [100]);
}

#[test]
fn gradients_are_captured_as_functions_of_arguments() {
    let w = numbers(&[3], 1);
    let f = |x: &Tensor| -> Result<Vec<Tensor>> {
        x.requires_grad_(true)?;
        let y = x.mul(&w)?.sin()?.mul(x)?.sum_all()?;
        let options = autograd::GradOptions { create_graph: true, ..Default::default() };
        let first = autograd::grad(&[&y], &[x], &[], options)?.remove(0).unwrap();
        let second = autograd::grad(&[&first.sum_all()?], &[x], &[], Default::default())?.remove(0).unwrap();
        Ok(vec![first.detach(), second])
    };
    let program = capture(&[spec(&w)], |x| f(&x[0])).unwrap();
    let x = numbers(&[3], 5);
    let (got, want) = (program.run(&[&x]).unwrap(), f(&x.copy().unwrap()).unwrap());
    assert_eq!((bits(&got[0]), bits(&got[1])), (bits(&want[0]), bits(&want[1])));
}

#[test]
fn under_autocast_weights_are_cast_by_each_run() {
    let (x, w) = (numbers(&[4, 8], 1), leaf(&[8, 8], 2));
    let f = |x: &Tensor| x.matmul(&w)?.softmax(-1);
    autograd::autocast(DType::BF16, || {
        f(&x).unwrap();
        let program = capture(&[spec(&x)], |x| Ok(vec![f(&x[0])?.detach()])).unwrap();
        no_grad(|| w.mul_(2)).unwrap();
        assert_eq!(bits(&program.run(&[&x]).unwrap()[0]), bits(&f(&x).unwrap().detach()));
    })
    .unwrap();
}

#[test]
fn a_compiled_function_is_captured_for_each_shape_and_mode() {
    let w = numbers(&[8, 2], 1);
    let f = compile(|x| Ok(vec![x[0].matmul(&w)?.tanh()?]));
    let run = |rows: usize| {
        let x = numbers(&[rows, 8], rows);
        assert_eq!(bits(&f.run(&[&x]).unwrap()[0]), bits(&x.matmul(&w).unwrap().tanh().unwrap()));
    };
    (0..3).for_each(|_| (1..=5).for_each(run));
    assert_eq!((f.counts().captures, f.counts().hits), (5, 10));
    no_grad(|| run(1));
    assert_eq!(f.counts().captures, 6);
    // Sixteen are kept: the first ones have gone.
    (6..=20).for_each(run);
    run(1);
    assert_eq!(f.counts().captures, 22);
    assert!(message(f.run(&[&numbers(&[3, 7], 1)])).contains("matmul"));
}

#[test]
fn buckets_serve_many_numbers_of_rows() {
    let w = numbers(&[8, 2], 1);
    let f = |x: &[Tensor]| Ok(vec![x[0].matmul(&w)?.add(&x[1])?.tanh()?, x[0].argmax(-1, false)?]);
    let compiled = compile(f).buckets(&[1, 4, 16]).unwrap();
    for rows in [1, 2, 3, 4, 5, 16, 9, 17, 0, 2] {
        let (x, y) = (numbers(&[rows, 8], rows), numbers(&[rows, 2], rows + 1));
        let (got, want) = (compiled.run(&[&x, &y]).unwrap(), f(&[x, y]).unwrap());
        assert_eq!(got[0].dims(), [rows, 2]);
        assert_eq!(
            (bits(&got[0]), got[1].to_vec::<i64>().unwrap()),
            (bits(&want[0]), want[1].to_vec::<i64>().unwrap())
        );
    }
    // One for each bucket, and for 17 and 0 rows.
    let counts = compiled.counts();
    assert_eq!((counts.captures, counts.hits), (5, 5));
    assert_eq!((counts.padded, counts.padding), (5, 2 + 1 + 11 + 7 + 2));
}

#[test]
fn buckets_are_refused_where_rows_are_not_independent() {
    let x = numbers(&[3, 4], 1);
    let refused = |f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, x: &[&Tensor]| {
        let compiled = compile(f).buckets(&[4]).unwrap();
        let first = message(compiled.run(x));
        // It is not forgotten.
        assert_eq!(first, message(compiled.run(x)));
        assert_eq!(compiled.counts().padded, 0);
        first
    };
    let centred = |x: &[Tensor]| Ok(vec![x[0].sub(&x[0].mean(0, true)?)?]);
    assert!(refused(&centred, &[&x]).contains("rows are not independent"));
    assert!(refused(&|x| Ok(vec![x[0].sum(0, false)?]), &[&x]).contains("cannot have buckets"));
    assert!(refused(&|x| Ok(vec![x[0].transpose(0, 1)?.copy()?]), &[&x]).contains("cannot have buckets"));
    assert!(refused(&|x| Ok(vec![x[0].add(&x[1])?]), &[&x, &numbers(&[4], 1)]).contains("as many rows each"));
    assert!(refused(&|x| Ok(vec![x[0].add(1)?]), &[&Tensor::scalar(1.0f32).unwrap()]).contains("rows"));
    let sum = Tensor::zeros([3], DType::F32).unwrap();
    let counted = |x: &[Tensor]| {
        sum.add_(&Tensor::ones([3], DType::F32)?)?;
        Ok(vec![x[0].mul(2)?])
    };
    assert!(refused(&counted, &[&x]).contains("writes tensors in place"));
    assert_eq!(sum.to_vec::<f32>().unwrap(), [0.0; 3]);
    for sizes in [&[][..], &[0, 4], &[4, 4], &[16, 4]] {
        assert!(message(compile(|x: &[Tensor]| Ok(x.to_vec())).buckets(sizes)).contains("ascending"));
    }
}

#[test]
fn what_a_function_makes_it_makes_in_each_run() {
    let x = numbers(&[3], 1);
    let f = |x: &Tensor| -> Result<Vec<Tensor>> {
        let (ones, zeros) = (Tensor::new([1.0f32, 2.0, 3.0])?, Tensor::zeros([3], DType::F32)?);
        let before = ones.mul(1)?;
        ones.add_(x)?;
        ones.narrow(0, 1, 2)?.mul_(2)?;
        zeros.add_(&ones)?;
        Ok(vec![before, ones, zeros])
    };
    let program = capture(&[spec(&x)], |x| f(&x[0])).unwrap();
    assert!(program.graph().states.is_empty());
    for _ in 0..3 {
        let (got, want) = (program.run(&[&x]).unwrap(), f(&x).unwrap());
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(bits(got), bits(want));
        }
    }
}

/// A function that reads what the run before left, or what a leaf had at capture, is refused when that is not there.
#[test]
fn gradients_from_before_are_found_or_missed() {
    let (x, w) = (numbers(&[3], 1), leaf(&[3], 2));
    let pass = || w.mul(&x)?.sum_all()?.backward();
    // Added to the memory of a gradient that is gone.
    pass().unwrap();
    let program = capture(&[], |_| pass().map(|()| vec![])).unwrap();
    program.run(&[]).unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&x.mul(2).unwrap()));
    w.zero_grad();
    assert!(message(program.run(&[])).contains("the gradient of a leaf"));
    // Read after it was added to nothing.
    let program = capture(&[], |_| {
        pass()?;
        no_grad(|| w.grad().unwrap().mul_(0.5))?;
        Ok(vec![])
    })
    .unwrap();
    program.run(&[]).unwrap();
    assert_eq!(bits(&w.grad().unwrap()), bits(&x.mul(0.5).unwrap()));
    assert!(message(program.run(&[])).contains("the gradient of a leaf"));
    w.zero_grad();
    program.run(&[]).unwrap();
    // What somebody holds stays what it was.
    w.zero_grad();
    let program = capture(&[], |_| pass().map(|()| vec![])).unwrap();
    program.run(&[]).unwrap();
    let held = w.grad().unwrap();
    program.run(&[]).unwrap();
    assert_eq!((bits(&held), bits(&w.grad().unwrap())), (bits(&x), bits(&x.mul(2).unwrap())));
}

#[test]
fn results_are_nobody_elses() {
    let x = numbers(&[2], 1);
    // A gradient of a leaf that the function makes.
    let program = capture(&[spec(&x)], |x| {
        let x = x[0].detach();
        x.requires_grad_(true)?;
        x.mul(&x)?.sum_all()?.backward()?;
        Ok(vec![x.grad().unwrap(), Tensor::new([1.0f32, 2.0])?])
    })
    .unwrap();
    let first = program.run(&[&x]).unwrap();
    first[1].add_(10).unwrap();
    let (mine, other) = (bits(&first[0]), program.run(&[&numbers(&[2], 5)]).unwrap());
    assert_eq!(bits(&first[0]), mine);
    assert_eq!(other[1].to_vec::<f32>().unwrap(), [1.0, 2.0]);
    // A gradient of numbers.
    let w = leaf(&[2], 2);
    let program = capture(&[], |_| {
        let grad = Tensor::new([1.0f32, 2.0])?;
        w.mul(1)?.backward_with(Some(&grad), &Default::default())?;
        Ok(vec![])
    });
    let program = program.unwrap();
    for i in 1..4 {
        program.run(&[]).unwrap();
        assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [i as f32, 2.0 * i as f32]);
    }
}

#[test]
fn a_capture_leaves_versions_seeds_and_other_captures_alone() {
    let _draws = process_generator();
    let (x, w) = (numbers(&[2], 1), leaf(&[2], 2));
    let loss = w.mul(&x).unwrap().sum_all().unwrap();
    let adds = capture(&[], |_| x.add_(1).map(|()| vec![])).unwrap();
    loss.backward().unwrap();
    let inner = message(capture(&[], |_| adds.run(&[])));
    assert!(inner.starts_with("program") && inner.contains("captured function"), "{inner}");
    let seeds = message(capture(&[], |_| {
        manual_seed(1);
        Ok(vec![])
    }));
    assert!(seeds.starts_with("manual_seed"), "{seeds}");
    assert_eq!(bits(&x), bits(&numbers(&[2], 1)));
    // Nor does a run that is refused draw.
    let noise = capture(&[spec(&x)], |x| Ok(vec![x[0].dropout(0.5, true)?])).unwrap();
    let state = rustorch_tensor::default_generator().state();
    assert!(noise.run(&[]).is_err());
    assert_eq!(rustorch_tensor::default_generator().state(), state);
    // Compiled functions may call themselves; captures do not nest.
    let compiled = compile(|x| Ok(vec![x[0].exp()?]));
    let outer = compile(|x| compiled.run(&[&x[0]]));
    assert!(message(outer.run(&[&x])).contains("nest"));
    assert_eq!(compiled.run(&[&x]).unwrap().len(), 1);
}

#[test]
fn a_constant_that_runs_return_may_change() {
    let x = numbers(&[100], 1);
    let make = || (Tensor::full((), 2.0, DType::F32).unwrap(), numbers(&[100], 3));
    let f = |x: &Tensor, scale: &Tensor, w: &Tensor| -> Result<Vec<Tensor>> {
        Ok(vec![x.mul(scale)?.add(1)?, w.exp()?.neg()?, scale.clone(), w.clone()])
    };
    let (scale, w) = make();
    // The function has them alone, until a run returns them.
    let moved = make();
    let program = capture(&[spec(&x)], move |x| f(&x[0], &moved.0, &moved.1)).unwrap();
    for _ in 0..2 {
        let (got, want) = (program.run(&[&x]).unwrap(), f(&x, &scale, &w).unwrap());
        assert_eq!((bits(&got[0]), bits(&got[1])), (bits(&want[0]), bits(&want[1])));
        for results in [&got, &want] {
            results[2].add_(1).unwrap();
            results[3].mul_(2).unwrap();
        }
    }
}

#[test]
fn indices_that_the_graph_finds_itself_make_no_copy_of_a_state() {
    let x = numbers(&[3, 8], 1);
    let state = numbers(&[4], 2);
    let table = numbers(&[8, 2], 3);
    let staged = |f: &dyn Fn(&Tensor) -> Result<Tensor>| {
        let program = capture(&[spec(&x)], |x| {
            state.add_(1)?;
            Ok(vec![table.index_select(0, &f(&x[0])?.reshape([-1])?)?])
        });
        program.unwrap().staged_states()
    };
    // The eight rows of a table at indices among eight, which cannot be out of range, and others that may.
    assert_eq!(staged(&|x| Ok(x.topk(2, -1, true)?.1)), 0);
    assert_eq!(staged(&|x| x.sort(-1, false)?.1.narrow(0, 1, 2)), 0);
    assert_eq!(staged(&|x| Ok(x.reshape([2, 12])?.topk(2, -1, true)?.1)), 1);
    assert_eq!(staged(&|x| x.topk(2, -1, true)?.1.add(1)), 1);
    assert_eq!(
        staged(&|x| {
            let indices = x.topk(2, -1, true)?.1;
            indices.add_(1)?;
            Ok(indices)
        }),
        1
    );
}

#[test]
fn sums_and_their_norms_become_one_operation() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let make = |dims: &[usize], seed| numbers(dims, seed).to_dtype(dtype).unwrap();
        let (x, y, weight) = (make(&[5, 3, 32], 1), make(&[5, 3, 32], 2), make(&[32], 3));
        let f = |args: &[Tensor], scaled: bool| -> Result<Vec<Tensor>> {
            let sum = args[0].add(&args[1].transpose(0, 1)?.contiguous()?.transpose(0, 1)?)?;
            let other = sum.mul(2)?;
            // A weight that is made behind the sum keeps them apart.
            let weight =
                if scaled { weight.add(&args[0].select(0, 0)?.select(0, 0)?)? } else { weight.clone() };
            let normed = sum.rms_norm([32], Some(&weight), 1e-5)?;
            Ok(vec![normed, other, sum])
        };
        for scaled in [false, true] {
            let program = capture(&[spec(&x), spec(&y)], |args| f(args, scaled)).unwrap();
            let count =
                |name: &str| program.graph().nodes.iter().filter(|node| node.op.name() == name).count();
            assert_eq!(
                (count("add_rms_norm"), count("rms_norm")),
                if scaled { (0, 1) } else { (1, 0) },
                "{dtype}"
            );
            let want = f(&[x.clone(), y.clone()], scaled).unwrap();
            for (got, want) in program.run(&[&x, &y]).unwrap().iter().zip(&want) {
                assert_eq!(got.to_bytes().unwrap(), want.to_bytes().unwrap(), "{dtype}");
            }
        }
        // Neither one that is broadcast nor one that is written in place.
        let row = make(&[32], 4);
        let program = capture(&[spec(&x)], |args| {
            let apart = args[0].add(&row)?.rms_norm([32], None, 1e-5)?;
            let own = args[0].mul(2)?;
            own.add_(&args[0])?;
            Ok(vec![apart, own.rms_norm([32], None, 1e-5)?])
        });
        assert!(program.unwrap().graph().nodes.iter().all(|node| node.op.name() != "add_rms_norm"));
    }
}
