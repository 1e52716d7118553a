//! Pointwise loops in which an argument lies across the output: its elements are copied by tiles, so that cache lines are read whole.

use super::copy::Plane;
use super::map::{Loop, repeat};
use crate::ThreadPool;
use smallvec::SmallVec;

/// Rows of a tile: a cache line of `f32`.
const ROWS: usize = 16;
/// Bytes of a tile: part of a first-level cache.
const BYTES: usize = 1 << 14;
/// Elements of loops that go by tiles at least: others stay in a cache as they are.
const LEAST: usize = 1 << 12;

/// How a row of a tile of an operand is had.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    /// It is contiguous.
    Direct,
    /// It is one element, repeated in a buffer.
    Repeated,
    /// It is copied to a buffer with the whole tile.
    Transposed,
}

/// The tiles of a joint loop, of the last dimension and of one that is contiguous in the arguments that lie across.
struct Tiles<'a> {
    joint: &'a Loop,
    across: usize,
    access: SmallVec<[Access; 4]>,
    /// Elements of a row of a tile.
    cols: usize,
}

/// Runs `f` as [`for_parts`](super::for_parts) does. `false`, and nothing is done, where no argument lies across the output.
pub(super) fn run<S>(
    pool: &ThreadPool,
    joint: &Loop,
    grain: usize,
    start: &(dyn Fn() -> S + Sync),
    f: &(dyn Fn(&mut S, &[*mut u8], usize) + Sync),
) -> bool {
    let Some(tiles) = Tiles::of(joint) else { return false };
    pool.ranges(tiles.count(), (grain / (ROWS * tiles.cols)).max(1), |range| {
        let mut state = start();
        let mut buffers: SmallVec<[Vec<u128>; 4]> = tiles
            .access
            .iter()
            .map(|access| match access {
                Access::Direct => Vec::new(),
                _ => vec![0; BYTES / size_of::<u128>()],
            })
            .collect();
        range.for_each(|tile| tiles.each_row(tile, &mut buffers, |addresses, n| f(&mut state, addresses, n)));
    });
    true
}

impl<'a> Tiles<'a> {
    fn of(joint: &'a Loop) -> Option<Tiles<'a>> {
        let (last, out) = (joint.dims.len() - 1, &joint.operands[0]);
        if last == 0 || out.strides[last] != 1 || joint.numel() < LEAST {
            return None;
        }
        let strided = joint.operands.iter().find(|o| o.strides[last] > 1)?;
        let across = (0..last).find(|&axis| strided.strides[axis] == 1)?;
        let access = joint.operands.iter().map(|o| match o.strides[last] {
            _ if o.is_aliased() => None,
            1 => Some(Access::Direct),
            0 => Some(Access::Repeated),
            _ if o.strides[across] == 1 => Some(Access::Transposed),
            _ => None,
        });
        let access = access.collect::<Option<SmallVec<_>>>()?;
        let largest = joint.operands.iter().map(|o| o.size).max()?;
        let is_narrow = joint.dims[across] < ROWS || joint.dims[last] < ROWS;
        (!is_narrow).then(|| Tiles { joint, across, access, cols: BYTES / ROWS / largest })
    }

    /// Tiles along both dimensions.
    fn blocks(&self) -> [usize; 2] {
        let dims = &self.joint.dims;
        [dims[self.across].div_ceil(ROWS), dims[dims.len() - 1].div_ceil(self.cols)]
    }

    fn count(&self) -> usize {
        let dims = &self.joint.dims;
        let [down, along] = self.blocks();
        dims.iter().product::<usize>() / (dims[self.across] * dims[dims.len() - 1]) * down * along
    }

    /// Calls a function with the addresses of every row of a tile, and its elements.
    fn each_row(&self, tile: usize, buffers: &mut [Vec<u128>], mut each: impl FnMut(&[*mut u8], usize)) {
        let (dims, last) = (&self.joint.dims, self.joint.dims.len() - 1);
        let [down, along] = self.blocks();
        // Neighbours share cache lines and pages of the arguments that lie across.
        let (row, col) = (tile % down * ROWS, tile / down % along * self.cols);
        let (rows, cols) = (ROWS.min(dims[self.across] - row), self.cols.min(dims[last] - col));
        let first = |i: usize| {
            let strides = &self.joint.operands[i].strides;
            let mut index = row * strides[self.across] + col * strides[last];
            let mut rest = tile / down / along;
            for axis in (0..last).rev().filter(|&axis| axis != self.across) {
                index += rest % dims[axis] * strides[axis];
                rest /= dims[axis];
            }
            index
        };
        let firsts: SmallVec<[usize; 4]> = (0..self.access.len()).map(first).collect();
        for (i, o) in self.joint.operands.iter().enumerate() {
            if self.access[i] == Access::Transposed {
                let plane = Plane { from_stride: o.strides[last], to_stride: self.cols };
                let buffer = buffers[i].as_mut_ptr().cast();
                // SAFETY: elements of the operand at positions inside the dimensions, and the buffer has room for a tile.
                unsafe { plane.copy(o.at_index(firsts[i]), buffer, [rows, cols], o.size) };
            }
        }
        let mut addresses: SmallVec<[*mut u8; 4]> = SmallVec::new();
        for r in 0..rows {
            addresses.clear();
            for (i, o) in self.joint.operands.iter().enumerate() {
                let at = o.at_index(firsts[i] + r * o.strides[self.across]);
                let buffer = buffers[i].as_mut_ptr().cast::<u8>();
                addresses.push(match self.access[i] {
                    Access::Direct => at,
                    Access::Transposed => buffer.wrapping_add(r * self.cols * o.size),
                    Access::Repeated => {
                        // SAFETY: an element of the operand, and the buffer has room for a row.
                        unsafe { repeat(at, buffer, cols, o.size) };
                        buffer
                    }
                });
            }
            each(&addresses, cols);
        }
    }
}
