//! Conversions between dtypes.

use super::Formula;
use rustorch_core::{DType, Decline};

/// The formula from one dtype to another.
pub(super) fn formula(from: DType, to: DType) -> Result<Formula, Decline> {
    let single = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16 | DType::F32);
    match (from, to) {
        (from, to) if single(from) && single(to) => Ok(Formula::of("a")),
        (from, to) => Err(Decline::DType(if single(from) { to } else { from })),
    }
}
