//! Two-pass reductions: workgroups reduce runs of elements to partial states, then the states are reduced to results. Inputs
//! larger than the maximum binding size take a launch per range of runs, gathered first where they are scattered; each run is
//! reduced as in a single launch.

use super::{Params, Reduce, Stage};
use crate::family::{Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::plan::{Operand, Place, Request, line};
use crate::splitting::{Extent, copy};
use rustorch_core::{Decline, Dims, Layout, Shape, TensorMeta};
use std::ops::Range;

/// The most bytes that are gathered for a launch: enough to keep any device busy.
const WINDOW: u64 = 256 << 20;

/// Runs of elements, and where their states go.
struct Runs<'a> {
    request: &'a Request<'a>,
    kernel: Reduce,
    /// How many each result has.
    count: usize,
    /// Elements of each but the last.
    chunk: usize,
    correction: Option<f64>,
    states: Place,
    /// Bytes of all states.
    bytes: usize,
}

/// Plans the launches that bring elements to results by way of so many runs of so many elements.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    kernel: Reduce,
    [kept, reduced]: [Layout; 2],
    [count, chunk]: [usize; 2],
    correction: Option<f64>,
) -> Result<(), Decline> {
    let (results, n) = (kept.numel(), reduced.numel());
    let bytes = kernel.state_bytes(request.hardware) * results * count;
    let states = plan.scratch(bytes);
    let runs = Runs { request, kernel, count, chunk, correction, states, bytes };
    let x = request.arg(0);
    if runs.sees(x.layout) {
        runs.launch(plan, &x, [&kept, &reduced], 0, 0..count)?;
    } else {
        runs.in_windows(plan, &x, &kept, &reduced)?;
    }
    let kernel = Reduce { stage: Stage::Last, ranks: [0, 0], group: true, ..kernel };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    launch.bytes(states, 0..bytes as u64, false)?;
    let y_start = launch.write(&request.out(0))? as usize;
    let none = Grid::new(&[&packed(&[])?]);
    launch.parameters(&Params {
        results,
        runs: 1,
        n: count,
        chunk: count,
        x_start: 0,
        y_start,
        first_run: 0,
        here: 1,
        count: n,
        correction: kernel.correction(correction, request.hardware),
        kept: none.clone(),
        reduced: none,
    })?;
    plan.step(launch, line(results, request.hardware)?);
    Ok(())
}

fn large<T>(_: T) -> Decline {
    Decline::Attr("too large")
}

/// The dimensions of two layouts, in memory from `offset` on.
fn joined(a: &Layout, b: &Layout, offset: usize) -> Result<Layout, Decline> {
    let both = |a: &[usize], b: &[usize]| a.iter().chain(b).copied().collect::<Dims>();
    let shape = Shape::new(both(a.dims(), b.dims())).map_err(large)?;
    Layout::new(shape, both(a.strides(), b.strides()), offset).map_err(large)
}

fn packed(dims: &[usize]) -> Result<Layout, Decline> {
    Ok(Layout::contiguous(Shape::new(dims).map_err(large)?))
}

/// The elements of a grid with numbers in a range, in their order: whole rows together, and parts of rows.
fn boxes(dims: &[usize], strides: &[usize], range: Range<usize>) -> Result<Vec<Layout>, Decline> {
    let inner: usize = dims.iter().skip(1).product();
    let (mut found, mut at) = (Vec::new(), range.start);
    while at < range.end {
        let row = at / inner;
        let before = row * strides[0];
        let whole = (range.end - at) / inner;
        if at.is_multiple_of(inner) && whole > 0 {
            let shape = Shape::new([&[whole][..], &dims[1..]].concat()).map_err(large)?;
            found.push(Layout::new(shape, strides, before).map_err(large)?);
            at += whole * inner;
        } else {
            let end = ((row + 1) * inner).min(range.end);
            let parts = boxes(&dims[1..], &strides[1..], at - row * inner..end - row * inner)?;
            for part in parts {
                let offset = before + part.offset();
                found.push(part.at_offset(offset).map_err(large)?);
            }
            at = end;
        }
    }
    Ok(found)
}

/// A line as one dimension, if it is even steps.
fn even(reduced: &Layout) -> Option<Layout> {
    let grid = Grid::new(&[reduced]);
    let shape = Shape::new([reduced.numel()].as_slice()).ok()?;
    (grid.ndim() == 1).then(|| Layout::new(shape, &grid.strides[0][..], 0).ok()).flatten()
}

