//! Gradients of batch and group normalisation. A workgroup per channel sums over it and, of batch normalisation, makes the gradient of the
//! input; that of group normalisation is made by a workgroup per group of a sample, which measures it again.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::scalars;
use crate::library::strided::{Grid, MAX_RANK};
use crate::library::{self, Parts, WorkgroupReduce};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Place, Request, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{BatchNormBackward, DType, Decline, GroupNormBackward, Op, OpKind, OpType, TensorMeta};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelNormBackward {
    /// Sums over channels.
    Channels(Channels),
    /// Groups of channels of a sample.
    Groups(Groups),
}

/// A kernel with a workgroup per channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channels {
    statistics: Statistics,
    dtype: DType,
    /// Of weight and statistics.
    parameters: DType,
    weighted: bool,
    /// Whether it makes the gradients of the input, the weight, the bias.
    makes: [bool; 3],
    /// Dimensions.
    rank: usize,
}

/// By which mean and variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Statistics {
    /// Those of the input, through which its gradient goes.
    Batch,
    /// Constants.
    Given,
    /// Those that [`Groups`] keeps.
    Kept,
}

/// A kernel with a workgroup per group of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    dtype: DType,
    /// Of the weight.
    parameters: DType,
    weighted: bool,
    /// Whether it makes the gradient of the input, and whether it keeps the statistics.
    makes: [bool; 2],
    /// Dimensions.
    rank: usize,
}

parameters! {
    /// Parameters of both.
    struct Params(rank: usize) {
        samples: usize,
        channels: usize,
        len: usize,
        /// Channels of a group.
        each: usize,
        grad_start: u32,
        x_start: u32,
        /// Of mean, variance and weight: the first, and from one to the next.
        starts: [u32; 3],
        strides: [u32; 3],
        /// Of the gradients.
        out_starts: [u32; 3],
        /// In two parts, for `f64`.
        eps: [f32; 2],
        grid: Grid = (rank, 2),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Normalization, &[OpKind::BatchNormBackward, OpKind::GroupNormBackward], sets::FLOAT)
        .check(check)];

fn check(_: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    if args[0].layout.numel() == 0 {
        return Err(Decline::Layout("an operand is empty"));
    }
    match Grid::new(&[args[0].layout, args[1].layout]).ndim() {
        rank if rank > MAX_RANK => Err(Decline::Rank { ndim: rank, limit: MAX_RANK }),
        _ => Ok(()),
    }
}

/// A request, and what its kernels have in common.
struct Launch<'a, 'r> {
    request: &'a Request<'r>,
    grid: Grid,
    eps: f64,
    /// Channels of a group.
    each: usize,
}

impl<'a, 'r> Launch<'a, 'r> {
    fn new(request: &'a Request<'r>, eps: f64, groups: usize) -> Launch<'a, 'r> {
        let (grad, x) = (request.arg(0), request.arg(1));
        let each = x.layout.dims()[1] / groups.max(1);
        Launch { request, grid: Grid::new(&[grad.layout, x.layout]), eps, each }
    }

    /// Samples, channels, and the elements of a channel of a sample.
    fn sizes(&self) -> [usize; 3] {
        let dims = self.request.args[1].dims();
        [dims[0], dims[1], dims[2..].iter().product()]
    }

    fn parameters(&self) -> Params {
        let [samples, channels, len] = self.sizes();
        let eps = self.eps as f32;
        Params {
            samples,
            channels,
            len,
            each: self.each,
            grad_start: 0,
            x_start: 0,
            starts: [0; 3],
            strides: [0; 3],
            out_starts: [0; 3],
            eps: [eps, (self.eps - f64::from(eps)) as f32],
            grid: self.grid.clone(),
        }
    }

    /// The dtype of weight and statistics.
    fn list_dtype(&self) -> DType {
        self.request.args.get(2).map_or(DType::F32, |list| list.dtype)
    }
}

/// Reads a list with a number for each channel.
fn read_list(step: &mut StepBuilder<'_>, list: &Operand<'_>) -> Result<(u32, u32), Decline> {
    let stride = u32::try_from(list.layout.strides()[0]).map_err(|_| Decline::Attr("too large"))?;
    Ok((step.read(list)?, stride))
}

