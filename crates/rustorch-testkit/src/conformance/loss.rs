//! Cases of losses and dropout.

use super::cases::{Argument, Arrangement, Cases, FLOATS};
use rustorch_core::{CrossEntropy, CrossEntropyBackward, DType, Dropout, Op, PhiloxKey};

/// Class 0 is ignored.
const IGNORED: i64 = 0;

impl Cases {
    /// Cross entropy with classes and with probabilities: in single precision of every layout, and with each choice of weight and
    /// smoothing.
    pub(super) fn cross_entropies(&mut self) {
        for how in [Arrangement::Packed, Arrangement::Transposed, Arrangement::Stepped, Arrangement::Repeated]
        {
            for has_classes in [true, false] {
                self.cross_entropy(DType::F32, &[3, 5], how, has_classes, 0);
            }
        }
        self.cross_entropy(DType::F32, &[3, 5], Arrangement::Packed, true, 1);
        self.cross_entropy(DType::F16, &[3, 5], Arrangement::Packed, true, 2);
        self.cross_entropy(DType::BF16, &[3, 5], Arrangement::Packed, false, 1);
        self.cross_entropy(DType::F64, &[3, 5], Arrangement::Packed, false, 2);
        self.cross_entropy(DType::F32, &[2, 4, 3], Arrangement::Transposed, true, 3);
        self.cross_entropy(DType::F32, &[0, 3], Arrangement::Packed, true, 0);
        // Rows that the threads of a workgroup reduce together.
        self.cross_entropy(DType::F32, &[3, 66], Arrangement::Packed, true, 3);
        self.cross_entropy(DType::F32, &[2, 200], Arrangement::Packed, false, 3);
    }

    /// The loss of logits whose classes are dimension 1, and its gradient. `choice` says whether there is a weight, smoothing, both.
    fn cross_entropy(
        &mut self,
        dtype: DType,
        dims: &[usize],
        how: Arrangement,
        has_classes: bool,
        choice: usize,
    ) {
        let classes = dims[1];
        let rows: Vec<usize> = dims.iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, &n)| n).collect();
        let sums = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let logits = self.argument(dtype, dims, how);
        let target = match has_classes {
            true => self.indices([DType::I64, DType::I32][choice / 2 % 2], &rows, classes),
            false => self.within(dtype, dims, how, 0.0, 0.5),
        };
        let weight: Vec<Argument> = match choice % 2 {
            0 => vec![],
            _ => vec![self.within(dtype, &[classes], Arrangement::Stepped, 0.5, 2.0)],
        };
        let label_smoothing = if choice % 4 < 2 { 0.0 } else { 0.25 };
        let op = CrossEntropy { axis: 1, ignore_index: IGNORED, label_smoothing };
        let mut args = vec![logits.clone(), target.clone()];
        args.extend(weight.clone());
        self.add(Op::CrossEntropy(op), args);
        let grad = self.within(sums, &rows, Arrangement::Stepped, 0.5, 1.0);
        // Larger than the logits, as logsumexp is.
        let logsumexp = self.within(sums, &rows, Arrangement::Packed, 3.5, 6.0);
        let rest = self.within(sums, &rows, Arrangement::Packed, -0.01, 0.01);
        let mut args = vec![grad, logits, logsumexp, rest, target];
        args.extend(weight);
        self.add(
            Op::CrossEntropyBackward(CrossEntropyBackward {
                axis: 1,
                ignore_index: IGNORED,
                label_smoothing,
            }),
            args,
        );
    }

    /// Masks of a part of a group and of several groups of elements.
    pub(super) fn dropouts(&mut self) {
        const LAYOUTS: &[Arrangement] =
            &[Arrangement::Packed, Arrangement::Transposed, Arrangement::Stepped, Arrangement::Repeated];
        for &dtype in FLOATS {
            let layouts = if dtype == DType::F32 { LAYOUTS } else { &LAYOUTS[..1] };
            for &how in layouts {
                for dims in [&[7][..], &[37, 9]] {
                    let x = self.argument(dtype, dims, how);
                    let key = PhiloxKey { seed: 42, offset: u64::from(u32::MAX) - 3 };
                    self.add(Op::Dropout(Dropout { p: 0.3, key }), vec![x]);
                }
            }
        }
        // Upper halves that equal the threshold's are frequent only among many; the lower ones decide.
        let x = self.argument(DType::F32, &[300, 700], Arrangement::Packed);
        self.add(Op::Dropout(Dropout { p: 0.99999, key: PhiloxKey { seed: 7, offset: 1 } }), vec![x]);
        let x = self.argument(DType::F32, &[0, 3], Arrangement::Packed);
        self.add(Op::Dropout(Dropout { p: 0.5, key: PhiloxKey { seed: 7, offset: 1 } }), vec![x]);
        for p in [0.0, 1.0] {
            let x = self.argument(DType::F32, &[5], Arrangement::Packed);
            self.add(Op::Dropout(Dropout { p, key: PhiloxKey { seed: 7, offset: 1 } }), vec![x]);
        }
    }
}
