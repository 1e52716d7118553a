//! Symbolic values, with the operators and methods of tensors.

use rustorch_core::{BinaryOp, C64, C128, CompareOp, DType, GluOp, Op, Scalar, UnaryOp, bf16, f16};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

/// A value of an expression under construction, in the closure of [`fuse`](crate::fuse).
///
/// It has the operators and the pointwise methods of [`Tensor`](crate::Tensor), which here return a value and no `Result`:
/// whether an operation takes its operands shows when tensors come. It is `Copy`, so no `&` is needed anywhere.
///
/// The lifetime keeps values inside their closure, and those of different expressions apart.
#[derive(Clone, Copy)]
pub struct Expr<'t> {
    tape: &'t Tape,
    index: usize,
    /// Makes the lifetime this tape's alone.
    own: PhantomData<Cell<&'t ()>>,
}

/// What an expression consists of, in the order in which it was written down.
#[derive(Default)]
pub(super) struct Tape(RefCell<Vec<Node>>);

/// An operation of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Input(usize),
    Unary(UnaryOp, usize),
    Binary(BinaryOp, [Term; 2]),
    Compare(CompareOp, [Term; 2]),
    Glu(GluOp, [usize; 2]),
    Clamp(usize, [Option<Scalar>; 2]),
    Cast(usize, DType),
    /// The condition, and what is taken where it holds and where not.
    Where(usize, [Term; 2]),
    /// The condition, the scalar where it holds, and the value elsewhere, whose dtype stays.
    MaskedFill(usize, Scalar, usize),
}

/// An operand: an earlier node, or a scalar.
#[derive(Clone, Copy, Debug)]
pub(super) enum Term {
    Node(usize),
    Number(Scalar),
}

impl Tape {
    pub(super) fn with_inputs(inputs: usize) -> Tape {
        Tape(RefCell::new((0..inputs).map(Node::Input).collect()))
    }

    pub(super) fn expr(&self, index: usize) -> Expr<'_> {
        Expr { tape: self, index, own: PhantomData }
    }

    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.0.into_inner()
    }
}

/// The second operand of arithmetic: another value, or a scalar, whose width does not count in promotion.
#[derive(Clone, Copy, Debug)]
pub enum ExprOrScalar<'t> {
    /// A value.
    Expr(Expr<'t>),
    /// A scalar.
    Scalar(Scalar),
}

impl ExprOrScalar<'_> {
    fn term(self) -> Term {
        match self {
            ExprOrScalar::Expr(x) => Term::Node(x.index),
            ExprOrScalar::Scalar(number) => Term::Number(number),
        }
    }
}

impl<'t> From<Expr<'t>> for ExprOrScalar<'t> {
    fn from(x: Expr<'t>) -> Self {
        ExprOrScalar::Expr(x)
    }
}

impl<'t> From<&Expr<'t>> for ExprOrScalar<'t> {
    fn from(x: &Expr<'t>) -> Self {
        ExprOrScalar::Expr(*x)
    }
}

macro_rules! from_numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for ExprOrScalar<'_> {
            fn from(number: $ty) -> Self {
                ExprOrScalar::Scalar(number.into())
            }
        }
    )*};
}

from_numbers!(Scalar, bool, u8, i8, i16, i32, u32, i64, f16, bf16, f32, f64, C64, C128);

impl fmt::Debug for Expr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.index)
    }
}

impl<'t> Expr<'t> {
    pub(super) fn index(self) -> usize {
        self.index
    }

    fn push(self, node: Node) -> Expr<'t> {
        let mut nodes = self.tape.0.borrow_mut();
        nodes.push(node);
        self.tape.expr(nodes.len() - 1)
    }

    pub(super) fn binary(self, op: BinaryOp, terms: [ExprOrScalar<'t>; 2]) -> Expr<'t> {
        self.push(Node::Binary(op, terms.map(ExprOrScalar::term)))
    }
}

/// Methods with the names of tensors' ones, which say what they do.
macro_rules! unary_methods {
    ($($name:ident => $op:ident),* $(,)?) => {
        impl<'t> Expr<'t> {$(
            #[doc = concat!("As [`Tensor::", stringify!($name), "`](crate::Tensor::", stringify!($name), ").")]
            pub fn $name(&self) -> Expr<'t> {
                self.push(Node::Unary(UnaryOp::$op, self.index))
            }
        )*}
    };
}

