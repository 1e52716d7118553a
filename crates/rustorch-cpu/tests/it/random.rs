//! Random tensors.

use crate::testing::run1;
use rustorch_core::{DType, Distribution, Op, PhiloxKey, Random, Shape, bf16, unit_f32, unit_f64};

fn op(distribution: Distribution, n: usize, dtype: DType) -> Op {
    let shape = Shape::new([n].as_slice()).unwrap();
    Op::Random(Random { distribution, shape, dtype, key: KEY })
}

const KEY: PhiloxKey = PhiloxKey { seed: 0x1234_5678_9ABC, offset: u64::MAX - 3 };

/// The documented meaning of each element, one at a time.
#[test]
fn every_element_is_a_function_of_its_position() {
    let uniform = Distribution::Uniform { low: -1.0, high: 3.0 };
    let got: Vec<f32> = run1(&op(uniform, 5000, DType::F32), &[]);
    for (i, x) in got.iter().enumerate() {
        assert_eq!(*x, -1.0 + 4.0 * unit_f32(KEY.block(i as u64 / 4)[i % 4]));
    }
    let got: Vec<f64> = run1(&op(uniform, 5001, DType::F64), &[]);
    for (i, x) in got.iter().enumerate() {
        let block = KEY.block(i as u64 / 2);
        assert_eq!(*x, -1.0 + 4.0 * unit_f64(block[i % 2 * 2], block[i % 2 * 2 + 1]));
    }
    let normal = Distribution::Normal { mean: 1.0, std: 2.0 };
    let got: Vec<f32> = run1(&op(normal, 5003, DType::F32), &[]);
    for (i, x) in got.iter().enumerate() {
        let block = KEY.block(i as u64 / 4);
        let (u, v) = (unit_f32(block[i % 4 / 2 * 2]), unit_f32(block[i % 4 / 2 * 2 + 1]));
        let radius = (-2.0 * (1.0 - f64::from(u)).ln()).sqrt();
        let angle = std::f64::consts::TAU * f64::from(v);
        let want = 1.0 + 2.0 * radius * if i % 2 == 0 { angle.cos() } else { angle.sin() };
        assert!((f64::from(*x) - want).abs() < 1e-5, "{x} {want}");
    }
}

#[test]
fn distributions_have_their_moments() {
    let n = 200_000;
    let got: Vec<f64> = run1(&op(Distribution::Normal { mean: -1.0, std: 0.5 }, n, DType::F64), &[]);
    let mean = got.iter().sum::<f64>() / n as f64;
    let var = got.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
    assert!((mean + 1.0).abs() < 0.005 && (var - 0.25).abs() < 0.005, "{mean} {var}");
    let got: Vec<bool> = run1(&op(Distribution::Bernoulli { p: 0.3 }, n, DType::Bool), &[]);
    let share = got.iter().filter(|&&b| b).count() as f64 / n as f64;
    assert!((share - 0.3).abs() < 0.005, "{share}");
    let got: Vec<i8> = run1(&op(Distribution::Integer { low: -3, high: 4 }, n, DType::I8), &[]);
    let mut counts = [0usize; 7];
    got.iter().for_each(|&x| counts[(x + 3) as usize] += 1);
    assert!(counts.iter().all(|&c| c.abs_diff(n / 7) < n / 50), "{counts:?}");
    let got: Vec<i64> =
        run1(&op(Distribution::Integer { low: i64::MIN, high: i64::MAX }, 1000, DType::I64), &[]);
    assert!(got.iter().any(|&x| x < 0) && got.iter().any(|&x| x > 1 << 40));
    let got: Vec<bf16> = run1(&op(Distribution::Uniform { low: 0.0, high: 1.0 }, n, DType::BF16), &[]);
    assert!(got.iter().all(|x| (0.0..1.0).contains(&x.to_f32())));
}

/// The documented exchanges, and that each order is as likely.
#[test]
fn permutations_are_those_of_fisher_and_yates() {
    for n in [0, 1, 2, 63, 64, 65, 1000] {
        let mut want: Vec<i64> = (0..n as i64).collect();
        for i in (1..n).rev() {
            let block = KEY.block(i as u64 / 2);
            let word = u128::from(block[i % 2 * 2]) | u128::from(block[i % 2 * 2 + 1]) << 32;
            want.swap(i, ((word * (i as u128 + 1)) >> 64) as usize);
        }
        assert_eq!(run1::<i64>(&op(Distribution::Permutation {}, n, DType::I64), &[]), want);
    }
    let mut counts = std::collections::HashMap::new();
    let draws = 4800;
    for seed in 0..draws {
        let shape = Shape::new([4].as_slice()).unwrap();
        let (distribution, key) = (Distribution::Permutation {}, PhiloxKey { seed, offset: 0 });
        let order = run1::<i64>(&Op::Random(Random { distribution, shape, dtype: DType::I64, key }), &[]);
        *counts.entry(order).or_insert(0u64) += 1;
    }
    // 200 of each of 24 orders, within five standard deviations.
    assert_eq!(counts.len(), 24);
    assert!(counts.values().all(|count| count.abs_diff(draws / 24) < 70), "{counts:?}");
}
