//! Sizes of tiles, and into how many splits keys go.

use super::super::chunks::{ACROSS, CHUNK, DEPTH, DOWN, KEY_PITCH, KEYS, THREADS};
use crate::Hardware;
use crate::plan::Request;
use rustorch_core::TensorMeta;

/// Elements of a row of what the threads of a row exchange; odd, so that threads keep out of each other's banks.
pub(super) const EXCHANGE_PITCH: usize = ACROSS + 1;
/// The most rows of a thread.
const MOST_ROWS: usize = 8;
/// A launch of fewer workgroups than this has smaller tiles instead of tiles with [`MOST_ROWS`].
const FULL: usize = 512;
/// The same for smaller tiles.
const FEW: usize = 128;
/// The most queries whose keys are split.
const SPLIT_QUERIES: usize = 4;
/// The fewest tiles of keys that are split: a second launch takes as long as a tile or two.
const SPLIT_TILES: usize = 3;
/// The workgroups that splitting aims at.
const SPLIT_GROUPS: usize = 256;

/// What a workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Shape {
    /// Rows of each thread.
    pub(super) rows: usize,
    /// The width of queries and keys in workgroup memory, a multiple of [`DEPTH`].
    pub(super) d: usize,
    /// That of values, a power of two.
    pub(super) e: usize,
}

impl Shape {
    /// For queries, keys and values; none if the device has too little workgroup memory.
    pub(in super::super) fn choose(args: &[TensorMeta<'_>], hardware: &Hardware) -> Option<Shape> {
        let [q, k, v] = [0, 1, 2].map(|i| args[i].dims());
        let rank = q.len();
        let heads: usize = k[..rank - 2].iter().product();
        let rows: usize = q[..rank - 1].iter().product::<usize>() / heads.max(1);
        let d = q[rank - 1].next_multiple_of(DEPTH).max(DEPTH);
        let e = v[rank - 1].next_power_of_two().max(4 * ACROSS);
        let mut shape = Shape { rows: MOST_ROWS, d, e };
        let too_large = |shape: Shape| {
            let groups = heads * rows.div_ceil(shape.tile_rows());
            let enough = if shape.rows == MOST_ROWS { FULL } else { FEW };
            shape.tile_rows() / 2 >= rows
                || groups < enough
                || shape.memory() > hardware.workgroup_memory as usize
        };
        while shape.rows > 1 && too_large(shape) {
            shape.rows /= 2;
        }
        let fits =
            shape.memory() <= hardware.workgroup_memory as usize && THREADS <= hardware.workgroup as usize;
        fits.then_some(shape)
    }

    /// Rows of a tile.
    pub(super) fn tile_rows(self) -> usize {
        self.rows * DOWN
    }

    /// Quads of columns of values that a thread has.
    pub(super) fn column_quads(self) -> usize {
        self.e / (4 * ACROSS)
    }

    /// Keys of a chunk of values.
    pub(super) fn value_keys(self) -> usize {
        CHUNK / self.e
    }

    /// Bytes of workgroup memory: a row's query, weights, what threads exchange, its maximum, factor, view, and places of query
    /// and mask; and a chunk.
    fn memory(self) -> usize {
        let row = self.d + KEYS + EXCHANGE_PITCH + 6;
        4 * (self.tile_rows() * row + 4 * KEYS * KEY_PITCH)
    }
}

/// How many splits there are, and the keys of each. Keys and heads alone decide, of the whole operation: so a query's result does
/// not depend on others, except where there are too many for splits.
pub(super) fn splits(request: &Request<'_>) -> (usize, usize) {
    let args = request.whole().args;
    let (q, k) = (args[0].dims(), args[1].dims());
    let rank = k.len();
    let tiles = k[rank - 2].div_ceil(KEYS).max(1);
    let heads: usize = k[..rank - 2].iter().product();
    let wanted = match q[rank - 2] > SPLIT_QUERIES || tiles < SPLIT_TILES {
        true => 1,
        false => SPLIT_GROUPS.div_ceil(heads.max(1)).min(tiles),
    };
    let each = tiles.div_ceil(wanted);
    (tiles.div_ceil(each), each * KEYS)
}
