//! Lines of tensors along an axis, for kernels with one workgroup or one thread per line.

use crate::Hardware;
use crate::library::strided::Grid;
use crate::library::strided::rows;
use crate::plan::line;
use crate::plan::parameters::parameters;
use crate::wgsl::{LINEAR_GROUP, WORKGROUP};
use rustorch_core::{Decline, Layout};

/// The lines along an axis of tensors that have the same ones.
pub(super) struct Lines {
    /// The dimensions other than the axis.
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

parameters! {
    /// Where the elements of lines begin, and how far apart they are.
    pub(super) struct LineParams() {
        start: u32,
        stride: usize,
    }
}

/// The most elements of a line that one thread takes.
const SHORT: usize = 32;

impl Lines {
    /// Of tensors whose shapes are equal except along the axis. A scalar has one line of one element.
    pub(super) fn new(layouts: &[&Layout], axis: usize) -> Result<Lines, Decline> {
        let large = |_| Decline::Attr("too large");
        let beside = |layout: &&Layout| match layout.ndim() {
            0 => Ok((*layout).clone()),
            rank => rows(&layout.transpose(axis, rank - 1).map_err(large)?),
        };
        let beside: Vec<Layout> = layouts.iter().map(beside).collect::<Result<_, _>>()?;
        let grid = Grid::new(&beside.iter().collect::<Vec<_>>());
        let len = layouts[0].dims().get(axis).copied().unwrap_or(1);
        Ok(Lines {
            grid,
            count: beside[0].numel(),
            len,
            grouped: len > SHORT,
            steps: layouts.iter().map(|x| x.strides().get(axis).copied().unwrap_or(0)).collect(),
        })
    }

    /// The workgroups of a kernel that has a line for each workgroup or thread.
    pub(super) fn groups(&self, hardware: &Hardware) -> Result<[u32; 3], Decline> {
        let groups = if self.grouped { self.count } else { self.count.div_ceil(WORKGROUP as usize) };
        line(groups, hardware)
    }
}

/// The number of a thread's line, its first element, and from one of its elements to the next.
pub(super) fn own(grouped: bool) -> (String, &'static str, u32) {
    match grouped {
        true => (LINEAR_GROUP.to_owned(), "local", WORKGROUP),
        false => (format!("({LINEAR_GROUP} * {WORKGROUP}u + local)"), "0u", 1),
    }
}
