//! Operations of integers, booleans and blocks.

use super::ops::op;
use super::{Case, booleans, indices, values};
use rustorch_core::{
    Arange, BinaryOp, Cast, Clamp, CompareOp, Concat, CopyOp, DType, Dims, Embedding, Fill, Gather,
    IndexSelect, Op, Reduce, ReduceOp, Scalar, Scan, ScanOp, Shape, Tri, Where,
};
use rustorch_tensor::Tensor;
use rustorch_tensor::autograd::apply;

/// Integers from −4 to 4.
fn integers(dims: &[usize], seed: u32) -> Tensor {
    indices(dims, 9, seed).sub(4).unwrap().to_dtype(DType::I32).unwrap()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    made(&mut cases);
    pointwise(&mut cases);
    reductions(&mut cases);
    indexing(&mut cases);
    let blocks = values(&[2, 64], 1).to_dtype(DType::Quant(rustorch_core::QuantType::Q8_0)).unwrap();
    cases.push(Case::new("cast_blocks", &[values(&[2, 64], 2)], |x| {
        blocks.to_dtype(DType::F32)?.add(&x[0]).map(|y| vec![y])
    }));
    cases
}

/// What has no arguments, joined to something that is given.
fn made(cases: &mut Vec<Case>) {
    let shape = Shape::new([2, 3].as_slice()).unwrap();
    let fill = |dtype, value| Op::from(Fill { shape: shape.clone(), dtype, value });
    let arange = Arange { start: Scalar::Int(5), step: Scalar::Int(-2), len: 3, dtype: DType::I32 };
    for (name, made, x) in [
        ("fill_i32", fill(DType::I32, Scalar::Int(-7)), integers(&[2, 3], 1)),
        ("fill_bool", fill(DType::Bool, Scalar::Bool(true)), booleans(&[2, 3], 1)),
        ("arange_i32", arange.into(), integers(&[2, 3], 2)),
    ] {
        cases.push(Case::without_passes(name, x, |x| apply(&made, &[])?[0].add(x).map(|y| vec![y])));
    }
}

fn pointwise(cases: &mut Vec<Case>) {
    let (a, b) = (integers(&[2, 3, 4], 1), integers(&[3, 1], 2));
    let (p, q) = (booleans(&[2, 3, 4], 3), booleans(&[3, 1], 4));
    cases.push(op("where_i32", Where, &[p.clone(), a.clone(), b.clone()], 3));
    cases.push(op("where_bool", Where, &[p.clone(), q.clone(), p.clone()], 3));
    let clamp = Clamp { min: Some(Scalar::Int(-2)), max: Some(Scalar::Int(3)) };
    cases.push(op("clamp_i32", clamp, std::slice::from_ref(&a), 1));
    cases.push(op("copy_i32", CopyOp, std::slice::from_ref(&a), 1));
    cases.push(op("copy_bool", CopyOp, std::slice::from_ref(&p), 1));
    cases.push(op("cast_i32_to_bool", Cast { to: DType::Bool }, std::slice::from_ref(&a), 1));
    for binary in [BinaryOp::Maximum, BinaryOp::Minimum, BinaryOp::BitwiseAnd, BinaryOp::BitwiseOr] {
        let name = format!("binary_{}_bool", binary.name());
        cases.push(op(&name, binary, &[p.clone(), q.clone()], 2));
    }
    cases.push(op("binary_minimum_i32", BinaryOp::Minimum, &[a.clone(), b.clone()], 2));
    for &compare in CompareOp::ALL {
        cases.push(op(&format!("compare_{}_i32", compare.name()), compare, &[a.clone(), b.clone()], 2));
    }
}

fn reductions(cases: &mut Vec<Case>) {
    let (x, p) = (integers(&[3, 4, 2], 1), booleans(&[3, 4, 2], 2));
    let over = |op, axes: &[usize]| Reduce { op, axes: Dims::from_slice(axes), keepdim: false };
    for (name, reduce) in [
        ("amax", ReduceOp::Max),
        ("amin", ReduceOp::Min),
        ("any", ReduceOp::Any),
        ("all", ReduceOp::All),
        ("argmax", ReduceOp::ArgMax),
        ("argmin", ReduceOp::ArgMin),
    ] {
        cases.push(op(&format!("reduce_{name}_i32"), over(reduce, &[1]), std::slice::from_ref(&x), 1));
        if !matches!(reduce, ReduceOp::ArgMax | ReduceOp::ArgMin) {
            cases.push(op(&format!("reduce_{name}_bool"), over(reduce, &[1]), std::slice::from_ref(&p), 1));
        }
    }
    // Sums of integers whose bounds are known: of indices.
    cases.push(Case::new("reduce_sum_i64", &[values(&[3, 5], 3)], |x| {
        Ok(vec![x[0].argmax(1, false)?.sum(.., false)?])
    }));
    cases.push(Case::new("cumsum_i64", &[values(&[3, 5], 4)], |x| {
        let running = Op::from(Scan { op: ScanOp::Sum, axis: 0 });
        Ok(apply(&running, &[&x[0].argmax(1, false)?])?.into_vec())
    }));
}

fn indexing(cases: &mut Vec<Case>) {
    let x = integers(&[4, 3, 5], 1);
    cases.push(op("index_select_i32", IndexSelect { axis: 1 }, &[x.clone(), indices(&[4], 3, 2)], 2));
    cases.push(op("gather_i32", Gather { axis: 2 }, &[x.clone(), indices(&[4, 3, 2], 5, 2)], 2));
    cases.push(op("embedding_i32", Embedding, &[integers(&[7, 5], 2), indices(&[2, 3], 7, 2)], 2));
    cases.push(op("concat_i32", Concat { axis: 1 }, &[x.clone(), integers(&[4, 1, 5], 2)], 2));
    cases.push(op("concat_bool", Concat { axis: 0 }, &[booleans(&[2, 3], 1), booleans(&[4, 3], 2)], 2));
    for upper in [false, true] {
        let name = if upper { "triu" } else { "tril" };
        let tri = || Tri { upper, diagonal: 1 };
        cases.push(op(&format!("{name}_i32"), tri(), std::slice::from_ref(&x), 1));
        cases.push(op(&format!("{name}_bool"), tri(), &[booleans(&[4, 4], 1)], 1));
    }
}
