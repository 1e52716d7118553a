//! The cross entropy of rows of logits, and its gradient: a workgroup or a thread for each row.

use super::lines::own;
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{Grid, MAX_RANK};
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Place, Request, line};
use crate::splitting::{SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, KernelParam, Module, WORKGROUP, Wgsl};
use rustorch_core::{
    CrossEntropy as Forward, CrossEntropyBackward as Backward, DType, Decline, Layout, Op, OpKind, OpType,
    TensorMeta,
};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossEntropy {
    dtype: DType,
    /// The dtype of classes; of probabilities that of the logits.
    target: DType,
    weighted: bool,
    smoothed: bool,
    /// Whether it makes the gradient.
    backward: bool,
    grouped: bool,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize, tensors: usize) {
        rows: usize,
        len: usize,
        x_start: u32,
        x_stride: usize,
        target_start: u32,
        target_stride: usize,
        weight_start: u32,
        weight_stride: usize,
        grad_start: u32,
        logsumexp_start: u32,
        rest_start: u32,
        loss_start: u32,
        own_start: u32,
        out_start: u32,
        out_stride: usize,
        ignored: [u32; 2],
        /// What becomes of a target `y`: `factor · y + spread`.
        factor: f32,
        spread: f32,
        grid: Grid = (rank, tensors),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Reduction, &[OpKind::CrossEntropy], sets::SINGLE)
        .beside(&[DType::I32, DType::I64])
        .check(check),
    row(OpType::Reduction, &[OpKind::CrossEntropyBackward], sets::SINGLE)
        .subject(1)
        .beside(&[DType::I32, DType::I64])
        .check(check),
];

/// The most elements of a row that one thread takes.
const SHORT: usize = 32;

/// What both operations have.
struct LossOp {
    axis: usize,
    ignore_index: i64,
    label_smoothing: f64,
    backward: bool,
}

impl LossOp {
    fn of(op: &Op) -> Result<LossOp, Decline> {
        match *op {
            Op::CrossEntropy(Forward { axis, ignore_index, label_smoothing }) => {
                Ok(LossOp { axis, ignore_index, label_smoothing, backward: false })
            }
            Op::CrossEntropyBackward(Backward { axis, ignore_index, label_smoothing }) => {
                Ok(LossOp { axis, ignore_index, label_smoothing, backward: true })
            }
            _ => Err(Decline::Op(op.name())),
        }
    }

    /// The rows of the logits, the target, and the gradient's operands; the result lies as the logits would if they were packed.
    fn grid(&self, args: &[TensorMeta<'_>]) -> Result<Grid, Decline> {
        let beside = |layout: &Layout| layout.select(self.axis, 0).map_err(|_| Decline::Attr("too large"));
        let (logits, target) = if self.backward { (&args[1], &args[4]) } else { (&args[0], &args[1]) };
        let mut layouts = vec![beside(logits.layout)?];
        layouts.push(match target.dtype.is_float() {
            true => beside(target.layout)?,
            false => target.layout.clone(),
        });
        if self.backward {
            layouts.extend([0, 2, 3].map(|i| args[i].layout.clone()));
            layouts.push(beside(&Layout::contiguous(logits.layout.shape().clone()))?);
        }
        Ok(Grid::new(&layouts.iter().collect::<Vec<_>>()))
    }
}

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    match LossOp::of(op)?.grid(args)?.ndim() {
        rank if rank > MAX_RANK => Err(Decline::Rank { ndim: rank, limit: MAX_RANK }),
        _ => Ok(()),
    }
}

impl Kernels for Forward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    /// Results have the dimensions of the logits without the axis.
    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let has_classes = !request.args[1].dtype.is_float();
        Ok(Some(axes::beside(request, |d| {
            let of_logits = one(if d < self.axis { d } else { d + 1 });
            let of_target = if has_classes { one(d) } else { of_logits.clone() };
            Some([of_logits, of_target].into_iter().collect())
        })))
    }
}

