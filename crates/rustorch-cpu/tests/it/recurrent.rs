//! The same bits with any number of threads and wherever operands and results lie: [`run`] compares them.

use crate::testing::{Tensor, noise, run};
use rustorch_core::{CausalConv1d, GatedDeltaRule, HeadBroadcast, Op, RwkvWkv7, SsmScan};

fn some(seed: u64, dims: &[usize]) -> Tensor {
    Tensor::new(dims, &noise(seed, dims.iter().product()))
}

/// Runs an operation on operands as they are, and on such that lie in another order.
fn check(op: Op, dims: &[&[usize]]) {
    let args: Vec<Tensor> = (0..).zip(dims).map(|(seed, dims)| some(seed, dims)).collect();
    let turned: Vec<Tensor> = (0..)
        .zip(dims)
        .map(|(seed, dims)| {
            let values = noise(seed, dims.iter().product());
            let (rows, last) = (values.len() / dims[dims.len() - 1], dims[dims.len() - 1]);
            let swapped: Vec<f32> = (0..values.len()).map(|i| values[i % rows * last + i / rows]).collect();
            let order: Vec<usize> = (1..dims.len()).chain([0]).collect();
            let moved = [&dims[dims.len() - 1..], &dims[..dims.len() - 1]].concat();
            Tensor::new(&moved, &swapped).with(|layout| layout.permute(&order).unwrap())
        })
        .collect();
    let [packed, strided] = [args, turned].map(|args| run(&op, &args.iter().collect::<Vec<_>>()).unwrap());
    for (packed, strided) in packed.iter().zip(&strided) {
        assert_eq!(packed.bytes(), strided.bytes());
        assert!(packed.values::<f32>().iter().all(|x| x.is_finite()));
    }
}

#[test]
fn causal_conv1d() {
    let op = Op::CausalConv1d(CausalConv1d { silu: true });
    check(op, &[&[2, 300, 270], &[270, 4], &[2, 3, 270], &[270]]);
}

#[test]
fn gated_delta_rule() {
    let op = Op::GatedDeltaRule(GatedDeltaRule { broadcast: HeadBroadcast::Interleaved });
    let [q, v, g] = [&[2, 9, 2, 35], &[2, 9, 4, 70], &[2, 9, 4]] as [&[usize]; 3];
    check(op, &[q, q, v, g, g, &[2, 4, 35, 70]]);
}

#[test]
fn ssm_scan() {
    let [x, dt] = [&[2, 9, 6, 40], &[2, 9, 6]] as [&[usize]; 2];
    let b: &[usize] = &[2, 9, 2, 130];
    check(Op::SsmScan(SsmScan), &[x, dt, &[6], b, b, &[2, 6, 40, 130]]);
    let [x, dt, b] = [&[2, 9, 260, 1], &[2, 9, 260], &[2, 9, 1, 16]] as [&[usize]; 3];
    check(Op::SsmScan(SsmScan), &[x, dt, &[260, 16], b, b, &[2, 260, 1, 16]]);
}

#[test]
fn rwkv_wkv7() {
    let [r, v] = [&[2, 9, 3, 35], &[2, 9, 3, 70]] as [&[usize]; 2];
    check(Op::RwkvWkv7(RwkvWkv7), &[r, r, r, v, r, r, &[2, 3, 35, 70]]);
}