impl Kernels for BatchNormBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let launch = Launch::new(request, self.eps, 1);
        let statistics = if self.training { Statistics::Batch } else { Statistics::Given };
        let makes = [self.x, self.weight, self.bias];
        let kernel = Channels {
            statistics,
            dtype: request.args[1].dtype,
            parameters: launch.list_dtype(),
            weighted: self.x && request.args.len() > 4,
            makes,
            rank: launch.grid.ndim(),
        };
        kernel.plan(plan, &launch, None)
    }
}

impl Kernels for GroupNormBackward {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let launch = Launch::new(request, self.eps, self.groups);
        let (dtype, parameters) = (request.args[1].dtype, launch.list_dtype());
        let rank = launch.grid.ndim();
        let mut kept = None;
        if self.x || self.weight {
            let weighted = self.x && request.args.len() > 2;
            let kernel = Groups { dtype, parameters, weighted, makes: [self.x, self.weight], rank };
            kept = kernel.plan(plan, &launch, self.groups)?;
        }
        if self.weight || self.bias {
            let makes = [false, self.weight, self.bias];
            let statistics = Statistics::Kept;
            let kernel = Channels { statistics, dtype, parameters, weighted: false, makes, rank };
            kernel.plan(plan, &launch, kept)?;
        }
        Ok(())
    }
}

impl Channels {
    /// Whether the gradient is summed, and its products with deviations.
    fn sums(&self) -> [bool; 2] {
        let own = self.makes[0] && self.statistics == Statistics::Batch;
        [self.makes[2] || own, self.makes[1] || own]
    }

    /// Whether mean and variance are read.
    fn lists(&self) -> [bool; 2] {
        match self.statistics {
            Statistics::Kept => [false, false],
            _ => [self.sums()[1], self.makes[0] || self.makes[1]],
        }
    }

    fn plan(
        &self,
        plan: &mut Plan,
        launch: &Launch<'_, '_>,
        kept: Option<(Place, u64)>,
    ) -> Result<(), Decline> {
        let request = launch.request;
        let mut step = StepBuilder::new(request.hardware, ChannelNormBackward::Channels(*self));
        let mut params = launch.parameters();
        params.grad_start = step.read(&request.arg(0))?;
        if self.sums()[1] {
            params.x_start = step.read(&request.arg(1))?;
        }
        let [mean, variance] = self.lists();
        for (i, read) in [mean, variance, self.weighted].into_iter().enumerate() {
            if read {
                (params.starts[i], params.strides[i]) = read_list(&mut step, &request.arg(2 + i))?;
            }
        }
        if let Some((place, bytes)) = kept.filter(|_| self.sums()[1]) {
            step.bytes(place, 0..bytes, false)?;
        }
        // Of group normalisation the input's gradient comes first, and is made by another kernel.
        let made: Vec<usize> = (0..3).filter(|&i| self.makes[i]).collect();
        for (out, &i) in (request.outs.len() - made.len()..).zip(&made) {
            params.out_starts[i] = step.write(&request.out(out))?;
        }
        let channels = params.channels;
        step.parameters(&params)?;
        plan.step(step, line(channels, request.hardware)?);
        Ok(())
    }

    fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Channels { statistics, dtype, parameters, weighted, makes, rank } = *self;
        let ([sums, products], [reads_mean, reads_variance]) = (self.sums(), self.lists());
        let mut module = Module::new();
        let grad = module.elements("grad", dtype, false, hardware);
        let x = products.then(|| module.elements("x", dtype, false, hardware));
        let mut list = |there: bool, name| there.then(|| module.elements(name, parameters, false, hardware));
        let lists = [list(reads_mean, "mean"), list(reads_variance, "variance"), list(weighted, "weight")];
        let kept = (products && statistics == Statistics::Kept)
            .then(|| module.elements("statistics", scalars::wide(dtype), false, hardware));
        let dx = makes[0].then(|| module.places("dx", dtype, hardware));
        let others = [(makes[1], "dweight"), (makes[2], "dbias")]
            .map(|(made, name)| made.then(|| module.elements(name, scalars::wide(dtype), true, hardware)));
        let params = module.parameters::<Params>(rank);
        let Params { samples, channels, len, each, grad_start, x_start, out_starts, eps, grid, .. } = &params;
        let ty = grad.value();
        module.add(&library::arithmetic(dtype, hardware));
        let [mean, variance, weight] = [0, 1, 2].map(|i| {
            let at = format!("{} + c * {}", params.starts[i], params.strides[i]);
            lists[i].as_ref().map(|list| list.load(&at))
        });
        let zero = format!("{ty}(0.0)");
        let mut body = format!(
            "let c = {LINEAR_GROUP};
            if c >= {channels} {{ return; }}
            let count = {samples} * {len};\n"
        );
        if let Some(mean) = mean {
            body.push_str(&format!("let centre = {mean};\n"));
        }
        if let Some(variance) = variance {
            body.push_str(&format!(
                "let inverse = divide({ty}(1.0), root({variance} + ({ty}({}) + {ty}({}))));\n",
                eps[0], eps[1]
            ));
        }
        let each_element = format!(
            "for (var e = local; e < count; e += {WORKGROUP}u) {{
                let i = (e / {len} * {channels} + c) * {len} + e % {len};
                var grad_at = {grad_start};
                var x_at = {x_start};
                {}
                let g = {};\n",
            grid.positions("i", &["grad_at", "x_at"]),
            grad.load("grad_at")
        );
        let deviation = x.as_ref().map(|x| match &kept {
            Some(kept) => {
                let of = |i: usize| kept.load(&format!("(3u * part + {i}u)"));
                format!(
                    "let part = (e / {len} * {channels} + c) / {each};
                    let hat = ({} - {} - {}) * {};\n",
                    x.load("x_at"),
                    of(0),
                    of(1),
                    of(2)
                )
            }
            None => format!("let hat = ({} - centre) * inverse;\n", x.load("x_at")),
        });
        if sums || products {
            let mut together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 2, hardware);
            body.push_str(&format!("var sum = wide({zero});\nvar product = wide({zero});\n{each_element}"));
            if sums {
                body.push_str("sum = wide_add(sum, wide(g));\n");
            }
            if let Some(deviation) = &deviation {
                body.push_str(&format!("{deviation} product = wide_add(product, wide(g * hat));\n"));
            }
            body.push_str(&format!("}}\n{}", together.reduce(&["sum", "product"], "wide_add(a, b)")));
            body.push_str("let total = narrow(sum);\nlet along = narrow(product);\n");
            for (i, (out, value)) in others.iter().zip(["along", "total"]).enumerate() {
                let Some(out) = out else { continue };
                let store = out.store(&format!("({} + c)", out_starts[i + 1]), &[value.to_owned()]);
                body.push_str(&format!("if local == 0u {{ {store} }}\n"));
            }
        }
        if let Some(dx) = &dx {
            let factor = weight.map_or("inverse".to_owned(), |weight| format!("{weight} * inverse"));
            body.push_str(&format!("let factor = {factor};\n"));
            let mut value = "g * factor".to_owned();
            if statistics == Statistics::Batch {
                body.push_str(&format!(
                    "let level = factor * divide(total, {ty}(count));
                    let slope = factor * divide(along, {ty}(count));\n"
                ));
                value.push_str(" - level - hat * slope");
            }
            let deviation = match statistics {
                Statistics::Batch => deviation.as_deref().unwrap_or_default(),
                _ => "",
            };
            let store = dx.store_one(&format!("{} + i", out_starts[0]), &value);
            body.push_str(&format!("{each_element} {deviation} {store} }}\n"));
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl Groups {
    /// Adds the launch, and says where it keeps the statistics.
    fn plan(
        &self,
        plan: &mut Plan,
        launch: &Launch<'_, '_>,
        groups: usize,
    ) -> Result<Option<(Place, u64)>, Decline> {
        let request = launch.request;
        let [makes_x, keeps] = self.makes;
        let mut step = StepBuilder::new(request.hardware, ChannelNormBackward::Groups(*self));
        let mut params = launch.parameters();
        if makes_x {
            params.grad_start = step.read(&request.arg(0))?;
        }
        params.x_start = step.read(&request.arg(1))?;
        if self.weighted {
            (params.starts[2], params.strides[2]) = read_list(&mut step, &request.arg(2))?;
        }
        if makes_x {
            params.out_starts[0] = step.write(&request.out(0))?;
        }
        let parts = params.samples * groups;
        let mut kept = None;
        if keeps {
            let bytes = 3 * parts * scalars::wide(self.dtype).block_bytes();
            let place = plan.scratch(bytes);
            step.bytes(place, 0..bytes as u64, true)?;
            kept = Some((place, bytes as u64));
        }
        step.parameters(&params)?;
        plan.step(step, line(parts, request.hardware)?);
        Ok(kept)
    }

    fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Groups { dtype, parameters, weighted, makes: [makes_x, keeps], rank } = *self;
        let mut module = Module::new();
        let grad = makes_x.then(|| module.elements("grad", dtype, false, hardware));
        let x = module.elements("x", dtype, false, hardware);
        let weight = weighted.then(|| module.elements("weight", parameters, false, hardware));
        let dx = makes_x.then(|| module.places("dx", dtype, hardware));
        let kept = keeps.then(|| module.elements("statistics", scalars::wide(dtype), true, hardware));
        let params = module.parameters::<Params>(rank);
        let Params { samples, channels, len, each, grad_start, x_start, out_starts, eps, grid, .. } = &params;
        let ty = x.value();
        module.add(&library::arithmetic(dtype, hardware));
        let mut together = WorkgroupReduce::new(&mut module, "Wide", Parts::Whole, 2, hardware);
        let each_element = format!(
            "for (var e = local; e < count; e += {WORKGROUP}u) {{
                let i = part * count + e;
                var grad_at = {grad_start};
                var x_at = {x_start};
                {}
                let v = {};\n",
            grid.positions("i", &["grad_at", "x_at"]),
            x.load("x_at")
        );
        let mut body = format!(
            "let part = {LINEAR_GROUP};
            let sets = {channels} / {each};
            if part >= {samples} * sets {{ return; }}
            let count = {each} * {len};
            let size = {ty}(count);
            var sum = wide({ty}(0.0));
            {each_element} sum = wide_add(sum, wide(v)); }}
            {}
            let centre = divide(narrow(sum), size);
            sum = wide({ty}(0.0));
            var square = wide({ty}(0.0));
            {each_element}
                let deviation = v - centre;
                sum = wide_add(sum, wide(deviation));
                square = wide_add(square, wide(deviation * deviation));
            }}
            {}
            let rest = divide(narrow(sum), size);
            let variance = max(divide(narrow(square), size) - rest * rest, {ty}(0.0));
            let inverse = divide({ty}(1.0), root(variance + ({ty}({}) + {ty}({}))));\n",
            together.reduce(&["sum"], "wide_add(a, b)"),
            together.reduce(&["sum", "square"], "wide_add(a, b)"),
            eps[0],
            eps[1],
        );
        if let (Some(dx), Some(grad)) = (&dx, &grad) {
            let mut weighted = grad.load("grad_at");
            if let Some(weight) = &weight {
                let c = format!("(part % sets * {each} + e / {len})");
                let at = format!("{} + {c} * {}", params.starts[2], params.strides[2]);
                weighted = format!("{weighted} * {}", weight.load(&at));
            }
            let values = format!("let g = {weighted};\nlet hat = (v - centre - rest) * inverse;\n");
            body.push_str(&format!(
                "sum = wide({ty}(0.0));
                square = wide({ty}(0.0));
                {each_element} {values}
                    sum = wide_add(sum, wide(g));
                    square = wide_add(square, wide(g * hat));
                }}
                {}
                let mean = divide(narrow(sum), size);
                let along = divide(narrow(square), size);
                {each_element} {values} {} }}\n",
                together.reduce(&["sum", "square"], "wide_add(a, b)"),
                dx.store_one(&format!("{} + i", out_starts[0]), "(g - mean - hat * along) * inverse"),
            ));
        }
        if let Some(kept) = &kept {
            body.push_str("if local == 0u {\n");
            for (i, value) in ["centre", "rest", "inverse"].into_iter().enumerate() {
                body.push_str(&kept.store(&format!("(3u * part + {i}u)"), &[value.to_owned()]));
            }
            body.push_str("}\n");
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

impl ChannelNormBackward {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        match self {
            ChannelNormBackward::Channels(kernel) => kernel.wgsl(hardware),
            ChannelNormBackward::Groups(kernel) => kernel.wgsl(hardware),
        }
    }
}
