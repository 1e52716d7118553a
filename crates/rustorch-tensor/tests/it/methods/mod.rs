//! Methods that are composed of operations against PyTorch: results, gradients, refusals; captured functions against eager ones.
//!
//! The fixtures were made by `tools/oracle/torch_methods.py` with PyTorch 2; the format is told there.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod arrangement;
mod compositions;
mod contractions;
mod decompositions;
mod distributions;
mod elements;
mod fourier;
mod matrix_functions;
mod statistics;

use crate::common::{Case, compare, fixture, tensor};
use rustorch_tensor::autograd::{GradCheck, gradgradcheck};
use rustorch_tensor::fft::{self, FftNorm};
use rustorch_tensor::{QuantileInterpolation, Result, Tensor, TensorSpec, capture, linalg};
use serde_json::Value;

type Run = fn(&Case, &str) -> Result<Vec<Tensor>>;
type OfTwo = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// A file of the fixtures, what runs the operation of a case, and how many lines there are at least.
const FAMILIES: &[(&str, Run, usize)] = &[
    ("contractions", contractions::run, 250),
    ("arrangement", arrangement::run, 300),
    ("elements", elements::run, 200),
    ("statistics", statistics::run, 300),
    ("fourier", fourier::run, 600),
    ("matrix_functions", matrix_functions::run, 40),
    ("decompositions", decompositions::run, 550),
    ("distributions", distributions::run, 500),
    ("compositions", compositions::run, 300),
];

fn each(mut check: impl FnMut(&Value, Run) -> std::result::Result<bool, String>) {
    let mut failures = Vec::new();
    for &(name, run, least) in FAMILIES {
        let lines = fixture(&format!("methods/{name}.jsonl"));
        assert!(lines.len() >= least, "{name} has {} lines", lines.len());
        let mut checked = 0;
        for line in &lines {
            match check(line, run) {
                Ok(counts) => checked += usize::from(counts),
                Err(why) => failures.push(format!("{}: {why}", Case::new(line).label)),
            }
        }
        assert!(checked > 0, "no line of {name} was checked");
    }
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
}

fn is_refused(line: &Value) -> bool {
    line["op"] == "refused"
}

#[test]
fn results_are_those_of_pytorch() {
    each(|line, run| {
        let case = Case::new(line);
        if is_refused(line) {
            return Ok(false);
        }
        let got = run(&case, &case.op).map_err(|error| error.to_string())?;
        if got.len() != case.outputs.len() {
            return Err(format!("{} results", got.len()));
        }
        got.iter().zip(&case.outputs).try_for_each(|(got, want)| compare(got, want, false))?;
        Ok(true)
    });
}

#[test]
fn gradients_are_those_of_pytorch() {
    each(|line, run| {
        let Some(grads) = line["grads"].as_array() else { return Ok(false) };
        let case = Case::new(line);
        let f = || -> Result<Vec<Option<Tensor>>> {
            for x in case.inputs.iter().filter(|x| x.dtype().is_float() || x.dtype().is_complex()) {
                x.requires_grad_(true)?;
            }
            let outs = run(&case, &case.op)?;
            let mut sum: Option<Tensor> = None;
            for (out, seed) in outs.iter().zip(line["seeds"].as_array().unwrap()) {
                if !seed.is_null() {
                    // The real part of Σ seed*·out has the gradient that the seed has as an output's.
                    let part = out.mul(&tensor(seed).conj()?)?.sum_all()?.real()?;
                    sum = Some(match sum {
                        Some(sum) => sum.add(&part)?,
                        None => part,
                    });
                }
            }
            if let Some(sum) = sum.filter(Tensor::requires_grad) {
                sum.backward()?;
            }
            Ok(case.inputs.iter().map(Tensor::grad).collect())
        };
        let got = f().map_err(|error| error.to_string())?;
        for (i, (got, want)) in got.iter().zip(grads).enumerate() {
            // Without one, it counts as zero.
            let want =
                if want.is_null() { case.inputs[i].detach().zeros_like().unwrap() } else { tensor(want) };
            let got = got.clone().unwrap_or_else(|| want.zeros_like().unwrap());
            if case.inputs[i].requires_grad() {
                compare(&got, &want, false).map_err(|why| format!("gradient of input {i}: {why}"))?;
            }
        }
        Ok(true)
    });
}

#[test]
fn what_pytorch_refuses_is_refused_by_name() {
    each(|line, run| {
        if !is_refused(line) {
            return Ok(false);
        }
        let case = Case::new(line);
        let op = case.attrs["op"].as_str().unwrap();
        match run(&case, op) {
            Ok(got) => Err(format!("gave {got:?}")),
            Err(error) if error.to_string().starts_with(&format!("{op}: ")) => Ok(true),
            Err(error) => Err(format!("the error is `{error}`")),
        }
    });
}

