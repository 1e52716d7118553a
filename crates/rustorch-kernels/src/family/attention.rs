//! Scaled dot-product attention: a workgroup per query, one pass over the keys with running maximum and sum (online softmax).
//!
//! Keys are processed in blocks of the workgroup size. Each thread scores one key; one thread turns the scores into weights, in
//! order; each thread then accumulates the weighted values of its columns. With an `f16` cache every step is rounded as in
//! `rustorch-cpu` (see its `attention/half.rs`).

use super::matmul::leading;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{Grid, rows};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::splitting::{Chunk, Move, SplitPlan, axes, axes::one};
use crate::table::{DTypes, Row, row};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{Attention as Parameters, DType, Decline, Op, OpKind, OpType, TensorMeta};
use std::fmt::Write;

/// The widest queries and values.
const WIDTH: usize = 512;
const COLUMNS: usize = WIDTH / WORKGROUP as usize;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    keys: DType,
    /// The dtype of the mask, and its dimensions.
    mask: Option<(DType, usize)>,
    half: bool,
    softcap: bool,
    /// Whether it also makes the log-sum-exp.
    lse: bool,
    /// Dimensions of the rows of queries, of the heads of keys and of values.
    ranks: [usize; 3],
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Attention, &[OpKind::Attention], DTypes::always(&[DType::F32]))
    .beside(&[DType::F16, DType::BF16, DType::F32, DType::Bool])
    .check(|op, args, _| {
        if let Op::Attention(Parameters { dropout: Some(_), .. }) = op {
            return Err(DROPOUT);
        }
        let width = |x: &TensorMeta<'_>| x.dims()[x.dims().len() - 1];
        match width(&args[0]) > WIDTH || width(&args[2]) > WIDTH {
            true => Err(Decline::Attr("heads wider than 512")),
            false => Ok(()),
        }
    })
    .remark("heads of up to 512 columns, without dropout")];

/// Kernels draw no masks of weights.
pub(super) const DROPOUT: Decline = Decline::Attr("dropout inside attention");

parameters! {
    /// Kernel parameters.
    struct Params(ranks: [usize; 3], mask: Option<(usize, usize)>) {
        queries: usize,
        m: usize,
        group: usize,
        n: usize,
        d: usize,
        e: usize,
        q_start: u32,
        q_stride: usize,
        k_start: u32,
        k_row: usize,
        k_stride: usize,
        v_start: u32,
        v_row: usize,
        v_stride: usize,
        mask_start: u32,
        mask_stride: usize,
        y_start: u32,
        lse_start: u32,
        /// One past the last key that query 0 sees.
        offset: u32,
        /// How far back it sees.
        window: u32,
        causal: u32,
        scale: f32,
        cap: f32,
        q_grid: Grid = (ranks[0], 1),
        k_grid: Grid = (ranks[1], 1),
        v_grid: Grid = (ranks[2], 1),
        mask_grid: Option<Grid> = mask,
    }
}

