//! Batch and group normalisation: with given statistics, a thread per word of the result; otherwise a workgroup per channel or
//! group.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::kind::Kind;
use crate::library::scalars;
use crate::library::strided::Grid;
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Request, line};
use crate::splitting::{Chunk, SplitPlan, spatial};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{BatchNorm, DType, Decline, GroupNorm, Op, OpKind, OpType, Scalar, TensorMeta};
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

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Normalization, &[OpKind::BatchNorm, OpKind::GroupNorm], sets::FLOAT)
    .check(check)
    .remark("with their own statistics, runs of 16-bit floats have an even number of elements")];

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let x = &args[0];
    if args.iter().any(|x| x.layout.numel() == 0) {
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

parameters! {
    /// Kernel parameters.
    struct Params(kind: Kind, lists: usize, own: Option<()>, batch: Option<()>, rank: usize) {
        x_start: u32,
        y_start: u32,
        n: usize,
        channels: usize,
        len: usize,
        eps: scalars::Words = kind,
        /// Of each list with a number for each channel: the first, and from one to the next.
        lists: Vec<ListParams> = vec![(); lists],
        /// Of its own statistics: elements that have one mean.
        count: Option<usize> = own,
        /// And how many groups of channels there are.
        groups: Option<usize> = own,
        /// Where means and variances go.
        statistics: Option<[u32; 2]> = batch,
        grid: Grid = (rank, 1),
    }
}

parameters! {
    /// A list with a number for each channel.
    struct ListParams() {
        start: u32,
        stride: usize,
    }
}

impl Kernels for BatchNorm {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::channel_norm(request)))
    }
}

impl Kernels for GroupNorm {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::channel_norm(request)))
    }

    fn narrowed(&self, chunk: &Chunk, _: usize) -> Option<Op> {
        Some(Op::GroupNorm(GroupNorm { groups: chunk.lens[1], ..self.clone() }))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let elements = out.layout.numel();
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
        rank: grid.ndim(),
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let x_start = step.read(&x)?;
    let mut lists = Vec::new();
    for i in 1..request.args.len() {
        let list = request.arg(i);
        lists.push(ListParams { start: step.read(&list)?, stride: list.layout.strides()[0] });
    }
    let y_start = step.write(&out)?;
    let (workgroups, own, places) = match (statistics, request.op) {
        (Statistics::Group, Op::GroupNorm(norm)) => {
            (samples * norm.groups, Some((channels / norm.groups * len, norm.groups)), None)
        }
        (Statistics::Batch, _) => {
            let places = [step.write(&request.out(1))?, step.write(&request.out(2))?];
            (channels, Some((samples * len, 1)), Some(places))
        }
        _ => (elements.div_ceil(per_word(x.dtype)).div_ceil(WORKGROUP as usize), None, None),
    };
    step.parameters(&Params {
        x_start,
        y_start,
        n: elements,
        channels,
        len,
        eps: scalars::words(Scalar::Float(eps), scalars::wide(x.dtype)),
        lists,
        count: own.map(|(count, _)| count),
        groups: own.map(|(_, groups)| groups),
        statistics: places,
        grid,
    })?;
    plan.step(step, line(workgroups, request.hardware)?);
    Ok(())
}

/// A list with a number for each channel.
type List = (Elements, ListParams<Names>);

/// The number of channel `c`.
fn number((elements, ListParams { start, stride }): &List) -> String {
    elements.load(&format!("{start} + c * {stride}"))
}

/// What both kernels have.
struct Frame {
    x: Elements,
    y: Elements,
    params: Params<Names>,
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
        let own = (statistics != Statistics::Given).then_some(());
        let batch = (statistics == Statistics::Batch).then_some(());
        let kind = Kind::of(dtype, hardware);
        let mut params = module.parameters::<Params>((kind, lists.len(), own, batch, rank));
        let lists: Vec<List> = lists.into_iter().zip(std::mem::take(&mut params.lists)).collect();
        let (given, affine) = lists.split_at(given.len());
        let eps = &params.eps;
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        module.add(&library::called(eps, hardware));
        let weight = affine.first().map_or("inverse".to_owned(), |w| format!("{} * inverse", number(w)));
        module.add(&format!(
            "fn factor(variance: {ty}, c: u32) -> {ty} {{
                let inverse = divide({ty}(1.0), root(variance + {eps}));
                return {weight};
            }}
            fn shift(c: u32) -> {ty} {{ return {}; }}",
            affine.get(1).map_or(format!("{ty}(0.0)"), number)
        ));
        let frame = Frame { x, y, params };
        match given {
            [mean, variance] => frame.given(module, [mean, variance]),
            _ => frame.own(module, statistics, hardware),
        }
    }
}

impl Frame {
    /// The function `value_at(i)`: element `i` of `x`.
    fn values(&self, module: &mut Module) {
        module.add(&format!(
            "fn value_at(i: u32) -> {} {{\nvar at = {};\n{}return {};\n}}",
            self.x.value(),
            self.params.x_start,
            self.params.grid.positions("i", &["at"]),
            self.x.load("at")
        ));
    }

    fn given(self, mut module: Module, [mean, variance]: [&List; 2]) -> Wgsl {
        self.values(&mut module);
        let Params { y_start, n, channels, len, .. } = &self.params;
        module.add(&format!(
            "fn element(i: u32) -> {} {{
                let c = i / {len} % {channels};
                return (value_at(i) - {}) * factor({}, c) + shift(c);
            }}",
            self.x.value(),
            number(mean),
            number(variance)
        ));
        let per_word = self.y.per_word();
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = word * {per_word}u;\n\
             if first >= {n} {{ return; }}\n"
        );
        // The last word may extend past the end.
        let values: Vec<String> =
            (0..per_word).map(|e| format!("element(min(first + {e}u, {n} - 1u))")).collect();
        body.push_str(&self.y.store(&format!("{y_start} / {per_word}u + word"), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }

    fn own(self, mut module: Module, statistics: Statistics, hardware: &Hardware) -> Wgsl {
        self.values(&mut module);
        let Frame {
            x,
            y,
            params: Params { y_start, n, channels, len, count, groups, statistics: places, .. },
        } = &self;
        let (Some(count), Some(groups)) = (count, groups) else {
            unreachable!("these are declared with statistics of its own")
        };
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
        let mut together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 2, hardware);
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
        body.push_str(&y.store(&format!("({y_start} + index(part, e)) / {per_word}u"), &values));
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
