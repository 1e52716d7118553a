//! Functions of each element, or of corresponding ones. A function is one line of WGSL in one of the tables beside this
//! file; everything around it (dtypes, broadcasting, packing) is here.

mod binary;
mod cast;
mod gate;
mod unary;

use super::strided::{self, Grid};
use crate::Hardware;
use crate::plan::{Operand, Plan, Request, StepBuilder, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word, value_type};
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
    /// `activation(a) · b`.
    Gate(GateOp),
    /// `a` in the output's dtype.
    Cast,
}

/// A function as text.
pub(super) struct Formula {
    /// An expression of the output's value type over `a`, `b`, `c`.
    pub(super) expression: String,
    /// Functions that it calls.
    pub(super) library: String,
}

impl Formula {
    fn of(expression: impl Into<String>) -> Formula {
        Formula { expression: expression.into(), library: String::new() }
    }
}

fn function(op: &Op) -> Result<Function, Decline> {
    Ok(match op {
        Op::Unary(op) => Function::Unary(*op),
        Op::Binary(op) => Function::Binary(*op),
        Op::Compare(op) => Function::Compare(*op),
        Op::Where => Function::Where,
        Op::Gate(op) => Function::Gate(*op),
        Op::Cast(_) => Function::Cast,
        op => return Err(Decline::Op(op.name())),
    })
}

/// The formula of a function for inputs of these dtypes.
pub(super) fn formula(
    function: Function,
    inputs: &[DType],
    output: DType,
    hardware: &Hardware,
) -> Result<Formula, Decline> {
    let dtype = inputs[0];
    match function {
        Function::Unary(op) => unary::formula(op, dtype, hardware),
        Function::Binary(op) => binary::formula(op, dtype, hardware),
        Function::Compare(op) => binary::comparison(op, dtype, hardware),
        Function::Where => Ok(Formula::of("select(c, b, a)")),
        Function::Gate(op) => gate::formula(op, dtype, hardware),
        Function::Cast => cast::formula(dtype, output),
    }
}

/// Whether there is a kernel for an operation.
pub fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let inputs: SmallVec<[DType; 3]> = args.iter().map(|x| x.dtype).collect();
    let output = match op {
        Op::Cast(to) => *to,
        _ => inputs[0],
    };
    formula(function(op)?, &inputs, output, hardware)?;
    Ok(())
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
        function: function(request.op)?,
        inputs: request.args.iter().map(|x| x.dtype).collect(),
        output: out.dtype,
        rank: (!linear).then_some(grid.rank()),
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let mut offsets: SmallVec<[u32; 4]> = SmallVec::new();
    for (i, layout) in layouts.iter().enumerate() {
        offsets.push(step.read(&Operand { layout, ..request.arg(i) })?);
    }
    offsets.push(step.write(&out)?);
    step.number(elements)?;
    for offset in offsets {
        step.word(offset);
    }
    if !linear {
        grid.describe(&mut step)?;
    }
    let threads = elements.div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Pointwise {
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
        let n = module.word();
        let offsets = module.take(inputs.len());
        let to = module.word();
        let grid = self.rank.map(|rank| strided::parameters(&mut module, rank, inputs.len()));
        // `supports` has found the formula before a kernel of it is made.
        let formula =
            formula(self.function, &self.inputs, self.output, hardware).unwrap_or_else(|_| Formula::of("a"));
        module.add(&formula.library);
        let signature: Vec<String> = inputs
            .iter()
            .zip(["a", "b", "c"])
            .map(|(x, name)| format!("{name}: {}", value_type(x.dtype(), hardware.i64)))
            .collect();
        let (signature, value) = (signature.join(", "), output.value());
        module.add(&format!("fn f({signature}) -> {value} {{ return {}; }}", formula.expression));

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
            let loads: Vec<String> = inputs.iter().zip(&positions).map(|(x, at)| x.load(at)).collect();
            let _ = writeln!(body, "let v{k} = f({});", loads.join(", "));
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
