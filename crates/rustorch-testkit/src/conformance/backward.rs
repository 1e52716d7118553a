//! Cases of the gradients of softmax and of normalisations.

use super::cases::{ARRANGEMENTS, Argument, Arrangement, Cases, FLOATS, SHAPES};
use rustorch_core::{
    Attention, AttentionBackward, BatchNormBackward, DType, Dropout, GroupNormBackward, LayerNormBackward,
    Op, PhiloxKey, RmsNormBackward, SoftmaxBackward,
};

impl Cases {
    /// A gradient, and what may be a result of softmax or of its logarithm.
    fn softmax_result(&mut self, dtype: DType, dims: &[usize], how: Arrangement, log: bool) -> Argument {
        let (least, most) = if log { (-4.0, -0.1) } else { (0.02, 0.6) };
        self.within(dtype, dims, how, least, most)
    }

    /// The result lies as the gradient does, or packed.
    pub(super) fn softmax_gradients(&mut self) {
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    for axis in 0..dims.len().max(1) {
                        for log in [false, true] {
                            let beside = if axis == 0 { how } else { Arrangement::Packed };
                            let grad = self.argument(dtype, dims, how);
                            let y = self.softmax_result(dtype, dims, beside, log);
                            self.add(Op::SoftmaxBackward(SoftmaxBackward { axis, log }), vec![grad, y]);
                        }
                    }
                }
            }
        }
    }

    /// The choices of the gradients that are wanted, of rows of one dimension and of two.
    pub(super) fn norm_gradients(&mut self) {
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    // Every choice has kernels of its own: of other layouts two choices do, which come first, as a sample takes
                    // the first.
                    let choices: &[usize] =
                        if matches!(how, Arrangement::Packed) { &[3, 7, 1, 2, 4, 5, 6] } else { &[3, 7] };
                    for n in 1..=dims.len().min(2) {
                        self.norm_gradients_of(dtype, dims, n, how, choices);
                    }
                }
            }
        }
    }

    fn norm_gradients_of(
        &mut self,
        dtype: DType,
        dims: &[usize],
        n: usize,
        how: Arrangement,
        choices: &[usize],
    ) {
        let beside = if n == 1 { how } else { Arrangement::Packed };
        let grad = self.argument(dtype, dims, how);
        let x = self.argument(dtype, dims, beside);
        let weight = self.argument(dtype, &dims[dims.len() - n..], how);
        for &wanted in choices {
            let [x_wanted, weight_wanted, bias_wanted] = [1, 2, 4].map(|bit| wanted & bit != 0);
            let mut args = vec![grad.clone(), x.clone()];
            if wanted % 3 != 1 {
                args.push(weight.clone());
            }
            let op = LayerNormBackward {
                dims: n,
                eps: 1e-2,
                x: x_wanted,
                weight: weight_wanted,
                bias: bias_wanted,
            };
            self.add(Op::LayerNormBackward(op), args.clone());
            if n == 1 && !bias_wanted {
                let op = RmsNormBackward { eps: 1e-2, x: x_wanted, weight: weight_wanted };
                self.add(Op::RmsNormBackward(op), args);
            }
        }
    }

    /// The choices of the gradients that are wanted, by statistics of the batch, given ones and those of groups.
    pub(super) fn channel_norm_gradients(&mut self) {
        const SHAPES: &[&[usize]] = &[&[4, 6], &[2, 6, 5], &[3, 2, 17, 9], &[1, 4, 2, 3, 5]];
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    for parameters in [dtype, DType::F32] {
                        self.channel_norm_gradients_of(dtype, parameters, dims, how);
                    }
                }
            }
        }
    }

    fn channel_norm_gradients_of(
        &mut self,
        dtype: DType,
        parameters: DType,
        dims: &[usize],
        how: Arrangement,
    ) {
        let eps = 1e-2;
        // Of long sums there is little left: small terms keep what they are rounded by within the tolerance.
        let grad = match dims.iter().product::<usize>() {
            0..200 => self.argument(dtype, dims, how),
            _ => self.within(dtype, dims, how, -0.2, 0.2),
        };
        let x = self.argument(dtype, dims, if dims[0] == 2 { Arrangement::Packed } else { how });
        let weight = self.argument(parameters, &dims[1..2], how);
        let mean = self.within(parameters, &dims[1..2], Arrangement::Packed, -0.5, 0.5);
        let variance = self.within(parameters, &dims[1..2], how, 0.5, 2.0);
        let choices: &[usize] = if dims.len() == 3 { &[7, 3, 1, 2, 4, 5, 6] } else { &[7] };
        for &wanted in choices {
            let [x_wanted, weight_wanted, bias_wanted] = [1, 2, 4].map(|bit| wanted & bit != 0);
            let with = |first: &[&Argument]| -> Vec<Argument> {
                let weight = (wanted != 5).then_some(&weight);
                first.iter().copied().chain(weight).cloned().collect()
            };
            for training in [true, false] {
                let op = BatchNormBackward {
                    training,
                    eps,
                    x: x_wanted,
                    weight: weight_wanted,
                    bias: bias_wanted,
                };
                self.add(Op::BatchNormBackward(op), with(&[&grad, &x, &mean, &variance]));
            }
            let op = GroupNormBackward {
                groups: if dims[1].is_multiple_of(2) && dims.len() > 2 { 2 } else { 1 },
                eps,
                x: x_wanted,
                weight: weight_wanted,
                bias: bias_wanted,
            };
            self.add(Op::GroupNormBackward(op), with(&[&grad, &x]));
        }
    }

    /// Along lines that the threads of a workgroup reduce together.
    pub(super) fn long_gradients(&mut self) {
        for &dtype in FLOATS {
            self.channel_norm_gradients_of(dtype, DType::F32, &[2, 4, 10, 15], Arrangement::Packed);
            for (dims, axis) in [([3, 66], 1), ([3, 200], 1), ([70, 3], 0)] {
                if axis == 1 {
                    self.norm_gradients_of(dtype, &dims, 1, Arrangement::Packed, &[3, 7]);
                }
                for log in [false, true] {
                    let grad = self.within(dtype, &dims, Arrangement::Packed, -0.5, 0.5);
                    let y = self.softmax_result(dtype, &dims, Arrangement::Packed, log);
                    self.add(Op::SoftmaxBackward(SoftmaxBackward { axis, log }), vec![grad, y]);
                }
            }
        }
    }

    /// The gradients of attention, and attention with its log-sum-exp.
    pub(super) fn attention_gradients(&mut self) {
        let plain = Attention { lse: true, ..Attention::new(0.4) };
        let causal = Attention { causal: Some(1), ..plain.clone() };
        let limited = Attention { window: Some(2), softcap: Some(1.5), ..causal.clone() };
        let key = PhiloxKey { seed: 5, offset: 3 };
        let dropped = Attention { dropout: Some(Dropout { p: 0.4, key }), ..limited.clone() };
        // Heads of queries and of keys, queries, keys; and the dtype of a mask.
        let sizes = [
            (&plain, [2, 2, 5, 5], None, Arrangement::Transposed),
            (&plain, [1, 1, 1, 1], None, Arrangement::Packed),
            (&causal, [4, 2, 3, 5], None, Arrangement::Packed),
            (&limited, [2, 1, 4, 5], Some(DType::Bool), Arrangement::Stepped),
            (&plain, [2, 1, 3, 70], Some(DType::F32), Arrangement::Packed),
            // GPUs decline it.
            (&dropped, [2, 1, 4, 5], Some(DType::Bool), Arrangement::Stepped),
        ];
        for (dtype, keys) in [
            (DType::F32, DType::F32),
            (DType::F32, DType::F16),
            (DType::F64, DType::F64),
            (DType::F16, DType::F16),
            (DType::BF16, DType::BF16),
        ] {
            for (attention, [heads, kv_heads, m, n], mask, how) in sizes {
                let q = self.within(dtype, &[heads, m, 6], how, -1.0, 1.0);
                let k = self.within(keys, &[kv_heads, n, 6], how, -1.0, 1.0);
                let v = self.within(keys, &[kv_heads, n, 4], how, -1.0, 1.0);
                let mask = mask.map(|mask| {
                    let mask = if mask == DType::Bool { mask } else { dtype };
                    self.within(mask, &[m, n], how, -1.0, 1.0)
                });
                let mut args = vec![q, k, v];
                args.extend(mask.clone());
                self.add(Op::Attention(attention.clone()), args.clone());
                let grad = self.within(dtype, &[heads, m, 4], how, -1.0, 1.0);
                let out = self.within(dtype, &[heads, m, 4], Arrangement::Packed, -1.0, 1.0);
                let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
                // As if the sum of the exponentiated scores were about their number.
                let near = (n as f64).ln();
                let lse = self.within(wide, &[heads, m], Arrangement::Packed, near, near + 1.0);
                let args: Vec<Argument> =
                    [grad].into_iter().chain(args.drain(..3)).chain([out, lse]).chain(mask).collect();
                for [q, k, v] in [[true, true, true], [false, false, true], [true, false, false]] {
                    if m != 4 && !(q && k && v) {
                        continue;
                    }
                    let op = AttentionBackward { attention: attention.clone(), q, k, v };
                    self.add(Op::AttentionBackward(op), args.clone());
                }
            }
        }
    }
}
