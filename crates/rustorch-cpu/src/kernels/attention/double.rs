//! Attention in `f64`, one query at a time.

use super::{Mask, MaskRow, Sizes};
use crate::ThreadPool;
use crate::kernels::strided::{self, Matrices};
use rustorch_core::{Attention, Fault, View, ViewMut};

pub(super) fn run(
    pool: &ThreadPool,
    attention: &Attention,
    sizes: Sizes,
    [q, k, v]: [&View<'_>; 3],
    mask: Option<View<'_>>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let (q, k, v) = (Matrices::<f64>::new(q)?, Matrices::<f64>::new(k)?, Matrices::<f64>::new(v)?);
    let mask = mask.as_ref().map(Mask::<f64>::new).transpose()?;
    let scale = f64::from(attention.scale);
    let cap = attention.softcap.map(f64::from);
    let cost = sizes.n * (sizes.d + sizes.e);
    strided::with_slice(pool, out, |out: &mut [f64]| {
        strided::par_units(pool, out, sizes.e, (1 << 14) / cost.max(1) * sizes.e, |first, out| {
            for (row, out) in (first..).zip(out.chunks_exact_mut(sizes.e)) {
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
                let largest = crate::kernels::softmax::max(&scores);
                if largest == f64::NEG_INFINITY {
                    continue;
                }
                for score in &mut scores {
                    *score = (*score - largest).exp();
                }
                let total: f64 = scores.iter().sum();
                for (j, weight) in keys.zip(&scores) {
                    for (out, v) in out.iter_mut().zip(v.row(j)) {
                        *out += weight / total * v;
                    }
                }
            }
        });
        Ok(())
    })
}
