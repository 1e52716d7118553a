//! What is emitted and evaluated: single operations, views, and networks, each with arguments and the CPU's results. The tests and the
//! oracle's example share it.

mod blocks;
mod convnets;
pub mod decoder;
mod dtypes;
mod networks;
mod ops;
mod states;
mod views;

use rustorch_coreml::{AttentionForm, CoreMlOptions};
use rustorch_tensor::{DType, Program, Result, Tensor, TensorSpec, capture, capture_with};
use std::io;
use std::ops::Range;

/// A captured function and arguments for it.
pub struct Case {
    pub name: String,
    pub program: Program,
    pub options: CoreMlOptions,
    /// Of each run: one, but of a function with states, which each run finds as the last one left them.
    pub runs: Vec<Vec<Tensor>>,
}

impl Case {
    fn new(name: &str, inputs: &[Tensor], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Case {
        Case::of_runs(name, vec![inputs.to_vec()], f)
    }

    fn of_runs(name: &str, runs: Vec<Vec<Tensor>>, f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Case {
        let specs: Vec<TensorSpec> = runs[0].iter().map(TensorSpec::from).collect();
        let program = capture(&specs, f).unwrap_or_else(|error| panic!("{name}: {error}"));
        Case { name: name.to_owned(), program, options: CoreMlOptions::default(), runs }
    }

    /// Of a function that is captured as it is: passes would make constants of its operations.
    fn without_passes(name: &str, x: Tensor, f: impl FnOnce(&Tensor) -> Result<Vec<Tensor>>) -> Case {
        let program = capture_with(&[], &[TensorSpec::from(&x)], |x| f(&x[0]));
        let program = program.unwrap_or_else(|error| panic!("{name}: {error}"));
        Case { name: name.to_owned(), program, options: CoreMlOptions::default(), runs: vec![vec![x]] }
    }

    /// The same as an `f16` program.
    fn in_f16(mut self) -> Case {
        self.name.push_str("_f16");
        self.options.allow_f16 = true;
        self
    }

    /// The same with MIL's operation for attention.
    fn fused(mut self) -> Case {
        self.name.push_str("_fused");
        self.options.attention = AttentionForm::Fused;
        self
    }
}

/// The bytes of constants, as packages ask for them.
pub fn bytes(constants: &[Tensor]) -> impl Fn(usize, Range<usize>) -> io::Result<Vec<u8>> {
    move |i, range| {
        let part =
            constants[i].flatten(0, -1).and_then(|all| all.narrow(0, range.start, range.len())?.to_bytes());
        part.map_err(io::Error::other)
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let plain = || {
        let mut cases = ops::cases();
        cases.extend(dtypes::cases());
        cases.extend(views::cases());
        cases.extend(networks::cases());
        cases.extend(convnets::cases());
        cases
    };
    let mut cases = plain();
    cases.extend(states::cases());
    cases.extend(decoder::cases());
    cases.extend(blocks::cases());
    cases.extend(plain().into_iter().filter(|case| !EXACT.contains(&&*case.name)).map(Case::in_f16));
    cases
}

/// Cases without an `f16` one, since their values, or a product on the way, have no form in it.
const EXACT: &[&str] =
    &["reduce_prod_4", "unary_isfinite_special", "unary_isinf_special", "unary_log1p_small"];

/// Multiples of 1/512 between −2 and 2, which `f16` has, the same everywhere.
pub fn values(dims: &[usize], seed: u32) -> Tensor {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 21) as f32 / 512.0 - 2.0
    };
    let count = dims.iter().product();
    Tensor::from_vec((0..count).map(|_| next()).collect::<Vec<f32>>(), dims).unwrap()
}

/// Integers from 0 to below `end`.
fn indices(dims: &[usize], end: i64, seed: u32) -> Tensor {
    let x = values(dims, seed).to_vec::<f32>().unwrap();
    let index = |x: &f32| (((f64::from(*x) + 2.0) / 4.0 * end as f64) as i64).clamp(0, end - 1);
    Tensor::from_vec(x.iter().map(index).collect::<Vec<i64>>(), dims).unwrap()
}

fn booleans(dims: &[usize], seed: u32) -> Tensor {
    indices(dims, 2, seed).to_dtype(DType::Bool).unwrap()
}
