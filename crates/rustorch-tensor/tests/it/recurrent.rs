//! Recurrences against their formulas in PyTorch's f64: results, states and gradients; and what chunks and batches may not change.
//!
//! The fixture was made by `tools/oracle/torch_recurrent.py` with PyTorch 2 and transformers.

use crate::common::{self, Case, complexes, fixture};
use rustorch_tensor::{HeadBroadcast, Result, Tensor};
use std::collections::BTreeSet;

const OPS: [&str; 4] = ["causal_conv1d", "gated_delta_rule", "rwkv_wkv7", "ssm_scan"];

/// The result along the sequence, and the next state.
fn run(case: &Case, inputs: &[Tensor]) -> Result<[Tensor; 2]> {
    let results = match (case.op.as_str(), inputs) {
        ("causal_conv1d", [x, weight, state, bias @ ..]) => {
            x.causal_conv1d(weight, bias.first(), state, case.flag("silu"))
        }
        ("gated_delta_rule", [q, k, v, g, beta, state]) => {
            let name = case.attrs["broadcast"].as_str().unwrap();
            let broadcast = HeadBroadcast::ALL.iter().find(|broadcast| broadcast.name() == name).unwrap();
            Tensor::gated_delta_rule(q, k, v, g, beta, state, *broadcast)
        }
        ("ssm_scan", [x, dt, a, b, c, state]) => x.ssm_scan(dt, a, b, c, state),
        ("rwkv_wkv7", [r, w, k, v, a, b, state]) => Tensor::rwkv_wkv7(r, w, k, v, a, b, state),
        (other, _) => panic!("no test runs {other}"),
    };
    results.map(|(out, state)| [out, state])
}

/// Which input is the state, and which ones are parameters: all others are sequences.
fn state_and_parameters(op: &str) -> (usize, &'static [usize]) {
    match op {
        "causal_conv1d" => (2, &[1, 3]),
        "ssm_scan" => (5, &[2]),
        "gated_delta_rule" => (5, &[]),
        _ => (6, &[]),
    }
}

/// The inputs at some positions of the sequences, with a state.
fn part(case: &Case, start: usize, len: usize, state: &Tensor) -> Vec<Tensor> {
    let (of_state, parameters) = state_and_parameters(&case.op);
    let inputs = case.inputs.iter().enumerate().map(|(i, x)| match i {
        i if i == of_state => state.clone(),
        i if parameters.contains(&i) => x.clone(),
        _ => x.narrow(1, start, len).unwrap(),
    });
    inputs.collect()
}

/// Within 10⁻⁹ in `f64`, and in `f32` within 10⁻⁶ and 2·10⁻⁵ of the largest.
fn check(label: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.dims(), want.dims(), "{label}");
    let (got_all, want_all) = (complexes(got), complexes(want));
    let largest = want_all.iter().map(|x| x.re.abs()).fold(0.0, f64::max);
    let single = got.dtype() == rustorch_tensor::DType::F32;
    let tolerance = if single { 1e-6 + 2e-5 * largest } else { 1e-9 };
    for (i, (got, want)) in got_all.iter().zip(&want_all).enumerate() {
        assert!((got.re - want.re).abs() <= tolerance, "{label}: element {i} is {}, not {}", got.re, want.re);
    }
}

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

#[test]
fn results_and_states() {
    let mut seen = BTreeSet::new();
    for line in fixture("recurrent.jsonl") {
        let case = Case::new(&line);
        let results = run(&case, &case.inputs).unwrap();
        for (got, want) in results.iter().zip(&case.outputs) {
            assert_eq!(got.dtype(), case.inputs[0].dtype());
            check(&case.label, got, want);
        }
        seen.insert(case.op);
    }
    assert!(seen.iter().eq(OPS.iter()), "{seen:?}");
}

#[test]
fn gradients() {
    let mut seen = BTreeSet::new();
    for line in fixture("recurrent.jsonl").iter().filter(|line| line["grads"].is_array()) {
        let case = Case::new(line);
        let list =
            |key: &str| line[key].as_array().unwrap().iter().map(common::tensor).collect::<Vec<Tensor>>();
        for x in &case.inputs {
            x.requires_grad_(true).unwrap();
        }
        let results = run(&case, &case.inputs).unwrap();
        let cotangents = list("cotangents");
        let along: Vec<Tensor> = results
            .iter()
            .zip(&cotangents)
            .map(|(y, cotangent)| y.mul(cotangent).unwrap().sum_all().unwrap())
            .collect();
        along[0].add(&along[1]).unwrap().backward().unwrap();
        for (i, (x, want)) in case.inputs.iter().zip(list("grads")).enumerate() {
            check(&format!("input {i} of {}", case.label), &x.grad().unwrap(), &want);
        }
        seen.insert(case.op);
    }
    assert!(seen.iter().eq(OPS.iter()), "{seen:?}");
}

