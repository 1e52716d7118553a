//! Cases of decompositions, of matrices whose results rounding does not spoil: one element of each row and column is
//! larger than all the others together.

use super::cases::{ARRANGEMENTS, Argument, Arrangement, Cases};
use super::values;
use rustorch_core::{DType, Linalg, Op};

const DTYPES: &[DType] = &[DType::F32, DType::F64, DType::C64, DType::C128];

/// Batches and sizes: empty, single, odd, and beyond the panels of an implementation.
const SHAPES: &[&[usize]] = &[&[0, 0], &[1, 1], &[5, 5], &[0, 3, 3], &[2, 3, 4, 4], &[2, 37, 37]];
const RECTANGLES: &[&[usize]] = &[&[3, 0], &[7, 3], &[2, 3, 8], &[2, 40, 21]];

impl Cases {
    pub(super) fn decompositions(&mut self) {
        for &dtype in DTYPES {
            for how in ARRANGEMENTS {
                for &dims in SHAPES {
                    // The first dimension of a single matrix is its rows: repeated, they leave it singular.
                    if dims.len() == 2 && matches!(how, Arrangement::Repeated) {
                        continue;
                    }
                    let n = dims[dims.len() - 1];
                    let diagonal = self.dominated(dtype, dims, how, 0);
                    for flag in [false, true] {
                        self.add(Op::Linalg(Linalg::Cholesky { upper: flag }), vec![diagonal.clone()]);
                    }
                    let a = self.dominated(dtype, dims, how, 1);
                    for op in [Linalg::Lu, Linalg::Inverse, Linalg::SlogDet] {
                        self.add(Op::Linalg(op), vec![a.clone()]);
                    }
                    // Of many large factors the product overflows.
                    if n < 10 {
                        self.add(Op::Linalg(Linalg::Det), vec![a.clone()]);
                    }
                    for complete in [false, true] {
                        self.add(Op::Linalg(Linalg::Qr { complete }), vec![a.clone()]);
                    }
                    for vectors in [false, true] {
                        self.add(Op::Linalg(Linalg::Eig { vectors }), vec![a.clone()]);
                        for flag in [false, true] {
                            self.add(Op::Linalg(Linalg::Svd { full: flag, vectors }), vec![a.clone()]);
                            self.add(Op::Linalg(Linalg::Eigh { upper: flag, vectors }), vec![a.clone()]);
                        }
                    }
                    for right in [vec![n, 1], vec![2, 1, n, 3]] {
                        let right = match dims {
                            [.., 3, _, _] if right.len() > 2 => vec![3, n, 3],
                            _ => right,
                        };
                        let b = self.argument(dtype, &right, how);
                        self.add(Op::Linalg(Linalg::Solve), vec![a.clone(), b.clone()]);
                        for (upper, unit) in [(false, false), (true, false), (false, true), (true, true)] {
                            // Ones on the diagonal, too, have to be larger than the rest.
                            let t = if unit { self.small(dtype, dims, how) } else { diagonal.clone() };
                            let op = Op::Linalg(Linalg::SolveTriangular { upper, unit });
                            self.add(op, vec![t, b.clone()]);
                        }
                    }
                }
                for &dims in RECTANGLES {
                    if dims.len() == 2 && matches!(how, Arrangement::Repeated) {
                        continue;
                    }
                    let a = self.dominated(dtype, dims, how, 1);
                    self.add(Op::Linalg(Linalg::Lu), vec![a.clone()]);
                    for complete in [false, true] {
                        self.add(Op::Linalg(Linalg::Qr { complete }), vec![a.clone()]);
                        for vectors in [false, true] {
                            self.add(Op::Linalg(Linalg::Svd { full: complete, vectors }), vec![a.clone()]);
                        }
                    }
                }
            }
        }
    }

    /// Matrices whose row `i` has a large element in column `i + shift`, around the end.
    fn dominated(&mut self, dtype: DType, dims: &[usize], how: Arrangement, shift: usize) -> Argument {
        let mut argument = self.within(dtype, dims, how, -1.0, 1.0);
        let [.., rows, columns] = *dims else { unreachable!("matrices have two dimensions") };
        let size = dtype.block_bytes();
        let real = dtype.to_real();
        // Complex elements are large in their real part, which is what counts on the diagonal of a Hermitian matrix.
        let large = values::bytes(real, 1, 1, 2.5 + columns as f64, 2.5 + columns as f64);
        let places: Vec<usize> = argument.layout.indices().collect();
        for (i, place) in places.into_iter().enumerate() {
            let (row, column) = (i / columns % rows, i % columns);
            if (row + shift) % columns == column {
                argument.bytes[place * size..][..large.len()].copy_from_slice(&large);
            }
        }
        argument
    }

    /// Matrices of elements that are small even together.
    fn small(&mut self, dtype: DType, dims: &[usize], how: Arrangement) -> Argument {
        let most = 0.5 / dims[dims.len() - 1].max(1) as f64;
        self.within(dtype, dims, how, -most, most)
    }
}
