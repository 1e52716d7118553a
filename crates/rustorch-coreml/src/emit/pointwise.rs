//! Pointwise operations, alone and fused.

use super::{Emit, Emitter, Reason, known, range};
use crate::builder::Var;
use crate::support::{Condition, Row};
use rustorch_core::{
    BinaryOp, Clamp, CompareOp, DType, FusedPointwise, FusedValue, GluOp, Node, Op, OpKind, UnaryOp,
};

impl Emitter<'_> {
    pub(super) fn pointwise_node(&mut self, node: &Node) -> Emit {
        let mut args = Vec::with_capacity(node.args.len());
        for i in 0..node.args.len() {
            args.push(self.broadcast_arg(node, i)?);
        }
        let var = self.pointwise(&node.op, &args)?;
        let dims = self.result_dims(node, 0);
        Ok(self.expand(&var, &dims))
    }

    pub(super) fn fused(&mut self, fused: &FusedPointwise, node: &Node) -> Emit {
        let mut inputs = Vec::with_capacity(node.args.len());
        for i in 0..node.args.len() {
            inputs.push(self.broadcast_arg(node, i)?);
        }
        let mut constants = Vec::with_capacity(fused.constants().len());
        for constant in fused.constants() {
            let (mut var, range) = self.scalar(constant.value, constant.dtype)?;
            var.dtype = self.program_dtype(constant.dtype);
            constants.push(var.with_range(range));
        }
        let mut steps: Vec<Var> = Vec::with_capacity(fused.steps().len());
        for (i, step) in fused.steps().iter().enumerate() {
            let arg = |value: &FusedValue| match *value {
                FusedValue::Input(i) => inputs[i].clone(),
                FusedValue::Constant(i) => constants[i].clone(),
                FusedValue::Step(i) => steps[i].clone(),
            };
            let args: Vec<Var> = step.args().iter().map(arg).collect();
            for arg in &args {
                known(arg, &format!("what step {i} reads"))?;
            }
            self.has_form(step.op().kind(), &args)?;
            steps.push(self.pointwise(step.op(), &args)?);
        }
        // A fused op has a step at least, which is its result.
        let dims = self.result_dims(node, 0);
        let last = steps.pop().ok_or("computes nothing")?;
        Ok(self.expand(&last, &dims))
    }

    /// A pointwise operation on values of the dtypes that it takes, which broadcast.
    pub(super) fn pointwise(&mut self, op: &Op, args: &[Var]) -> Emit {
        match op {
            Op::Unary(op) => self.unary(*op, &args[0]),
            Op::Binary(op) => self.binary(*op, &args[0], &args[1]),
            Op::Compare(op) => Ok(self.compare(*op, &args[0], &args[1])),
            Op::Glu(op) => {
                let activation = match op {
                    GluOp::Silu => UnaryOp::Silu,
                    GluOp::Gelu => UnaryOp::Gelu,
                    GluOp::GeluTanh => UnaryOp::GeluTanh,
                    GluOp::Relu => UnaryOp::Relu,
                };
                let gate = self.unary(activation, &args[0])?;
                Ok(self.bin("mul", &gate, &args[1]))
            }
            Op::Where(_) => {
                let dims = broadcast(&broadcast(&args[0].dims, &args[1].dims), &args[2].dims);
                // The result has the shape of `a` and `b` together; the condition may be the larger one.
                let a = self.expand(&args[1], &dims);
                let inputs = [("cond", &args[0]), ("a", &a), ("b", &args[2])];
                let made = self.b.op("select", &inputs, a.dtype, &dims);
                Ok(made.with_range(range::either(args[1].range, args[2].range)))
            }
            Op::Clamp(clamp) => self.clamp(clamp, &args[0]),
            Op::Cast(cast) => self.cast(&args[0], cast.to),
            other => Err(super::no_emitter(other.name())),
        }
    }

    /// An activation behind another operation, if it has one.
    pub(super) fn activated(&mut self, activation: Option<UnaryOp>, y: Var) -> Emit {
        let Some(op) = activation else { return Ok(y) };
        self.has_form(op.into(), std::slice::from_ref(&y))?;
        self.unary(op, &y)
    }

    /// That a part of another operation has a row, too.
    fn has_form(&self, op: OpKind, args: &[Var]) -> Emit<()> {
        // What has no operands takes those of the whole.
        let Some(var) = args.get(Row::operand(op)) else { return Ok(()) };
        super::row(op, var.dtype).map(|_| ()).map_err(|reason| match reason {
            Reason::Because(reason) => Reason::Unmet(Condition::HasForm, format!("{op}: {reason}")),
            other => other,
        })
    }

    /// A function of one value, of its dtype.
    pub(super) fn un(&mut self, ty: &str, x: &Var) -> Var {
        self.b.op(ty, &[("x", x)], x.dtype, &x.dims)
    }

    /// A function of two values that broadcast, of their dtype.
    pub(super) fn bin(&mut self, ty: &str, x: &Var, y: &Var) -> Var {
        self.b.op(ty, &[("x", x), ("y", y)], x.dtype, &broadcast(&x.dims, &y.dims))
    }

    /// A function of a value and a number.
    pub(super) fn bin_float(&mut self, ty: &str, x: &Var, y: f32) -> Var {
        let y = self.b.float(y, x);
        self.bin(ty, x, &y)
    }

    fn with_epsilon(&mut self, ty: &str, x: &Var) -> Var {
        // The default adds something to the argument.
        let zero = self.b.float(0.0, x);
        self.b.op(ty, &[("x", x), ("epsilon", &zero)], x.dtype, &x.dims)
    }

    pub(super) fn log(&mut self, x: &Var) -> Var {
        self.with_epsilon("log", x)
    }

    pub(super) fn rsqrt(&mut self, x: &Var) -> Var {
        self.with_epsilon("rsqrt", x)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, x: &Var) -> Emit {
        match x.dtype {
            DType::F16 | DType::F32 => self.unary_float(op, x),
            DType::Bool => match op {
                UnaryOp::LogicalNot | UnaryOp::BitwiseNot => Ok(self.un("logical_not", x)),
                _ => Err(super::no_emitter(op.name())),
            },
            _ => self.unary_int(op, x),
        }
    }

    fn unary_int(&mut self, op: UnaryOp, x: &Var) -> Emit {
        let zero = self.int(0);
        let bounds = x.range;
        Ok(match op {
            UnaryOp::Neg => {
                let minus = self.int(-1);
                let range = bounds.map(|(low, high)| (-high, -low));
                self.bin("mul", x, &minus).with_range(range)
            }
            UnaryOp::Abs => {
                let range = bounds.map(|(low, high)| (0, low.abs().max(high.abs())));
                self.un("abs", x).with_range(range)
            }
            UnaryOp::Sign => self.un("sign", x).with_range(Some((-1, 1))),
            UnaryOp::Relu => {
                let range = bounds.map(|(low, high)| (low.max(0), high.max(0)));
                self.bin("maximum", x, &zero).with_range(range)
            }
            UnaryOp::Square => {
                let range = bounds.and_then(|range| range::binary(BinaryOp::Mul, range, range));
                self.bin("mul", x, x).with_range(range)
            }
            UnaryOp::LogicalNot => self.truth("equal", x, &zero),
            _ => return Err(super::no_emitter(op.name())),
        })
    }

    /// A comparison in MIL, which broadcasts.
    fn truth(&mut self, ty: &str, x: &Var, y: &Var) -> Var {
        self.b.op(ty, &[("x", x), ("y", y)], DType::Bool, &broadcast(&x.dims, &y.dims))
    }

    fn unary_float(&mut self, op: UnaryOp, x: &Var) -> Emit {
        use UnaryOp::*;
        Ok(match op {
            Neg => self.bin_float("mul", x, -1.0),
            Abs | Floor | Ceil | Round | Exp | Sqrt | Square | Sin | Cos | Tan | Asin | Acos | Atan
            | Sinh | Cosh | Tanh | Atanh | Erf | Sigmoid | Relu | Silu => self.un(op.name(), x),
            Sign => {
                // That of NaN is 0 here.
                let one = self.b.float(1.0, x);
                let zero = self.b.float(0.0, x);
                let minus = self.b.float(-1.0, x);
                let above = self.truth("greater", x, &zero);
                let below = self.truth("less", x, &zero);
                let rest = self.select(&below, &minus, &zero, &x.dims);
                self.select(&above, &one, &rest, &x.dims)
            }
            Trunc => {
                let zero = self.b.float(0.0, x);
                let below = self.truth("less", x, &zero);
                let (up, down) = (self.un("ceil", x), self.un("floor", x));
                self.select(&below, &up, &down, &x.dims)
            }
            // Exact near 0, where eˣ − 1 has lost its digits: (eˣ + 1) · tanh(x / 2).
            Expm1 => {
                let half = self.bin_float("mul", x, 0.5);
                let tanh = self.un("tanh", &half);
                let exp = self.un("exp", x);
                let sum = self.bin_float("add", &exp, 1.0);
                self.bin("mul", &sum, &tanh)
            }
            // Exact near 0: 2 · artanh(x / (x + 2)).
            Log1p => {
                let half = self.b.float(0.5, x);
                let size = self.un("abs", x);
                let near = self.truth("less", &size, &half);
                let zero = self.b.float(0.0, x);
                let small = self.select(&near, x, &zero, &x.dims);
                let two = self.bin_float("add", &small, 2.0);
                let ratio = self.bin("real_div", &small, &two);
                let artanh = self.un("atanh", &ratio);
                let twice = self.bin_float("mul", &artanh, 2.0);
                let sum = self.bin_float("add", x, 1.0);
                let log = self.log(&sum);
                self.select(&near, &twice, &log, &x.dims)
            }
            Log => self.log(x),
            Log2 => {
                let log = self.log(x);
                self.bin_float("mul", &log, std::f32::consts::LOG2_E)
            }
            Log10 => {
                let log = self.log(x);
                self.bin_float("mul", &log, std::f32::consts::LOG10_E)
            }
            Rsqrt => self.rsqrt(x),
            Reciprocal => {
                let one = self.b.float(1.0, x);
                self.bin("real_div", &one, x)
            }
            Gelu | GeluTanh => {
                let mode = self.b.str(if op == Gelu { "EXACT" } else { "TANH_APPROXIMATION" });
                self.b.op("gelu", &[("x", x), ("mode", &mode)], x.dtype, &x.dims)
            }
            // Without overflow: max(x, 0) + log(1 + e^−|x|).
            Softplus => {
                let size = self.un("abs", x);
                let minus = self.bin_float("mul", &size, -1.0);
                let exp = self.un("exp", &minus);
                let log = self.unary_float(Log1p, &exp)?;
                let relu = self.un("relu", x);
                self.bin("add", &relu, &log)
            }
            LogicalNot => {
                let zero = self.b.float(0.0, x);
                self.truth("equal", x, &zero)
            }
            IsNan => self.truth("not_equal", x, x),
            IsInf => {
                let (size, infinity) = (self.un("abs", x), self.b.float(f32::INFINITY, x));
                self.truth("equal", &size, &infinity)
            }
            IsFinite => {
                let (size, infinity) = (self.un("abs", x), self.b.float(f32::INFINITY, x));
                self.truth("less", &size, &infinity)
            }
            Asinh | Acosh | Erfinv | Erfc | Lgamma | Digamma | Trigamma | BitwiseNot | Conj | Real | Imag
            | Angle => return Err(super::no_emitter(op.name())),
        })
    }

    /// `a` where the condition holds, else `b`, in a shape to which all broadcast.
    pub(super) fn select(&mut self, cond: &Var, a: &Var, b: &Var, dims: &[usize]) -> Var {
        let dtype = a.dtype;
        // MIL takes the shape of `a` and `b` together.
        let together = broadcast(&a.dims, &b.dims);
        let a = if together == dims { a.clone() } else { self.full(a, dims) };
        self.b.op("select", &[("cond", cond), ("a", &a), ("b", b)], dtype, dims)
    }

    /// A value in a shape to which it broadcasts, also of a constant without dimensions.
    fn full(&mut self, x: &Var, dims: &[usize]) -> Var {
        if x.dims.is_empty() {
            let shape = self.b.ints(dims);
            return self.b.op("fill", &[("shape", &shape), ("value", x)], x.dtype, dims);
        }
        self.expand(x, dims)
    }

    fn binary(&mut self, op: BinaryOp, a: &Var, b: &Var) -> Emit {
        use BinaryOp::*;
        if a.dtype == DType::Bool {
            let ty = match op {
                Add | BitwiseOr | Maximum => "logical_or",
                Mul | BitwiseAnd | Minimum => "logical_and",
                BitwiseXor => "logical_xor",
                _ => return Err(super::no_emitter(op.name())),
            };
            return Ok(self.bin(ty, a, b));
        }
        let ty = match op {
            Add => "add",
            Sub => "sub",
            Mul => "mul",
            Maximum => "maximum",
            Minimum => "minimum",
            FloorDiv => "floor_div",
            Remainder => "mod",
            Div => "real_div",
            Pow => "pow",
            Atan2 | LogAddExp | BitwiseAnd | BitwiseOr | BitwiseXor | ShiftLeft | ShiftRight => {
                return Err(super::no_emitter(op.name()));
            }
        };
        let range = a.range.zip(b.range).and_then(|(a, b)| range::binary(op, a, b));
        Ok(self.bin(ty, a, b).with_range(range))
    }

    fn compare(&mut self, op: CompareOp, a: &Var, b: &Var) -> Var {
        let ty = match op {
            CompareOp::Eq => "equal",
            CompareOp::Ne => "not_equal",
            CompareOp::Lt => "less",
            CompareOp::Le => "less_equal",
            CompareOp::Gt => "greater",
            CompareOp::Ge => "greater_equal",
        };
        if a.dtype == DType::Bool {
            let (a, b) = (self.convert(a, DType::I32, "int32"), self.convert(b, DType::I32, "int32"));
            return self.truth(ty, &a, &b);
        }
        self.truth(ty, a, b)
    }

    /// NaN stays NaN, and the upper bound wins.
    fn clamp(&mut self, clamp: &Clamp, x: &Var) -> Emit {
        let mut var = x.clone();
        for (ty, bound) in [("maximum", clamp.min), ("minimum", clamp.max)] {
            let Some(bound) = bound else { continue };
            let (bound, value) = self.scalar(bound, x.dtype)?;
            let op = if ty == "maximum" { BinaryOp::Maximum } else { BinaryOp::Minimum };
            let range = var.range.zip(value).and_then(|(a, b)| range::binary(op, a, b));
            var = self.bin(ty, &var, &bound).with_range(range);
        }
        Ok(var)
    }

    pub(super) fn cast(&mut self, x: &Var, to: DType) -> Emit {
        Ok(match (x.dtype, to) {
            (from, to) if from == to && !from.is_float() => x.clone(),
            (DType::I32, DType::I64) => {
                let mut var = x.clone();
                var.dtype = DType::I64;
                var.with_range(Some((i64::from(i32::MIN), i64::from(i32::MAX))))
            }
            (DType::I64, DType::I32) => Var { dtype: DType::I32, range: None, ..x.clone() },
            (DType::F16 | DType::F32, DType::Bool) => {
                let zero = self.b.float(0.0, x);
                self.truth("not_equal", x, &zero)
            }
            (_, DType::Bool) => {
                let zero = self.int(0);
                self.truth("not_equal", x, &zero)
            }
            (_, to) if super::is_float(to) => {
                let to = self.program_dtype(to);
                self.float_as(x, to)
            }
            (DType::Bool, DType::I32 | DType::I64) => self.convert(x, to, "int32").with_range(Some((0, 1))),
            (_, DType::I32 | DType::I64) => self.convert(x, to, "int32"),
            (_, other) => return Err(super::unsupported(other).into()),
        })
    }

    /// A float in another of a program's dtypes of floats.
    pub(super) fn float_as(&mut self, x: &Var, to: DType) -> Var {
        if x.dtype == to { x.clone() } else { self.convert_to_float(x, to) }
    }

    /// A float in `f32`: sums, norms and softmaxes are computed in it.
    pub(super) fn as_f32(&mut self, x: &Var) -> Var {
        self.float_as(x, DType::F32)
    }

    fn convert_to_float(&mut self, x: &Var, to: DType) -> Var {
        let name = if to == DType::F16 { "fp16" } else { "fp32" };
        self.convert(x, to, name)
    }

    /// A cast in MIL.
    pub(super) fn convert(&mut self, x: &Var, to: DType, name: &'static str) -> Var {
        let dtype = self.b.str(name);
        self.b.op("cast", &[("x", x), ("dtype", &dtype)], to, &x.dims)
    }
}

/// The shape to which two shapes broadcast, which do.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |dims: &[usize], i: usize| {
        let missing = rank - dims.len();
        if i < missing { 1 } else { dims[i - missing] }
    };
    (0..rank).map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) }).collect()
}
