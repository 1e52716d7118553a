//! Rotary position embedding: a cos/sin table per position, then the rotation.

use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{Grid, rows};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::splitting::{SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, OpKind, OpType, RopeParams, RopeStyle};
use std::fmt::Write;

/// The kernel of the table: `[position][cosines of all pairs, then sines]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeCosSin {
    positions: DType,
    factors: bool,
    yarn: bool,
}

/// The kernel of the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApplyRope {
    dtype: DType,
    adjacent: bool,
    /// Rank of the rows after merging.
    rank: usize,
}

parameters! {
    /// Parameters of the table kernel.
    struct CosSinParams() {
        seq: usize,
        half: usize,
        start: u32,
        stride: usize,
        factors_start: u32,
        factors_stride: usize,
        scale: f32,
        ratio: f32,
        low: f32,
        high: f32,
        extrapolated: f32,
        magnitude: f32,
    }
}

parameters! {
    /// Parameters of the rotation kernel.
    struct ApplyParams(rank: usize) {
        n: usize,
        dim: usize,
        seq: usize,
        half: usize,
        x_start: u32,
        x_stride: usize,
        y_start: u32,
        grid: Grid = (rank, 1),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Attention, &[OpKind::Rope], sets::SINGLE).beside(&[DType::I32, DType::I64])];

impl Kernels for RopeParams {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let rank = request.outs[0].dims().len();
        Ok(Some(axes::beside(request, |d| match d {
            d if d == rank - 1 => None,
            d if d == rank - 2 => Some([one(d), one(0)].into_iter().collect()),
            d => Some(axes::first(d)),
        })))
    }
}

