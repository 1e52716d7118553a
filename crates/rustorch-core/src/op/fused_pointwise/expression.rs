//! Printing fused ops as expressions.

use super::{FusedPointwise, FusedStep, FusedValue};
use crate::{BinaryOp, Cast, Clamp, CompareOp, Op, Scalar, UnaryOp};
use std::fmt;

/// The expression, over inputs `x0`, `x1`, … Results that are used several times have names.
impl fmt::Display for FusedPointwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&of(self, true))
    }
}

/// The expression of a fused op, with its constants, or with their dtypes.
pub(super) fn of(fused: &FusedPointwise, numbers: bool) -> String {
    let mut uses = vec![0; fused.steps().len()];
    for arg in fused.steps().iter().flat_map(FusedStep::args) {
        if let FusedValue::Step(i) = arg {
            uses[*i] += 1;
        }
    }
    let mut named = String::new();
    let mut texts: Vec<Text> = Vec::with_capacity(fused.steps().len());
    for (i, step) in fused.steps().iter().enumerate() {
        let text = text(fused, step, &texts, numbers);
        texts.push(match uses[i] {
            0 | 1 => text,
            _ => {
                named += &format!("t{i} = {}; ", text.text);
                Text { text: format!("t{i}"), strength: ATOM }
            }
        });
    }
    // There is a last step.
    named + texts.last().map_or("", |text| &text.text)
}

/// A piece of an expression, and how strongly its parts hold together.
struct Text {
    text: String,
    strength: u8,
}

const COMPARISON: u8 = 1;
const SUM: u8 = 2;
const PRODUCT: u8 = 3;
const ATOM: u8 = 4;

fn text(fused: &FusedPointwise, step: &FusedStep, steps: &[Text], numbers: bool) -> Text {
    let constant = |i: usize| match (fused.constants()[i], numbers) {
        (constant, true) => constant.value.to_string(),
        (constant, false) => constant.dtype.to_string(),
    };
    let arg = |i: usize, least: u8| match step.args[i] {
        FusedValue::Input(i) => format!("x{i}"),
        FusedValue::Constant(i) => constant(i),
        FusedValue::Step(i) if steps[i].strength < least => format!("({})", steps[i].text),
        FusedValue::Step(i) => steps[i].text.clone(),
    };
    let infix = |symbol: &str, strength: u8| Text {
        text: format!("{} {symbol} {}", arg(0, strength), arg(1, strength + 1)),
        strength,
    };
    let call = |name: &str, more: &[String]| {
        let args: Vec<String> = (0..step.args.len()).map(|i| arg(i, 0)).chain(more.iter().cloned()).collect();
        Text { text: format!("{name}({})", args.join(", ")), strength: ATOM }
    };
    match &step.op {
        Op::Unary(UnaryOp::Neg) => Text { text: format!("-{}", arg(0, ATOM)), strength: PRODUCT },
        Op::Binary(BinaryOp::Add) => infix("+", SUM),
        Op::Binary(BinaryOp::Sub) => infix("-", SUM),
        Op::Binary(BinaryOp::Mul) => infix("*", PRODUCT),
        Op::Binary(BinaryOp::Div) => infix("/", PRODUCT),
        Op::Compare(op) => {
            let symbol = match op {
                CompareOp::Eq => "==",
                CompareOp::Ne => "!=",
                CompareOp::Lt => "<",
                CompareOp::Le => "<=",
                CompareOp::Gt => ">",
                CompareOp::Ge => ">=",
            };
            Text { text: format!("{} {symbol} {}", arg(0, SUM), arg(1, SUM)), strength: COMPARISON }
        }
        Op::Cast(Cast { to }) => Text { text: format!("{to}({})", arg(0, 0)), strength: ATOM },
        Op::Clamp(Clamp { min, max }) => {
            let bound = |name: &str, bound: &Option<Scalar>| {
                bound.map(|x| if numbers { format!("{name}={x}") } else { name.to_owned() })
            };
            let bounds: Vec<String> = bound("min", min).into_iter().chain(bound("max", max)).collect();
            call("clamp", &bounds)
        }
        op => call(op.name(), &[]),
    }
}
