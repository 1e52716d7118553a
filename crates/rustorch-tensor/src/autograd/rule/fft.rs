//! Fourier transforms are linear: the gradient is the adjoint, which is the transform of the opposite sign with the same factor.

use super::{Recording, Rule, nothing};
use crate::Tensor;
use crate::autograd::context::{Context, Grads};
use crate::autograd::saved::Saves;
use crate::dispatch::run;
use rustorch_core::{DType, Dims, Fft, Op, Result, Shape};
use rustorch_runtime::DeviceGuard;

impl Rule for Fft {
    fn saves(&self, _: &Recording<'_>) -> Saves {
        nothing()
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| {
            let grad = cx.grad()?;
            match *self {
                Fft::ComplexToComplex { axis, inverse, scale } => {
                    run(&Op::Fft(Fft::ComplexToComplex { axis, inverse: !inverse, scale }), &[grad])
                }
                // The coefficients that were left out have no gradient; those that are continued count twice.
                Fft::RealToComplex { axis, scale } => {
                    let n = cx.input(0).shape[axis];
                    run(&Op::Fft(Fft::ComplexToReal { axis, n, scale }), &[&times(grad, axis, n, 0.5)?])
                }
                Fft::ComplexToReal { axis, n, scale } => {
                    let whole = run(&Op::Fft(Fft::RealToComplex { axis, scale }), &[grad])?;
                    times(&whole, axis, n, 2.0)
                }
            }
        })
    }
}

/// The coefficients of `n` real points, of which those that stand for two, themselves and their conjugates, are multiplied.
fn times(x: &Tensor, axis: usize, n: usize, factor: f64) -> Result<Tensor> {
    let len = n / 2 + 1;
    let factors: Vec<f64> =
        (0..len).map(|k| if (1..n.div_ceil(2)).contains(&k) { factor } else { 1.0 }).collect();
    let mut dims = Dims::from_elem(1, x.ndim());
    dims[axis] = len;
    let _beside = DeviceGuard::beside(x.storage());
    let real = if x.dtype() == DType::C128 { DType::F64 } else { DType::F32 };
    x.mul(&Tensor::from_vec(factors, Shape::new(dims)?)?.to_dtype(real)?)
}
