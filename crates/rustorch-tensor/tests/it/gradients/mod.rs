//! First and second gradients of every operation against those of PyTorch's autograd.
//!
//! The fixture was made by `tools/oracle/torch_grad.py` with PyTorch 2; the format is told there. `RUSTORCH_GRAD_CASES=DIR` compares
//! with the `*.jsonl` files of a folder instead.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod fused;
mod ops;

use crate::common::{Case, complexes, fixture, tensor};
use rustorch_tensor::autograd::{GradOptions, grad};
use rustorch_tensor::{DType, Result, Tensor};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Operations that refuse elements that lie apart: the first as PyTorch's, the second in its weights.
const CONTIGUOUS: &[&str] = &["view_as_complex", "mul_mat_id"];

/// The tensors that a list of the line has.
fn optional(list: &Value) -> Vec<Option<Tensor>> {
    list.as_array().unwrap().iter().map(|t| (!t.is_null()).then(|| tensor(t))).collect()
}

/// One line with its gradients.
struct Lesson {
    case: Case,
    needs: Vec<bool>,
    seeds: Vec<Option<Tensor>>,
    grads: Vec<Option<Tensor>>,
    second: Option<Second>,
}

struct Second {
    seeds: Vec<Option<Tensor>>,
    grads: Vec<Option<Tensor>>,
    of_seeds: Vec<Option<Tensor>>,
}

impl Lesson {
    fn new(line: &Value) -> Lesson {
        let mut case = Case::new(line);
        if case.op == "cast" && case.attrs["to"].is_string() {
            case.attrs["to"] = Value::Array(vec![case.attrs["to"].clone()]);
        }
        let second = &line["second"];
        Lesson {
            case,
            needs: line["needs"].as_array().unwrap().iter().map(|need| need.as_bool().unwrap()).collect(),
            seeds: optional(&line["seeds"]),
            grads: optional(&line["grads"]),
            second: second.is_object().then(|| Second {
                seeds: optional(&second["seeds"]),
                grads: optional(&second["grads"]),
                of_seeds: second["of_seeds"]
                    .as_array()
                    .map_or_else(Vec::new, |_| optional(&second["of_seeds"])),
            }),
        }
    }

    /// The same with inputs and first seeds whose elements lie apart in memory.
    fn strided(mut self) -> Result<Lesson> {
        let apart = |x: &Tensor| Tensor::stack(&[x, &x.zeros_like()?], -1)?.select(-1, 0);
        for x in &mut self.case.inputs {
            *x = apart(x)?;
        }
        for seed in self.seeds.iter_mut().flatten() {
            *seed = apart(seed)?;
        }
        Ok(self)
    }

