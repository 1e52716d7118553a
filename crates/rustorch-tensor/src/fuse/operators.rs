//! `+ - * /`, and unary `-` and `!`, of values and scalars. As with tensors, all scalar types may stand on the right, and one per kind on
//! the left.

use super::{Expr, ExprOrScalar};
use rustorch_core::{BinaryOp, C64, C128, Scalar};
use std::ops::{Add, Div, Mul, Neg, Not, Sub};

macro_rules! binary_operators {
    ($($trait:ident::$method:ident => $op:ident;)*) => {$(
        binary_operators!(@value $trait $method $op, Expr<'t>);
        binary_operators!(@value $trait $method $op, &Expr<'t>);
        binary_operators!(@numbers $trait $method $op, Scalar i64 f64 C64 C128);
    )*};
    (@value $trait:ident $method:ident $op:ident, $left:ty) => {
        impl<'t, T: Into<ExprOrScalar<'t>>> $trait<T> for $left {
            type Output = Expr<'t>;

            fn $method(self, other: T) -> Expr<'t> {
                Expr::binary(self.clone(), BinaryOp::$op, [self.into(), other.into()])
            }
        }
    };
    (@numbers $trait:ident $method:ident $op:ident, $($number:ty)*) => {$(
        binary_operators!(@number $trait $method $op $number, Expr<'t>);
        binary_operators!(@number $trait $method $op $number, &Expr<'t>);
    )*};
    (@number $trait:ident $method:ident $op:ident $number:ty, $expr:ty) => {
        impl<'t> $trait<$expr> for $number {
            type Output = Expr<'t>;

            fn $method(self, other: $expr) -> Expr<'t> {
                Expr::binary(other.clone(), BinaryOp::$op, [ExprOrScalar::from(self), other.into()])
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

macro_rules! unary_operators {
    ($($trait:ident::$method:ident => $name:ident;)*) => {$(
        impl<'t> $trait for Expr<'t> {
            type Output = Expr<'t>;

            fn $method(self) -> Expr<'t> {
                Expr::$name(&self)
            }
        }

        impl<'t> $trait for &Expr<'t> {
            type Output = Expr<'t>;

            fn $method(self) -> Expr<'t> {
                Expr::$name(self)
            }
        }
    )*};
}

unary_operators! {
    Neg::neg => neg;
    Not::not => bitwise_not;
}
