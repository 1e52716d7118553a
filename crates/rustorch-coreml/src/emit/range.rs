//! Bounds of 64-bit integers, by which they are known to fit 32 bits.

use rustorch_core::BinaryOp;

type Range = (i64, i64);

/// Bounds of a function of two integers within bounds; `None` where nothing is known, or they do not fit an `i64`.
pub(super) fn binary(op: BinaryOp, a: Range, b: Range) -> Option<Range> {
    match op {
        BinaryOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        BinaryOp::Sub => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        BinaryOp::Mul => {
            let products =
                [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
            Some((*products.iter().min()?, *products.iter().max()?))
        }
        BinaryOp::Maximum => Some((a.0.max(b.0), a.1.max(b.1))),
        BinaryOp::Minimum => Some((a.0.min(b.0), a.1.min(b.1))),
        BinaryOp::FloorDiv if b.0 >= 1 => Some((a.0.min(0), a.1.max(0))),
        BinaryOp::Remainder if b.0 >= 1 => Some((0, b.1 - 1)),
        _ => None,
    }
}

/// Bounds of what is either of two.
pub(super) fn either(a: Option<Range>, b: Option<Range>) -> Option<Range> {
    let (a, b) = (a?, b?);
    Some((a.0.min(b.0), a.1.max(b.1)))
}

/// Bounds of a sum of so many.
pub(super) fn sum(n: usize, each: Range) -> Option<Range> {
    let n = i64::try_from(n).ok()?;
    Some((each.0.min(0).checked_mul(n)?, each.1.max(0).checked_mul(n)?))
}
