//! Discrete Fourier transforms along one axis; those of several axes are one after another.

use super::{OpType, Operation, axis_in, one, same_dense};
use crate::{DType, Error, OutputMeta, Outputs, Result, TensorMeta};

op_kinds! {
    /// A discrete Fourier transform along an axis. `n` is the number of points: the length of the axis of what is complex
    /// and whole, or real.
    ///
    /// Transforms of real points have Hermitian results, of which the first `n / 2 + 1` are kept (PyTorch's "one-sided").
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Fft, FftKind {
        /// `(x: complex [.., n, ..]) → [.., n, ..]`: `yₖ = scale · Σ xₜ·exp(∓2πi·k·t/n)`.
        ComplexToComplex {
            /// The axis.
            axis: usize,
            /// Whether the exponent's sign is plus.
            inverse: bool,
            /// The factor of every element.
            scale: FftScale,
        } = "fft_c2c",
        /// `(x: real [.., n, ..]) →` complex `[.., n / 2 + 1, ..]`: `yₖ = scale · Σ xₜ·exp(−2πi·k·t/n)`.
        RealToComplex {
            /// The axis.
            axis: usize,
            /// The factor of every element.
            scale: FftScale,
        } = "fft_r2c",
        /// `(x: complex [.., n / 2 + 1, ..]) →` real `[.., n, ..]`, where `x` is continued to `n` elements as a Hermitian
        /// sequence: `yₜ = scale · Σ xₖ·exp(2πi·k·t/n)`. Of elements that such a sequence has real (the first, and the last if `n` is
        /// even) the imaginary part is not read.
        ComplexToReal {
            /// The axis.
            axis: usize,
            /// The number of points of the result, which the argument does not tell: even or odd.
            n: usize,
            /// The factor of every element.
            scale: FftScale,
        } = "fft_c2r",
    }
}

/// By what a transform of `n` points multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FftScale {
    /// 1.
    #[default]
    One,
    /// 1 / √n.
    InverseSqrt,
    /// 1 / n.
    Inverse,
}

impl FftScale {
    /// The factor for `n` points.
    pub fn factor(self, n: usize) -> f64 {
        match self {
            FftScale::One => 1.0,
            FftScale::InverseSqrt => 1.0 / (n as f64).sqrt(),
            FftScale::Inverse => 1.0 / n as f64,
        }
    }
}

impl Fft {
    /// The axis of the transform.
    pub const fn axis(&self) -> usize {
        match *self {
            Fft::ComplexToComplex { axis, .. }
            | Fft::RealToComplex { axis, .. }
            | Fft::ComplexToReal { axis, .. } => axis,
        }
    }

    /// The number of points, of an argument whose axis has `len` elements.
    pub const fn points(&self, len: usize) -> usize {
        match *self {
            Fft::ComplexToComplex { .. } | Fft::RealToComplex { .. } => len,
            Fft::ComplexToReal { n, .. } => n,
        }
    }
}

impl Operation for Fft {
    const CLASS: OpType = OpType::Fourier;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let name = self.name();
        let dtype = same_dense(name, args, 1..=1)?;
        let shape = args[0].shape();
        let fits = match self {
            Fft::RealToComplex { .. } => matches!(dtype, DType::F32 | DType::F64),
            _ => matches!(dtype, DType::C64 | DType::C128),
        };
        if !fits {
            let wants = if matches!(self, Fft::RealToComplex { .. }) { "f32 or f64" } else { "c64 or c128" };
            return Err(Error::dtype(name, format!("needs {wants}; cast first"), [dtype]));
        }
        let axis = self.axis();
        axis_in(name, axis, shape)?;
        let Some(&len) = shape.get(axis) else {
            return Err(Error::shape(name, "needs a dimension; a 0-d tensor has none", [shape]));
        };
        let n = self.points(len);
        if n == 0 {
            return Err(Error::shape(name, format!("dimension {axis} has no points to transform"), [shape]));
        }
        match *self {
            Fft::ComplexToComplex { .. } => one(dtype, shape.clone()),
            Fft::RealToComplex { .. } => one(dtype.to_complex(), shape.with_dim(axis, n / 2 + 1)?),
            Fft::ComplexToReal { .. } => {
                if len != n / 2 + 1 {
                    let message = format!(
                        "{n} real points have {} coefficients, dimension {axis} has {len}",
                        n / 2 + 1
                    );
                    return Err(Error::shape(name, message, [shape]));
                }
                one(dtype.to_real(), shape.with_dim(axis, n)?)
            }
        }
    }

    /// 5·n·log₂n for a complex transform of n points, as is usual; half of it for one of real points.
    fn flops(&self, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        let (from, to) = (args[0].shape(), &outs[0].shape);
        let Some(&len) = from.get(self.axis()) else { return 0 };
        let n = self.points(len) as f64;
        let points = match self {
            Fft::ComplexToReal { .. } => to.numel(),
            _ => from.numel(),
        } as f64;
        let each = if matches!(self, Fft::ComplexToComplex { .. }) { 5.0 } else { 2.5 };
        // Factors of the scale.
        (points * (each * n.log2() + 1.0)) as u64
    }
}
