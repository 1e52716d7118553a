//! The gates of LSTM and GRU, and their gradients: a thread per element of the state, which has its own value of every gate.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library;
use crate::library::strided::{Grid, MAX_RANK};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::splitting::{SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{
    DType, Decline, Layout, Op, OpKind, OpType, RnnGates as Forward, RnnGatesBackward as Backward, TensorMeta,
};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RnnGates {
    dtype: DType,
    cell: Forward,
    /// Whether it makes the gradients.
    backward: bool,
    /// How many arguments it has.
    args: usize,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize, tensors: usize) {
        n: usize,
        /// Of arguments, then of results: the first element, and the distance from a gate to the next.
        starts: Vec<u32> = vec![(); tensors],
        gates: Vec<usize> = vec![(); tensors],
        grid: Grid = (rank, tensors),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(
    OpType::Activation,
    &[
        OpKind::RnnGates(Forward::Lstm),
        OpKind::RnnGates(Forward::Gru),
        OpKind::RnnGatesBackward(Backward::Lstm),
        OpKind::RnnGatesBackward(Backward::Gru),
    ],
    sets::SMOOTH,
)
.check(check)];

/// Several arguments may have more dimensions together than each.
fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let (cell, _) = cell(op)?;
    let gates: Vec<Gates> =
        args.iter().map(|x| Gates::new(x.layout, args[cell.gate_args()].layout)).collect::<Result<_, _>>()?;
    match grid(&gates).ndim() {
        rank if rank > MAX_RANK => Err(Decline::Rank { ndim: rank, limit: MAX_RANK }),
        _ => Ok(()),
    }
}

/// Of which cell an operation is, and whether it makes the gradients.
fn cell(op: &Op) -> Result<(Forward, bool), Decline> {
    match op {
        Op::RnnGates(op) => Ok((*op, false)),
        Op::RnnGatesBackward(op) => Ok((op.forward(), true)),
        _ => Err(Decline::Op(op.name())),
    }
}

/// An operand: its first gate, or all of it, and the distance to the next one.
struct Gates {
    first: Layout,
    next: usize,
}

impl Gates {
    fn new(x: &Layout, state: &Layout) -> Result<Gates, Decline> {
        let last = state.ndim() - 1;
        let width = state.dims()[last];
        let first = x.slice(last, 0, width, 1).map_err(|_| Decline::Attr("too large"))?;
        Ok(Gates { first, next: width * x.strides()[last] })
    }
}

fn grid(gates: &[Gates]) -> Grid {
    Grid::new(&gates.iter().map(|x| &x.first).collect::<Vec<_>>())
}

impl Kernels for Forward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(self::split(request)))
    }
}

impl Kernels for Backward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(self::split(request)))
    }
}

/// Rows are parted.
fn split(request: &Request<'_>) -> SplitPlan {
    let last = request.outs[0].dims().len() - 1;
    axes::beside(request, |d| (d < last).then(|| request.args.iter().map(|_| one(d)).collect()))
}

fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (cell, backward) = cell(request.op)?;
    let operands: Vec<_> = (0..request.args.len())
        .map(|i| request.arg(i))
        .chain((0..request.outs.len()).map(|i| request.out(i)))
        .collect();
    let state = operands[cell.gate_args()].layout;
    let gates: Vec<Gates> = operands.iter().map(|x| Gates::new(x.layout, state)).collect::<Result<_, _>>()?;
    let grid = grid(&gates);
    let args = request.args.len();
    let kernel = RnnGates { dtype: operands[0].dtype, cell, backward, args, rank: grid.ndim() };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let starts = operands.iter().enumerate();
    let starts = starts.map(|(i, x)| if i < args { step.read(x) } else { step.write(x) });
    let starts = starts.collect::<Result<_, _>>()?;
    let n = state.numel();
    step.parameters(&Params { n, starts, gates: gates.iter().map(|x| x.next).collect(), grid })?;
    plan.step(step, line(n.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl RnnGates {
    /// The names of the values of the arguments, a list for each, and the statements that compute from them those of the results.
    fn values(&self) -> (Vec<Vec<&'static str>>, String, Vec<Vec<&'static str>>) {
        let (sigmoid, tanh, one) = match self.dtype {
            DType::F64 => ("sigmoid_double", "tanh_double", "1.0lf"),
            _ => ("sigmoid", "tanh_of", "1.0"),
        };
        let slope = |y: &str| format!("{y} * ({one} - {y})");
        let tanh_slope = |y: &str| format!("({one} - {y} * {y})");
        let mut args = match self.cell {
            Forward::Lstm => vec![vec!["xi", "xf", "xg", "xo"], vec!["c"]],
            Forward::Gru => vec![vec!["xr", "xz", "xn"], vec!["hr", "hz", "hn"], vec!["h"]],
        };
        let mut text = match self.cell {
            Forward::Lstm => format!(
                "let i = {sigmoid}(xi); let f = {sigmoid}(xf); let g = {tanh}(xg); let o = {sigmoid}(xo);
                let next = f * c + i * g;
                let t = {tanh}(next);\n"
            ),
            Forward::Gru => format!(
                "let r = {sigmoid}(xr + hr); let z = {sigmoid}(xz + hz);
                let n = {tanh}(xn + r * hn);\n"
            ),
        };
        let results = match (self.cell, self.backward) {
            (Forward::Lstm, false) => {
                text.push_str("let hidden = o * t;\n");
                vec![vec!["hidden"], vec!["next"]]
            }
            (Forward::Gru, false) => {
                text.push_str("let hidden = n + z * (h - n);\n");
                vec![vec!["hidden"]]
            }
            (Forward::Lstm, true) => {
                args.push(vec!["grad"]);
                let mut beside = "";
                if self.args == 4 {
                    args.push(vec!["of_next"]);
                    beside = "of_next + ";
                }
                let _ = writeln!(
                    text,
                    "let d = {beside}grad * o * {};
                    let of_i = d * g * {}; let of_f = d * c * {}; let of_g = d * i * {};
                    let of_o = grad * t * {};
                    let of_c = d * f;",
                    tanh_slope("t"),
                    slope("i"),
                    slope("f"),
                    tanh_slope("g"),
                    slope("o"),
                );
                vec![vec!["of_i", "of_f", "of_g", "of_o"], vec!["of_c"]]
            }
            (Forward::Gru, true) => {
                args.push(vec!["grad"]);
                let _ = writeln!(
                    text,
                    "let of_z = grad * (h - n) * {};
                    let of_n = grad * ({one} - z) * {};
                    let of_r = of_n * hn * {};
                    let of_hn = of_n * r;
                    let of_h = grad * z;",
                    slope("z"),
                    tanh_slope("n"),
                    slope("r"),
                );
                vec![vec!["of_r", "of_z", "of_n"], vec!["of_r", "of_z", "of_hn"], vec!["of_h"]]
            }
        };
        (args, text, results)
    }

    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let (args, text, results) = self.values();
        let mut module = Module::new();
        let buffers =
            |count: usize, name: &str, declare: &mut dyn FnMut(&str) -> Elements| -> Vec<Elements> {
                (0..count).map(|i| declare(&format!("{name}{i}"))).collect()
            };
        let read = buffers(args.len(), "arg", &mut |name| module.elements(name, self.dtype, false, hardware));
        let written = buffers(results.len(), "out", &mut |name| module.places(name, self.dtype, hardware));
        let tensors = args.len() + results.len();
        let Params { n: count, starts, gates, grid } = module.parameters::<Params>((self.rank, tensors));
        let mut body = format!(
            "let element = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if element >= {count} {{ return; }}\n"
        );
        let at: Vec<String> = (0..tensors).map(|x| format!("at{x}")).collect();
        for (at, start) in at.iter().zip(&starts) {
            let _ = writeln!(body, "var {at} = {start};");
        }
        body.push_str(&grid.positions("element", &at.iter().map(String::as_str).collect::<Vec<_>>()));
        let place = |x: usize, gate: usize| format!("{} + {gate}u * {}", at[x], gates[x]);
        for (x, (names, elements)) in args.iter().zip(&read).enumerate() {
            for (gate, name) in names.iter().enumerate() {
                let _ = writeln!(body, "let {name} = {};", elements.load(&place(x, gate)));
            }
        }
        module.add(&library::called(&text, hardware));
        body.push_str(&text);
        for (x, (names, elements)) in results.iter().zip(&written).enumerate() {
            for (gate, name) in names.iter().enumerate() {
                body.push_str(&elements.store_one(&place(args.len() + x, gate), name));
            }
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