    /// What differs from PyTorch.
    fn differences(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for (x, _) in self.case.inputs.iter().zip(&self.needs).filter(|(_, needed)| **needed) {
            x.requires_grad_(true)?;
        }
        let outputs = ops::run(&self.case)?;
        if outputs.len() != self.case.outputs.len() {
            return Ok(vec![format!(
                "gave {} results, PyTorch gives {}",
                outputs.len(),
                self.case.outputs.len()
            )]);
        }
        let computed = coarsest(self.case.inputs.iter().chain(&self.case.outputs));
        for (i, (got, want)) in outputs.iter().zip(&self.case.outputs).enumerate() {
            wrong.extend(difference(&format!("output {i}"), computed, Some(got), Some(want)));
        }
        let roots: Vec<&Tensor> =
            outputs.iter().zip(&self.seeds).filter_map(|(y, seed)| seed.as_ref().map(|_| y)).collect();
        let seeds: Vec<&Tensor> = self.seeds.iter().flatten().collect();
        let wants_seeds = self.second.as_ref().is_some_and(|second| !second.of_seeds.is_empty());
        for seed in seeds.iter().filter(|_| wants_seeds) {
            seed.requires_grad_(true)?;
        }
        let given: Vec<Option<&Tensor>> = seeds.iter().copied().map(Some).collect();
        let wanted: Vec<&Tensor> = self.needed(&self.case.inputs);
        let options =
            GradOptions { create_graph: self.second.is_some(), allow_unused: true, ..Default::default() };
        let labels: Vec<usize> = (0..self.needs.len()).filter(|&i| self.needs[i]).collect();
        if self.second.is_some() {
            // The same without a record of the pass, which may go another way.
            let options = GradOptions { retain_graph: true, allow_unused: true, ..Default::default() };
            let plain = grad(&roots, &wanted, &given, options)?;
            for ((got, want), i) in plain.iter().zip(self.needed(&self.grads)).zip(&labels) {
                let what = format!("gradient {i} without create_graph");
                wrong.extend(difference(&what, computed, got.as_ref(), want.as_ref()));
            }
        }
        let first = grad(&roots, &wanted, &given, options)?;
        for ((got, want), i) in first.iter().zip(self.needed(&self.grads)).zip(&labels) {
            wrong.extend(difference(&format!("gradient {i}"), computed, got.as_ref(), want.as_ref()));
        }
        let Some(second) = &self.second else { return Ok(wrong) };
        // A gradient without a history is constant: it adds nothing.
        let (roots, given): (Vec<&Tensor>, Vec<Option<&Tensor>>) = first
            .iter()
            .zip(self.needed(&second.seeds))
            .filter_map(|(grad, seed)| Some((grad.as_ref()?, Some(seed.as_ref()?))))
            .filter(|(grad, _)| grad.requires_grad())
            .unzip();
        let sources: Vec<&Tensor> = match wants_seeds {
            true => wanted.iter().copied().chain(seeds.iter().copied()).collect(),
            false => wanted.clone(),
        };
        let more = match roots.is_empty() {
            true => vec![None; sources.len()],
            false => {
                grad(&roots, &sources, &given, GradOptions { allow_unused: true, ..Default::default() })?
            }
        };
        for ((got, want), i) in more.iter().zip(self.needed(&second.grads)).zip(&labels) {
            wrong.extend(difference(&format!("second gradient {i}"), computed, got.as_ref(), want.as_ref()));
        }
        let seeded = (0..self.seeds.len()).filter(|&i| self.seeds[i].is_some());
        for (got, i) in more[wanted.len()..].iter().zip(seeded) {
            wrong.extend(difference(
                &format!("second gradient of seed {i}"),
                computed,
                got.as_ref(),
                second.of_seeds[i].as_ref(),
            ));
        }
        Ok(wrong)
    }

    /// Those of a list that belong to inputs whose gradients are asked for.
    fn needed<'a, T>(&self, list: &'a [T]) -> Vec<&'a T> {
        list.iter().zip(&self.needs).filter(|(_, needed)| **needed).map(|(x, _)| x).collect()
    }
}

/// How far a number may be from one of a size, in a tensor whose largest number is `most`.
fn bound(dtype: DType, size: f64, most: f64) -> f64 {
    match dtype {
        DType::F64 | DType::C128 => 1e-9 + 1e-9 * size,
        DType::F32 | DType::C64 => (1e-5 + 1.3e-5 * size).min(1e-6 + 2e-5 * most),
        _ => 1e-5 + 1.6e-2 * size,
    }
}

/// The dtype with the fewest digits among those of floats: what a case computes in, wherever its numbers come from.
fn coarsest<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> DType {
    let digits = |dtype: &DType| match dtype {
        DType::F16 | DType::BF16 => 0,
        DType::F32 | DType::C64 => 1,
        _ => 2,
    };
    tensors.into_iter().map(Tensor::dtype).min_by_key(digits).unwrap_or(DType::F64)
}

