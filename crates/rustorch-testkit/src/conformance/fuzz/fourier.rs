//! Random cases of Fourier transforms.

use super::super::Case;
use super::draw::{Draw, Numbers};
use rustorch_core::{DType, Fft, FftScale, Op};

pub(super) fn transform(draw: &mut Draw) -> Option<Case> {
    let real = draw.kind.pick(&[DType::F32, DType::F64]);
    let scale = draw.fine.pick(&[FftScale::One, FftScale::InverseSqrt, FftScale::Inverse]);
    let ndim = draw.ndim(1, 4);
    let dims = draw.dims(ndim, 4000);
    let axis = draw.fine.below(ndim);
    let (op, dtype) = match draw.kind.below(3) {
        0 => (Fft::ComplexToComplex { axis, inverse: draw.fine.chance(50), scale }, real.to_complex()),
        1 => (Fft::RealToComplex { axis, scale }, real),
        _ => {
            let n = (2 * dims[axis]).checked_sub(1 + usize::from(draw.fine.chance(50)))?;
            (Fft::ComplexToReal { axis, n, scale }, real.to_complex())
        }
    };
    let x = draw.argument(dtype, &dims, Numbers::within(-2.0, 2.0));
    draw.case(Op::Fft(op), vec![x])
}
