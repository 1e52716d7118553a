//! Sort and top-k by Batcher's bitonic sorter (1968). Ties are broken by index, which makes the sort stable.

mod long;
mod short;

pub use long::Long;
pub use short::Sort;

use super::lines::Lines;
use crate::family::{Kernels, Plan};
use crate::library::Order;
use crate::plan::Request;
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use rustorch_core::{DType, Decline, Op, OpKind, OpType, Sort as SortParameters, TopK};

/// The longest line that a workgroup sorts in its own memory; longer ones are sorted in chunks of this length, and merged.
const CHUNK: usize = 1024;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Sorting, &[OpKind::Sort, OpKind::TopK], sets::ORDERED).check(|op, args, hardware| {
        let axis = match op {
            Op::Sort(sort) => sort.axis,
            Op::TopK(top) => top.axis,
            _ => 0,
        };
        match args[0].dims().get(axis) {
            Some(&len) if len > CHUNK => long::fits(len, args[0].dtype, hardware),
            _ => Ok(()),
        }
    })];

impl Kernels for SortParameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.axis, self.descending)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(axes::dimensions(request, |d| d != self.axis)))
    }
}

impl Kernels for TopK {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self.axis, self.largest)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(axes::dimensions(request, |d| d != self.axis)))
    }
}

/// Plans the launches that sort lines and keep what the results have room for.
pub fn plan(plan: &mut Plan, request: &Request<'_>, axis: usize, descending: bool) -> Result<(), Decline> {
    let lines = Lines::new(&[request.args[0].layout, request.outs[0].layout, request.outs[1].layout], axis)?;
    let kept = request.outs[0].layout.dims().get(axis).copied().unwrap_or(1);
    match lines.len > CHUNK {
        true => long::plan(plan, request, &lines, kept, descending),
        false => short::plan(plan, request, lines, kept, descending),
    }
}

/// Bytes of a key.
fn key_bytes(dtype: DType) -> usize {
    if Order::of(dtype).key() == "u32" { 4 } else { 8 }
}

/// The expression of the key by which an element is sorted.
fn key(descending: bool, load: &str) -> String {
    let turn = if descending { "~" } else { "" };
    format!("{turn}order_key({load})")
}

/// Statements that put the `i`-th and `j`-th of the arrays `keys` and `places` in order: the lesser first if `up`, an
/// expression.
fn exchange(i: &str, j: &str, up: &str) -> String {
    format!(
        "{{
            let a = keys[{i}];
            let b = keys[{j}];
            let place_a = places[{i}];
            let place_b = places[{j}];
            let behind = order_less(b, a) || !order_less(a, b) && place_b < place_a;
            if behind == ({up}) {{
                keys[{i}] = b;
                keys[{j}] = a;
                places[{i}] = place_b;
                places[{j}] = place_a;
            }}
        }}\n"
    )
}
