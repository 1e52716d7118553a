//! Functions with states, run several times, and tensors of 16 bits.

use super::{Case, values};
use rustorch_core::{Attention, CachedAttention, DType, Op};
use rustorch_tensor::Tensor;
use rustorch_tensor::autograd::apply;

fn zeros(dims: &[usize], dtype: DType) -> Tensor {
    Tensor::zeros(dims, dtype).unwrap()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        sums(DType::F16),
        sums(DType::F32).in_f16(),
        transposed(),
        attention("", None, &[0, 1, 2, 3, 4]),
        // The last of a token behind the end of the cache takes the place of the one before.
        attention("_window", Some(2), &[0, 1, 2, 3, 7]),
        attention("_in", None, &[2, 0, 4]).in_f16(),
    ];
    cases.push(Case::new("f16_tensors", &[half(&[3, 4], 1)], |x| {
        let y = x[0].matmul(&half(&[4, 5], 2))?.softmax(-1)?;
        Ok(vec![y.sum(1, false)?, y.to_dtype(DType::F32)?])
    }));
    cases.push(Case::new("bf16_weight", &[values(&[3, 4], 1)], |x| {
        Ok(vec![x[0].matmul(&values(&[5, 4], 2).to_dtype(DType::BF16)?.to_dtype(DType::F32)?.t()?)?])
    }));
    cases
}

fn half(dims: &[usize], seed: u32) -> Tensor {
    values(dims, seed).to_dtype(DType::F16).unwrap()
}

/// A sum that grows with each run.
fn sums(dtype: DType) -> Case {
    let sum = zeros(&[2, 3], dtype);
    let runs = (1..5).map(|seed| vec![values(&[2, 3], seed)]).collect();
    Case::of_runs("state_sum", runs, |x| {
        sum.add_(&x[0].to_dtype(dtype)?)?;
        Ok(vec![sum.mul(2)?.to_dtype(DType::F32)?])
    })
}

/// A state that is seen and written by its transpose, and one that is not returned.
fn transposed() -> Case {
    let (state, other) = (zeros(&[2, 3], DType::F16), zeros(&[4], DType::F16));
    let runs = (1..4).map(|seed| vec![values(&[3, 2], seed), values(&[4], seed)]).collect();
    Case::of_runs("state_transposed", runs, |x| {
        let before = state.t()?.to_dtype(DType::F32)?;
        state.t()?.copy_(&x[0].to_dtype(DType::F16)?)?;
        let last = other.to_dtype(DType::F32)?;
        other.copy_(&x[1].to_dtype(DType::F16)?)?;
        Ok(vec![before, last])
    })
}

/// Attention of two heads over a cache of five rows of one.
fn attention(name: &str, window: Option<usize>, positions: &[i64]) -> Case {
    let (keys, values_) = (zeros(&[1, 5, 4], DType::F16), zeros(&[1, 5, 6], DType::F16));
    let run = |(i, &position): (usize, &i64)| {
        let seed = 3 * i as u32;
        let position = Tensor::from_slice(&[position], [1]).unwrap();
        vec![
            values(&[2, 1, 4], seed + 1),
            values(&[1, 1, 4], seed + 2),
            values(&[1, 1, 6], seed + 3),
            position,
        ]
    };
    let runs = positions.iter().enumerate().map(run).collect();
    let op = CachedAttention { attention: Attention { window, ..Attention::new(0.5) } };
    Case::of_runs(&format!("cached_attention{name}"), runs, |x| {
        let start = x[3].select(0, 0)?;
        keys.slice_update_(1, &x[1].to_dtype(DType::F16)?, &start)?;
        values_.slice_update_(1, &x[2].to_dtype(DType::F16)?, &start)?;
        Ok(apply(&Op::CachedAttention(op), &[&x[0], &keys, &values_, &start])?.into_vec())
    })
}