impl Kernels for Parameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    /// Batches, heads of keys with the heads of queries that share them, and queries.
    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let args = request.args;
        if self.lse {
            return Ok(None);
        }
        let rank = request.outs[0].layout.ndim();
        let heads = args[1].dims()[rank - 3];
        let group = args[0].dims()[rank - 3] / heads.max(1);
        // Without an offset there is no telling a later query how far back it sees.
        let queries = self.causal.is_some() || self.window.is_none();
        let mask = |d: usize| args.get(3).and_then(|mask| axes::broadcast(mask, rank, d));
        let mut cut = axes::beside(request, |d| match d {
            d if d == rank - 1 => None,
            d if d == rank - 2 => queries.then(|| [one(d), None, None, mask(d)].into_iter().collect()),
            d => Some([one(d), one(d), one(d), mask(d)].into_iter().collect()),
        });
        let axis = &mut cut.axes[rank - 3];
        axis.len = heads.max(1);
        for i in [0, 3, cut.operands.len() - 1] {
            if let Some(Some(Move::Each(_, unit))) = axis.moves.get_mut(i) {
                *unit = group;
            }
        }
        Ok(Some(cut))
    }

    fn narrowed(&self, chunk: &Chunk, axes: usize) -> Option<Op> {
        let [.., query, _] = chunk.starts[..axes] else { return None };
        let causal = self.causal.map(|offset| offset.saturating_add(query));
        Some(Op::Attention(Parameters { causal, ..self.clone() }))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, attention: &Parameters) -> Result<(), Decline> {
    let (q, k, v, out) = (request.arg(0), request.arg(1), request.arg(2), request.out(0));
    let rank = q.layout.ndim();
    let (qd, kd, vd) = (q.layout.dims(), k.layout.dims(), v.layout.dims());
    let queries: usize = qd[..rank - 1].iter().product();
    let group = qd[rank - 3] / kd[rank - 3].max(1);
    let grids = [
        Grid::new(&[&rows(q.layout)?]),
        Grid::new(&[&leading(k.layout, 2)?]),
        Grid::new(&[&leading(v.layout, 2)?]),
    ];
    let mask = match request.args.get(3) {
        None => None,
        Some(mask) => {
            let shape =
                q.layout.shape().with_dim(rank - 1, kd[rank - 2]).map_err(|_| Decline::Attr("too large"))?;
            let layout =
                mask.layout.broadcast_to(&shape, "attention").map_err(|_| Decline::Layout("the mask"))?;
            let grid = Grid::new(&[&rows(&layout)?]);
            Some((layout, grid))
        }
    };
    let kernel = Attention {
        keys: k.dtype,
        mask: mask.as_ref().map(|(_, grid)| (request.args[3].dtype, grid.ndim())),
        half: attention.rounds_to_f16(q.dtype, k.dtype),
        softcap: attention.softcap.is_some(),
        lse: attention.lse,
        ranks: [grids[0].ndim(), grids[1].ndim(), grids[2].ndim()],
    };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let [q_start, k_start, v_start] = [launch.read(&q)?, launch.read(&k)?, launch.read(&v)?];
    let mut mask_start = 0;
    if let Some((layout, _)) = &mask {
        mask_start = launch.read(&Operand { layout, ..request.arg(3) })?;
    }
    let y_start = launch.write(&out)?;
    let lse_start = if attention.lse { launch.write(&request.out(1))? } else { 0 };
    let strides = |x: &Operand<'_>| [x.layout.strides()[rank - 2], x.layout.strides()[rank - 1]];
    let ([k_row, k_stride], [v_row, v_stride]) = (strides(&k), strides(&v));
    let limit =
        |x: Option<usize>| x.map_or(Ok(u32::MAX / 2), |x| u32::try_from(x.min(u32::MAX as usize / 2)));
    let small = |_| Decline::Attr("too large");
    let [q_grid, k_grid, v_grid] = grids;
    launch.parameters(&Params {
        queries,
        m: qd[rank - 2],
        group,
        n: kd[rank - 2],
        d: qd[rank - 1],
        e: vd[rank - 1],
        q_start,
        q_stride: strides(&q)[1],
        k_start,
        k_row,
        k_stride,
        v_start,
        v_row,
        v_stride,
        mask_start,
        mask_stride: mask.as_ref().map_or(0, |(layout, _)| layout.strides()[rank - 1]),
        y_start,
        lse_start,
        offset: limit(attention.causal).map_err(small)?,
        window: limit(attention.window).map_err(small)?,
        causal: attention.causal.is_some().into(),
        scale: attention.scale,
        cap: attention.softcap.unwrap_or(1.0),
        q_grid,
        k_grid,
        v_grid,
        mask_grid: mask.map(|(_, grid)| grid),
    })?;
    plan.step(launch, line(queries, request.hardware)?);
    Ok(())
}

impl Attention {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Attention { keys, mask, half, softcap, lse, ranks } = *self;
        let mut module = Module::new();
        let q = module.elements("q", DType::F32, false, hardware);
        let k = module.elements("k", keys, false, hardware);
        let v = module.elements("v", keys, false, hardware);
        let mask_elements = mask.map(|(dtype, _)| module.elements("mask", dtype, false, hardware));
        let y = module.elements("y", DType::F32, true, hardware);
        let lse = lse.then(|| module.elements("lse", DType::F32, true, hardware));
        let Params {
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
            y_start,
            lse_start,
            offset,
            window,
            causal,
            scale,
            cap,
            q_grid,
            k_grid,
            v_grid,
            mask_grid,
        } = module.parameters::<Params>((ranks, mask.map(|(_, rank)| (rank, 1))));
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
            let here = place + select(0u, {offset}, {causal} != 0u) + 1u;
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
