//! Random numbers as functions of the key and the element's index: a thread per Philox block.

use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::kind::Kind;
use crate::library::scalars;
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::splitting::{SplitPlan, axes};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use DType::{BF16, F16, F64, I64};
use rustorch_core::{
    DType, Decline, Distribution, DistributionKind, FromScalar, Op, OpKind, OpType, Random as Parameters,
    Scalar, bf16, f16,
};
use std::fmt::Write;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Distribution, &[OpKind::Random(DistributionKind::Uniform)], sets::FLOAT),
    row(OpType::Distribution, &[OpKind::Random(DistributionKind::Normal)], sets::SMOOTH),
    row(OpType::Distribution, &[OpKind::Random(DistributionKind::Integer)], sets::COUNTABLE)
        .check(|op, _, _| match op {
            Op::Random(Parameters { distribution: Distribution::Integer { low, high }, dtype, .. })
                if dtype.is_float() && (*low < -(1 << 24) || *high > 1 << 24) =>
            {
                Err(Decline::Attr("integers beyond 2²⁴ as floats"))
            }
            _ => Ok(()),
        })
        .remark("as floats up to 2²⁴"),
    row(OpType::Distribution, &[OpKind::Random(DistributionKind::Bernoulli)], sets::DENSE),
];

/// A kernel that draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Random {
    law: Law,
    dtype: DType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Law {
    Uniform,
    Normal,
    Integer,
    Bernoulli,
}

impl Random {
    /// The kinds of the distribution's scalars, for elements of a kind.
    fn kinds(&self, kind: Kind) -> Vec<Kind> {
        match (self.law, kind) {
            (Law::Uniform, Kind::Double) => vec![Kind::Double; 3],
            (Law::Uniform, _) => vec![Kind::Single; 4],
            (Law::Normal, Kind::Double) => vec![Kind::Double; 2],
            (Law::Normal, _) => vec![Kind::Single; 2],
            (Law::Integer, _) => vec![Kind::Pair; 2],
            (Law::Bernoulli, _) => vec![Kind::Pair],
        }
    }

    /// Elements that share a block: each takes a word of four, or two.
    fn of_block(&self) -> usize {
        match (self.dtype, self.law) {
            (F64, _) | (I64, Law::Integer) => 2,
            _ => 4,
        }
    }
}

parameters! {
    /// Kernel parameters.
    struct Params(kinds: Vec<Kind>) {
        n: usize,
        y_start: u32,
        seed: [u32; 2],
        offset: [u32; 2],
        /// By what the distribution goes.
        numbers: Vec<scalars::Words> = kinds,
    }
}

