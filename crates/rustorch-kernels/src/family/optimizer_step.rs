//! Steps of optimizers: a launch for each parameter, which updates the results in place; they hold the arguments then. A thread
//! computes the elements of a word of the parameter, or of large ones a run, by vectors.

mod wide;

use super::foreach::longest;
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Operand, Request, line};
use crate::splitting::copy;
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, KernelParam, LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{
    DType, Decline, Layout, OpKind, OpType, OptimizerKind, OptimizerRule, OptimizerStep as Step, Shape,
};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OptimizerStep {
    dtype: DType,
    rule: Rule,
    /// Whether parameters are added to their gradients.
    decays: bool,
    /// Whether threads have runs of elements.
    wide: bool,
}

/// An [`OptimizerRule`] without its scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Sgd { momentum: bool, nesterov: bool },
    Adam { amsgrad: bool },
    RmsProp { momentum: bool, centered: bool },
    Adagrad,
}

parameters! {
    /// Kernel parameters. Which scalars a rule reads is said at [`Scalars`].
    struct Params(states: usize) {
        n: usize,
        lr_start: u32,
        count_start: u32,
        grad_start: u32,
        x_start: u32,
        master_start: u32,
        state_starts: Vec<u32> = vec![(); states],
        sign: f32,
        decay: f32,
        kept: f32,
        first: f32,
        second: f32,
        rest: f32,
        eps: f32,
    }
}

/// The scalars of a rule.
#[derive(Default)]
struct Scalars {
    /// How much of the parameter is added to the gradient.
    decay: f64,
    /// How much of it, times the learning rate, is taken off apart from that.
    kept: f64,
    /// SGD and RMSprop: momentum. Adam: `1 − beta1`. Adagrad: the decay of the learning rate.
    first: f64,
    /// SGD: what of the gradient counts. Adam and RMSprop: `beta2`, `alpha`.
    second: f64,
    /// One less that.
    rest: f64,
    eps: f64,
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(
    OpType::Elementwise,
    &[
        OpKind::OptimizerStep(OptimizerKind::Sgd),
        OpKind::OptimizerStep(OptimizerKind::Adam),
        OpKind::OptimizerStep(OptimizerKind::RmsProp),
        OpKind::OptimizerStep(OptimizerKind::Adagrad),
    ],
    sets::SINGLE,
)
.subject(Step::SCALARS)
.beside(&[DType::F32])];

impl Kernels for Step {
    fn overwrites(&self) -> bool {
        true
    }

    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let hardware = request.hardware;
        for i in (0..request.outs.len()).filter(|&i| !request.is_in_place(i)) {
            copy::plan(plan, hardware, &request.arg(self.overwritten(i)), &request.out(i))?;
        }
        let (args, outs) = (self.args_per_parameter(), self.results_per_parameter());
        for parameter in 0..request.outs.len() / outs {
            let grad = request.arg(Step::SCALARS + parameter * args + 1);
            let packed = Layout::contiguous(grad.layout.shape().clone());
            let grad = match grad.layout.is_contiguous() {
                true => grad,
                false => {
                    let place = plan.scratch(packed.numel() * grad.dtype.block_bytes());
                    let gathered = Operand { place, layout: &packed, ..grad };
                    copy::plan(plan, hardware, &grad, &gathered)?;
                    gathered
                }
            };
            let updated: Vec<Operand<'_>> = (0..outs).map(|k| request.out(parameter * outs + k)).collect();
            let (numel, most) = (grad.layout.numel(), longest(hardware));
            for start in (0..numel).step_by(most) {
                launch(self, plan, request, &grad, &updated, start..numel.min(start + most))?;
            }
        }
        Ok(())
    }
}

fn launch(
    op: &Step,
    plan: &mut Plan,
    request: &Request<'_>,
    grad: &Operand<'_>,
    updated: &[Operand<'_>],
    range: std::ops::Range<usize>,
) -> Result<(), Decline> {
    let (rule, scalars) = scalars(op);
    let n = range.len();
    let tensors = updated.iter().chain([grad]).map(|x| (x.dtype, x.layout.offset() + range.start));
    let wide = wide::suits(n, tensors, request.hardware);
    let kernel = OptimizerStep { dtype: grad.dtype, rule, decays: scalars.decay != 0.0, wide };
    let part = |x: &Operand<'_>| -> Result<Layout, Decline> {
        let flat = Shape::new([n].as_slice())
            .and_then(|shape| Layout::contiguous(shape).at_offset(x.layout.offset() + range.start));
        flat.map_err(|_| Decline::Attr("too large"))
    };
    let (groups, mut step) = match wide {
        true => (wide::groups(n, grad.dtype), StepBuilder::of_vectors(request.hardware, kernel)),
        false => (
            n.div_ceil(per_word(grad.dtype)).div_ceil(WORKGROUP as usize),
            StepBuilder::new(request.hardware, kernel),
        ),
    };
    let (lr_start, count_start) = (step.read(&request.arg(0))?, step.read(&request.arg(1))?);
    let grad_start = step.read(&Operand { layout: &part(grad)?, ..*grad })?;
    let mut starts = updated
        .iter()
        .map(|x| step.write(&Operand { layout: &part(x)?, ..*x }))
        .collect::<Result<Vec<_>, _>>()?
        .into_iter();
    let mut next = || starts.next().unwrap_or_default();
    let x_start = next();
    let master_start = if op.master { next() } else { 0 };
    step.parameters(&Params {
        n,
        lr_start,
        count_start,
        grad_start,
        x_start,
        master_start,
        state_starts: starts.collect(),
        sign: if op.maximize { -1.0 } else { 1.0 },
        decay: scalars.decay as f32,
        kept: scalars.kept as f32,
        first: scalars.first as f32,
        second: scalars.second as f32,
        rest: scalars.rest as f32,
        eps: scalars.eps as f32,
    })?;
    plan.step(step, line(groups, request.hardware)?);
    Ok(())
}

