//! Attention in `f64`, one query at a time.

use super::{Mask, MaskRow, Outputs, Sizes};
use crate::ThreadPool;
use crate::kernels::dropout;
use crate::kernels::strided::{self, Disjoint, Matrices};
use rustorch_core::{Attention, Fault, View};

pub(super) fn run(
    pool: &ThreadPool,
    attention: &Attention,
    sizes: Sizes,
    [q, k, v]: [&View<'_>; 3],
    mask: Option<View<'_>>,
    Outputs { out, lse }: Outputs<'_, '_>,
) -> Result<(), Fault> {
    let (q, k, v) = (Matrices::<f64>::new(q)?, Matrices::<f64>::new(k)?, Matrices::<f64>::new(v)?);
    let mask = mask.as_ref().map(Mask::<f64>::new).transpose()?;
    let scale = f64::from(attention.scale);
    let cap = attention.softcap.map(f64::from);
    let cost = sizes.n * (sizes.d + sizes.e);
    let queries = sizes.kv_heads * sizes.rows();
    let fill = |out: &mut [f64], lse: Option<&mut [f64]>| {
        let (shared, shared_lse) = (Disjoint::new(out), lse.map(Disjoint::new));
        pool.ranges(queries, (1 << 14) / cost.max(1), |range| {
            for row in range {
                // SAFETY: ranges of one job do not overlap.
                let out = unsafe { shared.slice(row * sizes.e, sizes.e) };
                let keep = |value: f64| {
                    if let Some(lse) = &shared_lse {
                        // SAFETY: as above.
                        unsafe { lse.slice(row, 1)[0] = value };
                    }
                };
                let (head, i) = (row / sizes.m, row % sizes.m);
                let kv = head / sizes.group;
                let (query, k, v) = (q.matrix(head).row(i), k.matrix(kv), v.matrix(kv));
                let mask = mask.as_ref().map(|mask| mask.row(head, i));
                let keys = sizes.visible(attention, i);
                let mut scores: Vec<f64> = keys
                    .clone()
                    .map(|j| {
                        let score = scale * query.iter().zip(k.row(j)).map(|(a, b)| a * b).sum::<f64>();
                        let score = cap.map_or(score, |cap| (score / cap).tanh() * cap);
                        match &mask {
                            None => score,
                            Some(MaskRow::Keep(mask)) if mask[j] => score,
                            Some(MaskRow::Keep(_)) => f64::NEG_INFINITY,
                            Some(MaskRow::Add(mask)) => score + mask[j],
                        }
                    })
                    .collect();
                out.fill(0.0);
                let largest = crate::kernels::lanes::max(&scores);
                if largest == f64::NEG_INFINITY {
                    keep(largest);
                    continue;
                }
                for score in &mut scores {
                    *score = (*score - largest).exp();
                }
                let total: f64 = scores.iter().sum();
                keep(largest + total.ln());
                if let Some(dropout) = &attention.dropout {
                    let mut masks = vec![0.0; scores.len()];
                    dropout::masks(dropout, row * sizes.n + keys.start, &mut masks);
                    scores.iter_mut().zip(masks).for_each(|(weight, mask)| *weight *= mask);
                }
                for (j, weight) in keys.zip(&scores) {
                    for (out, v) in out.iter_mut().zip(v.row(j)) {
                        *out += weight / total * v;
                    }
                }
            }
        });
        Ok(())
    };
    strided::with_slice(pool, out, |out| strided::with_slice_if_wanted(pool, lse, |lse| fill(out, lse)))
}