unary_methods! {
    neg => Neg, abs => Abs, sign => Sign, floor => Floor, ceil => Ceil, round => Round, trunc => Trunc, exp => Exp,
    expm1 => Expm1, log => Log, log2 => Log2, log10 => Log10, log1p => Log1p, sqrt => Sqrt, rsqrt => Rsqrt,
    reciprocal => Reciprocal, square => Square, sin => Sin, cos => Cos, tan => Tan, asin => Asin, acos => Acos,
    atan => Atan, sinh => Sinh, cosh => Cosh, tanh => Tanh, asinh => Asinh, acosh => Acosh, atanh => Atanh, erf => Erf,
    erfinv => Erfinv, erfc => Erfc, lgamma => Lgamma, digamma => Digamma, trigamma => Trigamma, sigmoid => Sigmoid, relu => Relu, gelu => Gelu, gelu_tanh => GeluTanh, silu => Silu, softplus => Softplus,
    logical_not => LogicalNot, bitwise_not => BitwiseNot, isnan => IsNan, isinf => IsInf, isfinite => IsFinite,
    conj => Conj,
}

impl<'t> Expr<'t> {
    /// The real part of a complex value.
    pub fn real(&self) -> Expr<'t> {
        self.push(Node::Unary(UnaryOp::Real, self.index))
    }

    /// The imaginary part of a complex value.
    pub fn imag(&self) -> Expr<'t> {
        self.push(Node::Unary(UnaryOp::Imag, self.index))
    }

    /// The angle of a complex value.
    pub fn angle(&self) -> Expr<'t> {
        self.push(Node::Unary(UnaryOp::Angle, self.index))
    }

    /// A pointwise operation of values whose dtypes it takes as they are; a step of a program.
    pub(crate) fn step(op: &Op, args: &[ExprOrScalar<'t>]) -> Option<Expr<'t>> {
        let value = |i: usize| match args.get(i) {
            Some(ExprOrScalar::Expr(x)) => Some(*x),
            _ => None,
        };
        let tape = args.iter().find_map(|arg| match arg {
            ExprOrScalar::Expr(x) => Some(*x),
            ExprOrScalar::Scalar(_) => None,
        })?;
        let node = match op {
            Op::Unary(op) => Node::Unary(*op, value(0)?.index),
            Op::Binary(op) => Node::Binary(*op, [args[0].term(), args[1].term()]),
            Op::Compare(op) => Node::Compare(*op, [args[0].term(), args[1].term()]),
            Op::Glu(op) => Node::Glu(*op, [value(0)?.index, value(1)?.index]),
            Op::Clamp(clamp) => Node::Clamp(value(0)?.index, [clamp.min, clamp.max]),
            Op::Cast(cast) => Node::Cast(value(0)?.index, cast.to),
            Op::Where(_) => Node::Where(value(0)?.index, [args[1].term(), args[2].term()]),
            _ => return None,
        };
        Some(tape.push(node))
    }
}

macro_rules! pair_methods {
    ($($node:ident: $($name:ident => $op:expr),*;)*) => {
        impl<'t> Expr<'t> {$($(
            #[doc = concat!("As [`Tensor::", stringify!($name), "`](crate::Tensor::", stringify!($name), ").")]
            pub fn $name(&self, other: impl Into<ExprOrScalar<'t>>) -> Expr<'t> {
                self.push(Node::$node($op, [Term::Node(self.index), other.into().term()]))
            }
        )*)*}
    };
}

pair_methods! {
    Binary: add => BinaryOp::Add, sub => BinaryOp::Sub, mul => BinaryOp::Mul, div => BinaryOp::Div,
        floor_divide => BinaryOp::FloorDiv, remainder => BinaryOp::Remainder, pow => BinaryOp::Pow,
        maximum => BinaryOp::Maximum, minimum => BinaryOp::Minimum, atan2 => BinaryOp::Atan2,
        logaddexp => BinaryOp::LogAddExp,
        bitwise_and => BinaryOp::BitwiseAnd, bitwise_or => BinaryOp::BitwiseOr, bitwise_xor => BinaryOp::BitwiseXor,
        bitwise_left_shift => BinaryOp::ShiftLeft, bitwise_right_shift => BinaryOp::ShiftRight;
    Compare: eq => CompareOp::Eq, ne => CompareOp::Ne, lt => CompareOp::Lt, le => CompareOp::Le, gt => CompareOp::Gt,
        ge => CompareOp::Ge;
}

macro_rules! reversed_methods {
    ($($name:ident => $op:ident),*) => {
        impl<'t> Expr<'t> {$(
            #[doc = concat!("As [`Tensor::", stringify!($name), "`](crate::Tensor::", stringify!($name), ").")]
            pub fn $name(&self, number: impl Into<Scalar>) -> Expr<'t> {
                self.push(Node::Binary(BinaryOp::$op, [Term::Number(number.into()), Term::Node(self.index)]))
            }
        )*}
    };
}

reversed_methods!(rsub => Sub, rdiv => Div, rpow => Pow);

macro_rules! glu_methods {
    ($($name:ident => $op:ident),*) => {
        impl<'t> Expr<'t> {$(
            #[doc = concat!("As [`Tensor::", stringify!($name), "`](crate::Tensor::", stringify!($name), ").")]
            pub fn $name(&self, up: Expr<'t>) -> Expr<'t> {
                self.push(Node::Glu(GluOp::$op, [self.index, up.index]))
            }
        )*}
    };
}

glu_methods!(swiglu => Silu, geglu => Gelu, geglu_tanh => GeluTanh, reglu => Relu);

impl<'t> Expr<'t> {
    /// As [`Tensor::to_dtype`](crate::Tensor::to_dtype), to a dense dtype.
    pub fn to_dtype(self, dtype: DType) -> Expr<'t> {
        self.push(Node::Cast(self.index, dtype))
    }

    /// As [`Tensor::clamp`](crate::Tensor::clamp).
    pub fn clamp(&self, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Expr<'t> {
        self.push(Node::Clamp(self.index, [Some(min.into()), Some(max.into())]))
    }

    /// As [`Tensor::clamp_min`](crate::Tensor::clamp_min).
    pub fn clamp_min(&self, min: impl Into<Scalar>) -> Expr<'t> {
        self.push(Node::Clamp(self.index, [Some(min.into()), None]))
    }

    /// As [`Tensor::clamp_max`](crate::Tensor::clamp_max).
    pub fn clamp_max(&self, max: impl Into<Scalar>) -> Expr<'t> {
        self.push(Node::Clamp(self.index, [None, Some(max.into())]))
    }

    /// As [`Tensor::where_cond`](crate::Tensor::where_cond).
    pub fn where_cond(&self, a: impl Into<ExprOrScalar<'t>>, b: impl Into<ExprOrScalar<'t>>) -> Expr<'t> {
        self.push(Node::Where(self.index, [a.into().term(), b.into().term()]))
    }

    /// As [`Tensor::masked_fill`](crate::Tensor::masked_fill).
    pub fn masked_fill(&self, mask: Expr<'t>, value: impl Into<Scalar>) -> Expr<'t> {
        self.push(Node::MaskedFill(mask.index, value.into(), self.index))
    }

    /// As [`Tensor::lerp`](crate::Tensor::lerp).
    pub fn lerp(&self, end: Expr<'t>, weight: impl Into<ExprOrScalar<'t>>) -> Expr<'t> {
        self.add(end.sub(self).mul(weight))
    }

    /// As [`Tensor::logical_and`](crate::Tensor::logical_and).
    pub fn logical_and(&self, other: Expr<'t>) -> Expr<'t> {
        self.to_dtype(DType::Bool).bitwise_and(other.to_dtype(DType::Bool))
    }

    /// As [`Tensor::logical_or`](crate::Tensor::logical_or).
    pub fn logical_or(&self, other: Expr<'t>) -> Expr<'t> {
        self.to_dtype(DType::Bool).bitwise_or(other.to_dtype(DType::Bool))
    }

    /// As [`Tensor::logical_xor`](crate::Tensor::logical_xor).
    pub fn logical_xor(&self, other: Expr<'t>) -> Expr<'t> {
        self.to_dtype(DType::Bool).bitwise_xor(other.to_dtype(DType::Bool))
    }
}
