//! What captured functions do to the gradients of leaves, in every order: what eager execution does, or an error.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Result, Tensor, TensorSpec, capture};

/// Something that a function does with a leaf.
#[derive(Clone, Copy, Debug)]
enum Event {
    Clear,
    Backward,
    Scale,
    Step,
    Set,
    SetSum,
    Return,
}

const EVENTS: [Event; 7] =
    [Event::Clear, Event::Backward, Event::Scale, Event::Step, Event::Set, Event::SetSum, Event::Return];

/// What happens between two runs.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Clear,
    Scale,
}

fn run(events: &[Event], w: &Tensor, x: &Tensor) -> Result<Vec<Tensor>> {
    let mut results = Vec::new();
    for event in events {
        let grad = || w.grad();
        match event {
            Event::Clear => w.zero_grad(),
            Event::Backward => w.mul(w)?.mul(x)?.sum_all()?.backward()?,
            Event::Scale => grad().map_or(Ok(()), |grad| grad.mul_(0.5))?,
            Event::Step => grad().map_or(Ok(()), |grad| no_grad(|| w.sub_(&grad.mul(0.1)?)))?,
            Event::Set => w.set_grad(Some(&x.mul(1)?))?,
            Event::SetSum => grad().map_or(Ok(()), |grad| w.set_grad(Some(&grad.add(1)?)))?,
            Event::Return => results.extend(grad()),
        }
    }
    Ok(results)
}

fn values(x: &Tensor) -> Vec<f32> {
    x.detach().to_vec().unwrap()
}

/// Value and gradient of a leaf.
fn state(w: &Tensor) -> (Vec<f32>, Option<Vec<f32>>) {
    (values(w), w.grad().map(|grad| values(&grad)))
}

fn leaf(has_grad: bool) -> Tensor {
    let w = Tensor::new([1.0f32, 2.0]).unwrap();
    w.requires_grad_(true).unwrap();
    if has_grad {
        run(&[Event::Backward], &w, &Tensor::new([1.0f32, 1.0]).unwrap()).unwrap();
    }
    w
}

/// Three runs; how many of them were refused.
fn compare(events: &[Event], has_grad: bool, between: Between) -> usize {
    let (eager, captured) = (leaf(has_grad), leaf(has_grad));
    let spec = TensorSpec::from(&captured);
    let program = capture(&[spec], |x| run(events, &captured, &x[0])).unwrap();
    assert_eq!(state(&captured), state(&leaf(has_grad)), "the capture of {events:?} changed the leaf");
    for i in 0..3 {
        let x = Tensor::new([1.0 + i as f32, 2.0]).unwrap();
        let Ok(got) = program.run(&[&x]) else { return 3 - i };
        let want = run(events, &eager, &x).unwrap();
        let list = |results: &[Tensor]| results.iter().map(values).collect::<Vec<_>>();
        let what = || format!("run {i} of {events:?}, gradient before: {has_grad}, between: {between:?}");
        assert_eq!(list(&got), list(&want), "{}", what());
        assert_eq!(state(&captured), state(&eager), "{}", what());
        for w in [&eager, &captured] {
            match between {
                Between::Nothing => {}
                Between::Clear => w.zero_grad(),
                Between::Scale => w.grad().map_or(Ok(()), |grad| grad.mul_(2)).unwrap(),
            }
        }
    }
    0
}

#[test]
fn gradients_in_every_order_of_events_are_eagers_or_refused() {
    let (mut runs, mut refused) = (0, 0);
    for len in 1..=3u32 {
        for code in 0..EVENTS.len().pow(len) {
            let events: Vec<Event> =
                (0..len).map(|i| EVENTS[code / EVENTS.len().pow(i) % EVENTS.len()]).collect();
            for between in [Between::Nothing, Between::Clear, Between::Scale] {
                for has_grad in [false, true] {
                    runs += 3;
                    refused += compare(&events, has_grad, between);
                }
            }
        }
    }
    println!("{runs} runs, {refused} refused");
    assert!(refused * 2 < runs, "{refused} of {runs}");
}

/// A function that begins with `zero_grad` is never refused.
#[test]
fn functions_that_clear_gradients_first_always_run() {
    for code in 0..EVENTS.len().pow(3) {
        let rest = (0..3).map(|i| EVENTS[code / EVENTS.len().pow(i) % EVENTS.len()]);
        let events: Vec<Event> = std::iter::once(Event::Clear).chain(rest).collect();
        for has_grad in [false, true] {
            assert_eq!(compare(&events, has_grad, Between::Nothing), 0, "{events:?}");
        }
    }
}
