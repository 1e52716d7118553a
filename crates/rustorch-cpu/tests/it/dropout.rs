//! Dropout.

use crate::testing::{Tensor, run1};
use rustorch_core::{Dropout, Op, PhiloxKey, bf16};

/// The documented meaning of each element, one at a time.
fn want(dropout: &Dropout, x: &[f32]) -> Vec<f32> {
    let below = dropout.threshold();
    let scale = (1.0 / (1.0 - dropout.p)) as f32;
    let each = x.iter().enumerate().map(|(i, x)| {
        let (group, k, j) = (i / 128, i % 128 / 16, i % 16);
        let block = (group * 16 + j) as u64;
        let half = |block: u64| u64::from(dropout.key.block(block)[k / 2] >> (k % 2 * 16) & 0xFFFF);
        let bits = half(block) << 16 | half(block ^ 1 << 63);
        x * if bits < below { scale } else { 0.0 }
    });
    each.collect()
}

#[test]
fn every_element_is_a_function_of_its_position() {
    // With p = 0.9999 the upper bits of a kept element are few, so that the lower ones decide often.
    for p in [0.0, 0.1, 0.5, 0.9999, 1.0 - 2f64.powi(-17), 1.0] {
        for n in [0, 1, 15, 127, 128, 129, 100_000] {
            let dropout = Dropout { p, key: PhiloxKey { seed: 0x1234_5678_9ABC, offset: 77 } };
            let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.25 + 1.0).collect();
            let want = want(&dropout, &x);
            let op = Op::Dropout(dropout);
            let got: Vec<f32> = run1(&op, &[&Tensor::new(&[n], &x)]);
            assert!(
                got == want || p == 1.0 && got.iter().all(|x| x.is_nan() || *x == 0.0),
                "p = {p}, {n} elements"
            );
        }
    }
}

/// A position is that of the element in the view.
#[test]
fn layouts_and_dtypes_have_the_same_mask() {
    let op = Op::Dropout(Dropout { p: 0.4, key: PhiloxKey { seed: 5, offset: 0 } });
    let ones = Tensor::new(&[60, 70], &[1f32; 4200]);
    let plain: Vec<f32> = run1(&op, &[&ones]);
    let turned =
        Tensor::new(&[70, 60], &[1f32; 4200]).with(|layout| layout.transpose(0, 1).expect("two dimensions"));
    assert_eq!(run1::<f32>(&op, &[&turned]), plain);
    let doubles: Vec<f64> = run1(&op, &[&Tensor::new(&[4200], &[1f64; 4200])]);
    let halves: Vec<bf16> = run1(&op, &[&Tensor::new(&[4200], &[bf16::ONE; 4200])]);
    for ((plain, double), half) in plain.iter().zip(doubles).zip(halves) {
        assert_eq!(*plain, double as f32);
        assert_eq!(bf16::from_f32(*plain), half);
    }
}
