//! Limits of plausible rates: what exceeds them was disturbed.

use super::corner::Corner;
use super::probe::Of;
use rustorch_core::{OpKind, OpType};

/// A convolution is a matmul with extra work, so a matmul that is slower than this part of one was disturbed.
const MATMUL_TO_CONVOLUTION: f64 = 0.25;
/// No device computes more: arithmetic operations per second of tensor cores, and of everything else.
const MOST_FLOPS: (f64, f64) = (1e17, 1e16);
/// No device reads and writes more bytes per second, caches included.
const MOST_BANDWIDTH: f64 = 5e14;

/// A rate that cannot be true.
pub(super) struct Implausible {
    /// Which of the corners has it.
    pub(super) corner: usize,
    /// Why.
    pub(super) why: String,
}

/// The first rate that cannot be true.
pub(super) fn implausible(corners: &[Corner]) -> Option<Implausible> {
    corners.iter().enumerate().find_map(|(corner, c)| {
        let why = above_limit(c).or_else(|| slower_than_convolution(c, corners))?;
        Some(Implausible { corner, why })
    })
}

fn above_limit(corner: &Corner) -> Option<String> {
    let by_matrices = matches!(
        corner.of,
        Of::Class(OpType::LinearAlgebra | OpType::Convolution | OpType::Attention)
            | Of::Op(OpKind::MatMul | OpKind::Attention)
    );
    let most_flops = if by_matrices { MOST_FLOPS.0 } else { MOST_FLOPS.1 };
    let above = |rate: Option<f64>, most: f64, unit: &str| {
        rate.filter(|&rate| rate > most)
            .map(|rate| format!("{} at {rate:.1e} {unit} is above {most:.0e}", corner.label()))
    };
    above(corner.flops, most_flops, "FLOP/s").or_else(|| above(corner.bandwidth, MOST_BANDWIDTH, "byte/s"))
}

fn slower_than_convolution(corner: &Corner, corners: &[Corner]) -> Option<String> {
    if corner.of != Of::Class(OpType::LinearAlgebra) {
        return None;
    }
    let convolution =
        corners.iter().find(|c| c.of == Of::Class(OpType::Convolution) && c.dtype == corner.dtype)?;
    let (matmul, convolution) = (corner.flops?, convolution.flops?);
    (matmul < MATMUL_TO_CONVOLUTION * convolution).then(|| {
        format!(
            "{} at {:.1} GFLOP/s is slower than a quarter of convolution, {:.1} GFLOP/s",
            corner.label(),
            matmul / 1e9,
            convolution / 1e9
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustorch_core::{DType, SoftmaxKind};

    #[test]
    fn disturbed_rates_are_found() {
        let corner = |of, flops, bandwidth| Corner { of, dtype: DType::F32, flops, bandwidth };
        let matmul = |flops| corner(Of::Class(OpType::LinearAlgebra), Some(flops), None);
        let convolution = |flops| corner(Of::Class(OpType::Convolution), Some(flops), None);
        assert!(implausible(&[matmul(3e11), convolution(2e11)]).is_none());
        assert!(implausible(&[matmul(6e10), convolution(2e11)]).is_none());
        let found = implausible(&[convolution(2e11), matmul(4e10)]).expect("a fifth");
        assert_eq!(found.corner, 1);
        assert!(found.why.contains("40.0 GFLOP/s") && found.why.contains("200.0"), "{}", found.why);
        assert!(implausible(&[corner(Of::All, None, Some(1e15))]).is_some());
        assert!(implausible(&[corner(Of::Op(SoftmaxKind::Softmax.into()), Some(5e16), None)]).is_some());
        assert!(implausible(&[matmul(5e16)]).is_none());
    }
}