impl Kernels for Backward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let has_classes = !request.args[4].dtype.is_float();
        Ok(Some(axes::beside(request, |d| {
            let of_row = || one(if d < self.axis { d } else { d - 1 });
            let of_target = || if has_classes { of_row() } else { one(d) };
            let all = || [of_row(), one(d), of_row(), of_row(), of_target()].into_iter().collect();
            (d != self.axis).then(all)
        })))
    }
}

fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let loss = LossOp::of(request.op)?;
    let hardware = request.hardware;
    let first = usize::from(loss.backward);
    let x = request.arg(first);
    let target = request.arg(if loss.backward { 4 } else { 1 });
    let weight_at = if loss.backward { 5 } else { 2 };
    let weight: Option<Operand<'_>> = (request.args.len() > weight_at).then(|| request.arg(weight_at));
    let len = x.layout.dims()[loss.axis];
    let rows = x.layout.numel() / len;
    let grid = loss.grid(request.args)?;
    let stride = |operand: &Operand<'_>| operand.layout.strides()[loss.axis];
    let has_classes = !target.dtype.is_float();
    let kernel = CrossEntropy {
        dtype: x.dtype,
        target: target.dtype,
        weighted: weight.is_some(),
        smoothed: loss.label_smoothing != 0.0,
        backward: loss.backward,
        grouped: len > SHORT,
        rank: grid.ndim(),
    };
    let mut step = StepBuilder::new(hardware, kernel);
    let (x_start, target_start) = (step.read(&x)?, step.read(&target)?);
    let weight_start = weight.map(|weight| step.read(&weight)).transpose()?.unwrap_or(0);
    let (mut grad_start, mut logsumexp_start) = (0, 0);
    let (mut loss_start, mut own_start) = (0, 0);
    let (rest_start, out_start);
    if loss.backward {
        grad_start = step.read(&request.arg(0))?;
        (logsumexp_start, rest_start) = (step.read(&request.arg(2))?, step.read(&request.arg(3))?);
        out_start = step.write(&request.out(0))?;
    } else {
        (loss_start, out_start) = (step.write(&request.out(0))?, step.write(&request.out(1))?);
        rest_start = step.write(&request.out(2))?;
        own_start = if has_classes { step.write(&request.out(3))? } else { 0 };
    }
    if has_classes {
        step.bytes(Place::AssertLog, 0..4 * crate::device_assert::WORDS as u64, true)?;
    }
    step.parameters(&Params {
        rows,
        len,
        x_start,
        x_stride: stride(&x),
        target_start,
        target_stride: if has_classes { 0 } else { stride(&target) },
        weight_start,
        weight_stride: weight.map_or(0, |weight| weight.layout.strides()[0]),
        grad_start,
        logsumexp_start,
        rest_start,
        loss_start,
        own_start,
        out_start,
        out_stride: if loss.backward { stride(&request.out(0)) } else { 1 },
        ignored: [loss.ignore_index as u32, (loss.ignore_index >> 32) as u32],
        factor: (1.0 - loss.label_smoothing) as f32,
        spread: (loss.label_smoothing / len as f64) as f32,
        grid,
    })?;
    let groups = if kernel.grouped { rows } else { rows.div_ceil(WORKGROUP as usize) };
    plan.step(step, line(groups, hardware)?);
    Ok(())
}

/// The expressions of a kernel, by which its parts load what they need.
struct Source {
    x: String,
    y: String,
    weight: String,
    /// The head of a loop over the elements of a row.
    each: String,
}

