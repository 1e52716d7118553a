//! Gradients of scaled dot-product attention: a workgroup per query, per key or per value, whose gradient it sums. Weights come
//! again from the log-sum-exp.
//!
//! A workgroup walks over the keys that its query sees, or over all queries of the heads that share its key, in blocks of its size.
//! Each thread computes what one of them has to do with its own row; then each adds the rows of the block, with these factors, in
//! order, to its columns.

use super::WIDTH;
use crate::family::matmul::leading;
use crate::family::{Plan, StepBuilder};
use crate::library::strided::{Grid, rows};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{AttentionBackward as Parameters, DType, Decline, Layout};

const COLUMNS: usize = WIDTH / WORKGROUP as usize;

/// Whose gradient a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    Queries,
    Keys,
    Values,
}

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionBackward {
    whose: Whose,
    /// The dtype of the mask.
    mask: Option<DType>,
    softcap: bool,
    /// Dimensions of queries, and of the heads of keys and values.
    ranks: [usize; 2],
}

impl Whose {
    /// The one of the wanted gradients that reads most arguments.
    pub(super) fn of(backward: &Parameters) -> Whose {
        if backward.q || backward.k { Whose::Queries } else { Whose::Values }
    }

    /// Whether gradients of scores are needed, and with them values and results.
    fn reads_all(self) -> bool {
        self != Whose::Values
    }
}

/// Dimensions of operands.
pub(super) struct Grids {
    /// `[.., heads, m]`: queries, gradients, log-sum-exps, results if they are read, and the mask if there is one.
    pub(super) rows: Grid,
    /// `[.., kv_heads]`: keys, and values.
    pub(super) heads: Grid,
    /// The mask as wide as the scores.
    mask: Option<Layout>,
}

impl Grids {
    /// Of `grad, q, k, v, out, lse[, mask]`.
    pub(super) fn new(args: &[&Layout], whose: Whose) -> Result<Grids, Decline> {
        let [grad, q, k, v, out, lse] = args[..6] else { return Err(Decline::Attr("too few arguments")) };
        let rank = q.ndim();
        let mask = match args.get(6) {
            None => None,
            Some(mask) => {
                let shape = q.shape().with_dim(rank - 1, k.dims()[rank - 2]);
                let shape = shape.map_err(|_| Decline::Attr("too large"))?;
                Some(mask.broadcast_to(&shape, "attention").map_err(|_| Decline::Layout("the mask"))?)
            }
        };
        let mut layouts = vec![rows(q)?, rows(grad)?, lse.clone()];
        if whose.reads_all() {
            layouts.push(rows(out)?);
        }
        if let Some(mask) = &mask {
            layouts.push(rows(mask)?);
        }
        let rows = Grid::new(&layouts.iter().collect::<Vec<_>>());
        let heads = Grid::new(&[&leading(k, 2)?, &leading(v, 2)?]);
        Ok(Grids { rows, heads, mask })
    }
}

parameters! {
    /// Kernel parameters.
    struct Params(ranks: [usize; 2], tensors: usize) {
        /// How many rows there are to make.
        count: usize,
        /// Their columns.
        width: usize,
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
        grad_start: u32,
        grad_stride: usize,
        out_start: u32,
        out_stride: usize,
        lse_start: u32,
        mask_start: u32,
        mask_stride: usize,
        y_start: u32,
        /// One past the last key that query 0 sees.
        offset: u32,
        /// How far back it sees.
        window: u32,
        causal: u32,
        scale: f32,
        cap: f32,
        rows: Grid = (ranks[0], tensors),
        heads: Grid = (ranks[1], 2),
    }
}

/// Plans a launch for each result.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, backward: &Parameters) -> Result<(), Decline> {
    let wanted = [(backward.q, Whose::Queries), (backward.k, Whose::Keys), (backward.v, Whose::Values)];
    let wanted = wanted.into_iter().filter(|(wanted, _)| *wanted);
    wanted.enumerate().try_for_each(|(i, (_, whose))| launch(plan, request, backward, whose, i))
}