/// Plans the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>, rope: &RopeParams) -> Result<(), Decline> {
    let (x, positions, out) = (request.arg(0), request.arg(1), request.out(0));
    let rank = x.layout.ndim();
    let (seq, dim) = (x.layout.dims()[rank - 2], x.layout.dims()[rank - 1]);
    let half = rope.rotated / 2;
    let factors = request.args.len() == 3;
    let table = plan.scratch(4 * seq * rope.rotated);
    let table_bytes = 0..4 * (seq * rope.rotated) as u64;

    let kernel = RopeCosSin { positions: positions.dtype, factors, yarn: rope.yarn.is_some() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let start = launch.read(&positions)?;
    let mut divisors = (0, 0);
    if factors {
        let x = request.arg(2);
        divisors = (launch.read(&x)?, x.layout.strides()[0]);
    }
    launch.bytes(table, table_bytes.clone(), true)?;
    let (low, high, extrapolated, magnitude) = blend(rope);
    launch.parameters(&CosSinParams {
        seq,
        half,
        start,
        stride: positions.layout.strides()[0],
        factors_start: divisors.0,
        factors_stride: divisors.1,
        scale: rope.scale,
        ratio: rope.base.powf(-2.0 / rope.rotated as f32),
        low,
        high,
        extrapolated,
        magnitude,
    })?;
    plan.cached_step(launch, line((seq * half).div_ceil(WORKGROUP as usize), request.hardware)?);

    let grid = Grid::new(&[&rows(x.layout)?]);
    let adjacent = rope.style == RopeStyle::Adjacent;
    let kernel = ApplyRope { dtype: x.dtype, adjacent, rank: grid.ndim() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let x_start = launch.read(&x)?;
    launch.bytes(table, table_bytes, false)?;
    let y_start = launch.write(&out)?;
    let elements = x.layout.numel();
    let x_stride = x.layout.strides()[rank - 1];
    launch.parameters(&ApplyParams { n: elements, dim, seq, half, x_start, x_stride, y_start, grid })?;
    let threads = elements.div_ceil(crate::wgsl::per_word(out.dtype));
    plan.step(launch, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// YaRN's numbers: between which pairs it blends, how much of the extrapolated angle counts, and the magnitude.
fn blend(rope: &RopeParams) -> (f32, f32, f32, f32) {
    let Some(yarn) = &rope.yarn else { return (0.0, 0.0, 0.0, 1.0) };
    if yarn.ext_factor == 0.0 {
        return (0.0, 0.0, 0.0, yarn.attn_factor);
    }
    let dims = rope.rotated as f32;
    let pair = |rotations: f32| {
        dims * (yarn.original_context as f32 / (rotations * 2.0 * std::f32::consts::PI)).ln()
            / (2.0 * rope.base.ln())
    };
    let (low, high) = (pair(yarn.beta_fast).floor().max(0.0), pair(yarn.beta_slow).ceil().min(dims - 1.0));
    let magnitude = yarn.attn_factor * (1.0 + 0.1 * (1.0 / rope.scale).ln());
    (low, high, yarn.ext_factor, magnitude)
}

impl RopeCosSin {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let RopeCosSin { positions, factors, yarn } = *self;
        let mut module = Module::new();
        let x = module.elements("x", positions, false, hardware);
        if factors {
            module.buffer("factors", "array<f32>", false);
        }
        module.buffer("table", "array<f32>", true);
        let CosSinParams {
            seq,
            half,
            start,
            stride,
            factors_start,
            factors_stride,
            scale,
            ratio,
            low,
            high,
            extrapolated,
            magnitude,
        } = module.parameters::<CosSinParams>(());
        module.add(&library::exact(hardware));
        module.add(library::wide(hardware));
        module.add(&library::fine_sin_cos());
        let position = x.load(&format!("{start} + s * {stride}"));
        let position = match (positions, hardware.i64) {
            // Positions are far below 2³².
            (DType::I64, true) => format!("f32(i32({position}))"),
            (DType::I64, false) => format!("f32(bitcast<i32>({position}.x))"),
            _ => format!("f32({position})"),
        };
        let full = match factors {
            true => format!("divide(angle, factors[{factors_start} + i * {factors_stride}])"),
            false => "angle".to_owned(),
        };
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            let s = t / {half};
            let i = t % {half};
            if s >= {seq} {{ return; }}
            // The angles come by repeated multiplication, as in ggml, so that they are rounded as there.
            var angle = {position};
            for (var j = 0u; j < i; j++) {{ angle = angle * {ratio}; }}
            let full = {full};
            var theta = {scale} * full;\n"
        );
        if yarn {
            let _ = writeln!(
                body,
                "if {e} != 0.0 {{
                    let ramp = 1.0 - clamp(divide(f32(i) - {low}, max({high} - {low}, 0.001)), 0.0, 1.0);
                    let mix = ramp * {e};
                    theta = theta * (1.0 - mix) + full * mix;
                }}",
                e = extrapolated,
            );
        }
        let _ = writeln!(
            body,
            "let turned = fine_sin_cos(theta);
            table[s * {half} * 2u + i] = turned.y * {m};
            table[s * {half} * 2u + {half} + i] = turned.x * {m};",
            m = magnitude,
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl ApplyRope {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let ApplyRope { dtype, adjacent, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        module.buffer("table", "array<f32>", false);
        let y = module.elements("y", dtype, true, hardware);
        let ApplyParams { n, dim, seq, half, x_start, x_stride, y_start, grid } =
            module.parameters::<ApplyParams>(rank);
        module.add(&library::exact(hardware));
        let pair = match adjacent {
            true => "let i = e >> 1u; let second = (e & 1u) != 0u; let first_at = e - (e & 1u); let second_at = first_at + 1u;".to_owned(),
            false => format!(
                "let second = e >= {half}; let i = select(e, e - {half}, second); let first_at = i; let second_at = i + {half};"
            ),
        };
        let load = |e: &str| x.load(&format!("at + {e} * {x_stride}"));
        module.add(&format!(
            "fn rotated(index: u32) -> f32 {{
                let row = index / {dim};
                let e = index % {dim};
                var at = {x_start};
                {}
                if e >= 2u * {half} {{ return {}; }}
                {pair}
                let a = {};
                let b = {};
                let cosine = table[(row % {seq}) * {half} * 2u + i];
                let sine = table[(row % {seq}) * {half} * 2u + {half} + i];
                if second {{ return fused(a, sine, b * cosine); }}
                return fused(a, cosine, -(b * sine));
            }}",
            grid.positions("row", &["at"]),
            load("e"),
            load("first_at"),
            load("second_at"),
        ));
        let per_word = y.per_word();
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = t * {per_word}u;\nif first >= {n} {{ return; }}\n"
        );
        let values: Vec<String> =
            (0..per_word).map(|k| format!("rotated(min(first + {k}u, {n} - 1u))")).collect();
        body.push_str(&y.store(&format!("{y_start} / {per_word}u + t"), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
