//! Cases of fused pointwise ops: each kind of step beside others, in every dtype that takes it.

use super::cases::{ARRANGEMENTS, Cases, broadcasts};
use rustorch_core::{
    BinaryOp, Cast, Clamp, CompareOp, DType, FusedBuilder, FusedPointwise, FusedValue, GluOp, Op, Result,
    Scalar, UnaryOp, Where,
};

/// A fused op under construction.
struct Builder(FusedBuilder);

impl Builder {
    fn unary(&mut self, op: UnaryOp, x: FusedValue) -> Result<FusedValue> {
        self.0.step(Op::Unary(op), &[x])
    }

    fn binary(&mut self, op: BinaryOp, a: FusedValue, b: FusedValue) -> Result<FusedValue> {
        self.0.step(Op::Binary(op), &[a, b])
    }

    fn compare(&mut self, op: CompareOp, a: FusedValue, b: FusedValue) -> Result<FusedValue> {
        self.0.step(Op::Compare(op), &[a, b])
    }

    fn number(&mut self, x: f64, dtype: DType) -> Result<FusedValue> {
        let value = match dtype {
            dtype if dtype.is_complex() => Scalar::Complex(rustorch_core::C128::new(x, -0.25)),
            dtype if dtype.is_float() => Scalar::Float(x),
            DType::Bool => Scalar::Bool(x != 0.0),
            _ => Scalar::Int(x as i64),
        };
        self.0.constant(value, dtype)
    }
}

/// What makes a fused op of two inputs of a dtype.
type Recipe = fn(&mut Builder, [FusedValue; 2], DType) -> Result<FusedValue>;

/// Fused ops of two inputs. A dtype that a step does not take has no such case.
const KINDS_OF_TWO: &[Recipe] = &[
    // tanh((a·b + a)·½ − b), and of complex numbers, where tanh has poles amidst them, exp(((a·b + a)·½ − b)·⅛)
    |c, [a, b], dtype| {
        let half = c.number(0.5, dtype)?;
        let product = c.binary(BinaryOp::Mul, a, b)?;
        let sum = c.binary(BinaryOp::Add, product, a)?;
        let scaled = c.binary(BinaryOp::Mul, sum, half)?;
        let shifted = c.binary(BinaryOp::Sub, scaled, b)?;
        if dtype.is_complex() {
            let eighth = c.0.constant(0.125, dtype)?;
            let small = c.binary(BinaryOp::Mul, shifted, eighth)?;
            return c.unary(UnaryOp::Exp, small);
        }
        c.unary(UnaryOp::Tanh, shifted)
    },
    // Products and sums whose roundings cancel or show.
    |c, [a, b], _| {
        let product = c.binary(BinaryOp::Mul, a, b)?;
        let square = c.unary(UnaryOp::Square, product)?;
        let sum = c.binary(BinaryOp::Add, square, product)?;
        c.binary(BinaryOp::Mul, sum, b)
    },
    // Selection between two branches that share a result.
    |c, [a, b], _| {
        let less = c.binary(BinaryOp::Sub, a, b)?;
        let above = c.compare(CompareOp::Gt, a, b)?;
        let bounds = Op::Clamp(Clamp { min: Some(Scalar::Int(-1)), max: Some(Scalar::Int(2)) });
        let bounded = c.0.step(bounds, &[less])?;
        let negative = c.unary(UnaryOp::Neg, less)?;
        c.0.step(Op::Where(Where), &[above, bounded, negative])
    },
    // Integers that wrap between steps.
    |c, [a, b], dtype| {
        let (many, three) = (c.number(100.0, dtype)?, c.number(3.0, dtype)?);
        let product = c.binary(BinaryOp::Mul, a, many)?;
        let sum = c.binary(BinaryOp::Add, product, b)?;
        let doubled = c.binary(BinaryOp::Add, sum, sum)?;
        let third = c.binary(BinaryOp::FloorDiv, doubled, three)?;
        let rest = c.binary(BinaryOp::Remainder, sum, three)?;
        c.binary(BinaryOp::Maximum, third, rest)
    },
    // Bits.
    |c, [a, b], dtype| {
        let mask = c.number(5.0, dtype)?;
        let odd = c.binary(BinaryOp::BitwiseXor, a, mask)?;
        let both = c.binary(BinaryOp::BitwiseAnd, odd, b)?;
        let inverse = c.unary(UnaryOp::BitwiseNot, both)?;
        c.binary(BinaryOp::BitwiseOr, inverse, a)
    },
    // Through other dtypes and back.
    |c, [a, b], dtype| {
        let wide = c.0.step(Op::Cast(Cast { to: DType::F32 }), &[a])?;
        let factor = c.number(1.5, DType::F32)?;
        let product = c.binary(BinaryOp::Mul, wide, factor)?;
        let short = c.0.step(Op::Cast(Cast { to: DType::I16 }), &[product])?;
        let half = c.0.step(Op::Cast(Cast { to: DType::F16 }), &[short])?;
        let back = c.0.step(Op::Cast(Cast { to: dtype }), &[half])?;
        c.binary(BinaryOp::Mul, back, b)
    },
    // Booleans, and numbers from them.
    |c, [a, b], dtype| {
        let equal = c.compare(CompareOp::Ne, a, b)?;
        let zero = c.unary(UnaryOp::LogicalNot, b)?;
        let either = c.binary(BinaryOp::Maximum, equal, zero)?;
        let yes = c.0.constant(true, DType::Bool)?;
        let not = c.binary(BinaryOp::BitwiseXor, either, yes)?;
        let number = c.0.step(Op::Cast(Cast { to: dtype }), &[not])?;
        c.binary(BinaryOp::Add, number, a)
    },
    // A result that is a boolean.
    |c, [a, b], _| {
        let finite = c.unary(UnaryOp::IsFinite, a)?;
        let equal = c.compare(CompareOp::Eq, a, b)?;
        c.binary(BinaryOp::BitwiseXor, finite, equal)
    },
    // Activations, rounded between steps.
    |c, [a, b], _| {
        let gated = c.0.step(Op::Glu(GluOp::Silu), &[a, b])?;
        let smooth = c.unary(UnaryOp::Gelu, gated)?;
        let sum = c.binary(BinaryOp::Add, smooth, a)?;
        c.unary(UnaryOp::Sigmoid, sum)
    },
    // What 64-bit floats have everywhere.
    |c, [a, b], dtype| {
        let four = c.number(4.0, dtype)?;
        let square = c.unary(UnaryOp::Square, a)?;
        let sum = c.binary(BinaryOp::Add, square, four)?;
        let quotient = c.binary(BinaryOp::Div, b, sum)?;
        c.binary(BinaryOp::Sub, quotient, four)
    },
];

