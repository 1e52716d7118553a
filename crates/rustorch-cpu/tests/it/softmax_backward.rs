//! Gradients of softmax and log-softmax.

use crate::testing::{Tensor, close, noise, run1};
use rustorch_core::{Op, SoftmaxBackward, bf16};

/// The definition, in `f64`.
fn want(grad: &[f64], y: &[f64], len: usize, log: bool) -> Vec<f64> {
    let mut out = Vec::new();
    for (grad, y) in grad.chunks(len).zip(y.chunks(len)) {
        let total: f64 = grad.iter().zip(y).map(|(g, y)| if log { *g } else { g * y }).sum();
        out.extend(grad.iter().zip(y).map(|(g, y)| match log {
            true => g - y.exp() * total,
            false => y * (g - total),
        }));
    }
    out
}

#[test]
fn gradients_by_the_definition() {
    for (rows, len) in [(1, 1), (3, 5), (2, 67), (5, 1000)] {
        let grad = noise(1, rows * len);
        let shares = noise(2, rows * len);
        for log in [false, true] {
            let y: Vec<f32> =
                shares.iter().map(|v| if log { v - 3.0 } else { (v + 2.0) / len as f32 }).collect();
            let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            let want = want(&wide(&grad), &wide(&y), len, log);
            let op = Op::SoftmaxBackward(SoftmaxBackward { axis: 1, log });
            let of = |x: &[f32]| Tensor::new(&[rows, len], x);
            close(&run1::<f32>(&op, &[&of(&grad), &of(&y)]), &want, 1e-4);
            let of = |x: &[f32]| Tensor::new(&[rows, len], &wide(x));
            let got: Vec<f64> = run1(&op, &[&of(&grad), &of(&y)]);
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "{got} instead of {want}");
            }
            // Along the first axis of the transposed matrix the rows are columns.
            let of = |x: &[f32]| {
                Tensor::new(&[rows, len], x).with(|layout| layout.transpose(0, 1).expect("two dimensions"))
            };
            let op = Op::SoftmaxBackward(SoftmaxBackward { axis: 0, log });
            let got: Vec<f32> = run1(&op, &[&of(&grad), &of(&y)]);
            let turned: Vec<f64> = (0..len).flat_map(|i| want.iter().skip(i).step_by(len).copied()).collect();
            close(&got, &turned, 1e-4);
        }
    }
}

/// A row of 16-bit floats is summed in `f32`: in its own dtype a sum of 1000 ones would end at 256.
#[test]
fn sixteen_bits_are_summed_in_singles() {
    let ones = Tensor::new(&[1000], &[bf16::ONE; 1000]);
    let y = Tensor::new(&[1000], &[bf16::from_f32(-6.90625); 1000]);
    let op = Op::SoftmaxBackward(SoftmaxBackward { axis: 0, log: true });
    let want = bf16::from_f32(1.0 - (-6.90625f32).exp() * 1000.0);
    assert_eq!(run1::<bf16>(&op, &[&ones, &y]), [want; 1000]);
}
