//! Long rows to sort: longer than workgroup memory, with ties and with NaN.

use super::cases::{Argument, Arrangement, Cases};
use rustorch_core::{DType, Op, Sort, TopK, f16};

/// Shapes, and the axis along which they are sorted.
const SHAPES: &[(&[usize], usize)] =
    &[(&[1025], 0), (&[4096], 0), (&[2, 10_007], 1), (&[3, 1025], 1), (&[1500, 2], 0)];

impl Cases {
    pub(super) fn long_lines(&mut self) {
        for &dtype in DType::DENSE {
            for &(dims, axis) in SHAPES {
                // One of the longest takes a slow device a while.
                let long = dims.len() == 2 && dims[axis] > 4096;
                if long && !matches!(dtype, DType::F32 | DType::I64) {
                    continue;
                }
                let how = if dims.len() == 2 { Arrangement::Stepped } else { Arrangement::Packed };
                for flag in [false, true] {
                    let x = with_nan(self.argument(dtype, dims, how));
                    self.add(Op::Sort(Sort { axis, descending: flag }), vec![x.clone()]);
                    for k in [5, 1020] {
                        self.add(Op::TopK(TopK { k, axis, largest: flag }), vec![x.clone()]);
                    }
                }
            }
        }
        // Nothing but ties and NaN.
        for dtype in [DType::Bool, DType::F32] {
            let x = with_nan(self.within(dtype, &[2, 3000], Arrangement::Packed, 0.0, 1.0));
            let x = Argument { bytes: rounded(dtype, x.bytes), ..x };
            for flag in [false, true] {
                self.add(Op::Sort(Sort { axis: 1, descending: flag }), vec![x.clone()]);
            }
        }
    }
}

/// Every seventh element not a number, where there is such a thing.
fn with_nan(mut x: Argument) -> Argument {
    let nan: &[u8] = match x.dtype {
        DType::F16 => &f16::NAN.to_ne_bytes(),
        DType::BF16 => &rustorch_core::bf16::NAN.to_ne_bytes(),
        DType::F32 => &f32::NAN.to_ne_bytes(),
        DType::F64 => &f64::NAN.to_ne_bytes(),
        _ => return x,
    };
    for element in x.bytes.chunks_exact_mut(nan.len()).skip(3).step_by(7) {
        element.copy_from_slice(nan);
    }
    x
}

/// Numbers of `F32` rounded to integers; zeros keep their signs.
fn rounded(dtype: DType, bytes: Vec<u8>) -> Vec<u8> {
    if dtype != DType::F32 {
        return bytes;
    }
    let values = bytes.as_chunks().0.iter().map(|&b| f32::from_ne_bytes(b));
    values.flat_map(|x| (x - 0.5).round().to_ne_bytes()).collect()
}
