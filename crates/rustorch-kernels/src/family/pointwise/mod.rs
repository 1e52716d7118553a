//! Functions of each element, or of corresponding ones. A function is one line of WGSL in one of the tables beside this
//! file; everything around it (dtypes, broadcasting, packing) is here.

mod binary;
mod cast;
mod chain;
mod clamp;
mod frame;
mod gate;

mod rows;
#[cfg(test)]
mod tests;
mod unary;

pub use chain::{Chain, plan as plan_chain};
pub use rows::ROWS;

use crate::family::kind::Kind;
use crate::plan::{Plan, Request};
use crate::wgsl::{Wgsl, value_type};
use crate::{Hardware, library};
use frame::Frame;
use rustorch_core::{BinaryOp, CompareOp, DType, Decline, GateOp, Op, TensorMeta, UnaryOp};
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
    Gate(GateOp),
    /// `a` in the output's dtype.
    Cast,
}

impl Function {
    fn of(op: &Op) -> Result<Function, Decline> {
        Ok(match op {
            Op::Unary(op) => Function::Unary(*op),
            Op::Binary(op) => Function::Binary(*op),
            Op::Compare(op) => Function::Compare(*op),
            Op::Where => Function::Where,
            Op::Clamp { .. } => Function::Clamp,
            Op::Gate(op) => Function::Gate(*op),
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
            Function::Gate(op) => gate::expression(op, kind, doubles).map(str::to_owned),
            Function::Cast => cast::expression(kind, Kind::of(output, hardware), hardware.i64, "a"),
        }
    }
}

impl Function {
    /// Whether integers may be divided by zero.
    fn notes_mistakes(self, dtype: DType) -> bool {
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
        Op::Cast(to) => *to,
        _ => inputs[0],
    };
    crate::wgsl::holds(output, hardware)?;
    Function::of(op)?.expression(&inputs, output, hardware).map(|_| ()).ok_or(Decline::DType(output))
}

/// Whether an operation is a function of each element, or of corresponding ones, alone.
pub(super) fn is_function(op: &Op) -> bool {
    Function::of(op).is_ok()
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let function = Function::of(request.op)?;
    let mistakes = function.notes_mistakes(request.args[0].dtype);
    frame::plan(
        plan,
        request,
        |frame| Pointwise { function, frame }.into(),
        mistakes,
        |step| {
            if let Op::Clamp { min, max } = request.op {
                clamp::bounds(step, [*min, *max], request.outs[0].dtype);
            }
        },
    )
}

impl Pointwise {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Pointwise { function, frame } = self;
        frame.wgsl(hardware, function.notes_mistakes(frame.inputs[0]), |module| {
            let bounds = match function {
                Function::Clamp => clamp::parameters(module, Kind::of(frame.inputs[0], hardware)),
                _ => Vec::new(),
            };
            let text = function.text("f", &frame.inputs, frame.output, hardware, str::to_owned);
            module.add(&library::called(&format!("{text} {}", bounds.join(" ")), hardware));
            module.add(&text);
            bounds
        })
    }
}