/// Plans the launch for one result.
fn launch(
    plan: &mut Plan,
    request: &Request<'_>,
    backward: &Parameters,
    whose: Whose,
    result: usize,
) -> Result<(), Decline> {
    let attention = &backward.attention;
    let [grad, q, k, v, out, lse] = [0, 1, 2, 3, 4, 5].map(|i| request.arg(i));
    let layouts: Vec<&Layout> = request.args.iter().map(|x| x.layout).collect();
    let Grids { rows, heads, mask } = Grids::new(&layouts, whose)?;
    let rank = q.layout.ndim();
    let (qd, kd) = (q.layout.dims(), k.layout.dims());
    let (d, e) = (qd[rank - 1], v.layout.dims()[rank - 1]);
    let kernel = AttentionBackward {
        whose,
        mask: mask.is_some().then(|| request.arg(6).dtype),
        softcap: attention.softcap.is_some(),
        ranks: [rows.ndim(), heads.ndim()],
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let (q_start, k_start, grad_start) = (step.read(&q)?, step.read(&k)?, step.read(&grad)?);
    let lse_start = step.read(&lse)?;
    // A kernel has no buffer that it does not read.
    let (v_start, out_start) = match whose.reads_all() {
        true => (step.read(&v)?, step.read(&out)?),
        false => (0, 0),
    };
    let mut mask_start = 0;
    if let Some(layout) = &mask {
        mask_start = step.read(&Operand { layout, ..request.arg(6) })?;
    }
    let y_start = step.write(&request.out(result))?;
    let stride = |x: &Operand<'_>, from_last: usize| x.layout.strides()[rank - from_last];
    let limit =
        |x: Option<usize>| x.map_or(Ok(u32::MAX / 2), |x| u32::try_from(x.min(u32::MAX as usize / 2)));
    let small = |_| Decline::Attr("too large");
    let count = match whose {
        Whose::Queries => qd[..rank - 1].iter().product(),
        _ => kd[..rank - 1].iter().product(),
    };
    step.parameters(&Params {
        count,
        width: if whose == Whose::Values { e } else { d },
        m: qd[rank - 2],
        group: qd[rank - 3] / kd[rank - 3].max(1),
        n: kd[rank - 2],
        d,
        e,
        q_start,
        q_stride: stride(&q, 1),
        k_start,
        k_row: stride(&k, 2),
        k_stride: stride(&k, 1),
        v_start,
        v_row: stride(&v, 2),
        v_stride: stride(&v, 1),
        grad_start,
        grad_stride: stride(&grad, 1),
        out_start,
        out_stride: stride(&out, 1),
        lse_start,
        mask_start,
        mask_stride: mask.as_ref().map_or(0, |layout| layout.strides()[rank - 1]),
        y_start,
        offset: limit(attention.causal).map_err(small)?,
        window: limit(attention.window).map_err(small)?,
        causal: attention.causal.is_some().into(),
        scale: attention.scale,
        cap: attention.softcap.unwrap_or(1.0),
        rows,
        heads,
    })?;
    plan.step(step, line(count, request.hardware)?);
    Ok(())
}

impl AttentionBackward {
    pub(crate) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let AttentionBackward { whose, mask, softcap, ranks } = *self;
        let mut module = Module::new();
        let mut single = |name| module.elements(name, DType::F32, false, hardware);
        let (q, k, grad, lse) = (single("q"), single("k"), single("grad"), single("lse"));
        let values = whose.reads_all().then(|| (single("v"), single("out")));
        let mask = mask.map(|dtype| (dtype, module.elements("mask", dtype, false, hardware)));
        let y = module.elements("y", DType::F32, true, hardware);
        let tensors = 3 + usize::from(values.is_some()) + usize::from(mask.is_some());
        let Params {
            count,
            width,
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
            grad_start,
            grad_stride,
            out_start,
            out_stride,
            lse_start,
            mask_start,
            mask_stride,
            y_start,
            offset,
            window,
            causal,
            scale,
            cap,
            rows,
            heads,
        } = module.parameters::<Params>((ranks, tensors));
        module.add(&library::exact(hardware));
        module.add(library::wide(hardware));
        module.add(&library::fine_exp());
        if softcap {
            module.add(&library::soft_tanh());
        }
        module.add(&format!(
            "const NONE: u32 = 0xff800000u;
            var<workgroup> factors: array<f32, {WORKGROUP}>;
            var<workgroup> places: array<u32, {WORKGROUP}>;"
        ));
        let mut names = vec!["q_at", "grad_at", "lse_at"];
        names.extend(values.is_some().then_some("out_at"));
        names.extend(mask.is_some().then_some("mask_at"));
        let capped = match softcap {
            true => format!(
                "let t = soft_tanh(divide(score, {cap}));
                score = t * {cap};
                slope = 1.0 - t * t;"
            ),
            false => String::new(),
        };
        let masked = match &mask {
            Some((dtype, elements)) => {
                let load = elements.load(&format!("mask_at + key * {mask_stride}"));
                match dtype {
                    DType::Bool => format!("if !({load}) {{ score = bitcast<f32>(none); }}"),
                    _ => format!("score += {load};"),
                }
            }
            None => String::new(),
        };
        let factor = match &values {
            Some((v, out)) => format!(
                "var along = 0.0;
                for (var i = 0u; i < {e}; i++) {{ along = fma({}, {} - {}, along); }}
                factor = weight * along * slope * {scale};",
                grad.load(&format!("grad_at + i * {grad_stride}")),
                v.load(&format!("v_at + i * {v_stride}")),
                out.load(&format!("out_at + i * {out_stride}")),
            ),
            None => "factor = weight;".to_owned(),
        };
        // What the threads' rows are, which of them count, and the rows that are added with their factors.
        let (own, last, other, place, added) = match whose {
            Whose::Queries => (
                format!(
                    "let row = own;
                    let head = row / {m} / {group};
                    let here = row % {m} + select(0u, {offset}, {causal} != 0u) + 1u;
                    let end = select({n}, min(here, {n}), {causal} != 0u);
                    let begin = min(select(0u, here - {window}, here > {window}), end);"
                ),
                String::new(),
                "let key = start + local;".to_owned(),
                "k_at",
                k.load(&format!("places[j] + column * {k_stride}")),
            ),
            _ => (
                format!(
                    "let head = own / {n};
                    let key = own % {n};
                    let begin = 0u;
                    let end = {group} * {m};"
                ),
                format!(
                    "let here = row % {m} + select(0u, {offset}, {causal} != 0u) + 1u;
                    if {causal} != 0u && key >= here || here > {window} && key < here - {window} {{
                        score = bitcast<f32>(none);
                    }}"
                ),
                format!("let row = head * {group} * {m} + start + local;"),
                if whose == Whose::Keys { "q_at" } else { "grad_at" },
                match whose {
                    Whose::Keys => q.load(&format!("places[j] + column * {q_stride}")),
                    _ => grad.load(&format!("places[j] + column * {grad_stride}")),
                },
            ),
        };
        let body = format!(
            "let own = {LINEAR_GROUP};
            if own >= {count} {{ return; }}
            {own}
            var none = NONE;
            var sums: array<f32, {COLUMNS}>;
            for (var start = begin; start < end; start += {WORKGROUP}u) {{
                let count = min({WORKGROUP}u, end - start);
                if local < count {{
                    {other}
                    var q_at = {q_start};
                    var grad_at = {grad_start};
                    var lse_at = {lse_start};
                    var out_at = {out_start};
                    var mask_at = {mask_start};
                    {}
                    var k_at = {k_start} + key * {k_row};
                    var v_at = {v_start} + key * {v_row};
                    {}
                    var dot = 0.0;
                    for (var i = 0u; i < {d}; i++) {{ dot = fma({}, {}, dot); }}
                    var score = dot * {scale};
                    var slope = 1.0;
                    {capped}
                    {masked}
                    {last}
                    let lse = {};
                    var factor = 0.0;
                    if bitcast<u32>(score) != none && bitcast<u32>(lse) != none {{
                        let weight = fine_exp(score - lse);
                        {factor}
                    }}
                    factors[local] = factor;
                    places[local] = {place};
                }}
                workgroupBarrier();
                for (var c = 0u; c < {COLUMNS}u; c++) {{
                    let column = c * {WORKGROUP}u + local;
                    if column >= {width} {{ break; }}
                    var sum = sums[c];
                    for (var j = 0u; j < count; j++) {{ sum = fma({added}, factors[j], sum); }}
                    sums[c] = sum;
                }}
                workgroupBarrier();
            }}
            for (var c = 0u; c < {COLUMNS}u; c++) {{
                let column = c * {WORKGROUP}u + local;
                if column >= {width} {{ break; }}
                {}
            }}",
            rows.positions("row", &names),
            heads.positions("head", &["k_at", "v_at"]),
            q.load(&format!("q_at + i * {q_stride}")),
            k.load(&format!("k_at + i * {k_stride}")),
            lse.load("lse_at"),
            y.store(&format!("{y_start} + own * {width} + column"), &["sums[c]".to_owned()]),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
