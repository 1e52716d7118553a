//! Scaled dot-product attention: a workgroup per query, one pass over the keys with running maximum and sum (online softmax).
//!
//! Keys are processed in blocks of the workgroup size. Each thread scores one key; one thread turns the scores into weights, in
//! order; each thread then accumulates the weighted values of its columns. With an `f16` cache every step is rounded as in
//! `rustorch-cpu` (see its `attention/half.rs`).

use super::WIDTH;
use super::operands::{Kind, Operands, Params as OperandParams, declare_position, more};
use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline};
use std::fmt::Write;

const COLUMNS: usize = WIDTH / WORKGROUP as usize;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention(Kind);

parameters! {
    /// Kernel parameters.
    struct Params(ranks: [usize; 3], mask: Option<usize>) {
        operands: OperandParams = (ranks, mask),
        y_start: u32,
        lse_start: u32,
    }
}

/// Plans the launch.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    operands: Operands<'_, '_>,
) -> Result<(), Decline> {
    let kind = operands.kind();
    let mut launch = StepBuilder::new(request.hardware, Attention(kind));
    let operands = operands.bind(&mut launch)?;
    let queries = operands.queries;
    let y_start = launch.write(&request.out(0))?;
    let lse_start = if kind.lse { launch.write(&request.out(1))? } else { 0 };
    launch.parameters(&Params { operands, y_start, lse_start })?;
    plan.step(launch, line(queries, request.hardware)?);
    Ok(())
}

