//! Normalisation of channels: by given statistics, a thread for each word of the result; by those of groups or of the
//! batch, a workgroup for each part of the elements.

use super::kind::Kind;
use super::scalars;
use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::{self, Parts, Together};
use crate::plan::{Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl, Word, per_word};
use rustorch_core::{DType, Decline, Op, OpType, Scalar, TensorMeta};
use std::fmt::Write;

/// A normalising kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelNorm {
    statistics: Statistics,
    dtype: DType,
    /// Of weight, bias and statistics.
    parameters: DType,
    /// Whether there is a weight, and a bias.
    affine: [bool; 2],
    /// Dimensions.
    rank: usize,
}

/// By which mean and variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Statistics {
    /// Given ones.
    Given,
    /// Those of groups of channels of each sample.
    Group,
    /// Those of the batch, which are results.
    Batch,
}

impl Statistics {
    /// With the number of the first argument that is a weight, and ε.
    fn of(op: &Op) -> Result<(Statistics, usize, f64), Decline> {
        Ok(match op {
            Op::BatchNorm(norm) if norm.training => (Statistics::Batch, 1, norm.eps),
            Op::BatchNorm(norm) => (Statistics::Given, 3, norm.eps),
            Op::GroupNorm(norm) => (Statistics::Group, 1, norm.eps),
            op => return Err(Decline::Op(op.name())),
        })
    }
}

/// The elements of a channel of a sample.
fn run(x: &TensorMeta<'_>) -> usize {
    x.dims()[2..].iter().product()
}

/// The rows of the table.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &["batch_norm", "group_norm"], sets::FLOAT)
    .check(check)
    .remark("with their own statistics, runs of 16-bit floats have an even number of elements")];

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let x = &args[0];
    if args.iter().any(|x| x.layout.elements() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    let together = match op {
        Op::GroupNorm(norm) => x.dims()[1] / norm.groups * run(x),
        Op::BatchNorm(norm) if norm.training => run(x),
        _ => return Ok(()),
    };
    match together.is_multiple_of(per_word(x.dtype)) {
        true => Ok(()),
        false => Err(Decline::Layout("runs of 16-bit numbers must be of even length")),
    }
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let elements = out.layout.elements();
    if elements == 0 {
        return Ok(());
    }
    let (statistics, first, eps) = Statistics::of(request.op)?;
    let grid = Grid::new(&[x.layout]);
    let (samples, channels) = (x.layout.dims()[0], x.layout.dims()[1]);
    let len = run(&request.args[0]);
    let affine = [request.args.len() > first, request.args.len() > first + 1];
    let kernel = ChannelNorm {
        statistics,
        dtype: x.dtype,
        parameters: request.args.get(1).map_or(DType::F32, |x| x.dtype),
        affine,
        rank: grid.rank(),
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let from = step.read(&x)?;
    let mut lists = Vec::new();
    for i in 1..request.args.len() {
        let list = request.arg(i);
        lists.push((step.read(&list)?, list.layout.strides()[0]));
    }
    let to = step.write(&out)?;
    step.word(from).word(to).number(elements)?.number(channels)?.number(len)?;
    scalars::give(&mut step, scalars::words(Scalar::Float(eps), scalars::wide(x.dtype)));
    for (from, stride) in lists {
        step.word(from).number(stride)?;
    }
    let groups = match (statistics, request.op) {
        (Statistics::Group, Op::GroupNorm(norm)) => {
            step.number(channels / norm.groups * len)?.number(norm.groups)?;
            samples * norm.groups
        }
        (Statistics::Batch, _) => {
            let places = [step.write(&request.out(1))?, step.write(&request.out(2))?];
            step.number(samples * len)?.word(1).word(places[0]).word(places[1]);
            channels
        }
        _ => elements.div_ceil(per_word(x.dtype)).div_ceil(WORKGROUP as usize),
    };
    grid.describe(&mut step)?;
    plan.step(step, line(groups, request.hardware)?);
    Ok(())
}

/// A list with a number for each channel: its elements, the first of them, the step.
type List = (Elements, Word, Word);

/// The number of channel `c`.
fn number((elements, from, step): &List) -> String {
    elements.load(&format!("{from} + c * {step}"))
}

/// What both kernels have.
struct Frame {
    x: Elements,
    y: Elements,
    to: Word,
    n: Word,
    channels: Word,
    len: Word,
    /// Where `x` begins.
    from: Word,
}

impl ChannelNorm {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let ChannelNorm { statistics, dtype, parameters, affine, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let given: &[&str] = if statistics == Statistics::Given { &["mean", "variance"] } else { &[] };
        let names = given.iter().copied().chain(
            ["weight", "bias"].into_iter().zip(affine).filter(|(_, there)| *there).map(|(name, _)| name),
        );
        let lists: Vec<Elements> =
            names.map(|name| module.elements(name, parameters, false, hardware)).collect();
        let y = module.elements("y", dtype, true, hardware);
        if statistics == Statistics::Batch {
            module.elements("means", scalars::wide(dtype), true, hardware);
            module.elements("variances", scalars::wide(dtype), true, hardware);
        }
        let (from, to, n, channels, len) =
            (module.word(), module.word(), module.word(), module.word(), module.word());
        let eps = scalars::declare(&mut module, Kind::of(dtype, hardware));
        let lists: Vec<List> = lists.into_iter().map(|list| (list, module.word(), module.word())).collect();
        let (given, affine) = lists.split_at(given.len());
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        module.add(&library::called(&eps, hardware));
        let weight = affine.first().map_or("inverse".to_owned(), |w| format!("{} * inverse", number(w)));
        module.add(&format!(
            "fn factor(variance: {ty}, c: u32) -> {ty} {{
                let inverse = divide({ty}(1.0), root(variance + {eps}));
                return {weight};
            }}
            fn shift(c: u32) -> {ty} {{ return {}; }}",
            affine.get(1).map_or(format!("{ty}(0.0)"), number)
        ));
        let frame = Frame { x, y, to, n, channels, len, from };
        match given {
            [mean, variance] => frame.given(module, rank, [mean, variance]),
            _ => frame.own(module, rank, statistics, hardware),
        }
    }
}

