//! Matmul of unquantized `f32` activations with dequantized weights, in `f32`.
//!
//! The order of accumulation does not depend on the number of rows: one chain of multiply-adds per 32 values, and the chains in
//! order. A single chain per row, as on the CPU, would leave a GEMV with one thread per row of the weight.

mod gemm;
mod gemv;

pub use gemm::Gemm;
pub use gemv::Gemv;

use super::format::Format;
use super::{OperandParams, bind, shape};
use crate::family::{Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use rustorch_core::{Decline, Layout, Op};

/// Values whose products are one chain.
const SEGMENT: usize = 32;

/// The most rows of activations that the kernel for few takes.
const FEW: usize = 8;

parameters! {
    /// Kernel parameters.
    struct Params(part: Option<()>, rank: usize) {
        n: usize,
        rows: usize,
        /// Values of a row of activations; of the kernel for few rows, segments.
        len: usize,
        x_start: u32,
        x_stride: usize,
        operands: OperandParams = part,
        grid: Grid = (rank, 1),
    }
}

/// Adds the launch of `x [.., m, k] × weight` or of `x [t, k or 1, in]` with chosen experts.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, format: &Format, k: usize) -> Result<(), Decline> {
    let (x, out, hardware) = (request.arg(0), request.out(0), request.hardware);
    let experts = matches!(request.op, Op::MulMatId(_));
    let bias = !experts && request.args.len() == 3;
    let n = out.layout.dims()[out.layout.ndim() - 1];
    let rows = out.layout.numel() / n;
    let (&step, outer) = x.layout.strides().split_last().ok_or(Decline::Attr("a scalar"))?;
    let starts = Layout::new(shape(&x.layout.dims()[..outer.len()])?, outer, 0)
        .map_err(|_| Decline::Attr("too large"))?;
    let grid = Grid::new(&[&starts]);
    let (quant, rank) = (format.quant, grid.ndim());
    let segments = k / SEGMENT;
    let few = experts || rows <= FEW;
    let kernel: crate::Kernel = if few {
        let tile = if experts { 1 } else { rows.next_power_of_two() };
        let choice = experts.then(|| request.args[2].dtype);
        Gemv {
            quant,
            tile,
            share: gemv::share(tile, segments),
            rank,
            bias,
            experts: choice,
            part: request.part.chosen.is_some(),
        }
        .into()
    } else {
        Gemm { quant, tile: gemm::tile(rows, n), inner: step == 1, rank, bias }.into()
    };
    let groups = match &kernel {
        crate::Kernel::WeightGemv(kernel) => n.div_ceil(kernel.rows_of_group()) * rows.div_ceil(kernel.tile),
        _ => gemm::tile(rows, n).count(rows, n)[1],
    };
    let mut launch = StepBuilder::new(hardware, kernel);
    let mut x_start = 0;
    let operands = bind(&mut launch, request, format, starts.numel(), |launch| {
        x_start = launch.read(&x)?;
        Ok(())
    })?;
    let len = if few { segments } else { k };
    launch.parameters(&Params { n, rows, len, x_start, x_stride: step, operands, grid })?;
    plan.step(launch, line(groups, hardware)?);
    Ok(())
}
