//! Sort of short lines: a workgroup per line, in workgroup memory.

use super::super::lines::{LineParams, Lines};
use super::{exchange, key};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::library::Order;
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, Decline};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    dtype: DType,
    descending: bool,
    /// Elements sorted, a power of two.
    size: usize,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        count: usize,
        len: usize,
        kept: usize,
        x: LineParams,
        y: LineParams,
        indices: LineParams,
        grid: Grid = (rank, 3),
    }
}

/// Plans the launch.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    lines: Lines,
    kept: usize,
    descending: bool,
) -> Result<(), Decline> {
    let (x, values, indices) = (request.arg(0), request.out(0), request.out(1));
    let size = lines.len.next_power_of_two().max(2);
    let kernel = Sort { dtype: x.dtype, descending, size, rank: lines.grid.ndim() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let params = Params {
        count: lines.count,
        len: lines.len,
        kept,
        x: LineParams { start: launch.read(&x)?, stride: lines.steps[0] },
        y: LineParams { start: launch.write(&values)?, stride: lines.steps[1] },
        indices: LineParams { start: launch.write(&indices)?, stride: lines.steps[2] },
        grid: lines.grid,
    };
    launch.parameters(&params)?;
    plan.step(launch, line(lines.count, request.hardware)?);
    Ok(())
}

impl Sort {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Sort { dtype, descending, size, rank } = *self;
        let order = Order::of(dtype);
        let workgroup = (size / 2).clamp(32, 256);
        let mut module = Module::new();
        let x = order.elements(&mut module, "x", hardware);
        let y = match dtype.size() {
            Some(8) => module.bit_places("y", dtype),
            _ => module.places("y", dtype, hardware),
        };
        let indices = module.places("indices", DType::I64, hardware);
        let Params { count, len, kept, x: x_line, y: y_line, indices: i_line, grid } =
            module.parameters::<Params>(rank);
        module.add(&order.text());
        module.add(&format!(
            "var<workgroup> keys: array<{0}, {size}>;\nvar<workgroup> places: array<u32, {size}>;",
            order.key()
        ));
        let (x_step, y_step, i_step) = (x_line.stride, y_line.stride, i_line.stride);
        let body = format!(
            "let row = {LINEAR_GROUP};
            if row >= {count} {{ return; }}
            var at = {};\nvar y_at = {};\nvar i_at = {};
            {}
            for (var i = local; i < {size}u; i += {workgroup}u) {{
                // Beyond the line comes what is last anyway.
                var key = ~{}();
                if i < {len} {{ key = {}; }}
                keys[i] = key;
                places[i] = i;
            }}
            workgroupBarrier();
            for (var run = 2u; run <= {size}u; run = run << 1u) {{
                for (var apart = run >> 1u; apart > 0u; apart = apart >> 1u) {{
                    for (var pair = local; pair < {}u; pair += {workgroup}u) {{
                        let i = (pair / apart) * 2u * apart + pair % apart;
                        let j = i + apart;
                        {}
                    }}
                    workgroupBarrier();
                }}
            }}
            for (var i = local; i < {kept}; i += {workgroup}u) {{
                let chosen = places[i];
                let v = {};
                {}{}
            }}",
            x_line.start,
            y_line.start,
            i_line.start,
            grid.positions("row", &["at", "y_at", "i_at"]),
            order.key(),
            key(descending, &x.load(&format!("at + i * {x_step}"))),
            size / 2,
            exchange("i", "j", "(i & run) == 0u"),
            x.load(&format!("at + chosen * {x_step}")),
            y.store_one(&format!("y_at + i * {y_step}"), "v"),
            indices.store_one(&format!("i_at + i * {i_step}"), &indices.from_u32("chosen")),
        );
        module.finish([workgroup as u32, 1, 1], &body)
    }
}
