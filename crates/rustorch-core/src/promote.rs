//! Dtype promotion by PyTorch's rules.

use crate::{DType, DTypeKind};

/// The narrowest dtype that holds the values of both, as `torch.promote_types`; `None` if either is a block type.
///
/// `u32`, for which PyTorch defines no promotion, behaves as an integer between `i32` and `i64`.
///
/// ```
/// use rustorch_core::{promote_types, DType};
/// assert_eq!(promote_types(DType::U8, DType::I8), Some(DType::I16));
/// assert_eq!(promote_types(DType::I64, DType::F16), Some(DType::F16));
/// assert_eq!(promote_types(DType::F64, DType::C64), Some(DType::C128));
/// ```
pub fn promote_types(a: DType, b: DType) -> Option<DType> {
    use DType::*;
    if a.is_quant() || b.is_quant() {
        return None;
    }
    if a == b {
        return Some(a);
    }
    let (low, high) = if a.kind() <= b.kind() { (a, b) } else { (b, a) };
    Some(match (low, high) {
        // A narrower kind yields, except that a complex number takes the width of a wider real one.
        (low, high) if low.kind() != high.kind() => match (low, high) {
            (F64, C64) => C128,
            _ => high,
        },
        (C64 | C128, _) => C128,
        (F16, BF16) | (BF16, F16) => F32,
        (a, b) if a.is_float() => {
            if a.size() >= b.size() {
                a
            } else {
                b
            }
        }
        (a, b) => promote_int(a, b),
    })
}

/// Promotion of two different integer types.
fn promote_int(a: DType, b: DType) -> DType {
    let signed = |d: DType| !matches!(d, DType::U8 | DType::U32);
    let (wide, narrow) = if a.size() >= b.size() { (a, b) } else { (b, a) };
    if signed(wide) == signed(narrow) || (signed(wide) && wide.size() > narrow.size()) {
        return wide;
    }
    // One is unsigned and at least as wide: take the signed type above it.
    match wide.size() {
        Some(1) => DType::I16,
        _ => DType::I64,
    }
}

/// How much an operand's dtype counts in [`result_type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromotionCategory {
    /// A scalar: only its family counts.
    Scalar,
    /// A tensor of no dimensions: its dtype counts among its like, but yields to a dimensioned tensor of its family.
    ZeroDim,
    /// A tensor with dimensions.
    Dimensioned,
}

/// The dtype in which an operation of these operands computes, as `torch.result_type`: among tensors with dimensions
/// types promote; 0-d tensors and scalars matter only if they are of a higher family.
///
/// `default_float` is what a plain real scalar becomes where only integers stand beside it (`F32` in PyTorch).
pub fn result_type(
    operands: impl IntoIterator<Item = (DType, PromotionCategory)>,
    default_float: DType,
) -> Option<DType> {
    let mut groups: [Option<DType>; 3] = [None; 3];
    for (dtype, weight) in operands {
        // A scalar has no width of its own.
        let dtype = match (weight, dtype.kind()) {
            (PromotionCategory::Scalar, DTypeKind::Float) => default_float,
            (PromotionCategory::Scalar, DTypeKind::Complex) => default_float.to_complex(),
            _ => dtype,
        };
        let group = &mut groups[weight as usize];
        *group = Some(match *group {
            None => dtype,
            Some(have) => promote_types(have, dtype)?,
        });
    }
    // From the weightiest group down, a lower group counts only if it is of a higher family.
    let mut result: Option<DType> = None;
    for dtype in groups.into_iter().rev().flatten() {
        result = Some(match result {
            None => dtype,
            // The weightier group keeps its width where it has one.
            Some(have) if have.is_float() && dtype.is_complex() => have.to_complex(),
            Some(have) if dtype.kind() > have.kind() => promote_types(have, dtype)?,
            Some(have) => have,
        });
    }
    result
}