/// How many kinds of fused ops of two inputs there are.
pub(super) const KINDS: usize = KINDS_OF_TWO.len();

/// A fused op of two inputs of a dtype; if a step does not take the dtype, no arguments of it are accepted.
pub(super) fn of_two(kind: usize, dtype: DType) -> Op {
    let mut builder = Builder(FusedPointwise::builder(2).expect("two inputs"));
    let inputs = [FusedValue::Input(0), FusedValue::Input(1)];
    let result = KINDS_OF_TWO[kind](&mut builder, inputs, dtype).expect("steps of these fused ops exist");
    Op::FusedPointwise(builder.0.finish(result).expect("both inputs are used"))
}

impl Cases {
    pub(super) fn fused_pointwise(&mut self) {
        for kind in 0..KINDS {
            for &dtype in DType::DENSE {
                let op = of_two(kind, dtype);
                for (left, right) in broadcasts() {
                    for how in ARRANGEMENTS {
                        let (a, b) = (self.argument(dtype, left, how), self.argument(dtype, right, how));
                        self.add(op.clone(), vec![a, b]);
                    }
                }
            }
        }
        self.fused_ops_of_many_inputs();
    }

    /// Three inputs of different dtypes, and more than some devices bind.
    fn fused_ops_of_many_inputs(&mut self) {
        for &dtype in DType::DENSE {
            for how in ARRANGEMENTS {
                let chosen = || {
                    let mut c = Builder(FusedPointwise::builder(3)?);
                    let (condition, a, b) = (c.0.input(0)?, c.0.input(1)?, c.0.input(2)?);
                    let chosen = c.0.step(Op::Where(Where), &[condition, a, b])?;
                    let sum = c.binary(BinaryOp::Add, chosen, a)?;
                    c.0.finish(sum)
                };
                let chosen: Result<FusedPointwise> = chosen();
                let args = vec![
                    self.argument(DType::Bool, &[3, 1], how),
                    self.argument(dtype, &[3, 5], how),
                    self.argument(dtype, &[5], how),
                ];
                self.add(Op::FusedPointwise(chosen.expect("three inputs, all used")), args);
            }
        }
        for n in [7, FusedPointwise::MAX_INPUTS] {
            let sum = || {
                let mut c = Builder(FusedPointwise::builder(n)?);
                let mut sum = c.0.input(0)?;
                for i in 1..n {
                    let x = c.0.input(i)?;
                    sum = c.binary(BinaryOp::Add, sum, x)?;
                }
                c.0.finish(sum)
            };
            let sum: Result<FusedPointwise> = sum();
            let op = Op::FusedPointwise(sum.expect("as many inputs as there may be, all used"));
            for how in ARRANGEMENTS {
                for dtype in [DType::F32, DType::I8] {
                    let args = (0..n).map(|_| self.argument(dtype, &[3, 4, 5], how)).collect();
                    self.add(op.clone(), args);
                }
            }
        }
    }
}
