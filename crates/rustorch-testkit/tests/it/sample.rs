//! The sample of the suite has everything that the suite has, but less often.

use rustorch_core::{DType, Device, Op, OutputMeta, TensorMeta};
use rustorch_testkit::conformance::{Argument, Case, Extent, cases, one_in, sample, weight_cases};
use std::collections::HashSet;
use std::mem::{self, Discriminant};

fn all() -> Vec<Case> {
    [cases(), weight_cases()].concat()
}

fn results(case: &Case) -> impl Iterator<Item = OutputMeta> {
    let meta = |dtype, layout| TensorMeta { dtype, layout, device: Device::CPU };
    let metas: Vec<TensorMeta<'_>> = case.args.iter().map(|arg| meta(arg.dtype, &arg.layout)).collect();
    case.op.infer(&metas).unwrap().into_iter()
}

/// Whether an argument is contiguous, and if not, whether an element of it is in several places.
fn arrangement(arg: &Argument) -> (bool, bool) {
    let dims = arg.layout.dims().iter().zip(arg.layout.strides());
    (arg.layout.is_contiguous(), dims.clone().any(|(&len, &stride)| len > 1 && stride == 0))
}

#[test]
fn the_sample_has_every_operation_and_every_weight_type() {
    let (all, part) = (all(), sample(all()));
    let names = |cases: &[Case]| cases.iter().map(|case| case.op.name()).collect::<HashSet<_>>();
    assert_eq!(names(&all), names(&part));
    let weights = |cases: &[Case]| {
        let products = cases.iter().filter(|case| case.op.name() == "matmul");
        products.map(|case| case.args[1].dtype).filter(|dtype| dtype.is_quant()).collect::<HashSet<_>>()
    };
    assert_eq!(weights(&all), weights(&part));
    let dtypes = |cases: &[Case]| {
        let of = |case: &Case| {
            let args = case.args.iter().map(|arg| arg.dtype);
            args.chain(results(case).map(|out| out.dtype)).collect::<Vec<DType>>()
        };
        cases.iter().flat_map(of).collect::<HashSet<DType>>()
    };
    assert_eq!(dtypes(&all), dtypes(&part));
    assert!(part.len() * 20 < all.len(), "{} of {}", part.len(), all.len());
}

#[test]
fn the_sample_has_floats_of_every_operation_in_every_arrangement() {
    let (all, part) = (all(), sample(all()));
    let found = |cases: &[Case]| {
        let floats = cases.iter().filter(|case| case.args.first().is_some_and(|arg| arg.dtype == DType::F32));
        let some = floats.filter(|case| {
            case.args.iter().all(|arg| arg.layout.numel() > 1)
                && results(case).all(|out| out.shape.numel() > 1)
        });
        some.map(|case| (case.op.name(), arrangement(&case.args[0]))).collect::<HashSet<_>>()
    };
    assert_eq!(found(&all), found(&part));
    assert!(part.iter().any(|case| !case.args.is_empty() && arrangement(&case.args[0]) == (false, true)));
}

#[test]
fn the_sample_is_always_the_same() {
    let texts = || sample(all()).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(), texts());
}

#[test]
fn one_in_so_many_has_every_kind_of_operation() {
    let sample = sample(all());
    let part = one_in(12, sample.clone());
    let kind = |case: &Case| (mem::discriminant(&case.op), case.args.iter().any(|arg| arg.dtype.is_quant()));
    let kinds = |cases: &[Case]| cases.iter().map(kind).collect::<HashSet<(Discriminant<Op>, bool)>>();
    assert_eq!(kinds(&sample), kinds(&part));
    assert!(part.len() * 4 < sample.len(), "{} of {}", part.len(), sample.len());
    assert_eq!(one_in(1, sample.clone()).len(), sample.len());
}

#[test]
fn an_extent_of_names_has_their_cases() {
    let added = Extent::Of("add".into()).of(cases());
    assert!(added.len() > 100 && added.iter().all(|case| case.op.name() == "add"));
}
