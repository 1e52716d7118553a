//! Pointwise operations. Each function is one WGSL expression in a table of this folder; dtypes, broadcasting and packing are
//! shared.

mod binary;
mod cast;
mod clamp;
mod frame;
mod fused;
mod glu;
mod rows;
mod unary;
mod wide;

pub use fused::FusedPointwise;
pub use rows::ROWS;

use crate::family::{Kernels, Plan};
use crate::library::kind::Kind;
use crate::plan::Request;
use crate::splitting::{SplitPlan, axes};
use crate::wgsl::{Wgsl, value_type};
use crate::{Hardware, library};
use frame::Frame;
use rustorch_core::{
    BinaryOp, Cast, Clamp, CompareOp, DType, Decline, GluOp, Op, TensorMeta, UnaryOp, Where,
};
use smallvec::SmallVec;

/// A pointwise kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointwise {
    function: Function,
    frame: Frame,
}

/// What is computed of the values `a`, `b` and `c` of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// A function of `a`.
    Unary(UnaryOp),
    /// A function of `a` and `b`.
    Binary(BinaryOp),
    /// A comparison of `a` and `b`.
    Compare(CompareOp),
    /// `b` where `a`, else `c`.
    Where,
    /// `a` within two bounds, which are parameters.
    Clamp,
    /// `activation(a) · b`.
    Glu(GluOp),
    /// `a` in the output's dtype.
    Cast,
}

impl Function {
    fn of(op: &Op) -> Result<Function, Decline> {
        Ok(match op {
            Op::Unary(op) => Function::Unary(*op),
            Op::Binary(op) => Function::Binary(*op),
            Op::Compare(op) => Function::Compare(*op),
            Op::Where(Where) => Function::Where,
            Op::Clamp(_) => Function::Clamp,
            Op::Glu(op) => Function::Glu(*op),
            Op::Cast(_) => Function::Cast,
            op => return Err(Decline::Op(op.name())),
        })
    }

    /// An expression of the output's value type over `a`, `b`, `c`, if there is one.
    fn expression(self, inputs: &[DType], output: DType, hardware: &Hardware) -> Option<String> {
        let kind = Kind::of(inputs[0], hardware);
        let doubles = hardware.i64 && hardware.f64;
        match self {
            Function::Unary(op) => unary::expression(op, kind, doubles).map(str::to_owned),
            Function::Binary(op) => binary::expression(op, kind, doubles),
            Function::Compare(op) => binary::comparison(op, kind).map(str::to_owned),
            Function::Where => Some("select(c, b, a)".into()),
            Function::Clamp => clamp::expression(kind).map(str::to_owned),
            Function::Glu(op) => glu::expression(op, kind, doubles).map(str::to_owned),
            Function::Cast => cast::expression(kind, Kind::of(output, hardware), hardware.i64, "a"),
        }
    }
}

impl Function {
    /// Whether it may divide integers by zero, which fails an assert.
    fn may_assert(self, dtype: DType) -> bool {
        matches!(self, Function::Binary(BinaryOp::FloorDiv | BinaryOp::Remainder)) && !dtype.is_float()
    }

    /// The function as one of WGSL, named `name`: of its arguments, then of bounds if it has any. `last` makes of the value,
    /// an expression, what is returned.
    fn text(
        self,
        name: &str,
        inputs: &[DType],
        output: DType,
        hardware: &Hardware,
        last: impl FnOnce(&str) -> String,
    ) -> String {
        let expression =
            self.expression(inputs, output, hardware).expect("the table promises no function without a line");
        let value = |dtype| value_type(dtype, hardware.i64);
        let mut signature: Vec<String> = inputs
            .iter()
            .zip(["a", "b", "c"])
            .map(|(&dtype, name)| format!("{name}: {}", value(dtype)))
            .collect();
        if self == Function::Clamp {
            signature.extend(["low", "high"].map(|name| format!("{name}: {}", value(output))));
        }
        let (signature, output) = (signature.join(", "), value(output));
        format!("fn {name}({signature}) -> {output} {{ return {}; }}\n", last(&expression))
    }
}

/// An activation in another family's kernel: an expression of `a`, an element of `dtype`, over functions of the library.
pub(super) fn activation(op: UnaryOp, dtype: DType, hardware: &Hardware) -> Result<String, Decline> {
    let line = Function::Unary(op).expression(&[dtype], dtype, hardware);
    line.ok_or(Decline::Attr("an activation without a kernel"))
}

/// Whether there is a line for an operation.
fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let inputs: SmallVec<[DType; 3]> = args.iter().map(|x| x.dtype).collect();
    let output = match op {
        Op::Cast(Cast { to }) => *to,
        _ => inputs[0],
    };
    crate::wgsl::holds(output, hardware)?;
    Function::of(op)?.expression(&inputs, output, hardware).map(|_| ()).ok_or(Decline::DType(output))
}

macro_rules! pointwise {
    ($($op:ty),*) => {$(
        impl Kernels for $op {
            fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
                self::plan(plan, request)
            }

            fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
                axes::broadcasting(request).map(Some)
            }
        }
    )*};
}

pointwise!(UnaryOp, BinaryOp, CompareOp, Where, Clamp, GluOp, Cast);

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let function = Function::of(request.op)?;
    let asserts = function.may_assert(request.args[0].dtype);
    frame::plan(
        plan,
        request,
        |frame| Pointwise { function, frame }.into(),
        asserts,
        match request.op {
            Op::Clamp(Clamp { min, max }) => clamp::bounds([*min, *max], request.outs[0].dtype).into(),
            _ => Vec::new(),
        },
    )
}

impl Pointwise {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Pointwise { function, frame } = self;
        let bounds = match function {
            Function::Clamp => vec![Kind::of(frame.inputs[0], hardware); 2],
            _ => Vec::new(),
        };
        frame.wgsl(hardware, function.may_assert(frame.inputs[0]), bounds, |module, bounds| {
            let text = function.text("f", &frame.inputs, frame.output, hardware, str::to_owned);
            module.add(&library::called(&format!("{text} {}", bounds.join(" ")), hardware));
            module.add(&text);
            bounds
        })
    }
}