impl Frame {
    /// The function `value_at(i)`: element `i` of `x`.
    fn values(&self, module: &mut Module, rank: usize) {
        let grid = strided::parameters(module, rank, 1);
        module.add(&format!(
            "fn value_at(i: u32) -> {} {{\nvar at = {};\n{}return {};\n}}",
            self.x.value(),
            self.from,
            grid.positions("i", &["at"]),
            self.x.load("at")
        ));
    }

    fn given(self, mut module: Module, rank: usize, [mean, variance]: [&List; 2]) -> Wgsl {
        self.values(&mut module, rank);
        module.add(&format!(
            "fn element(i: u32) -> {} {{
                let c = i / {} % {};
                return (value_at(i) - {}) * factor({}, c) + shift(c);
            }}",
            self.x.value(),
            self.len,
            self.channels,
            number(mean),
            number(variance)
        ));
        let per_word = self.y.per_word();
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = word * {per_word}u;\n\
             if first >= {} {{ return; }}\n",
            self.n
        );
        // The last word may reach beyond the end.
        let values: Vec<String> =
            (0..per_word).map(|e| format!("element(min(first + {e}u, {} - 1u))", self.n)).collect();
        body.push_str(&self.y.store(&format!("{} / {per_word}u + word", self.to), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }

    fn own(self, mut module: Module, rank: usize, statistics: Statistics, hardware: &Hardware) -> Wgsl {
        let (count, groups) = (module.word(), module.word());
        let places = (statistics == Statistics::Batch).then(|| [module.word(), module.word()]);
        self.values(&mut module, rank);
        let Frame { x, y, to, n, channels, len, .. } = &self;
        let ty = x.value();
        // Which element of all is element `e` of part `part`, and its channel.
        let (index, channel, sets) = match statistics {
            Statistics::Batch => (
                format!("(e / {len} * {channels} + part) * {len} + e % {len}"),
                "part".to_owned(),
                channels.to_string(),
            ),
            _ => (
                format!("part * {count} + e"),
                format!("(part % {groups}) * ({count} / {len}) + e / {len}"),
                format!("{n} / {count}"),
            ),
        };
        module.add(&format!(
            "fn index(part: u32, e: u32) -> u32 {{ return {index}; }}
            fn channel(part: u32, e: u32) -> u32 {{ return {channel}; }}"
        ));
        let mut together = Together::new(&mut module, "Wide", Parts::Whole, 2, hardware);
        let per_word = y.per_word();
        let mut body = format!(
            "let part = {LINEAR_GROUP};
            if part >= {sets} {{ return; }}
            let size = {ty}({count});
            var sum = wide({ty}(0.0));
            for (var e = local; e < {count}; e += {WORKGROUP}u) {{
                sum = wide_add(sum, wide(value_at(index(part, e))));
            }}
            {}
            let centre = divide(narrow(sum), size);
            sum = wide({ty}(0.0));
            var square = wide({ty}(0.0));
            for (var e = local; e < {count}; e += {WORKGROUP}u) {{
                let deviation = value_at(index(part, e)) - centre;
                sum = wide_add(sum, wide(deviation));
                square = wide_add(square, wide(deviation * deviation));
            }}
            {}
            // What the mean is beside its nearest number counts where it is large.
            let rest = divide(narrow(sum), size);
            let variance = max(divide(narrow(square), size) - rest * rest, {ty}(0.0));\n",
            together.reduce(&["sum"], "wide_add(a, b)"),
            together.reduce(&["sum", "square"], "wide_add(a, b)"),
        );
        if let Some([means, variances]) = places {
            let _ = writeln!(
                body,
                "if local == 0u {{ means[{means} + part] = centre + rest; variances[{variances} + part] = variance; }}"
            );
        }
        let _ = writeln!(
            body,
            "for (var e = local * {per_word}u; e < {count}; e += {}u) {{",
            WORKGROUP as usize * per_word
        );
        let mut values = Vec::new();
        for k in 0..per_word {
            let _ = writeln!(
                body,
                "let c{k} = channel(part, e + {k}u);
                let f{k} = factor(variance, c{k});
                let v{k} = (value_at(index(part, e + {k}u)) - centre) * f{k} + (shift(c{k}) - rest * f{k});"
            );
            values.push(format!("v{k}"));
        }
        body.push_str(&y.store(&format!("({to} + index(part, e)) / {per_word}u"), &values));
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
