//! Fourier transforms: the same bits on any number of threads and wherever operands and results lie ([`run`] compares them), and
//! with a plan that was kept as with a new one.

use crate::testing::{Tensor, run1};
use rustorch_core::{C64, C128, Fft, FftScale, Op, Philox};

fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut random = Philox::new(seed);
    (0..n).map(|_| random.next_f64() * 2.0 - 1.0).collect()
}

#[test]
fn lines_are_transformed_one_by_one() {
    for n in [1usize, 2, 31, 64, 100, 257] {
        let (lines, scale) = (19, FftScale::InverseSqrt);
        let re = noise(n as u64, lines * n);
        let z: Vec<C64> = re.iter().map(|&x| C64::new(x as f32, (x * 7.0).sin() as f32)).collect();
        let op = |axis| Op::Fft(Fft::ComplexToComplex { axis, inverse: true, scale });
        let all = run1::<C64>(&op(1), &[&Tensor::new(&[lines, n], &z)]);
        for (i, line) in z.chunks(n).enumerate() {
            assert_eq!(run1::<C64>(&op(0), &[&Tensor::new(&[n], line)]), all[i * n..][..n], "{n}");
        }
        // The same lines across memory.
        let across: Vec<C64> = (0..n * lines).map(|i| z[i % lines * n + i / lines]).collect();
        let turned = Tensor::new(&[n, lines], &across).with(|l| l.transpose(0, 1).unwrap());
        assert_eq!(run1::<C64>(&op(1), &[&turned]), all, "{n}");

        let half = n / 2 + 1;
        let forward = Op::Fft(Fft::RealToComplex { axis: 1, scale });
        let spectra = run1::<C128>(&forward, &[&Tensor::new(&[lines, n], &re)]);
        let back = Op::Fft(Fft::ComplexToReal { axis: 1, n, scale });
        let again = run1::<f64>(&back, &[&Tensor::new(&[lines, half], &spectra)]);
        assert!(re.iter().zip(&again).all(|(x, y)| (x - y).abs() < 1e-14 * n as f64), "{n}");
    }
}

#[test]
fn plans_that_were_dropped_are_made_again() {
    let op = |n| {
        Op::Fft(Fft::RealToComplex { axis: 0, scale: if n > 40 { FftScale::One } else { FftScale::Inverse } })
    };
    let first: Vec<Vec<C128>> = (1..150).map(|n| run1(&op(n), &[&Tensor::new(&[n], &noise(1, n))])).collect();
    for (i, first) in first.iter().enumerate() {
        let n = i + 1;
        assert_eq!(&run1::<C128>(&op(n), &[&Tensor::new(&[n], &noise(1, n))]), first);
    }
}
