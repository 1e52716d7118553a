//! Indexing, statistics and contractions.

use crate::operations::{Call, Case, boxed};
use rustorch_tensor::{QuantileInterpolation, Result, Tensor, i, linalg};

/// The function that a case's name says, if it is one of these.
pub(crate) fn call(case: &Case<'_>) -> Result<Option<Call>> {
    if let Some(call) = indexing(case)? {
        return Ok(Some(call));
    }
    if let Some(call) = statistics(case)? {
        return Ok(Some(call));
    }
    contractions(case)
}

/// A write in place, and what was written to.
fn in_place(x: Tensor, f: impl Fn(&Tensor) -> Result<()> + 'static) -> Result<Call> {
    boxed(move || {
        f(&x)?;
        Ok(x.clone())
    })
}

fn indexing(case: &Case<'_>) -> Result<Option<Call>> {
    let below = |x: &Tensor, dim: usize| case.indices(1, x.dims()[dim]);
    let made = match case.operation {
        "get_slice" | "copy_slice" | "set_slice" | "fill_slice" => {
            let x = case.operand(0)?;
            let part = x.i(i![1..-1, ..;2])?.copy()?;
            match case.operation {
                "get_slice" => boxed(move || x.i(i![1..-1, ..;2])),
                "copy_slice" => boxed(move || x.i(i![1..-1, ..;2])?.copy()),
                "set_slice" => in_place(x, move |x| x.set(i![1..-1, ..;2], &part)),
                _ => in_place(x, |x| x.set(i![1..-1, ..;2], 1.5)),
            }
        }
        "get_rows" | "set_rows" => {
            let x = case.operand(0)?;
            let rows = below(&x, 0)?;
            let part = x.i(i![&rows])?;
            match case.operation {
                "get_rows" => boxed(move || x.i(i![&rows])),
                _ => in_place(x, move |x| x.set(i![&rows], &part)),
            }
        }
        "get_columns" => {
            let x = case.operand(0)?;
            let columns = below(&x, 1)?;
            boxed(move || x.i(i![.., &columns]))
        }
        "get_points" | "set_points" | "add_points" => {
            let x = case.operand(0)?;
            let (rows, columns) = (below(&x, 0)?, below(&x, 1)?);
            let part = x.i(i![&rows, &columns])?;
            match case.operation {
                "get_points" => boxed(move || x.i(i![&rows, &columns])),
                "set_points" => in_place(x, move |x| x.set(i![&rows, &columns], &part)),
                _ => boxed(move || x.index_put(i![&rows, &columns], &part, true)),
            }
        }
        "get_mask" | "fill_mask" | "set_mask" => {
            let x = case.operand(0)?;
            let mask = x.gt(0)?;
            let part = x.i(i![&mask])?;
            match case.operation {
                "get_mask" => boxed(move || x.i(i![&mask])),
                "fill_mask" => in_place(x, move |x| x.set(i![&mask], 1.5)),
                _ => in_place(x, move |x| x.set(i![&mask], &part)),
            }
        }
        "get_rows_by_mask" => {
            let x = case.operand(0)?;
            let mask = x.i(i![.., 0])?.gt(0)?;
            boxed(move || x.i(i![&mask]))
        }
        "take" | "put" => {
            let x = case.operand(0)?;
            let index = below(&x, 0)?;
            let part = x.take(&index)?;
            match case.operation {
                "take" => boxed(move || x.take(&index)),
                _ => boxed(move || x.put(&index, &part, false)),
            }
        }
        "nonzero" => {
            let mask = case.operand(0)?.gt(0)?;
            boxed(move || mask.nonzero())
        }
        _ => return Ok(None),
    };
    made.map(Some)
}

fn statistics(case: &Case<'_>) -> Result<Option<Call>> {
    let dim = case.argument.unwrap_or_default() as isize;
    let made = match case.operation {
        "searchsorted" | "bucketize" => {
            let (sorted, values) = (case.operand(0)?.sort(-1, false)?.0, case.operand(1)?);
            match case.operation {
                "searchsorted" => boxed(move || sorted.searchsorted(&values, false)),
                _ => boxed(move || values.bucketize(&sorted, false)),
            }
        }
        "unique" | "bincount" | "histc" | "median" | "quantile" | "mode" | "cummax" | "logcumsumexp"
        | "diff" | "cov" => {
            let x = case.operand(0)?;
            match case.operation {
                "unique" => boxed(move || Ok(x.unique()?.0)),
                "bincount" => {
                    let x = x.add(4)?;
                    boxed(move || x.bincount(None, 0))
                }
                "histc" => boxed(move || x.histc(dim as usize, -4.0, 4.0)),
                "median" => boxed(move || Ok(x.median(dim, false)?.0)),
                "quantile" => boxed(move || x.quantile(0.3, Some(dim), false, QuantileInterpolation::Linear)),
                "mode" => boxed(move || Ok(x.mode(dim, false)?.0)),
                "cummax" => boxed(move || Ok(x.cummax(dim)?.0)),
                "logcumsumexp" => boxed(move || x.logcumsumexp(dim)),
                "diff" => boxed(move || x.diff(1, dim, None, None)),
                _ => boxed(move || x.cov(1, None, None)),
            }
        }
        _ => return Ok(None),
    };
    made.map(Some)
}

fn contractions(case: &Case<'_>) -> Result<Option<Call>> {
    let equation = match case.operation {
        "einsum" => Some("bij,bjk->bik"),
        "einsum_heads" => Some("bqhd,bkhd->bhqk"),
        "einsum_outer" => Some("i,j->ij"),
        "einsum_sum" => Some("ij,ij->"),
        _ => None,
    };
    if let Some(equation) = equation {
        let operands = [case.operand(0)?, case.operand(1)?];
        return boxed(move || Tensor::einsum(equation, &operands)).map(Some);
    }
    let made = match case.operation {
        "einsum_diagonal" => {
            let x = [case.operand(0)?];
            boxed(move || Tensor::einsum("iij->j", &x))
        }
        "matrix_exp" => {
            let x = case.operand(0)?.mul(0.1)?;
            boxed(move || linalg::matrix_exp(&x))
        }
        "tensordot" | "cdist" | "kron" => {
            let (a, b) = (case.operand(0)?, case.operand(1)?);
            let p = case.argument.unwrap_or_default() as f64;
            match case.operation {
                "tensordot" => boxed(move || a.tensordot(&b, ([1, 2], [1, 0]))),
                "cdist" => boxed(move || a.cdist(&b, p)),
                _ => boxed(move || a.kron(&b)),
            }
        }
        _ => return Ok(None),
    };
    made.map(Some)
}
