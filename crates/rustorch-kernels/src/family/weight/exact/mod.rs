//! Products that round neither activations nor weights: `f32` activations meet the decoded values, in `f32`.
//!
//! The sum of each result is the same whatever the number of rows: a chain of multiply-adds for each 32 values, and those
//! one after the other. A chain for the whole row, as the processor has it, would leave a single row of activations to so
//! many threads as the weight has rows.

mod few;
mod many;

pub use few::Few;
pub use many::Many;

use super::format::Format;
use super::{bind, shape};
use crate::family::strided::Grid;
use crate::plan::{Plan, Request, StepBuilder, line};
use rustorch_core::{Decline, Layout, Op};

/// Values whose products are one chain.
const SEGMENT: usize = 32;

/// The most rows of activations that the kernel for few takes.
const FEW: usize = 8;

/// Adds the launch of `x [.., m, k] × weight` or of `x [t, k or 1, in]` with chosen experts.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, format: &Format, k: usize) -> Result<(), Decline> {
    let (x, out, hardware) = (request.arg(0), request.out(0), request.hardware);
    let experts = matches!(request.op, Op::ExpertMatMul { .. });
    let bias = !experts && request.args.len() == 3;
    let n = out.layout.dims()[out.layout.rank() - 1];
    let rows = out.layout.elements() / n;
    let (&step, outer) = x.layout.strides().split_last().ok_or(Decline::Attr("a scalar"))?;
    let starts = Layout::new(shape(&x.layout.dims()[..outer.len()])?, outer, 0)
        .map_err(|_| Decline::Attr("too large"))?;
    let grid = Grid::new(&[&starts]);
    let (quant, rank) = (format.quant, grid.rank());
    let segments = k / SEGMENT;
    let few = experts || rows <= FEW;
    let kernel: crate::Kernel = if few {
        let tile = if experts { 1 } else { rows.next_power_of_two() };
        let choice = experts.then(|| request.args[2].dtype);
        Few {
            quant,
            tile,
            share: few::share(tile, segments),
            rank,
            bias,
            experts: choice,
            part: request.part.chosen.is_some(),
        }
        .into()
    } else {
        Many { quant, tile: many::tile(rows, n), inner: step == 1, rank, bias }.into()
    };
    let groups = match &kernel {
        crate::Kernel::WeightFew(kernel) => n.div_ceil(kernel.rows_of_group()) * rows.div_ceil(kernel.tile),
        _ => many::tile(rows, n).count(rows, n)[1],
    };
    let mut launch = StepBuilder::new(hardware, kernel);
    let mut from = 0;
    let bound = bind(&mut launch, request, format, starts.elements(), |launch| {
        from = launch.read(&x)?;
        Ok(())
    })?;
    launch.number(n)?.number(rows)?.number(if few { segments } else { k })?;
    launch.word(bound.weight).word(bound.row).word(bound.to).word(from).number(step)?;
    bound.describe(&mut launch, request.part.chosen)?;
    grid.describe(&mut launch)?;
    plan.step(launch, line(groups, hardware)?);
    Ok(())
}
