//! Functions of each element, or of corresponding ones. A function is one line of WGSL in one of the tables beside this
//! file; everything around it (dtypes, broadcasting, packing) is here.

mod binary;
mod cast;
mod clamp;
mod gate;

mod rows;
#[cfg(test)]
mod tests;
mod unary;

pub use rows::ROWS;

use super::strided::{self, Grid};
use crate::family::kind::Kind;
use crate::plan::{Operand, Place, Plan, Request, StepBuilder, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word, value_type};
use crate::{Hardware, library, mistake};
use rustorch_core::{BinaryOp, CompareOp, DType, Decline, GateOp, Layout, Op, TensorMeta, UnaryOp};
use smallvec::SmallVec;
use std::fmt::Write;

/// A pointwise kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointwise {
    function: Function,
    inputs: SmallVec<[DType; 3]>,
    output: DType,
    /// Dimensions; `None` where every tensor is one run.
    rank: Option<usize>,
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
        match self {
            Function::Unary(op) => unary::expression(op, kind).map(str::to_owned),
            Function::Binary(op) => binary::expression(op, kind),
            Function::Compare(op) => binary::comparison(op, kind).map(str::to_owned),
            Function::Where => Some("select(c, b, a)".into()),
            Function::Clamp => clamp::expression(kind).map(str::to_owned),
            Function::Gate(op) => gate::expression(op, kind).map(str::to_owned),
            Function::Cast => cast::expression(kind, Kind::of(output, hardware), hardware.i64, "a"),
        }
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

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let out = request.out(0);
    let elements = out.layout.elements();
    let layouts: SmallVec<[Layout; 3]> = request
        .args
        .iter()
        .map(|x| x.layout.broadcast_to(out.layout.shape(), request.op.name()))
        .collect::<Result<_, _>>()
        .map_err(|_| Decline::Layout("operands do not broadcast"))?;
    let grid = Grid::new(&layouts.iter().collect::<SmallVec<[&Layout; 3]>>());
    let linear = grid.is_linear() || elements == 1;
    let kernel = Pointwise {
        function: Function::of(request.op)?,
        inputs: request.args.iter().map(|x| x.dtype).collect(),
        output: out.dtype,
        rank: (!linear).then_some(grid.rank()),
    };
    let notes = kernel.notes_mistakes();
    let mut step = StepBuilder::new(request.hardware, kernel);
    let mut offsets: SmallVec<[u32; 4]> = SmallVec::new();
    for (i, layout) in layouts.iter().enumerate() {
        offsets.push(step.read(&Operand { layout, ..request.arg(i) })?);
    }
    offsets.push(step.write(&out)?);
    if notes {
        step.bytes(Place::Mistakes, 0..4 * mistake::WORDS as u64, true)?;
    }
    step.number(elements)?;
    for offset in offsets {
        step.word(offset);
    }
    if let Op::Clamp { min, max } = request.op {
        clamp::bounds(&mut step, [*min, *max], out.dtype);
    }
    if !linear {
        grid.describe(&mut step)?;
    }
    let threads = elements.div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Pointwise {
    /// Whether integers may be divided by zero.
    fn notes_mistakes(&self) -> bool {
        matches!(self.function, Function::Binary(BinaryOp::FloorDiv | BinaryOp::Remainder))
            && !self.inputs[0].is_float()
    }

    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        let names = ["x0", "x1", "x2"];
        let inputs: Vec<_> = self
            .inputs
            .iter()
            .zip(names)
            .map(|(&dtype, name)| module.elements(name, dtype, false, hardware))
            .collect();
        let output = module.elements("y", self.output, true, hardware);
        if self.notes_mistakes() {
            module.mistakes();
        }
        let n = module.word();
        let offsets = module.take(inputs.len());
        let to = module.word();
        let kind = Kind::of(self.inputs[0], hardware);
        let bounds = match self.function {
            Function::Clamp => clamp::parameters(&mut module, kind),
            _ => Vec::new(),
        };
        let grid = self.rank.map(|rank| strided::parameters(&mut module, rank, inputs.len()));
        let expression = self
            .function
            .expression(&self.inputs, self.output, hardware)
            .expect("the table promises no function without a line");
        let mut signature: Vec<String> = inputs
            .iter()
            .zip(["a", "b", "c"])
            .map(|(x, name)| format!("{name}: {}", value_type(x.dtype(), hardware.i64)))
            .collect();
        for name in ["low", "high"].iter().take(bounds.len()) {
            signature.push(format!("{name}: {}", output.value()));
        }
        let (signature, value) = (signature.join(", "), output.value());
        module.add(&library::called(&format!("{expression} {}", bounds.join(" ")), hardware));
        module.add(&format!("fn f({signature}) -> {value} {{ return {expression}; }}"));

        let per_word = output.per_word();
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = t * {per_word}u;\nif first >= {n} {{ return; }}\n"
        );
        let mut values = Vec::new();
        for k in 0..per_word {
            let positions: Vec<String> = (0..inputs.len()).map(|i| format!("at{k}_{i}")).collect();
            // The last word may reach beyond the end.
            let _ = writeln!(body, "let i{k} = min(first + {k}u, {n} - 1u);");
            for (position, offset) in positions.iter().zip(&offsets) {
                let start = if grid.is_some() { String::new() } else { format!(" + i{k}") };
                let _ = writeln!(body, "var {position} = {offset}{start};");
            }
            if let Some(grid) = &grid {
                let names: Vec<&str> = positions.iter().map(String::as_str).collect();
                body.push_str(&grid.positions(&format!("i{k}"), &names));
            }
            let loads = inputs.iter().zip(&positions).map(|(x, at)| x.load(at));
            let given: Vec<String> = loads.chain(bounds.iter().cloned()).collect();
            let _ = writeln!(body, "let v{k} = f({});", given.join(", "));
            values.push(format!("v{k}"));
        }
        let word = match per_word {
            1 => format!("{to} + t"),
            _ => format!("{to} / {per_word}u + t"),
        };
        body.push_str(&output.store(&word, &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