impl Kernels for Parameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        axes::places(request).map(Some)
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, random: &Parameters) -> Result<(), Decline> {
    let out = request.out(0);
    let law = match random.distribution {
        Distribution::Uniform { .. } => Law::Uniform,
        Distribution::Normal { .. } => Law::Normal,
        Distribution::Integer { .. } => Law::Integer,
        Distribution::Bernoulli { .. } => Law::Bernoulli,
        Distribution::Permutation {} => return Err(Decline::Attr("exchanges go one after the other")),
    };
    let kernel = Random { law, dtype: out.dtype };
    let elements = out.layout.numel();
    let mut step = StepBuilder::new(request.hardware, kernel);
    let y_start = step.write(&out)?;
    // Chunks begin with a block.
    let before = (request.part.first / kernel.of_block()) as u64;
    let (seed, offset) = (random.key.seed, random.key.offset.wrapping_add(before));
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let numbers = numbers(random);
    step.parameters(&Params { n: elements, y_start, seed: halves(seed), offset: halves(offset), numbers })?;
    let threads = elements.div_ceil(kernel.of_block());
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// The scalars that a distribution goes by, of the kinds that [`Random::kinds`] tells.
fn numbers(random: &Parameters) -> Vec<scalars::Words> {
    match (random.distribution, random.dtype) {
        (Distribution::Uniform { low, high }, F64) => {
            let below = high.next_down().max(low);
            vec![scalars::double(low), scalars::double(high - low), scalars::double(below)]
        }
        (Distribution::Uniform { low, high }, dtype) => {
            let single = |x: f64| scalars::single(x as f32);
            // The least number of single precision that is not below the bound, and the lower bound in the dtype.
            let least = match dtype {
                F16 => f16::from_scalar(Scalar::Float(low)).to_f32(),
                BF16 => bf16::from_scalar(Scalar::Float(low)).to_f32(),
                _ => low as f32,
            };
            let rounded = high as f32;
            let bound = if f64::from(rounded) < high { rounded.next_up() } else { rounded };
            vec![single(low), single(high - low), scalars::single(bound), scalars::single(least)]
        }
        (Distribution::Normal { mean, std }, F64) => {
            vec![scalars::double(mean), scalars::double(std)]
        }
        (Distribution::Normal { mean, std }, _) => {
            vec![scalars::single(mean as f32), scalars::single(std as f32)]
        }
        (Distribution::Integer { low, high }, _) => {
            vec![scalars::integer(low), scalars::integer(high.wrapping_sub(low))]
        }
        // Without a kernel.
        (Distribution::Permutation {}, _) => vec![],
        // A number of n random bits is below p if its bits are below p·2ⁿ.
        (Distribution::Bernoulli { p }, F64) => {
            vec![scalars::integer((p * (1u64 << 53) as f64).ceil() as i64)]
        }
        (Distribution::Bernoulli { p }, _) => {
            vec![scalars::integer((p * f64::from(1 << 24)).ceil() as i64)]
        }
    }
}

/// Statements that make the elements `v0 …` of a block `w: vec4<u32>` from the distribution's scalars.
fn elements(random: &Random, y: &Elements, kind: Kind, numbers: &[String], module: &mut Module) -> String {
    let mut text = String::new();
    let of_block = random.of_block();
    match (random.law, kind) {
        (Law::Uniform, Kind::Double) => {
            let (low, width, below) = (&numbers[0], &numbers[1], &numbers[2]);
            for k in 0..2 {
                let (a, b) = (["w.x", "w.z"][k], ["w.y", "w.w"][k]);
                let _ = writeln!(
                    text,
                    "let u{k} = (f64({b}) * 2097152.0lf + f64({a} >> 11u)) * 1.1102230246251565e-16lf;
                    let v{k} = min({low} + min({width} * u{k}, 1.7976931348623157e308lf), {below});"
                );
            }
        }
        (Law::Uniform, _) => {
            let given = numbers.join(", ");
            let round = match random.dtype {
                F16 => "f16_value(f16_bits(v))",
                BF16 => "bf16_value(bf16_bits(v))",
                _ => "v",
            };
            // The minimum, which changes nothing, keeps product and sum from being fused.
            module.add(&format!(
                "fn within(unit: f32, low: f32, width: f32) -> f32 {{
                    let v = low + min(width * unit, 3.4e38);
                    return {round};
                }}
                fn drawn(word: u32, low: f32, width: f32, high: f32, least: f32) -> f32 {{
                    let unit = f32(word >> 8u) * 5.9604645e-8;
                    var value = within(unit, low, width);
                    var trial = unit;
                    // Rounding may reach the upper bound, which does not belong to the interval: step back.
                    while value >= high && value != least {{
                        trial = select(0.0, trial - max(1.0 - trial, 1e-7), trial > 0.5);
                        value = within(trial, low, width);
                    }}
                    return value;
                }}"
            ));
            for (k, word) in ["w.x", "w.y", "w.z", "w.w"].iter().enumerate() {
                let _ = writeln!(text, "let v{k} = drawn({word}, {given});");
            }
        }
        (Law::Normal, Kind::Double) => {
            let (mean, std) = (&numbers[0], &numbers[1]);
            let unit = |low: &str, high: &str| {
                format!("(f64({high}) * 2097152.0lf + f64({low} >> 11u)) * 1.1102230246251565e-16lf")
            };
            let (radius, turn) = (unit("w.x", "w.y"), unit("w.z", "w.w"));
            let _ = writeln!(
                text,
                "let radius = root_double(-2.0lf * log_double(1.0lf - {radius})) * {std};
                let turn = sin_cos_double(6.283185307179586lf * ({turn}));
                let v0 = {mean} + radius * turn.y;
                let v1 = {mean} + radius * turn.x;"
            );
        }
        (Law::Normal, _) => {
            let (mean, std) = (&numbers[0], &numbers[1]);
            for (k, (a, b)) in [("w.x", "w.y"), ("w.z", "w.w")].iter().enumerate() {
                let _ = writeln!(
                    text,
                    "let radius{k} = root(-2.0 * log_of(1.0 - f32({a} >> 8u) * 5.9604645e-8)) * {std};
                    let turn{k} = sin_cos(6.2831855 * (f32({b} >> 8u) * 5.9604645e-8));
                    let v{} = {mean} + radius{k} * turn{k}.y;
                    let v{} = {mean} + radius{k} * turn{k}.x;",
                    2 * k,
                    2 * k + 1
                );
            }
        }
        (Law::Integer, _) => {
            let (low, range) = (&numbers[0], &numbers[1]);
            for k in 0..of_block {
                let drawn = match of_block {
                    2 => format!("scaled_pair({}, {range})", ["w.xy", "w.zw"][k]),
                    _ => format!("scaled_word({}, {range})", ["w.x", "w.y", "w.z", "w.w"][k]),
                };
                let pair = format!("pair_add({low}, {drawn})");
                let value = match kind {
                    Kind::Pair => pair,
                    Kind::Long => format!("long_of_pair({pair})"),
                    Kind::Unsigned(_) => format!("{pair}.x"),
                    Kind::Signed(_) => format!("bitcast<i32>({pair}.x)"),
                    _ => format!("f32(bitcast<i32>({pair}.x))"),
                };
                let _ = writeln!(text, "let v{k} = {value};");
            }
        }
        (Law::Bernoulli, _) => {
            let below = &numbers[0];
            for k in 0..of_block {
                let bits = match of_block {
                    2 => {
                        let (a, b) = (["w.x", "w.z"][k], ["w.y", "w.w"][k]);
                        format!("vec2<u32>(({a} >> 11u) | ({b} << 21u), {b} >> 11u)")
                    }
                    _ => format!("vec2<u32>({} >> 8u, 0u)", ["w.x", "w.y", "w.z", "w.w"][k]),
                };
                let hit = format!("pair_below({bits}, {below})");
                let value = match kind {
                    Kind::Bool => hit,
                    Kind::Unsigned(_) => format!("select(0u, 1u, {hit})"),
                    Kind::Signed(_) => format!("select(0i, 1i, {hit})"),
                    Kind::Long => format!("select(0li, 1li, {hit})"),
                    Kind::Pair => format!("vec2<u32>(select(0u, 1u, {hit}), 0u)"),
                    Kind::Single => format!("select(0.0, 1.0, {hit})"),
                    Kind::Double => format!("select(0.0lf, 1.0lf, {hit})"),
                    Kind::Complex => format!("vec2<f32>(select(0.0, 1.0, {hit}), 0.0)"),
                    Kind::ComplexDouble => format!("vec2<f64>(select(0.0lf, 1.0lf, {hit}), 0.0lf)"),
                };
                let _ = writeln!(text, "let v{k}: {} = {value};", y.value());
            }
        }
    }
    text
}

impl Random {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let kind = Kind::of(self.dtype, hardware);
        let mut module = Module::new();
        let y = module.elements("y", self.dtype, true, hardware);
        let Params { n, y_start, seed, offset, numbers } = module.parameters::<Params>(self.kinds(kind));
        let values = elements(self, &y, kind, &numbers, &mut module);
        let (of_block, per_word) = (self.of_block(), y.per_word());
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t * {of_block}u >= {n} {{ return; }}
            let w = philox(pair_add(vec2<u32>({}, {}), vec2<u32>(t, 0u)), vec2<u32>({}, {}));\n{values}",
            offset[0], offset[1], seed[0], seed[1]
        );
        let per_thread = of_block / per_word;
        for part in 0..per_thread {
            let words = format!("{y_start} / {per_word}u + t * {per_thread}u + {part}u");
            let values: Vec<String> = (0..per_word).map(|k| format!("v{}", part * per_word + k)).collect();
            let store = y.store(&words, &values);
            let _ = writeln!(body, "if t * {of_block}u + {}u < {n} {{ {store} }}", part * per_word);
        }
        module.add(&library::called(&body, hardware));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