impl Runs<'_> {
    fn extent(&self, layout: &Layout) -> Extent {
        Extent::of(&TensorMeta { layout, ..self.request.args[0] })
    }

    fn sees(&self, layout: &Layout) -> bool {
        self.extent(layout).fits(layout, self.request.hardware)
    }

    /// How many runs of a line kernels see together with `beside`.
    fn room(&self, line: &Layout, beside: &Layout) -> Result<usize, Decline> {
        let both = joined(beside, line, 0)?;
        let room = self.extent(&both).room(&both, both.ndim() - 1, false, self.request.hardware);
        Ok(room / self.chunk)
    }

    /// Adds launches for parts of the runs: of all results at once, if one run of each is seen together; else of one result
    /// after the other.
    fn in_windows(
        &self,
        plan: &mut Plan,
        x: &Operand<'_>,
        kept: &Layout,
        reduced: &Layout,
    ) -> Result<(), Decline> {
        let one = packed(&[])?;
        let line = match even(reduced) {
            Some(line) if self.room(&line, &one)? > 0 => line,
            _ => return self.collected(plan, x, kept, reduced),
        };
        let together = self.room(&line, kept)?;
        let (beside, places, most) = match together {
            0 => (&one, kept.indices().collect(), self.room(&line, &one)?.max(1)),
            _ => (kept, vec![0], together),
        };
        for (result, at) in places.into_iter().enumerate() {
            for runs in self.parts(most) {
                let elements = self.elements(&runs, &line);
                let part = line.slice(0, elements.start, elements.len(), 1).map_err(large)?;
                let seen = joined(beside, &part, x.layout.offset() + at + part.offset())?;
                self.launch(plan, &Operand { layout: &seen, ..*x }, [beside, &line], result, runs)?;
            }
        }
        Ok(())
    }

    /// The same where lines are no even steps, or such large ones that no run is seen: before each launch its runs are copied
    /// to temporary memory, which is that of one launch.
    fn collected(
        &self,
        plan: &mut Plan,
        x: &Operand<'_>,
        kept: &Layout,
        reduced: &Layout,
    ) -> Result<(), Decline> {
        let hardware = self.request.hardware;
        let size = x.dtype.block_bytes();
        let window = hardware.max_binding.min(WINDOW) as usize;
        let room = |results: usize| window / size / (results * self.chunk);
        let one = packed(&[])?;
        let (beside, places, most) = match room(kept.numel()) {
            0 => (&one, kept.indices().collect(), room(1).max(1)),
            together => (kept, vec![0], together),
        };
        let line = packed(&[reduced.numel()])?;
        let longest = self.elements(&(0..most.min(self.count)), &line).len();
        let place = plan.scratch(beside.numel() * longest * size);
        let grid = Grid::new(&[reduced]);
        for (result, at) in places.into_iter().enumerate() {
            for runs in self.parts(most) {
                let elements = self.elements(&runs, &line);
                // Of each result so many elements, one after the other.
                let rows = packed(&[beside.dims(), &[elements.len()]].concat())?;
                let rows = Layout::new(beside.shape().clone(), &rows.strides()[..beside.ndim()], 0);
                let rows = rows.map_err(large)?;
                let mut done = 0;
                for part in boxes(&grid.dims, &grid.strides[0], elements.clone())? {
                    let source = joined(beside, &part, x.layout.offset() + at + part.offset())?;
                    let target = joined(&rows, &packed(part.dims())?, done)?;
                    done += part.numel();
                    let source = Operand { layout: &source, ..*x };
                    copy::plan(plan, hardware, &source, &Operand { place, layout: &target, ..*x })?;
                }
                let seen = joined(&rows, &packed(&[elements.len()])?, 0)?;
                let x = Operand { place, dtype: x.dtype, layout: &seen };
                self.launch(plan, &x, [&rows, &line], result, runs)?;
            }
        }
        Ok(())
    }

    /// All runs, a batch at a time.
    fn parts(&self, most: usize) -> impl Iterator<Item = Range<usize>> {
        let count = self.count;
        (0..count).step_by(most).map(move |first| first..(first + most).min(count))
    }

    /// The elements of a line that are in some runs.
    fn elements(&self, runs: &Range<usize>, line: &Layout) -> Range<usize> {
        runs.start * self.chunk..(runs.end * self.chunk).min(line.numel())
    }

    /// Adds the launch that brings some runs to states: of results from number `result` on, which are `kept`, and whose
    /// lines are `reduced`. `x` is what is seen of them.
    fn launch(
        &self,
        plan: &mut Plan,
        x: &Operand<'_>,
        [kept, reduced]: [&Layout; 2],
        result: usize,
        runs: Range<usize>,
    ) -> Result<(), Decline> {
        let hardware = self.request.hardware;
        let [kept_grid, reduced_grid] = [Grid::new(&[kept]), Grid::new(&[reduced])];
        let ranks = [kept_grid.ndim(), reduced_grid.ndim()];
        let mut launch = StepBuilder::new(hardware, Reduce { stage: Stage::First, ranks, ..self.kernel });
        // Elements are counted from the first of their line, which may not be seen: this wraps, and so does what is added.
        let step = if runs.start == 0 { 0 } else { reduced_grid.strides[0].first().copied().unwrap_or(0) };
        let before = (runs.start * self.chunk).wrapping_mul(step) as u32;
        let x_start = launch.read(x)?.wrapping_sub(before);
        launch.bytes(self.states, 0..self.bytes as u64, true)?;
        launch.parameters(&Params {
            results: kept.numel(),
            runs: self.count,
            n: reduced.numel(),
            chunk: self.chunk,
            x_start,
            y_start: result * self.count,
            first_run: runs.start,
            here: runs.len(),
            count: reduced.numel(),
            correction: self.kernel.correction(self.correction, hardware),
            kept: kept_grid,
            reduced: reduced_grid,
        })?;
        let tasks = kept.numel() * runs.len();
        let groups = if self.kernel.group { tasks } else { tasks.div_ceil(crate::wgsl::WORKGROUP as usize) };
        plan.step(launch, line(groups, hardware)?);
        Ok(())
    }
}