/// A sequence in two chunks, wherever it is cut, and position by position.
#[test]
fn chunks_give_the_bits_of_the_whole() {
    for line in fixture("recurrent.jsonl") {
        let case = Case::new(&line);
        let seq = case.inputs[0].dims()[1];
        let (of_state, _) = state_and_parameters(&case.op);
        let whole = run(&case, &case.inputs).unwrap();
        let cuts = (0..=seq).filter(|cut| seq < 20 || cut % 37 == 5).map(|cut| vec![cut, seq - cut]);
        for lengths in cuts.chain([vec![1; seq]]) {
            let (mut outs, mut state, mut start) = (Vec::new(), case.inputs[of_state].clone(), 0);
            for &len in &lengths {
                let [out, next] = run(&case, &part(&case, start, len, &state)).unwrap();
                outs.push(out);
                (state, start) = (next, start + len);
            }
            let out = Tensor::cat(&outs, 1).unwrap();
            assert_eq!(bits(&out), bits(&whole[0]), "{} in chunks of {lengths:?}", case.label);
            assert_eq!(bits(&state), bits(&whole[1]), "the state of {} in {lengths:?}", case.label);
        }
    }
}

#[test]
fn sequences_of_a_batch_give_the_bits_that_each_gives_alone() {
    let mut several = 0;
    for line in fixture("recurrent.jsonl") {
        let case = Case::new(&line);
        let batch = case.inputs[0].dims()[0];
        let (_, parameters) = state_and_parameters(&case.op);
        let whole = run(&case, &case.inputs).unwrap();
        for i in 0..batch {
            let inputs: Vec<Tensor> = case
                .inputs
                .iter()
                .enumerate()
                .map(
                    |(arg, x)| {
                        if parameters.contains(&arg) { x.clone() } else { x.narrow(0, i, 1).unwrap() }
                    },
                )
                .collect();
            for (got, whole) in run(&case, &inputs).unwrap().iter().zip(&whole) {
                assert_eq!(bits(got), bits(&whole.narrow(0, i, 1).unwrap()), "{}", case.label);
            }
        }
        several += usize::from(batch > 1);
    }
    assert!(several > 4);
}

#[test]
fn what_does_not_fit_is_an_error_that_says_what() {
    let x = |dims: &[usize]| Tensor::zeros(dims.to_vec(), rustorch_tensor::DType::F32).unwrap();
    let fails = |result: Result<(Tensor, Tensor)>, what: &str| {
        let text = result.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(what), "`{text}` does not say `{what}`");
    };
    let weight = x(&[3, 4]);
    fails(
        x(&[1, 2, 3]).causal_conv1d(&weight, None, &x(&[1, 4, 3]), false),
        "the state must have shape [1, 3, 3]",
    );
    fails(x(&[2, 3]).causal_conv1d(&weight, None, &x(&[1, 3, 3]), false), "x must be [batch, seq, channels]");
    fails(
        x(&[1, 2, 3]).causal_conv1d(&x(&[3, 0]), None, &x(&[1, 3, 3]), false),
        "the kernel must have an element",
    );
    let delta = |q: &[usize], v: &[usize], g: &[usize]| {
        let state = [v[0], v[2], q[3], v[3]];
        let (q, v, beta) = (x(q), x(v), x(&v[..3]));
        Tensor::gated_delta_rule(&q, &q, &v, &x(g), &beta, &x(&state), HeadBroadcast::Tiled)
    };
    fails(
        delta(&[1, 2, 2, 4], &[1, 2, 3, 4], &[1, 2, 3]),
        "3 heads of values are no multiple of 2 heads of keys",
    );
    fails(delta(&[1, 2, 2, 4], &[1, 2, 4, 5], &[1, 2, 4, 5]), "g must have shape [1, 2, 4, 4]");
    let half = x(&[1, 2, 3]).to_dtype(rustorch_tensor::DType::F16).unwrap();
    let weight = weight.to_dtype(rustorch_tensor::DType::F16).unwrap();
    fails(half.causal_conv1d(&weight, None, &half, false), "f32 or f64");
    let scan = |a: &[usize], groups: usize| {
        x(&[1, 2, 4, 5]).ssm_scan(
            &x(&[1, 2, 4]),
            &x(a),
            &x(&[1, 2, groups, 6]),
            &x(&[1, 2, groups, 6]),
            &x(&[1, 4, 5, 6]),
        )
    };
    fails(scan(&[4, 5], 1), "a must have shape [4, 6]");
    fails(scan(&[4], 3), "4 heads are no multiple of 3 groups");
    let r = x(&[1, 2, 2, 4]);
    fails(
        Tensor::rwkv_wkv7(&r, &r, &r, &r, &r, &r, &x(&[1, 2, 4, 5])),
        "the state must have shape [1, 2, 4, 4]",
    );
}
