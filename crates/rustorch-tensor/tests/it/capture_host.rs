//! What runs of captured functions read and change in Rust, and conditions that fail them.

use rustorch_tensor::{
    DType, HostState, Result, Tensor, TensorSpec, capture, compile, is_capturing, outside_capture,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

fn values(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

/// A function that multiplies by how often it ran.
fn counting(count: &HostState<u32>, x: &Tensor) -> Result<Vec<Tensor>> {
    let factor = count.operand((DType::F32, x.device()), |count| f64::from(*count))?;
    count.update(|count| *count += 1)?;
    Ok(vec![x.mul(&factor)?])
}

#[test]
fn runs_read_and_change_what_is_there() {
    let count = HostState::new(1);
    let x = Tensor::full([3], 2.0, DType::F32).unwrap();
    let program = capture(&[TensorSpec::from(&x)], |x| counting(&count, &x[0])).unwrap();
    assert_eq!(*count.lock(), 1, "a capture is no run");
    for i in 1..4 {
        assert_eq!(values(&program.run(&[&x]).unwrap()[0]), [2.0 * i as f32; 3]);
    }
    // Eagerly, and from outside.
    assert_eq!(values(&counting(&count, &x).unwrap()[0]), [8.0; 3]);
    *count.lock() = 10;
    assert_eq!(values(&program.run(&[&x]).unwrap()[0]), [20.0; 3]);
    // A run that is refused changes nothing.
    assert!(message(program.run(&[])).contains("0 inputs were given, it takes 1"));
    assert!(message(program.run(&[&x, &x])).contains("2 inputs were given, it takes 1"));
    assert_eq!(*count.lock(), 11);
    // Other programs of the same function go on with it.
    let compiled = compile(|x| counting(&count, &x[0]));
    for (rows, expected) in [(2, 11.0), (5, 12.0), (2, 13.0)] {
        let x = Tensor::ones([rows], DType::F32).unwrap();
        assert_eq!(values(&compiled.run(&[&x]).unwrap()[0]), vec![expected; rows]);
    }
}

#[test]
fn a_function_reads_before_it_changes() {
    let count = HostState::new(1);
    let spec = TensorSpec::new([1], DType::F32).unwrap();
    let twice = capture(std::slice::from_ref(&spec), |x| {
        counting(&count, &x[0])?;
        counting(&count, &x[0])
    });
    assert!(message(twice).contains("after it was changed there"));
    // The log of one that failed is gone.
    assert!(capture(&[spec], |x| counting(&count, &x[0])).is_ok());
    assert_eq!(*count.lock(), 1);
}

#[test]
fn a_program_on_several_threads_counts_each_run() {
    let count = HostState::new(0);
    let x = Tensor::ones([4], DType::F32).unwrap();
    let program = capture(&[TensorSpec::from(&x)], |x| counting(&count, &x[0])).unwrap();
    let seen: Vec<f32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope
                    .spawn(|| (0..50).map(|_| values(&program.run(&[&x]).unwrap()[0])[0]).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut seen: Vec<u32> = seen.into_iter().map(|x| x as u32).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
}

#[test]
fn programs_that_share_a_number_take_turns() {
    let count = HostState::new(0);
    let compiled = compile(|x| counting(&count, &x[0]));
    let programs = [1, 3].map(|n| {
        let x = Tensor::ones([n], DType::F32).unwrap();
        (compiled.program(&[&x]).unwrap(), x)
    });
    let mut seen: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = programs
            .iter()
            .map(|(program, x)| {
                scope.spawn(move || {
                    let one = || values(&program.run(&[x]).unwrap()[0])[0] as u32;
                    (0..200).map(|_| one()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..400).collect::<Vec<_>>());
}

#[test]
fn what_is_done_outside_a_capture_is_there_for_its_runs() {
    let made = AtomicUsize::new(0);
    let program = capture(&[], |_| {
        assert!(is_capturing());
        let sum = outside_capture(|| {
            assert!(!is_capturing());
            made.fetch_add(1, Relaxed);
            let sum = Tensor::zeros([2], DType::F32)?;
            sum.add_(5)?;
            Ok::<_, rustorch_tensor::Error>(sum)
        })?;
        sum.add_(1)?;
        Ok(vec![sum])
    })
    .unwrap();
    assert_eq!(made.load(Relaxed), 1);
    for i in 6..9 {
        // A state of the program.
        assert_eq!(values(&program.run(&[]).unwrap()[0]), [i as f32; 2]);
    }
    assert!(!outside_capture(is_capturing));
}

#[test]
fn a_condition_that_does_not_hold_fails_the_run_and_leaves_states() {
    let count = HostState::new(1);
    let state = Tensor::zeros([2], DType::F32).unwrap();
    let program = capture(&[TensorSpec::new([2], DType::F32).unwrap()], |x| {
        // Before the condition, in the order of the function.
        state.add_(&x[0])?;
        x[0].ge(0)?.assert("numbers below 0 have no root")?;
        let results = counting(&count, &x[0].sqrt()?)?;
        Ok(results)
    })
    .unwrap();
    let x = Tensor::new([4.0f32, 9.0]).unwrap();
    assert_eq!(values(&program.run(&[&x]).unwrap()[0]), [2.0, 3.0]);
    let error = message(program.run(&[&Tensor::new([4.0f32, -9.0]).unwrap()]));
    assert!(error.contains("numbers below 0 have no root"), "{error}");
    assert_eq!((values(&state), *count.lock()), (vec![4.0, 9.0], 2));
    assert_eq!(values(&program.run(&[&x]).unwrap()[0]), [4.0, 6.0]);
    assert_eq!(values(&state), [8.0, 18.0]);
}

#[test]
fn conditions_of_any_layout_are_checked() {
    let holds = Tensor::ones([3, 4], DType::Bool).unwrap();
    assert_eq!(holds.t().unwrap().assert("no").unwrap().dims(), [4, 3]);
    assert_eq!(Tensor::zeros([0], DType::Bool).unwrap().assert("no").unwrap().numel(), 0);
    // One element, which only the whole has.
    let mask = Tensor::new([[true, true, true], [true, false, true]]).unwrap();
    assert!(mask.narrow(1, 0, 1).unwrap().assert("no").is_ok());
    assert!(mask.narrow(1, 2, 1).unwrap().t().unwrap().assert("no").is_ok());
    for wrong in [mask.clone(), mask.t().unwrap(), mask.narrow(0, 1, 1).unwrap()] {
        assert!(message(wrong.assert("one is false")).contains("one is false"));
    }
    let number = message(Tensor::ones([1], DType::F32).unwrap().assert("no"));
    assert!(number.contains("must be bool"), "{number}");
}
