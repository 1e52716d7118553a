//! Recurrences: the gated delta rule, the scan of state space models, the recurrence of RWKV 7. A thread goes through all positions with a
//! column of a head's state (of a state space model: with a row), which no other one needs.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library;
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Operand, Request, line};
use crate::table::{DTypes, Row, row};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{
    DType, Decline, GatedDeltaRule, HeadBroadcast, Op, OpKind, OpType, RwkvWkv7, SsmScan, TensorMeta,
};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recurrence {
    rule: Rule,
    /// Elements of the state that a thread has.
    len: usize,
}

/// What happens at each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    /// Whether each row has a decay of its own, and how heads of values find theirs of keys.
    Delta {
        by_row: bool,
        broadcast: HeadBroadcast,
    },
    /// Whether each column has a decay of its own.
    Ssm {
        by_column: bool,
    },
    Wkv7,
}

impl Rule {
    fn of(op: &Op, args: &[usize]) -> Result<Rule, Decline> {
        match op {
            Op::GatedDeltaRule(op) => Ok(Rule::Delta { by_row: args[3] == 4, broadcast: op.broadcast }),
            Op::SsmScan(_) => Ok(Rule::Ssm { by_column: args[2] == 2 }),
            Op::RwkvWkv7(_) => Ok(Rule::Wkv7),
            _ => Err(Decline::Op(op.name())),
        }
    }

    /// The names of the arguments but the state.
    fn names(self) -> &'static [&'static str] {
        match self {
            Rule::Delta { .. } => &["q", "k", "v", "g", "beta"],
            Rule::Ssm { .. } => &["x", "dt", "a", "b", "c"],
            Rule::Wkv7 => &["r", "w", "k", "v", "a", "b"],
        }
    }

    /// Which dimension of the state, `[batch, heads, .., ..]`, a thread has all elements of, and which one threads share.
    fn dimensions(self) -> [usize; 2] {
        match self {
            Rule::Ssm { .. } => [3, 2],
            _ => [2, 3],
        }
    }
}

parameters! {
    /// Kernel parameters.
    struct Params(tensors: usize) {
        /// Threads.
        count: usize,
        /// Columns of a state, or rows.
        columns: usize,
        heads: usize,
        /// Heads of keys, or groups.
        groups: usize,
        seq: usize,
        scale: f32,
        /// Of the arguments, the result and the next state.
        starts: Vec<u32> = vec![(); tensors],
        /// By sequence, position, head and element, 0 where an operand has no such dimension; of states by sequence, head, element of a thread
        /// and thread.
        strides: Vec<[usize; 4]> = vec![(); tensors],
    }
}

/// Elements of a thread's part of a state beyond which it is in no register.
const MOST: usize = 256;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(
    OpType::Attention,
    &[OpKind::GatedDeltaRule, OpKind::SsmScan, OpKind::RwkvWkv7],
    DTypes::always(&[DType::F32]),
)
.check(check)
.remark("states of up to 256 elements a column")];

fn check(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let ranks: Vec<usize> = args.iter().map(|x| x.layout.ndim()).collect();
    let [own, _] = Rule::of(op, &ranks)?.dimensions();
    if args.last().is_none_or(|state| state.layout.dims()[own] > MOST) {
        return Err(Decline::Attr("a state of more than 256 elements a column"));
    }
    // With both results.
    if args.len() + 2 > hardware.buffers as usize {
        return Err(Decline::Attr("more operands than a kernel can bind"));
    }
    Ok(())
}

impl Kernels for GatedDeltaRule {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, request.args[0].layout.dims()[2])
    }
}

impl Kernels for SsmScan {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, request.args[3].layout.dims()[2])
    }
}

impl Kernels for RwkvWkv7 {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, request.args[0].layout.dims()[2])
    }
}

/// The strides of an operand that has a sequence, or of one value for each head.
fn by_position(x: &Operand<'_>) -> [usize; 4] {
    let strides = x.layout.strides();
    match *strides {
        [head] => [0, 0, head, 0],
        [head, element] => [0, 0, head, element],
        _ => std::array::from_fn(|i| strides.get(i).copied().unwrap_or(0)),
    }
}

