//! Complex functions at hard points: at and near their branch points, on the cuts with zeros of both signs, at the ends of the
//! range, and near the unit circle.

use super::cases::{Argument, Cases};
use super::values;
use rustorch_core::{DType, Layout, Op, Shape, UnaryOp};

/// Functions both of whose parts are right to the last places, however small.
pub(super) fn fine(op: UnaryOp) -> bool {
    cut(op) || matches!(op, UnaryOp::Tan | UnaryOp::Tanh)
}

/// Those of them that have a cut, of which the sign of a zero tells the side.
pub(super) fn cut(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Log | Sqrt | Asin | Acos | Atan | Asinh | Acosh | Atanh)
}

impl Cases {
    pub(super) fn branches(&mut self) {
        for dtype in [DType::C64, DType::C128] {
            let points = points(dtype);
            let bytes = points.iter().flat_map(|&(re, im)| values::encode(dtype, re, im)).collect();
            let layout = Layout::contiguous(Shape::new([points.len()].as_slice()).expect("a short list"));
            let x = Argument { dtype, layout, bytes };
            for &op in UnaryOp::ALL.iter().filter(|&&op| fine(op)) {
                self.add(Op::Unary(op), vec![x.clone()]);
            }
        }
    }
}

fn points(dtype: DType) -> Vec<(f64, f64)> {
    let (small, large, near, unit) = match dtype {
        DType::C64 => (1e-30, 1e30, 1e-4, f64::from(f32::EPSILON)),
        _ => (1e-300, 1e300, 1e-8, f64::EPSILON),
    };
    let sizes =
        [0.0, small, 1e-5, 0.5, 1.0 - near, 1.0 - 0.5 * unit, 1.0, 1.0 + unit, 1.0 + near, 2.0, 1e10, large];
    let signed: Vec<f64> = sizes.iter().flat_map(|&x| [x, -x]).collect();
    let mut points: Vec<(f64, f64)> =
        signed.iter().flat_map(|&re| signed.iter().map(move |&im| (re, im))).collect();
    let infinite = [f64::INFINITY, f64::NEG_INFINITY];
    points.extend(infinite.iter().flat_map(|&re| infinite.iter().map(move |&im| (re, im))));
    points.extend(infinite.iter().flat_map(|&end| [(end, 0.5), (end, -0.0), (-0.5, end), (0.0, end)]));
    points.extend([(0.0, f64::NAN), (f64::NAN, 0.5), (f64::NAN, f64::NAN), (-2.0, f64::NAN)]);
    points.extend((0..100).map(|i| (f64::from(i).cos(), f64::from(i).sin())));
    points
}
