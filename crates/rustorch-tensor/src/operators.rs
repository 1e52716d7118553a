//! `+ - * /`, `+= -= *= /=`, and unary `-` and `!`: the methods of the same meaning, panicking with their error.
//!
//! Scalars of every type stand on the right. On the left only one type per kind does, so that `(2.0 * &x).exp()` needs no annotation.

use crate::binary::binary;
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{BinaryOp, C64, C128, Result, Scalar, bf16, f16};
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Not, Sub, SubAssign};

#[track_caller]
#[inline]
fn unwrap<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => refuse(&error),
    }
}

#[track_caller]
#[cold]
fn refuse(error: &rustorch_core::Error) -> ! {
    panic!("{error}")
}

/// What stands on the right of `+ - * /`: a tensor, a reference to one, or a scalar, whose width does not count in promotion.
///
/// ```
/// # use rustorch_tensor::{DType, Tensor};
/// let x = Tensor::ones([2], DType::F16)?;
/// let y = &x * 2.0f32 + &x * 3 - x.exp()?;
/// assert_eq!(y.dtype(), DType::F16);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
// One implementation of each operator for all of these says what the result is before the type of a literal is known.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a scalar",
    note = "tensors, references to them, `bool`, `u8`, `i8`, `i16`, `i32`, `u32`, `i64`, floats, complex numbers and `Scalar` may stand here"
)]
pub trait RightOperand {
    /// The operand.
    fn operand(&self) -> TensorOrScalar<'_>;
}

impl RightOperand for Tensor {
    #[inline]
    fn operand(&self) -> TensorOrScalar<'_> {
        self.into()
    }
}

impl RightOperand for &Tensor {
    #[inline]
    fn operand(&self) -> TensorOrScalar<'_> {
        (*self).into()
    }
}

macro_rules! scalar_operands {
    ($($ty:ty),*) => {$(
        impl RightOperand for $ty {
            #[inline]
            fn operand(&self) -> TensorOrScalar<'_> {
                (*self).into()
            }
        }
    )*};
}

scalar_operands!(Scalar, bool, u8, i8, i16, i32, u32, i64, f16, bf16, f32, f64, C64, C128);

macro_rules! binary_operators {
    ($($trait:ident::$method:ident => $op:ident;)*) => {$(
        binary_operators!(@tensor $trait $method $op, &Tensor);
        binary_operators!(@tensor $trait $method $op, Tensor);
        binary_operators!(@numbers $trait $method $op, Scalar i64 f64 C64 C128);
    )*};
    (@tensor $trait:ident $method:ident $op:ident, $tensor:ty) => {
        impl<T: RightOperand> $trait<T> for $tensor {
            type Output = Tensor;

            #[track_caller]
            #[inline]
            fn $method(self, other: T) -> Tensor {
                let this: &Tensor = &self;
                unwrap(binary(BinaryOp::$op, this.into(), other.operand()))
            }
        }
    };
    (@numbers $trait:ident $method:ident $op:ident, $($number:ty)*) => {$(
        binary_operators!(@number $trait $method $op $number, &Tensor);
        binary_operators!(@number $trait $method $op $number, Tensor);
    )*};
    (@number $trait:ident $method:ident $op:ident $number:ty, $tensor:ty) => {
        impl $trait<$tensor> for $number {
            type Output = Tensor;

            #[track_caller]
            fn $method(self, other: $tensor) -> Tensor {
                let other: &Tensor = &other;
                unwrap(binary(BinaryOp::$op, TensorOrScalar::from(self), other.into()))
            }
        }
    };
}

binary_operators! {
    Add::add => Add;
    Sub::sub => Sub;
    Mul::mul => Mul;
    Div::div => Div;
}

macro_rules! assigning_operators {
    ($($trait:ident::$method:ident => $name:ident;)*) => {$(
        /// In place: every view of the memory sees the result.
        impl<'a, T: Into<TensorOrScalar<'a>>> $trait<T> for Tensor {
            #[track_caller]
            fn $method(&mut self, other: T) {
                unwrap(self.$name(other));
            }
        }
    )*};
}

assigning_operators! {
    AddAssign::add_assign => add_;
    SubAssign::sub_assign => sub_;
    MulAssign::mul_assign => mul_;
    DivAssign::div_assign => div_;
}

macro_rules! unary_operators {
    ($($trait:ident::$method:ident => $name:ident;)*) => {$(
        impl $trait for &Tensor {
            type Output = Tensor;

            #[track_caller]
            fn $method(self) -> Tensor {
                unwrap(self.$name())
            }
        }

        impl $trait for Tensor {
            type Output = Tensor;

            #[track_caller]
            fn $method(self) -> Tensor {
                unwrap(Tensor::$name(&self))
            }
        }
    )*};
}

unary_operators! {
    Neg::neg => neg;
    Not::not => bitwise_not;
}