fn scalars(op: &Step) -> (Rule, Scalars) {
    let decay = op.weight_decay;
    match op.rule {
        OptimizerRule::Sgd { momentum, dampening, nesterov } => {
            let scalars = Scalars { decay, first: momentum, second: 1.0 - dampening, ..Scalars::default() };
            (Rule::Sgd { momentum: momentum != 0.0, nesterov }, scalars)
        }
        OptimizerRule::Adam { beta1, beta2, eps, amsgrad, decoupled_weight_decay } => {
            let [decay, kept] = if decoupled_weight_decay { [0.0, decay] } else { [decay, 0.0] };
            let scalars = Scalars { decay, kept, first: 1.0 - beta1, second: beta2, rest: 1.0 - beta2, eps };
            (Rule::Adam { amsgrad }, scalars)
        }
        OptimizerRule::RmsProp { alpha, eps, momentum, centered } => {
            let scalars =
                Scalars { decay, first: momentum, second: alpha, rest: 1.0 - alpha, eps, kept: 0.0 };
            (Rule::RmsProp { momentum: momentum != 0.0, centered }, scalars)
        }
        OptimizerRule::Adagrad { lr_decay, eps } => {
            (Rule::Adagrad, Scalars { decay, first: lr_decay, eps, ..Scalars::default() })
        }
    }
}

/// `1 − betaᵗ` of `1 − beta`, precise also where beta is nearly 1: of two steps counts, the second adds to the first what that left.
const BIAS_CORRECTION: &str = "
fn bias_correction(rest: f32, t: f32) -> f32 {
    var corrected = 0.0;
    var power = rest;
    for (var n = u32(t); n != 0u; n = n >> 1u) {
        corrected = select(corrected, corrected + power * (1.0 - corrected), (n & 1u) == 1u);
        power = power * (2.0 - power);
    }
    return corrected;
}";

