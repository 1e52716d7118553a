//! The shared part of pointwise kernels: addressing, loads, packed stores, and the launch.
//!
//! A thread computes the elements of one word of the result, or of [`wide`] kernels several.

use super::wide::{self, Wide};
use crate::family::{Plan, StepBuilder};
use crate::library::kind::Kind;
use crate::library::scalars;
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Place, Request, line};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word, vectors};
use crate::{Hardware, Kernel, device_assert};
use rustorch_core::{DType, Decline, Layout, TensorMeta};
use smallvec::SmallVec;
use std::fmt::Write;

/// The elements that a kernel reads and writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) inputs: SmallVec<[DType; 3]>,
    pub(super) output: DType,
    /// Dimensions; `None` where every tensor is one run.
    rank: Option<usize>,
    /// Whether the result is rows of whole words with gaps between them, not one run.
    rows: bool,
    /// Whether threads have runs of elements.
    wide: Option<Wide>,
}

parameters! {
    /// What kernels get; `numbers` are those of the function, each of a kind.
    pub(super) struct Params(numbers: Vec<Kind>, inputs: usize, grid: Option<(usize, usize)>) {
        n: usize,
        starts: Vec<u32> = vec![(); inputs],
        y_start: u32,
        numbers: Vec<scalars::Words> = numbers,
        grid: Option<Grid> = grid,
    }
}

/// The layouts of arguments, broadcast to the result's shape.
pub(super) fn broadcast(args: &[TensorMeta<'_>], out: &Layout) -> Result<SmallVec<[Layout; 3]>, Decline> {
    args.iter()
        .map(|x| x.layout.broadcast_to(out.shape(), "broadcast"))
        .collect::<Result<_, _>>()
        .map_err(|_| Decline::Layout("operands do not broadcast"))
}

/// The dimensions that these have in common, or none where all are one run.
pub(super) fn grid(layouts: &[Layout]) -> Option<Grid> {
    let grid = Grid::new(&layouts.iter().collect::<SmallVec<[&Layout; 3]>>());
    let linear = grid.is_linear() || layouts[0].numel() == 1;
    (!linear).then_some(grid)
}

/// Adds the launch of the kernel that `kernel` makes of a frame. `numbers` are the parameters that its function has, and
/// `asserts` says whether it may record one.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    kernel: impl FnOnce(Frame) -> Kernel,
    asserts: bool,
    numbers: Vec<scalars::Words>,
) -> Result<(), Decline> {
    let out = request.out(0);
    let elements = out.layout.numel();
    let layouts = broadcast(request.args, out.layout)?;
    let rows = !out.layout.is_contiguous();
    let grid = match rows {
        true => Some(Grid::new(&layouts.iter().chain([out.layout]).collect::<SmallVec<[&Layout; 4]>>())),
        false => grid(&layouts),
    };
    // What is computed behind the end must not be an assert.
    let wide = if asserts { None } else { wide::wide(request, &layouts, grid.as_ref(), rows) };
    let (wide, grid) = match wide {
        Some((wide, runs)) => (Some(wide), runs),
        None => (None, grid),
    };
    let frame = Frame {
        inputs: request.args.iter().map(|x| x.dtype).collect(),
        output: out.dtype,
        rank: grid.as_ref().map(Grid::ndim),
        rows,
        wide,
    };
    let (groups, mut step) = match frame.wide {
        Some(_) => (wide::groups(&frame, elements), StepBuilder::of_vectors(request.hardware, kernel(frame))),
        None => (
            elements.div_ceil(per_word(out.dtype)).div_ceil(WORKGROUP as usize),
            StepBuilder::new(request.hardware, kernel(frame)),
        ),
    };
    let mut starts = Vec::with_capacity(layouts.len());
    for (i, layout) in layouts.iter().enumerate() {
        starts.push(step.read(&Operand { layout, ..request.arg(i) })?);
    }
    let y_start = step.write(&out)?;
    if asserts {
        step.bytes(Place::AssertLog, 0..4 * device_assert::WORDS as u64, true)?;
    }
    step.parameters(&Params { n: elements, starts, y_start, numbers, grid })?;
    plan.step(step, line(groups, request.hardware)?);
    Ok(())
}

impl Frame {
    /// The kernel's source. `function` adds a function `f` of the inputs' values and of the values of its parameters, which are of
    /// these kinds; it makes of the parameters what the function gets.
    pub(super) fn wgsl(
        &self,
        hardware: &Hardware,
        asserts: bool,
        numbers: Vec<Kind>,
        function: impl FnOnce(&mut Module, Vec<String>) -> Vec<String>,
    ) -> Wgsl {
        if let Some(wide) = &self.wide {
            return self.wide_wgsl(wide, hardware, numbers, function);
        }
        let mut module = Module::new();
        let inputs: Vec<Elements> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, &dtype)| module.elements(&format!("x{i}"), dtype, false, hardware))
            .collect();
        let output = module.elements("y", self.output, true, hardware);
        if asserts {
            module.asserts();
        }
        let tensors = inputs.len() + usize::from(self.rows);
        let grid = self.rank.map(|rank| (rank, tensors));
        let Params { n, starts, y_start, numbers, grid } =
            module.parameters::<Params>((numbers, inputs.len(), grid));
        let numbers = function(&mut module, numbers);

        let per_word = output.per_word();
        let mut body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = t * {per_word}u;\nif first >= {n} {{ return; }}\n"
        );
        let mut values = Vec::new();
        for k in 0..per_word {
            let positions: Vec<String> = (0..inputs.len()).map(|i| format!("at{k}_{i}")).collect();
            // The last word may extend past the end.
            let _ = writeln!(body, "let i{k} = min(first + {k}u, {n} - 1u);");
            for (position, own) in positions.iter().zip(&starts) {
                let start = if grid.is_some() { String::new() } else { format!(" + i{k}") };
                let _ = writeln!(body, "var {position} = {own}{start};");
            }
            if let Some(grid) = &grid {
                let mut names: Vec<&str> = positions.iter().map(String::as_str).collect();
                if self.rows && k == 0 {
                    let _ = writeln!(body, "var place = {y_start};");
                    names.push("place");
                }
                body.push_str(&grid.positions(&format!("i{k}"), &names));
            }
            let loads = inputs.iter().zip(&positions).map(|(x, at)| x.load(at));
            let given: Vec<String> = loads.chain(numbers.iter().cloned()).collect();
            let _ = writeln!(body, "let v{k} = f({});", given.join(", "));
            values.push(format!("v{k}"));
        }
        let word = match (self.rows, per_word) {
            // Its neighbours in the word are the next of the row.
            (true, _) => format!("place / {per_word}u"),
            (false, 1) => format!("{y_start} + t"),
            (false, _) => format!("{y_start} / {per_word}u + t"),
        };
        body.push_str(&output.store(&word, &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
    /// [`wgsl`](Self::wgsl) of a [`Wide`] kernel.
    fn wide_wgsl(
        &self,
        wide: &Wide,
        hardware: &Hardware,
        numbers: Vec<Kind>,
        function: impl FnOnce(&mut Module, Vec<String>) -> Vec<String>,
    ) -> Wgsl {
        let mut module = Module::new();
        let source = wide::Source::declare(self, wide, &mut module, hardware);
        let grid = self.rank.map(|rank| (rank, self.inputs.len() + usize::from(self.rows)));
        let params = module.parameters::<Params>((numbers, self.inputs.len(), grid));
        let numbers = function(&mut module, params.numbers.clone());
        module.finish([vectors::WORKGROUP, 1, 1], &source.main(&params, &numbers, self.rows))
    }
}
