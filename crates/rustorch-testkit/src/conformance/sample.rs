//! A part of the suite for devices that compile slowly: few kernels, but every operation.

use super::{Argument, Case};
use rustorch_core::{DType, Device, MatMul, MulMatId, Numerics, Op, TensorMeta};
use std::collections::{HashMap, HashSet};
use std::mem::{self, Discriminant};

/// The sample has one combination of dtypes more for so many that an operation takes.
const COMBINATIONS: usize = 31;

/// How much of the suite a test runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every case.
    All,
    /// Those of [`sample`].
    Sample,
    /// Every case of some operations, named with commas between them.
    Of(String),
}

impl Extent {
    /// What the environment asks for: `CONFORMANCE_OF` names operations, `RUSTORCH_CONFORMANCE` is `all` or `sample`.
    ///
    /// # Panics
    /// If `RUSTORCH_CONFORMANCE` is something else, which would be a test that does not do what it is told.
    pub fn from_env(otherwise: Extent) -> Extent {
        Extent::from_variables(|name| std::env::var(name).ok(), otherwise)
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>, otherwise: Extent) -> Extent {
        if let Some(name) = get("CONFORMANCE_OF") {
            return Extent::Of(name);
        }
        match get("RUSTORCH_CONFORMANCE").as_deref() {
            None | Some("") => otherwise,
            Some("all") => Extent::All,
            Some("sample") => Extent::Sample,
            Some(other) => panic!("RUSTORCH_CONFORMANCE is `{other}`, neither `all` nor `sample`"),
        }
    }

    /// `share` by default; 1 where the environment asks for more than a sample. For tests that run one in `share` of something.
    pub fn share(share: usize) -> usize {
        if Extent::from_env(Extent::Sample) == Extent::Sample { share } else { 1 }
    }

    /// The cases of this extent.
    pub fn of(&self, cases: Vec<Case>) -> Vec<Case> {
        match self {
            Extent::All => cases,
            Extent::Sample => sample(cases),
            Extent::Of(names) => {
                cases.into_iter().filter(|case| names.split(',').any(|name| case.op.name() == name)).collect()
            }
        }
    }
}

