//! Dropout: a thread per Philox block, which has the bits of eight elements.

use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, Dropout as DropoutOp, OpKind, OpType};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dropout {
    dtype: DType,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        n: usize,
        x_start: u32,
        y_start: u32,
        seed: [u32; 2],
        offset: [u32; 2],
        /// The halves of the threshold.
        high: u32,
        low: u32,
        scale: f32,
        grid: Grid = (rank, 1),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Distribution, &[OpKind::Dropout], sets::SINGLE)];

/// Philox blocks of a group of elements, and half-words of a block.
const BLOCKS: usize = 16;
const HALVES: usize = DropoutOp::GROUP / BLOCKS;

impl Kernels for DropoutOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        let (x, out) = (request.arg(0), request.out(0));
        let grid = Grid::new(&[x.layout]);
        let mut step = StepBuilder::new(request.hardware, Dropout { dtype: x.dtype, rank: grid.ndim() });
        let (x_start, y_start) = (step.read(&x)?, step.write(&out)?);
        let halves = |x: u64| [x as u32, (x >> 32) as u32];
        let threshold = self.threshold();
        let n = out.layout.numel();
        step.parameters(&Params {
            n,
            x_start,
            y_start,
            seed: halves(self.key.seed),
            offset: halves(self.key.offset),
            high: (threshold >> 16) as u32,
            low: (threshold & 0xFFFF) as u32,
            scale: (1.0 / (1.0 - self.p)) as f32,
            grid,
        })?;
        let threads = n.div_ceil(DropoutOp::GROUP) * BLOCKS;
        plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
        Ok(())
    }
}

impl Dropout {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Dropout { dtype, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.places("y", dtype, hardware);
        let Params { n, x_start, y_start, seed, offset, high, low, scale, grid } =
            module.parameters::<Params>(rank);
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            let first = t / {BLOCKS}u * {}u + t % {BLOCKS}u;
            if first >= {n} {{ return; }}
            let seed = vec2<u32>({}, {});
            let counter = pair_add(vec2<u32>({}, {}), vec2<u32>(t, 0u));
            let words = philox(counter, seed);\n",
            DropoutOp::GROUP,
            seed[0],
            seed[1],
            offset[0],
            offset[1],
        );
        for k in 0..HALVES {
            let half = |words: &str| {
                format!("extractBits({words}.{}, {}u, 16u)", ["x", "y", "z", "w"][k / 2], k % 2 * 16)
            };
            // In one of 65536 elements the lower bits decide.
            let _ = writeln!(
                body,
                "{{
                    let i = first + {}u;
                    if i < {n} {{
                        let bits = {};
                        var kept = bits < {high};
                        if bits == {high} {{
                            let lower = philox(counter ^ vec2<u32>(0u, 0x80000000u), seed);
                            kept = {} < {low};
                        }}
                        var at = {x_start};
                        {}
                        let v = {} * select(0.0, {scale}, kept);
                        {}
                    }}
                }}",
                k * BLOCKS,
                half("words"),
                half("lower"),
                grid.positions("i", &["at"]),
                x.load("at"),
                y.store_one(&format!("{y_start} + i"), "v"),
            );
        }
        module.add(&library::called(&body, hardware));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

const _: () = assert!(DropoutOp::LOWER == 1 << 63, "the highest bit of the counter");
