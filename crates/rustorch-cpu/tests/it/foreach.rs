//! Operations on many tensors at once.

use crate::testing::{Tensor, close, noise, run};
use rustorch_core::{ForeachMul, Op, TotalNorm};

const SIZES: [[usize; 2]; 4] = [[1, 7], [3, 10_001], [0, 4], [16, 1]];

fn tensors() -> Vec<Tensor> {
    (0u64..).zip(SIZES).map(|(i, dims)| Tensor::new(&dims, &noise(i, dims[0] * dims[1]))).collect()
}

#[test]
fn the_norm_is_that_of_all_elements() {
    let tensors = tensors();
    let all: Vec<f64> = tensors.iter().flat_map(Tensor::values::<f32>).map(f64::from).collect();
    let sum = |term: &dyn Fn(f64) -> f64| all.iter().map(|&x| term(x)).sum::<f64>();
    let want = [
        (1.0, sum(&f64::abs)),
        (2.0, sum(&|x| x * x).sqrt()),
        (3.0, sum(&|x| x.abs().powi(3)).cbrt()),
        (f64::INFINITY, all.iter().fold(0.0, |a, x| x.abs().max(a))),
    ];
    for (ord, want) in want {
        let outs = run(&Op::TotalNorm(TotalNorm { ord }), &tensors.iter().collect::<Vec<_>>()).unwrap();
        close(&outs[0].values::<f32>(), &[want], 1e-6);
        let nan = Tensor::new(&[3], &[1.0, f32::NAN, 2.0]);
        let with_nan: Vec<&Tensor> = tensors.iter().chain([&nan]).collect();
        let outs = run(&Op::TotalNorm(TotalNorm { ord }), &with_nan).unwrap();
        assert!(outs[0].values::<f32>()[0].is_nan(), "{ord}");
    }
}

#[test]
fn products_say_what_was_not_finite() {
    let factor = Tensor::new(&[], &[0.5f32]);
    for wrong in [None, Some(f32::NAN), Some(f32::NEG_INFINITY)] {
        let mut tensors = tensors();
        tensors.extend(wrong.map(|wrong| Tensor::new(&[2], &[1.0, wrong])));
        let args: Vec<&Tensor> = [&factor].into_iter().chain(&tensors).collect();
        let outs = run(&Op::ForeachMul(ForeachMul { found_inf: true }), &args).unwrap();
        let (found_inf, products) = outs.split_last().unwrap();
        assert_eq!(found_inf.values::<f32>(), [if wrong.is_some() { 1.0 } else { 0.0 }]);
        for (x, product) in tensors.iter().zip(&products[..SIZES.len()]) {
            let want: Vec<f32> = x.values::<f32>().iter().map(|x| x * 0.5).collect();
            assert!(product.values::<f32>() == want);
        }
    }
}
