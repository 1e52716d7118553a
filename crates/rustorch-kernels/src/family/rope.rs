//! Rotary position embedding: a table of cosines and sines for each position, then the rotation.

use super::rms_norm::rows;
use super::strided::{self, Grid};
use crate::plan::{Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, OpType, Rope, RopeStyle};
use std::fmt::Write;

/// The kernel of the table: `[position][cosines of all pairs, then sines]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Angles {
    positions: DType,
    factors: bool,
    yarn: bool,
}

/// The kernel of the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rotate {
    dtype: DType,
    output: DType,
    adjacent: bool,
    /// Dimensions of the rows.
    rank: usize,
    /// Whether the result is rows of whole words with gaps between them, not one run.
    rows: bool,
}

/// What it rotates.
pub const ROWS: &[Row] = &[row(OpType::Attention, &["rope"], sets::SINGLE).beside(&[DType::I32, DType::I64])];

/// Adds the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>, rope: &Rope) -> Result<(), Decline> {
    let (x, positions, out) = (request.arg(0), request.arg(1), request.out(0));
    let rank = x.layout.rank();
    let (seq, dim) = (x.layout.dims()[rank - 2], x.layout.dims()[rank - 1]);
    let half = rope.rotated / 2;
    let factors = request.args.len() == 3;
    let table = plan.scratch(4 * seq * rope.rotated);
    let table_bytes = 0..4 * (seq * rope.rotated) as u64;

    let kernel = Angles { positions: positions.dtype, factors, yarn: rope.yarn.is_some() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = launch.read(&positions)?;
    let mut divisors = (0, 0);
    if factors {
        let x = request.arg(2);
        divisors = (launch.read(&x)?, x.layout.strides()[0]);
    }
    launch.bytes(table, table_bytes.clone(), true)?;
    launch.number(seq)?.number(half)?.word(from).number(positions.layout.strides()[0])?;
    launch.word(divisors.0).number(divisors.1)?.float(rope.scale);
    launch.float(rope.base.powf(-2.0 / rope.rotated as f32));
    let (low, high, extrapolated, magnitude) = blend(rope);
    launch.float(low).float(high).float(extrapolated).float(magnitude);
    plan.kept_step(launch, line((seq * half).div_ceil(WORKGROUP as usize), request.hardware)?);

    let gaps = !out.layout.is_contiguous();
    let grid = match gaps {
        true => Grid::new(&[&rows(x.layout)?, &rows(out.layout)?]),
        false => Grid::new(&[&rows(x.layout)?]),
    };
    let adjacent = rope.style == RopeStyle::Adjacent;
    let kernel = Rotate { dtype: x.dtype, output: out.dtype, adjacent, rank: grid.rank(), rows: gaps };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = launch.read(&x)?;
    launch.bytes(table, table_bytes, false)?;
    let to = launch.write(&out)?;
    let elements = x.layout.elements();
    launch.number(elements)?.number(dim)?.number(seq)?.number(half)?;
    launch.word(from).number(x.layout.strides()[rank - 1])?.word(to);
    grid.describe(&mut launch)?;
    let threads = elements.div_ceil(crate::wgsl::per_word(out.dtype));
    plan.step(launch, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// YaRN's numbers: between which pairs it blends, how much of the extrapolated angle counts, and the magnitude.
fn blend(rope: &Rope) -> (f32, f32, f32, f32) {
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

impl Angles {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Angles { positions, factors, yarn } = *self;
        let mut module = Module::new();
        let x = module.elements("x", positions, false, hardware);
        if factors {
            module.buffer("factors", "array<f32>", false);
        }
        module.buffer("table", "array<f32>", true);
        let (seq, half, from, step) = (module.word(), module.word(), module.word(), module.word());
        let (f_from, f_step, scale, ratio) = (module.word(), module.word(), module.word(), module.word());
        let [low, high, extrapolated, magnitude] =
            [module.word(), module.word(), module.word(), module.word()];
        module.add(&library::exact(hardware));
        module.add(library::wide(hardware));
        module.add(&library::fine_sin_cos());
        let position = x.load(&format!("{from} + s * {step}"));
        let position = match (positions, hardware.i64) {
            // Positions are far below 2³².
            (DType::I64, true) => format!("f32(i32({position}))"),
            (DType::I64, false) => format!("f32(bitcast<i32>({position}.x))"),
            _ => format!("f32({position})"),
        };
        let full = match factors {
            true => format!("divide(angle, factors[{f_from} + i * {f_step}])"),
            false => "angle".to_owned(),
        };
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            let s = t / {half};
            let i = t % {half};
            if s >= {seq} {{ return; }}
            // Angles come by repeated multiplication, as in ggml, so that they are rounded as there.
            var angle = {position};
            for (var j = 0u; j < i; j++) {{ angle = angle * {}; }}
            let full = {full};
            var theta = {} * full;\n",
            ratio.float(),
            scale.float(),
        );
        if yarn {
            let _ = writeln!(
                body,
                "if {e} != 0.0 {{
                    let ramp = 1.0 - clamp(divide(f32(i) - {low}, max({high} - {low}, 0.001)), 0.0, 1.0);
                    let mix = ramp * {e};
                    theta = theta * (1.0 - mix) + full * mix;
                }}",
                e = extrapolated.float(),
                low = low.float(),
                high = high.float(),
            );
        }
        let _ = writeln!(
            body,
            "let turned = fine_sin_cos(theta);
            table[s * {half} * 2u + i] = turned.y * {m};
            table[s * {half} * 2u + {half} + i] = turned.x * {m};",
            m = magnitude.float(),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl Rotate {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Rotate { dtype, output, adjacent, rank, rows: gaps } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        module.buffer("table", "array<f32>", false);
        let y = module.elements("y", output, true, hardware);
        let (n, dim, seq, half) = (module.word(), module.word(), module.word(), module.word());
        let (from, step, to) = (module.word(), module.word(), module.word());
        let grid = strided::parameters(&mut module, rank, if gaps { 2 } else { 1 });
        module.add(&library::exact(hardware));
        let pair = match adjacent {
            true => "let i = e >> 1u; let second = (e & 1u) != 0u; let first_at = e - (e & 1u); let second_at = first_at + 1u;".to_owned(),
            false => format!(
                "let second = e >= {half}; let i = select(e, e - {half}, second); let first_at = i; let second_at = i + {half};"
            ),
        };
        let load = |e: &str| x.load(&format!("at + {e} * {step}"));
        module.add(&format!(
            "fn rotated(index: u32) -> f32 {{
                let row = index / {dim};
                let e = index % {dim};
                var at = {from};
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
        let word = match gaps {
            // Its neighbours in the word are the next of the row.
            true => {
                let _ = writeln!(
                    body,
                    "var place = {to} + first % {dim};\nvar at = 0u;\n{}",
                    grid.positions(&format!("first / {dim}"), &["at", "place"])
                );
                format!("place / {per_word}u")
            }
            false => format!("{to} / {per_word}u + t"),
        };
        body.push_str(&y.store(&word, &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
