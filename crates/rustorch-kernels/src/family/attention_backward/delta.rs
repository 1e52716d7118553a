//! The sum of each query's gradient times its result, which both kernels in tiles subtract: a thread per query.

use super::tiled::Operands;
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::library::strided::{Grid, rows};
use crate::plan::parameters::parameters;
use crate::plan::{Place, Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delta {
    dtype: DType,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        count: usize,
        e: usize,
        grad_start: u32,
        grad_stride: usize,
        out_start: u32,
        out_stride: usize,
        grid: Grid = (rank, 2),
    }
}

/// Plans the launch; returns where the sums are, in the order of queries.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, operands: &Operands) -> Result<Place, Decline> {
    let (grad, out) = (request.arg(0), request.arg(4));
    let last = grad.layout.ndim() - 1;
    let grid = Grid::new(&[&rows(grad.layout)?, &rows(out.layout)?]);
    let kernel = Delta { dtype: grad.dtype, rank: grid.ndim() };
    let count = operands.queries();
    let place = plan.scratch(4 * count);
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (grad_start, out_start) = (launch.read(&grad)?, launch.read(&out)?);
    launch.bytes(place, 0..4 * count as u64, true)?;
    let [grad_stride, out_stride] = [&grad, &out].map(|x| x.layout.strides()[last]);
    let e = out.layout.dims()[last];
    launch.parameters(&Params { count, e, grad_start, grad_stride, out_start, out_stride, grid })?;
    plan.step(launch, line(count.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(place)
}

impl Delta {
    pub(crate) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let mut module = Module::new();
        let grad = module.elements("grad", self.dtype, false, hardware);
        let out = module.elements("out", self.dtype, false, hardware);
        let y = module.elements("y", DType::F32, true, hardware);
        let Params { count, e, grad_start, grad_stride, out_start, out_stride, grid } =
            module.parameters::<Params>(self.rank);
        let body = format!(
            "let row = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if row >= {count} {{ return; }}
            var grad_at = {grad_start};
            var out_at = {out_start};
            {}
            var sum = 0.0;
            for (var i = 0u; i < {e}; i++) {{ sum = fma({}, {}, sum); }}
            {}",
            grid.positions("row", &["grad_at", "out_at"]),
            grad.load(&format!("grad_at + i * {grad_stride}")),
            out.load(&format!("out_at + i * {out_stride}")),
            y.store("row", &["sum".to_owned()]),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
