//! Lines of a tensor along an axis: how kernels that have one for each workgroup or thread see them.

use super::rms_norm::rows;
use super::strided::Grid;
use crate::Hardware;
use crate::plan::{Plan, StepBuilder, line};
use crate::wgsl::{LINEAR_GROUP, WORKGROUP};
use rustorch_core::{Decline, Layout};

/// The lines along an axis of tensors that have the same ones.
pub(super) struct Lines {
    /// The dimensions beside the axis.
    pub(super) grid: Grid,
    /// How many.
    pub(super) count: usize,
    /// Elements of the first tensor's.
    pub(super) len: usize,
    /// Elements from one to the next, of each tensor.
    pub(super) steps: Vec<usize>,
    /// Whether a workgroup has a line, else a thread.
    pub(super) grouped: bool,
}

/// The most elements of a line that one thread takes.
const SHORT: usize = 32;

impl Lines {
    /// Of tensors whose shapes are equal beside the axis. A scalar has one line of one element.
    pub(super) fn new(layouts: &[&Layout], axis: usize) -> Result<Lines, Decline> {
        let large = |_| Decline::Attr("too large");
        let beside = |layout: &&Layout| match layout.rank() {
            0 => Ok((*layout).clone()),
            rank => rows(&layout.transpose(axis, rank - 1).map_err(large)?),
        };
        let beside: Vec<Layout> = layouts.iter().map(beside).collect::<Result<_, _>>()?;
        let grid = Grid::new(&beside.iter().collect::<Vec<_>>());
        let len = layouts[0].dims().get(axis).copied().unwrap_or(1);
        Ok(Lines {
            grid,
            count: beside[0].elements(),
            len,
            grouped: len > SHORT,
            steps: layouts.iter().map(|x| x.strides().get(axis).copied().unwrap_or(0)).collect(),
        })
    }

    /// Adds the launch of a kernel that has a line for each workgroup or thread.
    pub(super) fn launch(
        &self,
        plan: &mut Plan,
        hardware: &Hardware,
        launch: StepBuilder<'_>,
    ) -> Result<(), Decline> {
        let groups = if self.grouped { self.count } else { self.count.div_ceil(WORKGROUP as usize) };
        plan.step(launch, line(groups, hardware)?);
        Ok(())
    }
}

/// The number of a thread's line, its first element, and from one of its elements to the next.
pub(super) fn own(grouped: bool) -> (String, &'static str, u32) {
    match grouped {
        true => (LINEAR_GROUP.to_owned(), "local", WORKGROUP),
        false => (format!("({LINEAR_GROUP} * {WORKGROUP}u + local)"), "0u", 1),
    }
}
