//! `+ - * /`, `+= -= *= /=`, and unary `-` and `!`: the methods of the same meaning, panicking with their error.
//!
//! Of the scalar types only one per kind takes part, so that `(&x * 2.0).exp()` needs no annotation; the methods take all.

use crate::binary::binary;
use crate::{Tensor, TensorOrScalar};
use rustorch_core::{BinaryOp, C64, C128, Result, Scalar};
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

macro_rules! binary_operators {
    ($($trait:ident::$method:ident => $op:ident;)*) => {$(
        binary_operators!(@tensors $trait $method $op, &Tensor, &Tensor, &Tensor, Tensor, Tensor, &Tensor, Tensor, Tensor);
        binary_operators!(@numbers $trait $method $op, Scalar i64 f64 C64 C128);
    )*};
    (@tensors $trait:ident $method:ident $op:ident $(, $left:ty, $right:ty)*) => {$(
        impl $trait<$right> for $left {
            type Output = Tensor;

            #[track_caller]
            #[inline]
            fn $method(self, other: $right) -> Tensor {
                let (a, b): (&Tensor, &Tensor) = (&self, &other);
                unwrap(binary(BinaryOp::$op, a.into(), b.into()))
            }
        }
    )*};
    (@numbers $trait:ident $method:ident $op:ident, $($number:ty)*) => {$(
        binary_operators!(@number $trait $method $op $number, &Tensor);
        binary_operators!(@number $trait $method $op $number, Tensor);
    )*};
    (@number $trait:ident $method:ident $op:ident $number:ty, $tensor:ty) => {
        impl $trait<$number> for $tensor {
            type Output = Tensor;

            #[track_caller]
            fn $method(self, other: $number) -> Tensor {
                let this: &Tensor = &self;
                unwrap(binary(BinaryOp::$op, this.into(), other.into()))
            }
        }

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