fn plan(plan: &mut Plan, request: &Request<'_>, groups: usize) -> Result<(), Decline> {
    let args: Vec<Operand<'_>> = (0..request.args.len()).map(|i| request.arg(i)).collect();
    let (out, next) = (request.out(0), request.out(1));
    let ranks: Vec<usize> = args.iter().map(|x| x.layout.ndim()).collect();
    let rule = Rule::of(request.op, &ranks)?;
    let [own, shared] = rule.dimensions();
    let of_state = |x: &Operand<'_>| {
        let strides = x.layout.strides();
        [strides[0], strides[1], strides[own], strides[shared]]
    };
    let [operands @ .., state] = &args[..] else { return Err(Decline::Op(request.op.name())) };
    let mut strides: Vec<[usize; 4]> = operands.iter().map(by_position).collect();
    strides.extend([of_state(state), by_position(&out), of_state(&next)]);
    let dims = state.layout.dims();
    let mut step = StepBuilder::new(request.hardware, Recurrence { rule, len: dims[own] });
    let mut starts = args.iter().map(|x| step.read(x)).collect::<Result<Vec<u32>, _>>()?;
    starts.extend([step.write(&out)?, step.write(&next)?]);
    let count = dims[0] * dims[1] * dims[shared];
    step.parameters(&Params {
        count,
        columns: dims[shared],
        heads: dims[1],
        groups,
        seq: out.layout.dims()[1],
        scale: 1.0 / (dims[own] as f32).sqrt(),
        starts,
        strides,
    })?;
    plan.step(step, line(count.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Recurrence {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Recurrence { rule, len } = *self;
        let mut module = Module::new();
        let mut buffer = |name: &str, writes| module.elements(name, DType::F32, writes, hardware);
        let read: Vec<Elements> = rule.names().iter().map(|name| buffer(name, false)).collect();
        let (state, out, next) = (buffer("state", false), buffer("result", true), buffer("next", true));
        let p = module.parameters::<Params>(read.len() + 3);
        let value = |name: &str, head: &str, element: &str| {
            let i = rule.names().iter().position(|own| *own == name).unwrap_or_default();
            read[i].load(&place(&p, i, ["sequence", "t", head, element]))
        };
        let [of_state, of_out, of_next] = [0, 1, 2].map(|i| read.len() + i);
        let at_state = |i| place(&p, i, ["sequence", "head", "i", "column"]);
        let text = self.position(&value, &p);
        module.add(&library::called(&text, hardware));
        let each = format!("for (var i = 0u; i < {len}u; i++)");
        let body = format!(
            "let unit = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if unit >= {count} {{ return; }}
            let column = unit % {columns};
            let head = unit / {columns} % {heads};
            let sequence = unit / {columns} / {heads};
            {source_head}
            var s: array<f32, {size}>;
            {each} {{ s[i] = {loaded}; }}
            for (var t = 0u; t < {seq}; t++) {{
                var total = 0.0;
                {text}
                {result}
            }}
            {each} {{ {stored} }}",
            count = p.count,
            columns = p.columns,
            heads = p.heads,
            seq = p.seq,
            size = len.max(1),
            source_head = match rule {
                Rule::Delta { broadcast: HeadBroadcast::Tiled, .. } =>
                    format!("let source_head = head % {};", p.groups),
                _ => format!("let source_head = head / ({} / {});", p.heads, p.groups),
            },
            loaded = state.load(&at_state(of_state)),
            result =
                out.store(&place(&p, of_out, ["sequence", "t", "head", "column"]), &["total".to_owned()]),
            stored = next.store(&at_state(of_next), &["s[i]".to_owned()]),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }

    /// The statements of a position, which leave the result in `total`.
    fn position(&self, value: &dyn Fn(&str, &str, &str) -> String, p: &Params<Names>) -> String {
        let each = format!("for (var i = 0u; i < {}u; i++)", self.len);
        match self.rule {
            Rule::Delta { by_row, .. } => {
                let decay = format!("exp_of({})", value("g", "head", if by_row { "i" } else { "0u" }));
                let (once, decay) = match by_row {
                    true => (String::new(), decay),
                    false => (format!("let decay = {decay};"), "decay".to_owned()),
                };
                format!(
                    "{once}
                    var known = 0.0;
                    {each} {{ s[i] *= {decay}; known += {k} * s[i]; }}
                    let change = {beta} * ({v} - known);
                    {each} {{ s[i] += {k} * change; total += {q} * s[i]; }}
                    total *= {scale};",
                    k = value("k", "source_head", "i"),
                    q = value("q", "source_head", "i"),
                    v = value("v", "head", "column"),
                    beta = value("beta", "head", "0u"),
                    scale = p.scale,
                )
            }
            Rule::Ssm { by_column } => {
                let decay =
                    format!("exp_of(step * {})", value("a", "head", if by_column { "i" } else { "0u" }));
                let (once, decay) = match by_column {
                    true => (String::new(), decay),
                    false => (format!("let decay = {decay};"), "decay".to_owned()),
                };
                format!(
                    "let step = {dt};
                    let input = step * {x};
                    {once}
                    {each} {{ s[i] = s[i] * {decay} + input * {b}; total += s[i] * {c}; }}",
                    dt = value("dt", "head", "0u"),
                    x = value("x", "head", "column"),
                    b = value("b", "source_head", "i"),
                    c = value("c", "source_head", "i"),
                )
            }
            Rule::Wkv7 => format!(
                "var known = 0.0;
                {each} {{ known += {a} * s[i]; }}
                let input = {v};
                {each} {{
                    s[i] = {w} * s[i] + {k} * input + {b} * known;
                    total += {r} * s[i];
                }}",
                a = value("a", "head", "i"),
                v = value("v", "head", "column"),
                w = value("w", "head", "i"),
                k = value("k", "head", "i"),
                b = value("b", "head", "i"),
                r = value("r", "head", "i"),
            ),
        }
    }
}

/// The place of an element of a tensor.
fn place(p: &Params<Names>, tensor: usize, index: [&str; 4]) -> String {
    let terms = index.iter().zip(&p.strides[tensor]).map(|(i, stride)| format!(" + {i} * {stride}"));
    terms.fold(p.starts[tensor].to_string(), |all, term| all + &term)
}