/// A part of the cases, always the same: each operation in `f32` and in one other combination of dtypes, each operation in
/// another one; and matmuls with every block type.
///
/// Of each combination it has one case for each way in which the first argument lies in memory, since these mostly share
/// a kernel.
pub fn sample(cases: Vec<Case>) -> Vec<Case> {
    let mut names: Vec<&'static str> = Vec::new();
    // For each operation the combinations that it takes, in the order of the cases.
    let mut combinations: HashMap<&'static str, Vec<Vec<DType>>> = HashMap::new();
    let (found, sizes): (Vec<(&'static str, Vec<DType>)>, Vec<usize>) = cases.iter().map(look).unzip();
    for (name, dtypes) in &found {
        let known = combinations.entry(name).or_insert_with(|| {
            names.push(name);
            Vec::new()
        });
        if !known.contains(dtypes) {
            known.push(dtypes.clone());
        }
    }
    let chosen: HashSet<(&'static str, Vec<DType>)> = names
        .iter()
        .enumerate()
        .flat_map(|(i, name)| chosen(name, &combinations[name], i).into_iter().map(move |c| (*name, c)))
        .collect();
    let mut wanted = vec![false; cases.len()];
    let mut done: HashSet<(&'static str, Vec<DType>)> = HashSet::new();
    // Those with something to compute and to mix up, then what there is for combinations without such a case.
    for enough in [2, 1, 0] {
        let mut have = HashSet::new();
        for (i, (case, key)) in cases.iter().zip(&found).enumerate() {
            if sizes[i] < enough || !chosen.contains(key) || done.contains(key) {
                continue;
            }
            let layout_kind = case.args.first().map_or(LayoutKind::Packed, layout_kind);
            wanted[i] = have.insert((key.clone(), layout_kind));
        }
        done.extend(have.into_iter().map(|(key, _)| key));
    }
    // The last in `f32`, indices aside, is often of another kind than the first: a depthwise convolution, a wide row.
    for name in &names {
        let is_last = |(i, (own, dtypes)): &(usize, &(&'static str, Vec<DType>))| {
            let single = dtypes.first() == Some(&DType::F32)
                && dtypes.iter().all(|dtype| matches!(dtype, DType::F32 | DType::I64));
            own == name && sizes[*i] > 1 && single
        };
        if let Some((i, _)) = found.iter().enumerate().rev().find(is_last) {
            wanted[i] = true;
        }
    }
    cases.into_iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(case, _)| case).collect()
}

/// One in `share` cases, and the first of each variant of [`Op`] (all unary operations are one), with blocks and without: for
/// compilers that take longer than all else.
pub fn one_in(share: usize, cases: Vec<Case>) -> Vec<Case> {
    let mut seen = HashSet::new();
    let chosen = cases.into_iter().enumerate().filter(|(i, case)| seen.insert(kind(case)) || i % share == 0);
    chosen.map(|(_, case)| case).collect()
}

fn kind(case: &Case) -> (Discriminant<Op>, bool) {
    (mem::discriminant(&case.op), case.args.iter().any(|arg| arg.dtype.is_quant()))
}

/// Name, dtypes of arguments and results, and the fewest elements among these.
fn look(case: &Case) -> ((&'static str, Vec<DType>), usize) {
    let metas: Vec<TensorMeta<'_>> = case
        .args
        .iter()
        .map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device: Device::CPU })
        .collect();
    let outs = case.op.infer(&metas).expect("the suite's cases are valid");
    let dtypes = metas.iter().map(|arg| arg.dtype).chain(outs.iter().map(|out| out.dtype)).collect();
    let elements = metas.iter().map(|arg| arg.layout.numel()).chain(outs.iter().map(|out| out.shape.numel()));
    // Matmuls of unrounded activations with blocks have other kernels, and so have those of many rows and with many choices of
    // each expert.
    let blocks = case.args.iter().any(|arg| arg.dtype.is_quant());
    let name = match &case.op {
        Op::MatMul(MatMul { numerics: Numerics::F32, .. }) if blocks => "unrounded matmul",
        Op::MulMatId(MulMatId { numerics: Numerics::F32 }) if blocks => "unrounded mul_mat_id",
        Op::MatMul(_) if !blocks && by_rows(&metas) => "matmul by rows",
        Op::MatMul(_) if blocks && metas[0].dims()[0] >= 32 => "matmul of many",
        Op::MulMatId(_) if blocks && metas[2].layout.numel() >= 4 * metas[1].dims()[0] => {
            "mul_mat_id of many"
        }
        // GPUs split the keys of few queries.
        Op::Attention(_)
            if metas[0].dims()[metas[0].dims().len() - 2] < 4 && elements.clone().any(|n| n > 10_000) =>
        {
            "attention of long keys"
        }
        op => op.name(),
    };
    ((name, dtypes), elements.min().unwrap_or(0))
}

/// Whether a dense matrix has contiguous rows, of whole vectors of 16 bytes: those have kernels of their own.
fn by_rows(metas: &[TensorMeta<'_>]) -> bool {
    let (dims, strides) = (metas[1].dims(), metas[1].layout.strides());
    dims.len() == 2 && strides[0] == 1 && dims[0] >= 64 && dims[0].is_multiple_of(8)
}

/// Which combinations of dtypes the sample has of the `i`-th operation.
fn chosen(name: &str, known: &[Vec<DType>], i: usize) -> Vec<Vec<DType>> {
    let (blocks, mut others): (Vec<_>, Vec<_>) =
        known.iter().cloned().partition(|dtypes| dtypes.iter().any(|dtype| dtype.is_quant()));
    let mut list = Vec::new();
    if !others.is_empty() {
        let first = others.iter().position(|dtypes| dtypes[0] == DType::F32).unwrap_or(0);
        list.push(others.remove(first));
        // Casts have as many as there are pairs of dtypes.
        let more = if others.is_empty() { 0 } else { 1 + others.len() / COMBINATIONS };
        list.extend((0..more).map(|j| others[(i + j * COMBINATIONS) % others.len()].clone()));
    }
    match name {
        "matmul" => list.extend(blocks),
        // Not every type has kernels everywhere, the first has.
        name if name.starts_with("unrounded ") || name.ends_with(" of many") => {
            list.extend(blocks.into_iter().take(2))
        }
        _ if !blocks.is_empty() => list.push(blocks[i % blocks.len()].clone()),
        _ => {}
    }
    list
}

/// How an argument lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LayoutKind {
    Packed,
    /// With gaps, or in another order.
    Strided,
    /// An element is in several places.
    Repeated,
}

fn layout_kind(arg: &Argument) -> LayoutKind {
    let dims = arg.layout.shape().dims();
    match () {
        () if arg.layout.is_contiguous() => LayoutKind::Packed,
        () if dims.iter().zip(arg.layout.strides()).any(|(&len, &stride)| len > 1 && stride == 0) => {
            LayoutKind::Repeated
        }
        () => LayoutKind::Strided,
    }
}
