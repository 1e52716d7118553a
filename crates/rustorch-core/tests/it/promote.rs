//! Common dtypes of operands.

use rustorch_core::{DType, PromotionCategory, promote_types, result_type};

use DType::*;

// torch.result_type of tensors of these dtypes, PyTorch 2.x.
#[test]
fn weights_decide() {
    let rt = |ops: &[(DType, PromotionCategory)]| result_type(ops.iter().copied(), F32).unwrap();
    use PromotionCategory::*;
    assert_eq!(rt(&[(I32, Dimensioned), (F64, Scalar)]), F32);
    assert_eq!(rt(&[(F16, Dimensioned), (F64, ZeroDim)]), F16);
    assert_eq!(rt(&[(F16, Dimensioned), (F64, Scalar)]), F16);
    assert_eq!(rt(&[(I32, Dimensioned), (F64, ZeroDim)]), F64);
    assert_eq!(rt(&[(U8, Dimensioned), (I64, ZeroDim)]), U8);
    assert_eq!(rt(&[(F64, Dimensioned), (C64, Scalar)]), C128);
    assert_eq!(rt(&[(F32, Dimensioned), (C128, Scalar)]), C64);
    assert_eq!(rt(&[(F32, Dimensioned), (C128, ZeroDim)]), C64);
    assert_eq!(rt(&[(I64, Dimensioned), (C128, ZeroDim)]), C128);
    assert_eq!(rt(&[(Bool, Dimensioned), (I64, Scalar)]), I64);
    assert_eq!(rt(&[(F32, ZeroDim), (F16, ZeroDim)]), F32);
}

#[test]
fn promotion_is_symmetric_and_idempotent() {
    for &a in DType::DENSE {
        assert_eq!(promote_types(a, a), Some(a));
        for &b in DType::DENSE {
            assert_eq!(promote_types(a, b), promote_types(b, a), "{a} {b}");
        }
    }
    assert_eq!(promote_types(U8, U32), Some(U32));
    assert_eq!(promote_types(I8, U32), Some(I64));
    assert_eq!(promote_types(I32, U32), Some(I64));
    assert_eq!(promote_types(F16, BF16), Some(F32));
    assert_eq!(promote_types(F16, F64), Some(F64));
}