impl CrossEntropy {
    fn has_classes(&self) -> bool {
        !self.target.is_float()
    }

    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let CrossEntropy { dtype, target, weighted, backward, grouped, rank, .. } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.elements("y", target, false, hardware);
        let w = weighted.then(|| module.elements("w", dtype, false, hardware));
        let single =
            |module: &mut Module, name: &str, writes| module.elements(name, DType::F32, writes, hardware);
        let read =
            backward.then(|| ["grad", "logsumexp", "rest"].map(|name| single(&mut module, name, false)));
        let out = backward.then(|| module.places("out", dtype, hardware));
        let written =
            (!backward).then(|| ["loss", "sums", "rests"].map(|name| single(&mut module, name, true)));
        let own_out = (!backward && self.has_classes()).then(|| single(&mut module, "own_out", true));
        if self.has_classes() {
            module.asserts();
        }
        let p = module.parameters::<Params>((rank, if backward { 6 } else { 2 }));
        let mut together =
            grouped.then(|| WorkgroupReduce::new(&mut module, "f32", Parts::Whole, 1, hardware));
        let mut reduce = |value: &str, merge: &str| {
            together.as_mut().map_or(String::new(), |together| together.reduce(&[value], merge))
        };
        let (row, start, every) = own(grouped);
        let source = Source {
            x: x.load(&format!("x_at + i * {}", p.x_stride)),
            y: y.load(&format!("y_at + i * {}", p.target_stride)),
            weight: w.as_ref().map_or("1.0".to_owned(), |w| {
                w.load(&format!("{} + i * {}", p.weight_start, p.weight_stride))
            }),
            each: format!("for (var i = {start}; i < {}; i += {every}u)", p.len),
        };
        let mut names = vec!["x_at", "y_at"];
        let mut body = format!(
            "let row = {row};
            if row >= {} {{ return; }}
            var x_at = {};
            var y_at = {};\n",
            p.rows, p.x_start, p.target_start
        );
        if backward {
            names.extend(["grad_at", "logsumexp_at", "rest_at", "out_at"]);
            body.push_str(&format!(
                "var grad_at = {};\nvar logsumexp_at = {};\nvar rest_at = {};\nvar out_at = {};\n",
                p.grad_start, p.logsumexp_start, p.rest_start, p.out_start
            ));
        }
        body.push_str(&p.grid.positions("row", &names));
        if self.has_classes() {
            body.push_str(&self.class(
                &y,
                w.as_ref(),
                &p.len,
                &p.ignored,
                [&p.weight_start, &p.weight_stride],
            ));
        }
        match (&read, &out, &written) {
            (Some([grad, logsumexp, rest]), Some(out), _) => {
                body.push_str(&format!(
                    "let g = {};\nlet peak = {};\nlet rest = {};\n",
                    grad.load("grad_at"),
                    logsumexp.load("logsumexp_at"),
                    rest.load("rest_at")
                ));
                let store = out.store_one(&format!("out_at + i * {}", p.out_stride), "v");
                body.push_str(&self.gradient(&source, &store, [&p.factor, &p.spread], &p.len, &mut reduce));
            }
            (_, _, Some([loss, sums, rests])) => {
                body.push_str(&self.loss(&source, [&p.factor, &p.spread], &p.x_stride, &x, &mut reduce));
                let mut stores = loss.store(&format!("{} + row", p.loss_start), &["result".to_owned()]);
                stores.push_str(&sums.store(&format!("{} + row", p.out_start), &["sum".to_owned()]));
                stores.push_str(&rests.store(&format!("{} + row", p.rest_start), &["rest".to_owned()]));
                if let Some(own_out) = &own_out {
                    stores.push_str(&own_out.store(&format!("{} + row", p.own_start), &["own".to_owned()]));
                }
                body.push_str(&match grouped {
                    true => format!("if local == 0u {{ {stores} }}\n"),
                    false => stores,
                });
            }
            _ => unreachable!("a kernel makes losses, or their gradient"),
        }
        module.add(&library::called(&body, hardware));
        module.finish([WORKGROUP, 1, 1], &body)
    }

    /// Statements that leave in `target_class` the row's class, in `ignored` whether it has none, and in `own` its weight, then 0.
    fn class(
        &self,
        y: &Elements,
        w: Option<&Elements>,
        len: &KernelParam,
        ignored: &[KernelParam; 2],
        [weight_start, weight_stride]: [&KernelParam; 2],
    ) -> String {
        let code = crate::device_assert::code(match self.backward {
            true => OpKind::CrossEntropyBackward,
            false => OpKind::CrossEntropy,
        });
        let weight = w.map_or("1.0".to_owned(), |w| {
            w.load(&format!("{weight_start} + target_class * {weight_stride}"))
        });
        format!(
            "{}
            let ignored = target_l == {} && target_h == {};
            var target_class = select(target_l, 0u, ignored);
            if !ignored && (target_h != 0u || target_class >= {len}) {{ device_assert({code}u, target_l, target_h, {len}); target_class = 0u; }}
            let own = select({weight}, 0.0, ignored);\n",
            y.index_words("target", "y_at"),
            ignored[0],
            ignored[1],
        )
    }

    /// Statements that leave in `result` the loss, in `sum` logsumexp, and in `rest` what rounding took from it.
    fn loss(
        &self,
        Source { x, y, weight, each }: &Source,
        [factor, spread]: [&KernelParam; 2],
        stride: &KernelParam,
        logits: &Elements,
        reduce: &mut dyn FnMut(&str, &str) -> String,
    ) -> String {
        let mut text = format!(
            "// NaN is larger than nothing, but reaches the sum.
            var largest = -3.4028235e38;
            {each} {{ let v = {x}; largest = select(largest, v, v > largest); }}
            {}
            var total = 0.0;
            {each} {{ total += quick_exp({x} - largest); }}
            {}
            let shift = log_of(total);
            let sum = kept(largest + shift);
            let part = kept(sum - largest);
            let rest = (largest - kept(sum - part)) + (shift - part);\n",
            reduce("largest", "select(a, b, b > a)"),
            reduce("total", "a + b"),
        );
        let times = if self.weighted { format!(" * {weight}") } else { String::new() };
        let mut terms = |term: &str| {
            format!("var terms = 0.0;\n{each} {{ terms += {term}{times}; }}\n{}", reduce("terms", "a + b"))
        };
        if !self.has_classes() {
            let target = if self.smoothed { format!("({factor} * {y} + {spread})") } else { y.clone() };
            text.push_str(&terms(&format!("(shift + (largest - {x})) * {target}")));
            text.push_str("let result = terms;\n");
            return text;
        }
        let chosen = logits.load(&format!("x_at + target_class * {stride}"));
        text.push_str(&format!("var result = {factor} * own * (shift + (largest - {chosen}));\n"));
        if self.smoothed {
            text.push_str(&terms(&format!("(shift + (largest - {x}))")));
            text.push_str(&format!("result += {spread} * terms;\n"));
        }
        text.push_str("if ignored { result = 0.0; }\n");
        text
    }

    /// Statements that write the gradient of a row, for that of its loss `g` and logsumexp `peak` and `rest`.
    fn gradient(
        &self,
        Source { x, y, weight, each }: &Source,
        store: &str,
        [factor, spread]: [&KernelParam; 2],
        len: &KernelParam,
        reduce: &mut dyn FnMut(&str, &str) -> String,
    ) -> String {
        let times = if self.weighted { format!(" * {weight}") } else { String::new() };
        let mut sum = |term: &str| {
            format!("var terms = 0.0;\n{each} {{ terms += {term}; }}\n{}", reduce("terms", "a + b"))
        };
        if !self.has_classes() {
            let target = if self.smoothed { format!("({factor} * {y} + {spread})") } else { y.clone() };
            let q = format!("{target}{times}");
            return format!(
                "{}{each} {{ let v = (quick_exp(({x} - peak) - rest) * terms - {q}) * g;\n{store} }}\n",
                sum(&q)
            );
        }
        let all = match (self.smoothed, self.weighted) {
            (false, _) => "let scale = own * g;\n".to_owned(),
            (true, false) => format!("let scale = ({factor} * own + {spread} * f32({len})) * g;\n"),
            (true, true) => format!("{}let scale = ({factor} * own + {spread} * terms) * g;\n", sum(weight)),
        };
        let each_class = if self.smoothed { format!(" - {spread} * g{times}") } else { String::new() };
        format!(
            "{all}{each} {{
                var v = quick_exp(({x} - peak) - rest) * scale{each_class};
                if i == target_class {{ v -= {factor} * own * g; }}
                if ignored {{ v = 0.0; }}
                {store}
            }}\n"
        )
    }
}
