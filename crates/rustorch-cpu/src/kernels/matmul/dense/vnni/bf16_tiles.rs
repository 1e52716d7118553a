//! Tiles of `bf16` for operands that others pack.

use super::{Amx, Bf16Pairs, COLUMNS, Group, Pitched, Words};
use rustorch_core::bf16;

/// Products of `bf16`, summed in `f32`.
#[derive(Clone, Copy)]
pub(crate) struct Bf16Tiles {
    /// By their height, ascending.
    tiles: &'static [(usize, Tile)],
    /// Words of a row or column: a multiple of this.
    pub(crate) depth: usize,
    /// Writes the words of a row of a right operand: pairs of a row of values and the next, which is so many further on; all of a panel's
    /// [`COLUMNS`](Self::COLUMNS).
    pub(crate) join: unsafe fn(*const bf16, usize, *mut u32) -> bool,
    enter: unsafe fn(),
    leave: unsafe fn(),
}

/// A thread whose registers are ready for the tiles, until this is dropped.
pub(crate) struct Entered(unsafe fn());

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: the CPU has the instructions, since it has the tiles.
        unsafe { (self.0)() };
    }
}

/// [`super::Tile`] for a thread that has [entered](Bf16Tiles::enter), whose sums begin with the numbers of the fourth argument: zeros.
type Tile = unsafe fn(usize, Words, *const u32, *const f32, Pitched<*mut f32>);

impl Bf16Tiles {
    /// The columns of a tile.
    pub(crate) const COLUMNS: usize = COLUMNS;

    /// Those of this CPU, if it has instructions for them, which imply AVX-512.
    pub(crate) fn get() -> Option<Bf16Tiles> {
        fn of<G: Group<X = bf16, Sum = f32>>() -> Bf16Tiles {
            Bf16Tiles { tiles: G::TILES, depth: G::DEPTH, join: G::join, enter: G::enter, leave: G::leave }
        }
        match Amx::<Bf16Pairs>::exists() {
            true => Some(of::<Amx<Bf16Pairs>>()),
            false => Bf16Pairs::exist().then(of::<Bf16Pairs>),
        }
    }

    /// Prepares the thread's registers. Nothing else that multiplies tiles may run on the thread before what this returns is dropped.
    pub(crate) fn enter(&self) -> Entered {
        // SAFETY: the CPU has the instructions.
        unsafe { (self.enter)() };
        Entered(self.leave)
    }

    /// How many of so many rows a product takes, and its tile, which may be higher.
    pub(crate) fn at_most(&self, rows: usize) -> (usize, Tile) {
        let fits = self.tiles.iter().find(|(tall, _)| *tall >= rows).or(self.tiles.last());
        let &(tall, tile) = fits.expect("every group has tiles");
        (tall.min(rows), tile)
    }
}
