//! Gradients of layer and RMS normalisation. A workgroup per row measures it again and makes the gradient of the input; those of
//! weight and bias are sums over blocks of rows, a thread per column, and then sums over the blocks.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::scalars;
use crate::library::strided::{Grid, MAX_RANK};
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Place, Request, line};
use crate::splitting::{SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{
    DType, Decline, LayerNormBackward, Layout, Op, OpKind, OpType, RmsNormBackward, Shape, TensorMeta,
};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormBackward {
    /// Rows: the gradient of the input, and the statistics of each row.
    Rows(Rows),
    /// Sums of columns over blocks of rows.
    Blocks(Blocks),
    /// Sums over the blocks.
    Last(Last),
}

/// A kernel with a workgroup per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rows {
    dtype: DType,
    /// Whether the mean is subtracted.
    centred: bool,
    /// Whether there is a weight.
    weighted: bool,
    /// Whether it makes the gradient of the input, and whether it keeps the statistics.
    makes: [bool; 2],
    /// Dimensions of the rows and within them.
    ranks: [usize; 2],
}

/// A kernel with a thread per column and block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    dtype: DType,
    /// Whether it makes the gradients of the weight and of the bias.
    makes: [bool; 2],
    /// Dimensions of the rows and within them.
    ranks: [usize; 2],
}

/// A kernel with a thread per column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Last {
    dtype: DType,
    /// How many lists of columns there are.
    lists: usize,
}

parameters! {
    /// Parameters of [`Rows`].
    struct RowsParams(ranks: [usize; 2], tensors: usize) {
        rows: usize,
        len: usize,
        grad_start: u32,
        x_start: u32,
        w_start: u32,
        out_start: u32,
        /// In two parts, for `f64`.
        eps: [f32; 2],
        outer: Grid = (ranks[0], 2),
        inner: Grid = (ranks[1], tensors),
    }
}

parameters! {
    /// Parameters of [`Blocks`].
    struct BlocksParams(ranks: [usize; 2]) {
        rows: usize,
        len: usize,
        /// Rows of a block.
        block: usize,
        /// How many blocks there are.
        blocks: usize,
        grad_start: u32,
        x_start: u32,
        outer: Grid = (ranks[0], 2),
        inner: Grid = (ranks[1], 2),
    }
}

parameters! {
    /// Parameters of [`Last`].
    struct LastParams(lists: usize) {
        len: usize,
        blocks: usize,
        starts: Vec<u32> = vec![(); lists],
    }
}

/// The fewest rows of a block, and the most blocks.
const BLOCK: usize = 64;
const BLOCKS: usize = 256;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Normalization, &[OpKind::LayerNormBackward, OpKind::RmsNormBackward], sets::FLOAT)
        .check(check)];

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let norm = Norm::of(op)?;
    if args[1].layout.numel() == 0 {
        return Err(Decline::Layout("an operand is empty"));
    }
    let [outer, inner] = norm.grids(args)?;
    match outer.ndim().max(inner.ndim()) {
        rank if rank > MAX_RANK => Err(Decline::Rank { ndim: rank, limit: MAX_RANK }),
        _ => Ok(()),
    }
}

/// What is differentiated, and which gradients are wanted.
struct Norm {
    dims: usize,
    eps: f64,
    centred: bool,
    wanted: [bool; 3],
}

impl Norm {
    fn of(op: &Op) -> Result<Norm, Decline> {
        match op {
            Op::LayerNormBackward(LayerNormBackward { dims, eps, x, weight, bias }) => {
                Ok(Norm { dims: *dims, eps: *eps, centred: true, wanted: [*x, *weight, *bias] })
            }
            Op::RmsNormBackward(RmsNormBackward { eps, x, weight }) => {
                Ok(Norm { dims: 1, eps: *eps, centred: false, wanted: [*x, *weight, false] })
            }
            _ => Err(Decline::Op(op.name())),
        }
    }

