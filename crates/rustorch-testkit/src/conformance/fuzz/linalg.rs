//! Random cases of decompositions. Singular matrices are mistakes that must be noticed.

use super::super::Case;
use super::draw::{Draw, Numbers};
use rustorch_core::{DType, Linalg, Op};

const DTYPES: &[DType] = &[DType::F32, DType::F64, DType::C64, DType::C128];

pub(super) fn decomposition(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.kind.pick(DTYPES);
    let flag = draw.fine.chance(50);
    let op = match draw.kind.below(11) {
        0 => Linalg::Cholesky { upper: flag },
        1 => Linalg::SolveTriangular { upper: flag, unit: draw.fine.chance(30) },
        2 => Linalg::Lu,
        3 => Linalg::Solve,
        4 => Linalg::Inverse,
        5 => Linalg::Det,
        6 => Linalg::SlogDet,
        7 => Linalg::Svd { full: flag, vectors: draw.fine.chance(70) },
        8 => Linalg::Eigh { upper: flag, vectors: draw.fine.chance(70) },
        9 => Linalg::Eig { vectors: flag },
        _ => Linalg::Qr { complete: flag },
    };
    let batch: Vec<usize> = (0..draw.kind.pick(&[0, 0, 1, 2])).map(|_| draw.fine.below(4)).collect();
    let n = draw.len(70);
    let rows =
        if matches!(op, Linalg::Lu | Linalg::Qr { .. } | Linalg::Svd { .. }) { draw.len(70) } else { n };
    let mut a = draw.argument(dtype, &[&batch[..], &[rows, n]].concat(), Numbers::within(-1.0, 1.0));
    // A large diagonal, where each of its elements has a place of its own, makes matrices of full rank; mostly.
    if draw.fine.chance(80) {
        let large = super::super::values::encode(dtype, 3.0 + n as f64, 0.0);
        let places: Vec<usize> = a.layout.indices().collect();
        for (i, place) in places.into_iter().enumerate() {
            if i / n % rows == i % n {
                a.bytes[place * large.len()..][..large.len()].copy_from_slice(&large);
            }
        }
    }
    let mut args = vec![a];
    if matches!(op, Linalg::Solve | Linalg::SolveTriangular { .. }) {
        let columns = draw.len(9);
        args.push(draw.argument(dtype, &[&batch[..], &[n, columns]].concat(), Numbers::within(-2.0, 2.0)));
    }
    draw.case(Op::Linalg(op), args)
}
