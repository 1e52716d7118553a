//! Attention and its gradients in tiles: several of queries and keys with ragged ends, few queries over keys that are split, and rows without keys.

use super::cases::{Argument, Arrangement, Case, Cases};
use rustorch_core::{Attention, AttentionBackward, DType, Numerics, Op};

/// Dtypes of queries and of keys.
type Types = [DType; 2];

/// Heads of queries and of keys, queries, keys, and the widths of keys and values.
type Sizes = [usize; 6];

/// Cases with more queries or keys than a tile of a GPU's kernels has. [`cases`](super::cases) are small.
pub fn attention_cases() -> Vec<Case> {
    use Arrangement::{Packed, Stepped};
    use DType::{BF16, Bool, F16, F32};
    let mut cases = Cases::new(190);
    let plain = Attention::new(0.3);
    let causal = |offset| Attention { causal: Some(offset), ..plain.clone() };
    let with_lse = |attention: Attention| Attention { lse: true, ..attention };
    let window = |offset, window| Attention { window: Some(window), ..causal(offset) };
    let list: [(Attention, Sizes, Types, Option<DType>, Arrangement); 16] = [
        (causal(80), [2, 2, 70, 150, 64, 64], [F32, F32], None, Packed),
        (with_lse(window(60, 50)), [4, 2, 40, 100, 40, 72], [F32, BF16], None, Stepped),
        (
            Attention { softcap: Some(1.5), ..plain.clone() },
            [2, 1, 20, 130, 100, 128],
            [F32, F32],
            Some(F32),
            Packed,
        ),
        (plain.clone(), [3, 3, 20, 70, 33, 5], [F32, F16], Some(Bool), Packed),
        (
            Attention { numerics: Numerics::Ggml, ..causal(50) },
            [4, 2, 40, 90, 64, 64],
            [F32, F16],
            None,
            Packed,
        ),
        // Decoding.
        (with_lse(causal(297)), [8, 2, 3, 300, 64, 64], [F32, F16], None, Packed),
        (plain.clone(), [4, 4, 1, 200, 256, 256], [F32, F16], None, Packed),
        (plain.clone(), [8, 1, 1, 70, 48, 64], [F32, BF16], Some(F32), Packed),
        // Splits without keys, and rows.
        (with_lse(window(190, 4)), [2, 1, 2, 200, 8, 8], [F32, F32], None, Packed),
        (with_lse(plain.clone()), [2, 1, 2, 130, 8, 8], [F32, F32], Some(Bool), Packed),
        (with_lse(plain.clone()), [2, 1, 9, 130, 8, 8], [F32, F32], Some(Bool), Packed),
        // So many that tiles are larger.
        (causal(60), [130, 130, 10, 70, 8, 4], [F32, F32], None, Packed),
        (causal(50), [130, 130, 20, 70, 8, 4], [F32, F16], None, Packed),
        (causal(35), [520, 520, 33, 70, 4, 4], [F32, F32], None, Packed),
        (with_lse(causal(20)), [4, 2, 40, 70, 40, 72], [BF16, BF16], None, Packed),
        (plain.clone(), [4, 2, 1, 200, 64, 66], [F16, F16], None, Packed),
    ];
    for (attention, [heads, kv_heads, m, n, d, e], [queries, keys], mask, how) in list {
        let q = cases.within(queries, &[heads, m, d], how, -1.0, 1.0);
        let k = cases.within(keys, &[kv_heads, n, d], how, -1.0, 1.0);
        let v = cases.within(keys, &[kv_heads, n, e], how, -1.0, 1.0);
        let mut args = vec![q, k, v];
        // Those of cases with a log-sum-exp hide all keys.
        let most = if attention.lse { 0.0 } else { 1.0 };
        args.extend(mask.map(|mask| cases.within(mask, &[m, n], how, -most, most)));
        cases.add(Op::Attention(attention), args);
    }
    gradients(&mut cases);
    cases.into_list()
}

/// A case: what is differentiated, the dtype of all but the mask, that of the mask, and which gradients are wanted.
type Gradient = (Attention, Sizes, DType, Option<DType>, Arrangement, [bool; 3]);

/// Gradients with more queries and keys than a tile has.
fn gradients(cases: &mut Cases) {
    use Arrangement::{Packed, Stepped, Transposed};
    use DType::{BF16, Bool, F16, F32};
    let plain = Attention::new(0.3);
    let causal = |offset| Attention { causal: Some(offset), ..plain.clone() };
    let capped = Attention { softcap: Some(1.5), ..plain.clone() };
    let all = [true; 3];
    let list: [Gradient; 10] = [
        (causal(0), [2, 2, 150, 150, 64, 64], F32, None, Packed, all),
        (Attention { window: Some(30), ..causal(40) }, [4, 2, 70, 100, 40, 72], F32, None, Stepped, all),
        (capped, [2, 1, 20, 130, 100, 128], F32, Some(F32), Packed, all),
        (plain.clone(), [3, 1, 70, 20, 33, 5], F32, Some(Bool), Transposed, all),
        (causal(3), [2, 2, 70, 70, 256, 8], F32, None, Packed, [false, true, false]),
        (causal(3), [2, 2, 70, 70, 8, 256], F32, None, Packed, [false, false, true]),
        (causal(0), [2, 1, 20, 70, 8, 8], F32, None, Packed, [true, false, false]),
        // So many that tiles are larger.
        (causal(0), [130, 130, 30, 30, 8, 4], F32, None, Packed, all),
        (causal(3), [4, 2, 40, 70, 40, 72], BF16, None, Packed, all),
        (plain.clone(), [2, 2, 70, 40, 64, 64], F16, Some(Bool), Stepped, all),
    ];
    for (attention, [heads, kv_heads, m, n, d, e], dtype, mask, how, [q, k, v]) in list {
        let mut args: Vec<Argument> =
            [[heads, m, e], [heads, m, d], [kv_heads, n, d], [kv_heads, n, e], [heads, m, e]]
                .iter()
                .map(|dims| cases.within(dtype, dims, how, -1.0, 1.0))
                .collect();
        // As if the sum of the exponentiated scores were about their number, or more: weights are at most about one.
        let near = (n as f64).ln() + 2.0;
        args.push(cases.within(F32, &[heads, m], Packed, near, near + 1.0));
        args.extend(mask.map(|mask| cases.within(mask, &[m, n], how, -1.0, 1.0)));
        cases.add(Op::AttentionBackward(AttentionBackward { attention, q, k, v }), args);
    }
}
