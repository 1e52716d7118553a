//! Random cases of recurrences, of few positions, for rounding grows with each; and of the gates of recurrent networks.

use super::super::cases::FLOATS;
use super::super::{Argument, Case};
use super::draw::{Draw, Numbers, Special};
use rustorch_core::{
    CausalConv1d, DType, GatedDeltaRule, HeadBroadcast, Op, RnnGates, RnnGatesBackward, RwkvWkv7, SsmScan,
};

pub(super) fn rnn_gates(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.dtype(FLOATS);
    let ndim = draw.ndim(1, 4);
    let dims = draw.dims(ndim, 2000);
    let gates = draw.kind.pick(RnnGates::ALL);
    let mut wide = dims.clone();
    wide[ndim - 1] *= gates.gate_count();
    let numbers = Numbers::within(-6.0, 6.0).with(Special::Infinite);
    let mut args: Vec<Argument> =
        (0..gates.gate_args()).map(|_| draw.argument(dtype, &wide, numbers)).collect();
    let (op, beside) = match (draw.kind.chance(50), gates) {
        (true, gates) => (Op::RnnGates(gates), 1),
        (false, RnnGates::Lstm) => (Op::RnnGatesBackward(RnnGatesBackward::Lstm), 2 + draw.kind.below(2)),
        (false, RnnGates::Gru) => (Op::RnnGatesBackward(RnnGatesBackward::Gru), 2),
    };
    args.extend((0..beside).map(|_| draw.argument(dtype, &dims, Numbers::within(-1.0, 1.0))));
    draw.case(op, args)
}

pub(super) fn recurrence(draw: &mut Draw) -> Option<Case> {
    let dtype = draw.kind.pick(&[DType::F32, DType::F64]);
    let (kind, choice) = (draw.kind.below(4), draw.kind.chance(50));
    let (batch, seq) = (draw.fine.below(3), draw.fine.below(5));
    let [heads, groups] = [(); 2].map(|()| 1 + draw.fine.below(3));
    let (rows, columns) = (draw.len(70).max(1), draw.len(70));
    let unit = 1.0 / (rows as f64).sqrt();
    let mut argument = |dims: &[usize], least: f64, most: f64| -> Argument {
        draw.argument(dtype, dims, Numbers::within(least, most))
    };
    let (op, args) = match kind {
        0 => {
            let (channels, kernel) = (columns, 1 + heads);
            let mut args = vec![
                argument(&[batch, seq, channels], -1.0, 1.0),
                argument(&[channels, kernel], -1.0, 1.0),
                argument(&[batch, kernel - 1, channels], -1.0, 1.0),
            ];
            if choice {
                args.push(argument(&[channels], -1.0, 1.0));
            }
            (Op::CausalConv1d(CausalConv1d { silu: groups == 1 }), args)
        }
        1 => {
            let v_heads = heads * groups;
            let of_head = [batch, seq, v_heads];
            let broadcast = if groups == 2 { HeadBroadcast::Tiled } else { HeadBroadcast::Interleaved };
            let mut g = of_head.to_vec();
            g.extend(choice.then_some(rows));
            let args = vec![
                argument(&[batch, seq, heads, rows], -unit, unit),
                argument(&[batch, seq, heads, rows], -unit, unit),
                argument(&[batch, seq, v_heads, columns], -1.0, 1.0),
                argument(&g, -2.0, 0.0),
                argument(&of_head, 0.0, 1.0),
                argument(&[batch, v_heads, rows, columns], -1.0, 1.0),
            ];
            (Op::GatedDeltaRule(GatedDeltaRule { broadcast }), args)
        }
        2 => {
            let heads = heads * groups;
            let a = if choice { vec![heads, columns] } else { vec![heads] };
            let args = vec![
                argument(&[batch, seq, heads, rows], -1.0, 1.0),
                argument(&[batch, seq, heads], 0.0, 1.0),
                argument(&a, -2.0, 0.0),
                argument(&[batch, seq, groups, columns], -unit, unit),
                argument(&[batch, seq, groups, columns], -unit, unit),
                argument(&[batch, heads, rows, columns], -1.0, 1.0),
            ];
            (Op::SsmScan(SsmScan), args)
        }
        _ => {
            let keys = [batch, seq, heads, rows];
            let args = vec![
                argument(&keys, -unit, unit),
                argument(&keys, 0.5, 1.0),
                argument(&keys, -unit, unit),
                argument(&[batch, seq, heads, columns], -1.0, 1.0),
                argument(&keys, -unit, unit),
                argument(&keys, -unit, unit),
                argument(&[batch, heads, rows, columns], -1.0, 1.0),
            ];
            (Op::RwkvWkv7(RwkvWkv7), args)
        }
    };
    draw.case(op, args)
}