impl OptimizerStep {
    fn states(&self) -> usize {
        match self.rule {
            Rule::Sgd { momentum, .. } => usize::from(momentum),
            Rule::Adam { amsgrad } => 2 + usize::from(amsgrad),
            Rule::RmsProp { momentum, centered } => 1 + usize::from(momentum) + usize::from(centered),
            Rule::Adagrad => 1,
        }
    }

    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let OptimizerStep { dtype, wide, .. } = *self;
        if wide {
            return self.wide_wgsl(hardware);
        }
        let mut module = Module::new();
        let lr = module.elements("lr", DType::F32, false, hardware);
        let count = module.elements("count", DType::F32, false, hardware);
        let grad = module.elements("grad", dtype, false, hardware);
        let x = module.elements("x", dtype, true, hardware);
        let master =
            (dtype != DType::F32).then(|| module.elements("master_copy", DType::F32, true, hardware));
        let states: Vec<Elements> = (0..self.states())
            .map(|k| module.elements(&format!("state{k}"), DType::F32, true, hardware))
            .collect();
        let p = module.parameters::<Params>(self.states());
        let per_word = x.per_word();
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;
            let first = word * {per_word}u;
            if first >= {} {{ return; }}
            let rate = {};
            let t = {};
            {}\n",
            p.n,
            lr.load(&p.lr_start.to_string()),
            count.load(&p.count_start.to_string()),
            self.constants(&p),
        );
        for j in 0..per_word {
            let _ = write!(body, "var w{j} = 0.0;\nif first + {j}u < {} {{\nlet i = first + {j}u;\n", p.n);
            let own = x.load(&format!("{} + i", p.x_start));
            let copied = master.as_ref().map(|master| master.load(&format!("{} + i", p.master_start)));
            let grad = grad.load(&format!("{} + i", p.grad_start));
            let place = |k: usize| format!("{} + i", p.state_starts[k]);
            let before = states.iter().enumerate().map(|(k, state)| state.load(&place(k)));
            body.push_str(&self.element(&p, &own, copied.as_deref(), &grad, before));
            for (k, state) in states.iter().enumerate() {
                let _ = writeln!(body, "{}", state.store(&place(k), &[format!("s{k}")]));
            }
            if let Some(master) = &master {
                let _ =
                    writeln!(body, "{}", master.store(&format!("{} + i", p.master_start), &["w".to_owned()]));
            }
            let _ = writeln!(body, "w{j} = w;\n}}");
        }
        let values: Vec<String> = (0..per_word).map(|j| format!("w{j}")).collect();
        body.push_str(&x.store(&format!("{} / {per_word}u + word", p.x_start), &values));
        self.add_functions(&mut module);
        module.finish([WORKGROUP, 1, 1], &body)
    }

    fn add_functions(&self, module: &mut Module) {
        if matches!(self.rule, Rule::Adam { .. }) {
            module.add(BIAS_CORRECTION);
        }
    }

    /// Statements that make the parameter `w` and the states `s0`, `s1`, .. of an element of what they were before: `own`, or of
    /// the copy in `f32` where that has the same bits, and `states`.
    fn element(
        &self,
        p: &Params<Names>,
        own: &str,
        copied: Option<&str>,
        grad: &str,
        states: impl Iterator<Item = String>,
    ) -> String {
        let mut text = match copied {
            None => format!("var w = {own};\n"),
            Some(copied) => {
                let (bits, value) = match self.dtype {
                    DType::F16 => ("f16_bits", "f16_value"),
                    _ => ("bf16_bits", "bf16_value"),
                };
                format!(
                    "let own = {own};\nlet copied = {copied};\nvar w = select(own, copied, {value}({bits}(copied)) == own);\n"
                )
            }
        };
        let decay = if self.decays { format!(" + {} * w", p.decay) } else { String::new() };
        let _ = writeln!(text, "let g = {} * {grad}{decay};", p.sign);
        for (k, state) in states.enumerate() {
            let _ = writeln!(text, "var s{k} = {state};");
        }
        text + &self.update(p)
    }

    /// Statements before those of each element, of the learning rate `rate` and the step count `t`.
    fn constants(&self, p: &Params<Names>) -> String {
        match self.rule {
            Rule::Sgd { momentum: false, .. } | Rule::RmsProp { .. } => String::new(),
            Rule::Sgd { .. } => format!(
                "let kept = select({}, 0.0, t <= 1.0);\nlet share = select({}, 1.0, t <= 1.0);",
                p.first, p.second
            ),
            Rule::Adam { .. } => format!(
                "let corrected = rate / bias_correction({}, t);
                let root = 1.0 / sqrt(bias_correction({}, t));
                let kept = 1.0 - rate * {};",
                p.first, p.rest, p.kept
            ),
            Rule::Adagrad => format!("let corrected = rate / (1.0 + (t - 1.0) * {});", p.first),
        }
    }

    /// Statements that update the parameter `w` and the states `s0`, `s1`, .. by the gradient `g`.
    fn update(&self, p: &Params<Names>) -> String {
        let Params { first, second, rest, eps, .. } = p;
        let squared = |s: &KernelParam| format!("s0 = s0 * {s} + g * g * {rest};\n");
        match self.rule {
            Rule::Sgd { momentum: false, .. } => "w = w - g * rate;\n".to_owned(),
            Rule::Sgd { nesterov, .. } => {
                let direction = if nesterov { format!("(g + s0 * {first})") } else { "s0".to_owned() };
                format!("s0 = s0 * kept + g * share;\nw = w - {direction} * rate;\n")
            }
            Rule::Adam { amsgrad } => {
                let largest = if amsgrad { "s2 = select(s1, s2, s1 <= s2);\n" } else { "" };
                let squares = if amsgrad { "s2" } else { "s1" };
                format!(
                    "s0 = s0 + (g - s0) * {first};
                    s1 = s1 * {second} + g * g * {rest};
                    {largest}w = w * kept - s0 / (sqrt({squares}) * root + {eps}) * corrected;\n"
                )
            }
            Rule::RmsProp { momentum, centered } => {
                let mean = if centered { format!("s1 = s1 + (g - s1) * {rest};\n") } else { String::new() };
                let variance = if centered { "s0 - s1 * s1" } else { "s0" };
                let direction = format!("g / (sqrt({variance}) + {eps})");
                let buf = if centered { "s2" } else { "s1" };
                let moved = match momentum {
                    true => format!("{buf} = {buf} * {first} + {direction};\nw = w - {buf} * rate;\n"),
                    false => format!("w = w - {direction} * rate;\n"),
                };
                format!("{}{mean}{moved}", squared(second))
            }
            Rule::Adagrad => {
                format!("s0 = s0 + g * g;\nw = w - g / (sqrt(s0) + {eps}) * corrected;\n")
            }
        }
    }
}
