//! Cases of recurrences, with decays and steps that keep the states small; and of the gates of recurrent networks.

use super::cases::{ARRANGEMENTS, Argument, Arrangement, Cases, FLOATS, SHAPES};
use rustorch_core::{
    CausalConv1d, DType, GatedDeltaRule, HeadBroadcast, Op, RnnGates, RnnGatesBackward, RwkvWkv7, SsmScan,
};

const DTYPES: [DType; 2] = [DType::F32, DType::F64];

impl Cases {
    pub(super) fn recurrences(&mut self) {
        for dtype in DTYPES {
            for how in ARRANGEMENTS {
                for (batch, seq) in [(2, 3), (1, 1), (1, 0)] {
                    self.causal_conv1d(dtype, how, [batch, seq, 5, 4]);
                    self.gated_delta_rule(dtype, how, [batch, seq, 2, 4, 3, 5]);
                    self.ssm_scan(dtype, how, [batch, seq, 4, 2, 3, 2]);
                    self.rwkv_wkv7(dtype, how, [batch, seq, 2, 3, 5]);
                }
            }
            let how = Arrangement::Packed;
            self.causal_conv1d(dtype, how, [0, 3, 5, 4]);
            self.causal_conv1d(dtype, how, [2, 3, 0, 4]);
            self.causal_conv1d(dtype, how, [2, 3, 4, 1]);
            self.gated_delta_rule(dtype, how, [1, 2, 1, 3, 17, 35]);
            self.ssm_scan(dtype, how, [1, 2, 3, 5, 0, 1]);
            self.ssm_scan(dtype, how, [1, 2, 35, 1, 17, 1]);
            self.rwkv_wkv7(dtype, how, [1, 2, 1, 17, 35]);
        }
    }

    /// The state lies as the gates do, or packed.
    pub(super) fn rnn_gates(&mut self) {
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    let beside = if dims.len() == 2 { how } else { Arrangement::Packed };
                    for gates in RnnGates::ALL {
                        self.rnn_gates_of(dtype, dims, [how, beside], *gates);
                    }
                }
            }
            for gates in RnnGates::ALL {
                self.rnn_gates_of(dtype, &[3, 170], [Arrangement::Packed; 2], *gates);
            }
        }
    }

    fn rnn_gates_of(
        &mut self,
        dtype: DType,
        dims: &[usize],
        [how, beside]: [Arrangement; 2],
        gates: RnnGates,
    ) {
        let mut wide = dims.to_vec();
        wide.iter_mut().rev().take(1).for_each(|last| *last *= gates.gate_count());
        let mut args: Vec<Argument> =
            (0..gates.gate_args()).map(|_| self.argument(dtype, &wide, how)).collect();
        args.push(self.within(dtype, dims, beside, -1.0, 1.0));
        self.add(Op::RnnGates(gates), args.clone());
        let backward = match gates {
            RnnGates::Lstm => RnnGatesBackward::Lstm,
            RnnGates::Gru => RnnGatesBackward::Gru,
        };
        // The gradient of a GRU's state, or of an LSTM's hidden state alone, and then of its cell state, too.
        for _ in 0..2 {
            args.push(self.within(dtype, dims, beside, -1.0, 1.0));
            self.add(Op::RnnGatesBackward(backward), args.clone());
        }
    }

    fn causal_conv1d(&mut self, dtype: DType, how: Arrangement, [batch, seq, channels, kernel]: [usize; 4]) {
        let x = self.argument(dtype, &[batch, seq, channels], how);
        let weight = self.argument(dtype, &[channels, kernel], how);
        let state = self.argument(dtype, &[batch, kernel - 1, channels], how);
        let bias = self.argument(dtype, &[channels], how);
        let args = vec![x, weight, state];
        self.add(Op::CausalConv1d(CausalConv1d { silu: false }), args.clone());
        self.add(Op::CausalConv1d(CausalConv1d { silu: true }), [args, vec![bias]].concat());
    }

    fn gated_delta_rule(
        &mut self,
        dtype: DType,
        how: Arrangement,
        [batch, seq, heads, v_heads, d_k, d_v]: [usize; 6],
    ) {
        let [q, k] = [(); 2].map(|()| self.within(dtype, &[batch, seq, heads, d_k], how, -0.5, 0.5));
        let v = self.argument(dtype, &[batch, seq, v_heads, d_v], how);
        let beta = self.within(dtype, &[batch, seq, v_heads], how, 0.0, 1.0);
        let state = self.argument(dtype, &[batch, v_heads, d_k, d_v], how);
        let of_head: &[usize] = &[batch, seq, v_heads];
        for (broadcast, dims) in [
            (HeadBroadcast::Interleaved, of_head),
            (HeadBroadcast::Tiled, of_head),
            (HeadBroadcast::Interleaved, &[batch, seq, v_heads, d_k]),
        ] {
            let g = self.within(dtype, dims, how, -2.0, -0.01);
            let args: Vec<Argument> = [&q, &k, &v, &g, &beta, &state].map(Clone::clone).into();
            self.add(Op::GatedDeltaRule(GatedDeltaRule { broadcast }), args);
        }
    }

    fn ssm_scan(&mut self, dtype: DType, how: Arrangement, [batch, seq, heads, p, n, groups]: [usize; 6]) {
        let x = self.argument(dtype, &[batch, seq, heads, p], how);
        let dt = self.within(dtype, &[batch, seq, heads], how, 0.01, 1.0);
        let [b, c] = [(); 2].map(|()| self.argument(dtype, &[batch, seq, groups, n], how));
        let state = self.argument(dtype, &[batch, heads, p, n], how);
        for dims in [&[heads][..], &[heads, n]] {
            let a = self.within(dtype, dims, how, -3.0, -0.1);
            self.add(Op::SsmScan(SsmScan), [&x, &dt, &a, &b, &c, &state].map(Clone::clone).into());
        }
    }

    fn rwkv_wkv7(&mut self, dtype: DType, how: Arrangement, [batch, seq, heads, d_k, d_v]: [usize; 5]) {
        let dims = &[batch, seq, heads, d_k];
        let [r, k, a, b] = [(); 4].map(|()| self.within(dtype, dims, how, -0.5, 0.5));
        let w = self.within(dtype, dims, how, 0.5, 1.0);
        let v = self.argument(dtype, &[batch, seq, heads, d_v], how);
        let state = self.argument(dtype, &[batch, heads, d_k, d_v], how);
        self.add(Op::RwkvWkv7(RwkvWkv7), vec![r, w, k, v, a, b, state]);
    }
}