/// How two tensors differ that were computed in a dtype, of which one that is missing counts as zeros.
fn difference(what: &str, computed: DType, got: Option<&Tensor>, want: Option<&Tensor>) -> Option<String> {
    let zeros = |like: &Tensor| like.zeros_like().unwrap();
    let (got, want) = match (got, want) {
        (None, None) => return None,
        (Some(got), Some(want)) => (got.detach(), want.clone()),
        (Some(got), None) => (got.detach(), zeros(got)),
        (None, Some(want)) => (zeros(want), want.clone()),
    };
    if (got.dtype(), got.dims()) != (want.dtype(), want.dims()) {
        let of = |x: &Tensor| format!("{}{}", x.dtype(), x.shape());
        return Some(format!("{what} is {}, PyTorch's {}", of(&got), of(&want)));
    }
    if !(want.dtype().is_float() || want.dtype().is_complex()) {
        let same = got.to_bytes().unwrap() == want.to_bytes().unwrap();
        return (!same).then(|| format!("{what} is {got}, PyTorch's {want}"));
    }
    let most = complexes(&want).iter().map(|x| x.norm()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let bound = |size: f64| bound(computed, size, most);
    let near = |a: f64, b: f64| {
        a == b || a.is_nan() && b.is_nan() || b.is_finite() && (a - b).abs() <= bound(b.abs())
    };
    let wrong: Vec<String> = complexes(&got)
        .into_iter()
        .zip(complexes(&want))
        .enumerate()
        .filter(|(_, (a, b))| {
            let close = near(a.re, b.re) && near(a.im, b.im)
                || a.is_finite() && b.is_finite() && (a - b).norm() <= bound(b.norm());
            !close
        })
        .map(|(i, (a, b))| match want.dtype().is_complex() {
            true => format!("[{i}] {a} for {b}"),
            false => format!("[{i}] {} for {}", a.re, b.re),
        })
        .collect();
    (!wrong.is_empty()).then(|| format!("{what}, ours for PyTorch's: {}", wrong.join(", ")))
}

/// What came of all cases.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) refused: Vec<String>,
    pub(crate) wrong: Vec<String>,
}

/// Runs the cases of a fixture of this format, and prints those that fail.
pub(crate) fn tally(lines: &[Value]) -> Tally {
    let mut tally = Tally::default();
    for (number, line) in lines.iter().enumerate() {
        let lesson = Lesson::new(line);
        let label = format!("line {} {}", number + 1, lesson.case.label);
        let both = || -> Result<Vec<String>> {
            let wrong = lesson.differences()?;
            if !wrong.is_empty() || CONTIGUOUS.contains(&lesson.case.op.as_str()) {
                return Ok(wrong);
            }
            let wrong = Lesson::new(line).strided()?.differences()?;
            Ok(wrong.into_iter().map(|how| format!("strided: {how}")).collect())
        };
        let outcome = catch_unwind(AssertUnwindSafe(both))
            .unwrap_or_else(|_| Ok(vec!["panicked, as is told on stderr".to_owned()]));
        match outcome {
            Ok(wrong) if wrong.is_empty() => tally.passed += 1,
            Ok(wrong) => tally.wrong.push(format!("{label}\n    {}", wrong.join("\n    "))),
            Err(error) => tally.refused.push(format!("{label}\n    {error}")),
        }
    }
    println!("{} passed, {} refused, {} wrong", tally.passed, tally.refused.len(), tally.wrong.len());
    for (title, list) in [("refused", &tally.refused), ("wrong", &tally.wrong)] {
        for entry in list {
            println!("{title}: {entry}");
        }
    }
    tally
}

#[test]
fn gradients_are_those_of_pytorch() {
    if let Some(folder) = std::env::var_os("RUSTORCH_GRAD_CASES") {
        let mut wrong = 0;
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort();
        for path in files {
            println!("{}:", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            wrong += tally(&lines).wrong.len();
        }
        assert_eq!(wrong, 0, "{wrong} cases differ from PyTorch");
        return;
    }
    let lines = fixture("grad.jsonl");
    let tally = tally(&lines);
    assert!(lines.len() > 1000, "{} cases", lines.len());
    assert_eq!(tally.passed + tally.refused.len() + tally.wrong.len(), lines.len());
    assert_eq!((tally.refused.len(), tally.wrong.len()), (0, 0), "refused and wrong cases, listed above");
}