    /// The dimensions of rows, and those within them, of the gradient, of what was normalised and of the weight.
    fn grids(&self, args: &[TensorMeta<'_>]) -> Result<[Grid; 2], Decline> {
        let large = |_| Decline::Attr("too large");
        let part = |dims: &[usize], strides: &[usize]| {
            Layout::new(Shape::new(dims).map_err(large)?, strides, 0).map_err(large)
        };
        let (mut rows, mut within) = (Vec::new(), Vec::new());
        for layout in args[..2].iter().map(|x| x.layout) {
            let ((dims, strides), outer) = ((layout.dims(), layout.strides()), layout.ndim() - self.dims);
            rows.push(part(&dims[..outer], &strides[..outer])?);
            within.push(part(&dims[outer..], &strides[outer..])?);
        }
        within.extend(args[2..].iter().map(|weight| weight.layout.clone()));
        let grid = |layouts: &[Layout]| Grid::new(&layouts.iter().collect::<Vec<_>>());
        Ok([grid(&rows), grid(&within)])
    }
}

impl Kernels for LayerNormBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        self::split(request)
    }
}

impl Kernels for RmsNormBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        self::split(request)
    }
}

/// Rows are parted where nothing is summed over them.
fn split(request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
    let norm = Norm::of(request.op)?;
    if norm.wanted != [true, false, false] {
        return Ok(None);
    }
    let outer = request.outs[0].dims().len() - norm.dims;
    Ok(Some(axes::beside(request, |d| (d < outer).then(|| [one(d), one(d)].into_iter().collect()))))
}

fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let norm = Norm::of(request.op)?;
    let hardware = request.hardware;
    let (grad, x) = (request.arg(0), request.arg(1));
    let weight = (request.args.len() > 2).then(|| request.arg(2));
    let dims = x.layout.dims();
    let outer = dims.len() - norm.dims;
    let (rows, len): (usize, usize) = (dims[..outer].iter().product(), dims[outer..].iter().product());
    let [wants_x, wants_weight, wants_bias] = norm.wanted;
    let size = scalars::wide(x.dtype).block_bytes();
    let mut statistics = None;
    if wants_x || wants_weight {
        let weight = weight.filter(|_| wants_x);
        let tensors = 2 + usize::from(weight.is_some());
        let [outer, inner] = norm.grids(&request.args[..tensors])?;
        let kernel = Rows {
            dtype: x.dtype,
            centred: norm.centred,
            weighted: weight.is_some(),
            makes: [wants_x, wants_weight],
            ranks: [outer.ndim(), inner.ndim()],
        };
        let mut step = StepBuilder::new(hardware, NormBackward::Rows(kernel));
        // Statistics are those of the input alone, and a kernel has no buffer that it does not read.
        let grad_start = wants_x.then(|| step.read(&grad)).transpose()?.unwrap_or(0);
        let x_start = step.read(&x)?;
        let w_start = weight.map(|weight| step.read(&weight)).transpose()?.unwrap_or(0);
        let out_start = wants_x.then(|| step.write(&request.out(0))).transpose()?.unwrap_or(0);
        if wants_weight {
            let bytes = 3 * rows * size;
            let place = plan.scratch(bytes);
            step.bytes(place, 0..bytes as u64, true)?;
            statistics = Some((place, bytes as u64));
        }
        let eps = norm.eps as f32;
        let eps = [eps, (norm.eps - f64::from(eps)) as f32];
        step.parameters(&RowsParams {
            rows,
            len,
            grad_start,
            x_start,
            w_start,
            out_start,
            eps,
            outer,
            inner,
        })?;
        plan.step(step, line(rows, hardware)?);
    }
    if !(wants_weight || wants_bias) {
        return Ok(());
    }
    let first = usize::from(wants_x);
    let outs: Vec<Operand<'_>> = (first..request.outs.len()).map(|i| request.out(i)).collect();
    let block = BLOCK.max(rows.div_ceil(BLOCKS));
    let blocks = rows.div_ceil(block);
    let bytes = outs.len() * blocks * len * size;
    let sums = plan.scratch(bytes);
    sum_blocks(
        plan,
        request,
        &norm,
        [&grad, &x],
        statistics,
        [rows, len, block, blocks],
        (sums, bytes as u64),
    )?;
    let kernel = Last { dtype: x.dtype, lists: outs.len() };
    let mut step = StepBuilder::new(hardware, NormBackward::Last(kernel));
    step.bytes(sums, 0..bytes as u64, false)?;
    let starts = outs.iter().map(|out| step.write(out)).collect::<Result<_, _>>()?;
    step.parameters(&LastParams { len, blocks, starts })?;
    plan.step(step, line(len.div_ceil(WORKGROUP as usize), hardware)?);
    Ok(())
}

