//! Cases of Fourier transforms: of lengths for which there are different algorithms, along each axis.

use super::cases::{ARRANGEMENTS, Cases};
use rustorch_core::{DType, Fft, FftScale, Op};

/// Powers of two, products of small primes, primes; empty batches.
const SHAPES: &[&[usize]] = &[&[1], &[2], &[7], &[3, 8], &[0, 5], &[2, 3, 12], &[5, 41], &[37, 33]];

impl Cases {
    pub(super) fn fourier(&mut self) {
        for real in [DType::F32, DType::F64] {
            for how in ARRANGEMENTS {
                for &dims in SHAPES {
                    for (axis, &n) in dims.iter().enumerate().filter(|&(_, &n)| n != 0) {
                        for scale in [FftScale::One, FftScale::InverseSqrt, FftScale::Inverse] {
                            let whole = self.argument(real.to_complex(), dims, how);
                            for inverse in [false, true] {
                                let op = Fft::ComplexToComplex { axis, inverse, scale };
                                self.add(Op::Fft(op), vec![whole.clone()]);
                            }
                            let points = self.argument(real, dims, how);
                            self.add(Op::Fft(Fft::RealToComplex { axis, scale }), vec![points]);
                            // An even and an odd number of points have as many coefficients.
                            for n in [2 * n - 2, 2 * n - 1] {
                                if n != 0 {
                                    let op = Fft::ComplexToReal { axis, n, scale };
                                    self.add(Op::Fft(op), vec![whole.clone()]);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