#[test]
fn captured_they_give_eagers_bits() {
    each(|line, run| {
        let mut case = Case::new(line);
        if is_refused(line) {
            return Ok(false);
        }
        let inputs = std::mem::take(&mut case.inputs);
        let specs: Vec<TensorSpec> = inputs.iter().map(TensorSpec::from).collect();
        let program = capture(&specs, |args| {
            case.inputs = args.to_vec();
            run(&case, &case.op)
        });
        if case.flag("values") {
            let error = program.err().ok_or("was captured")?.to_string();
            let named = error.starts_with(&case.op);
            return if named { Ok(true) } else { Err(format!("the error is `{error}`")) };
        }
        let program = program.map_err(|error| error.to_string())?;
        case.inputs = inputs;
        let eager = run(&case, &case.op).map_err(|error| error.to_string())?;
        let got = program.run(&case.inputs.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
        got.iter().zip(&eager).try_for_each(|(got, want)| compare(got, want, true))?;
        Ok(true)
    });
}

#[test]
fn second_gradients_are_those_of_finite_differences() {
    let x = Tensor::new([[0.3f64, -1.2, 0.7], [1.9, 0.4, -0.6], [-0.8, 1.1, 2.3]]).unwrap();
    let y = Tensor::new([[1.4f64, 0.2, -0.9], [-1.7, 0.5, 0.8], [0.6, -2.1, 1.3]]).unwrap();
    let methods: &[(&str, OfTwo)] = &[
        ("einsum", |x, y| Tensor::einsum("ij,jk,ki->i", &[x, y, x])),
        ("cdist by p = 3", |x, y| x.cdist(y, 3.0)),
        ("cdist by a matmul", |x, y| x.tile([9, 1])?.cdist(y, 2.0)),
        ("cov", |x, y| x.cov(1, None, None)?.mul(y)),
        ("hypot", |x, y| x.hypot(y)),
        ("logaddexp", |x, y| x.logaddexp(y)),
        ("logcumsumexp", |x, y| x.logcumsumexp(1)?.mul(y)),
        ("cummax", |x, y| x.cummax(0)?.0.square()?.mul(y)),
        ("quantile", |x, y| x.mul(y)?.quantile(0.3, Some(1), false, QuantileInterpolation::Linear)?.square()),
        ("matrix_exp", |x, y| linalg::matrix_exp(&x.mul(2)?)?.mul(y)),
        ("rfft", |x, y| fft::rfft(x, Some(5), 1, FftNorm::Ortho)?.abs()?.square()?.narrow(1, 0, 3)?.mul(y)),
        ("irfft", |x, y| fft::irfft(&Tensor::complex(x, y)?, None, 1, FftNorm::Backward)?.square()),
        ("fft2", |x, y| fft::fft2(&Tensor::complex(x, y)?, None, [0, 1], FftNorm::Forward)?.square()),
        ("svd", |x, y| {
            let (u, s, vh) = linalg::svd(&x.narrow(1, 0, 2)?, false)?;
            u.mul(&s.exp()?)?.matmul(&vh)?.mul(&y.narrow(1, 0, 2)?)
        }),
        ("svdvals", |x, y| linalg::svdvals(&x.matmul(y)?)),
        ("eigh", |x, y| {
            let (l, q) = linalg::eigh(&x.add(&x.t()?)?, linalg::Uplo::Lower)?;
            q.mul(&l.sin()?)?.matmul(&q.t()?)?.mul(y)
        }),
        ("eigvalsh", |x, y| linalg::eigvalsh(&x.mul(y)?.add(&x.mul(y)?.t()?)?, linalg::Uplo::Upper)),
        ("eig", |x, y| linalg::eig(x)?.1.abs()?.square()?.sum(1, false)?.mul(y)),
        ("eigvals", |x, y| linalg::eigvals(x)?.exp()?.real()?.sum(0, true)?.mul(y)),
        ("pinv", |x, y| linalg::pinv(&x.narrow(1, 0, 2)?, &linalg::RankOptions::default())?.matmul(y)),
        ("lstsq", |x, y| Ok(linalg::lstsq(&x.narrow(1, 0, 2)?, y, None)?.residuals)),
        ("masked_scatter", |x, y| x.masked_scatter(&x.detach().gt(0)?, y)?.square()),
    ];
    for (name, method) in methods {
        let f = |args: &[Tensor]| Ok(vec![method(&args[0], &args[1])?]);
        gradgradcheck(f, &[&x, &y], GradCheck::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