impl Attention {
    pub(crate) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Kind { queries: _, keys, mask, half, softcap, lse, position: _, ranks } = self.0;
        let mut module = Module::new();
        let q = module.elements("q", DType::F32, false, hardware);
        let k = module.elements("k", keys, false, hardware);
        let v = module.elements("v", keys, false, hardware);
        let mask_elements = mask.map(|(dtype, _)| module.elements("mask", dtype, false, hardware));
        let position = declare_position(&mut module, &self.0, hardware);
        let y = module.elements("y", DType::F32, true, hardware);
        let lse = lse.then(|| module.elements("lse", DType::F32, true, hardware));
        let Params { operands, y_start, lse_start } =
            module.parameters::<Params>((ranks, mask.map(|(_, rank)| rank)));
        let more = more(position.as_ref(), &operands);
        let OperandParams {
            queries,
            m,
            group,
            n,
            d,
            e,
            q_start,
            q_stride,
            k_start,
            k_row,
            k_stride,
            v_start,
            v_row,
            v_stride,
            mask_start,
            mask_stride,
            offset: _,
            position_start: _,
            window,
            causal,
            scale,
            cap,
            q_grid,
            k_grid,
            v_grid,
            mask_grid,
        } = operands;
        // With what `exact` and `wide` have.
        let log = if lse.is_some() { "log_of()" } else { "" };
        module.add(&library::called(&format!("wide() fused() {log}"), hardware));
        module.add(&library::fine_exp());
        if softcap {
            module.add(&library::soft_tanh());
        }
        module.add(&format!(
            "const NONE: u32 = 0xff800000u;
            var<workgroup> query: array<f32, {WIDTH}>;
            var<workgroup> scores: array<f32, {WORKGROUP}>;
            var<workgroup> shrinks: array<f32, {WORKGROUP}>;
            var<workgroup> largest: f32;
            var<workgroup> total: f32;
            fn rounded(x: f32) -> f32 {{ return {}; }}",
            if half { "f16_value(f16_bits(x))" } else { "x" }
        ));
        let key = k.load(&format!("k_at + i * {k_stride}"));
        // Products of half-precision values are exact, so that adding them is a fused multiply-add.
        let score = match half {
            false => format!(
                "var dot = 0.0;\nfor (var i = 0u; i < {d}; i++) {{ dot = fma(query[i], {key}, dot); }}"
            ),
            true => {
                let product =
                    |at: &str| format!("query[{at}] * {}", k.load(&format!("k_at + ({at}) * {k_stride}")));
                format!(
                    "let runs = {d} / 64u;
                    var lanes: array<f32, 16>;
                    for (var lane = 0u; lane < 16u; lane++) {{
                        var s = vec4<f32>();
                        for (var run = 0u; run < runs; run++) {{
                            let i = run * 64u + lane;
                            s += vec4<f32>({}, {}, {}, {});
                        }}
                        lanes[lane] = (s.w + s.y) + (s.z + s.x);
                    }}
                    for (var half = 8u; half > 0u; half = half >> 1u) {{
                        for (var lane = 0u; lane < half; lane++) {{ lanes[lane] += lanes[lane + half]; }}
                    }}
                    var sum = wide(lanes[0]);
                    for (var i = 64u * runs; i < {d}; i++) {{ sum = wide_add(sum, wide({})); }}
                    let dot = narrow(sum);",
                    product("i"),
                    product("i + 16u"),
                    product("i + 32u"),
                    product("i + 48u"),
                    product("i"),
                )
            }
        };
        let cap = match softcap {
            true => format!("score = soft_tanh(divide(score, {cap})) * {cap};"),
            false => String::new(),
        };
        let masked = match (&mask_elements, mask) {
            (Some(elements), Some((dtype, _))) => {
                let load = elements.load(&format!("mask_at + key * {mask_stride}"));
                match dtype {
                    DType::Bool => format!("if !({load}) {{ score = bitcast<f32>(none); }}"),
                    _ => format!("score += {load};"),
                }
            }
            _ => String::new(),
        };
        let mask_at = match &mask_grid {
            Some(grid) => format!("var mask_at = {mask_start};\n{}", grid.positions("row", &["mask_at"])),
            None => String::new(),
        };
        let value = v.load(&format!("v_at + (start + j) * {v_row} + column * {v_stride}"));
        let fused = if half { "fused" } else { "fma" };
        let mut body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {queries} {{ return; }}
            let head = row / {m} / {group};
            let place = row % {m};
            var q_at = {q_start};
            {}
            var k_head = {k_start};
            {}
            var v_at = {v_start};
            {}
            {mask_at}
            var none = NONE;
            {more}
            let here = place + more;
            let end = select({n}, min(here, {n}), {causal} != 0u);
            let begin = min(select(0u, here - {window}, here > {window}), end);
            for (var i = local; i < {d}; i += {WORKGROUP}u) {{ query[i] = rounded({}); }}
            if local == 0u {{ largest = bitcast<f32>(none); total = 0.0; }}
            var sums: array<f32, {COLUMNS}>;
            workgroupBarrier();
            for (var start = begin; start < end; start += {WORKGROUP}u) {{
                let count = min({WORKGROUP}u, end - start);
                if local < count {{
                    let key = start + local;
                    let k_at = k_head + key * {k_row};
                    {score}
                    var score = dot * {scale};
                    {cap}
                    {masked}
                    scores[local] = score;
                }}
                workgroupBarrier();
                if local == 0u {{
                    for (var j = 0u; j < count; j++) {{
                        let score = scores[j];
                        var shrink = 1.0;
                        var weight = 0.0;
                        // A shrinking factor of −1 marks a key that does not count.
                        if score == bitcast<f32>(none) {{
                            shrink = -1.0;
                        }} else if score > largest {{
                            shrink = fine_exp(largest - score);
                            weight = 1.0;
                            largest = score;
                            total = {fused}(total, shrink, weight);
                        }} else {{
                            weight = fine_exp(score - largest);
                            total = {fused}(total, 1.0, weight);
                        }}
                        shrinks[j] = shrink;
                        scores[j] = weight;
                    }}
                }}
                workgroupBarrier();
                for (var c = 0u; c < {COLUMNS}u; c++) {{
                    let column = c * {WORKGROUP}u + local;
                    if column >= {e} {{ break; }}
                    var sum = sums[c];
                    for (var j = 0u; j < count; j++) {{
                        let shrink = shrinks[j];
                        if shrink < 0.0 {{ continue; }}
                        if shrink != 1.0 {{ sum = rounded(sum * shrink); }}
                        sum = rounded({fused}({value}, scores[j], sum));
                    }}
                    sums[c] = sum;
                }}
                workgroupBarrier();
            }}
            var factor = 0.0;
            if total != 0.0 {{ factor = divide(1.0, total); }}
            for (var c = 0u; c < {COLUMNS}u; c++) {{
                let column = c * {WORKGROUP}u + local;
                if column >= {e} {{ break; }}\n",
            q_grid.positions("row", &["q_at"]),
            k_grid.positions("head", &["k_head"]),
            v_grid.positions("head", &["v_at"]),
            q.load(&format!("q_at + i * {q_stride}")),
        );
        let _ = writeln!(
            body,
            "{}\n}}",
            y.store(&format!("{y_start} + row * {e} + column"), &["sums[c] * factor".to_owned()])
        );
        if let Some(lse) = lse {
            // The logarithm of a sum that one key alone makes up is zero.
            let store = lse.store(&format!("{lse_start} + row"), &["value".to_owned()]);
            let _ = writeln!(
                body,
                "if local == 0u {{
                    var value = bitcast<f32>(none);
                    if total != 0.0 {{ value = largest + log_of(total); }}
                    {store}
                }}"
            );
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