/// Adds the launch that sums columns over blocks of rows.
fn sum_blocks(
    plan: &mut Plan,
    request: &Request<'_>,
    norm: &Norm,
    [grad, x]: [&Operand<'_>; 2],
    statistics: Option<(Place, u64)>,
    [rows, len, block, blocks]: [usize; 4],
    (sums, bytes): (Place, u64),
) -> Result<(), Decline> {
    let [outer, inner] = norm.grids(&request.args[..2])?;
    let [_, wants_weight, wants_bias] = norm.wanted;
    let kernel =
        Blocks { dtype: x.dtype, makes: [wants_weight, wants_bias], ranks: [outer.ndim(), inner.ndim()] };
    let mut step = StepBuilder::new(request.hardware, NormBackward::Blocks(kernel));
    let grad_start = step.read(grad)?;
    let mut x_start = 0;
    if let Some((place, bytes)) = statistics {
        x_start = step.read(x)?;
        step.bytes(place, 0..bytes, false)?;
    }
    step.bytes(sums, 0..bytes, true)?;
    step.parameters(&BlocksParams { rows, len, block, blocks, grad_start, x_start, outer, inner })?;
    plan.step(step, line((blocks * len).div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl NormBackward {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        match self {
            NormBackward::Rows(kernel) => kernel.wgsl(hardware),
            NormBackward::Blocks(kernel) => kernel.wgsl(hardware),
            NormBackward::Last(kernel) => kernel.wgsl(hardware),
        }
    }
}

impl Rows {
    fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Rows { dtype, centred, weighted, makes: [makes_x, keeps], ranks } = *self;
        let mut module = Module::new();
        let grad = makes_x.then(|| module.elements("grad", dtype, false, hardware));
        let x = module.elements("x", dtype, false, hardware);
        let w = weighted.then(|| module.elements("w", dtype, false, hardware));
        let out = makes_x.then(|| module.places("out", dtype, hardware));
        let kept = keeps.then(|| module.elements("statistics", scalars::wide(dtype), true, hardware));
        let RowsParams { rows, len, grad_start, x_start, w_start, out_start, eps, outer, inner } =
            module.parameters::<RowsParams>((ranks, 2 + usize::from(weighted)));
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        let mut together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 2, hardware);
        let names = ["grad_at", "x_at", "w_at"];
        let mut places = String::from("var grad_at = grad_base;\nvar x_at = x_base;\n");
        if weighted {
            places.push_str(&format!("var w_at = {w_start};\n"));
        }
        places.push_str(&inner.positions("i", &names[..2 + usize::from(weighted)]));
        let load = x.load("x_at");
        let each = format!("for (var i = local; i < {len}; i += {WORKGROUP}u) {{\n{places}let v = {load};\n");
        let measured = match centred {
            true => format!(
                "{each} sum = wide_add(sum, wide(v)); }}
                {}
                let centre = divide(narrow(sum), count);
                sum = wide({ty}(0.0));
                {each}
                    let deviation = v - centre;
                    sum = wide_add(sum, wide(deviation));
                    square = wide_add(square, wide(deviation * deviation));
                }}
                {}
                let rest = divide(narrow(sum), count);",
                together.reduce(&["sum"], "wide_add(a, b)"),
                together.reduce(&["sum", "square"], "wide_add(a, b)"),
            ),
            false => format!(
                "let centre = {ty}(0.0);
                let rest = {ty}(0.0);
                {each} square = wide_add(square, wide(v * v)); }}
                {}",
                together.reduce(&["square"], "wide_add(a, b)"),
            ),
        };
        let mut body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {rows} {{ return; }}
            var grad_base = {grad_start};
            var x_base = {x_start};
            {}
            let count = {ty}({len});
            var sum = wide({ty}(0.0));
            var square = wide({ty}(0.0));
            {measured}
            let variance = max(divide(narrow(square), count) - rest * rest, {ty}(0.0));
            let factor = divide({ty}(1.0), root(variance + ({ty}({}) + {ty}({}))));\n",
            outer.positions("row", &["grad_base", "x_base"]),
            eps[0],
            eps[1],
        );
        if let (Some(out), Some(grad)) = (&out, &grad) {
            let mut weighted = grad.load("grad_at");
            if let Some(w) = &w {
                weighted = format!("{weighted} * {}", w.load("w_at"));
            }
            let values = format!("let g = {weighted};\nlet hat = (v - centre - rest) * factor;\n");
            let mean = if centred { "divide(narrow(sum), count)".to_owned() } else { format!("{ty}(0.0)") };
            body.push_str(&format!(
                "sum = wide({ty}(0.0));
                square = wide({ty}(0.0));
                {each} {values}
                    sum = wide_add(sum, wide(g));
                    square = wide_add(square, wide(g * hat));
                }}
                {}
                let mean = {mean};
                let along = divide(narrow(square), count);
                {each} {values} {} }}\n",
                together.reduce(&["sum", "square"], "wide_add(a, b)"),
                out.store_one(&format!("{out_start} + row * {len} + i"), "(g - mean - hat * along) * factor"),
            ));
        }
        if let Some(kept) = &kept {
            body.push_str("if local == 0u {\n");
            for (i, value) in ["centre", "rest", "factor"].into_iter().enumerate() {
                body.push_str(&kept.store(&format!("(3u * row + {i}u)"), &[value.to_owned()]));
            }
            body.push_str("}\n");
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl Blocks {
    fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Blocks { dtype, makes: [weight, bias], ranks } = *self;
        let mut module = Module::new();
        let grad = module.elements("grad", dtype, false, hardware);
        let measured = weight.then(|| {
            let x = module.elements("x", dtype, false, hardware);
            (x, module.elements("statistics", scalars::wide(dtype), false, hardware))
        });
        let sums = module.elements("sums", scalars::wide(dtype), true, hardware);
        let BlocksParams { rows, len, block, blocks, grad_start, x_start, outer, inner } =
            module.parameters::<BlocksParams>(ranks);
        let ty = grad.value();
        let of_weight = match &measured {
            Some((x, statistics)) => {
                let of = |i: usize| statistics.load(&format!("(3u * row + {i}u)"));
                format!(
                    "let hat = ({} - {} - {}) * {};\nweight_sum += g * hat;",
                    x.load("x_at"),
                    of(0),
                    of(1),
                    of(2)
                )
            }
            None => String::new(),
        };
        let mut stores = String::new();
        for (list, value) in
            [(weight, "weight_sum"), (bias, "bias_sum")].into_iter().filter(|(made, _)| *made).enumerate()
        {
            let place = format!("(({list}u * {blocks} + block) * {len} + column)");
            stores.push_str(&sums.store(&place, &[value.1.to_owned()]));
        }
        let body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {blocks} * {len} {{ return; }}
            let block = t / {len};
            let column = t % {len};
            var grad_base = {grad_start};
            var x_base = {x_start};
            {}
            var weight_sum = {ty}(0.0);
            var bias_sum = {ty}(0.0);
            let end = min((block + 1u) * {block}, {rows});
            for (var row = block * {block}; row < end; row++) {{
                var grad_at = grad_base;
                var x_at = x_base;
                {}
                let g = {};
                {of_weight}
                bias_sum += g;
            }}
            {stores}",
            inner.positions("column", &["grad_base", "x_base"]),
            outer.positions("row", &["grad_at", "x_at"]),
            grad.load("grad_at"),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl Last {
    fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Last { dtype, lists } = *self;
        let mut module = Module::new();
        let sums = module.elements("sums", scalars::wide(dtype), false, hardware);
        let outs: Vec<_> =
            ["first", "second"][..lists].iter().map(|name| module.places(name, dtype, hardware)).collect();
        let LastParams { len, blocks, starts } = module.parameters::<LastParams>(lists);
        let ty = sums.value();
        let mut body = format!(
            "let column = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if column >= {len} {{ return; }}\n"
        );
        for (list, (out, start)) in outs.iter().zip(&starts).enumerate() {
            let part = sums.load(&format!("(({list}u * {blocks} + block) * {len} + column)"));
            let store = out.store_one(&format!("{start} + column"), "total");
            body.push_str(&format!(
                "{{
                    var total = {ty}(0.0);
                    for (var block = 0u; block < {blocks}; block++) {{ total += {part}; }}
                    {store}
                }}\n"
            ));
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
