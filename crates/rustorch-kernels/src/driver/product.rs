//! Products of dense matrices by a library of the device's vendor, where there is one.

use rustorch_core::{DType, Fault};

/// A vendor's library that multiplies matrices, [proven](crate::Engine) on the device before results of it count.
pub trait Products<M> {
    /// Its name and version, for people.
    fn name(&self) -> &str;

    /// Whether a product should go to it rather than to the engine's own kernels: a matter of speed alone, decided from sizes.
    fn takes(&self, product: &Product) -> bool;

    /// Gives a product to this thread's stream: `a` times `b`, into `out`, each by its memory and the byte in it where the
    /// first matrix begins. As exact as the dtype allows: sums in `f32` (in `f64` for `F64`) of unrounded factors, in any
    /// order, rounded once.
    ///
    /// Unless it is [given](Multiplied::Given), what stands in `out` is of no use afterwards.
    ///
    /// # Errors
    /// As for [`Driver::launch`](super::Driver::launch).
    fn multiply(
        &self,
        product: &Product,
        a: (&M, usize),
        b: (&M, usize),
        out: (&M, usize),
    ) -> Result<Multiplied, Fault>;
}

/// What became of a product that a library was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplied {
    /// The stream has it.
    Given,
    /// The library cannot do it.
    Refused,
    /// It cannot be done now, for lack of memory: another time it may.
    NotNow,
}

/// A batch of products `[m, k] · [k, n]`, all of one dtype, which is none of block types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// The dtype of all three.
    pub dtype: DType,
    /// Rows of `a` and of the result; not 0.
    pub m: usize,
    /// Columns of `b` and of the result; not 0.
    pub n: usize,
    /// Columns of `a` and rows of `b`; not 0.
    pub k: usize,
    /// How many products; not 0.
    pub batch: usize,
    /// Where the left factors lie.
    pub a: Matrices,
    /// Where the right factors lie.
    pub b: Matrices,
    /// Where the results lie; never transposed, and no two in one place.
    pub out: Matrices,
    /// Whether products are added to what stands in `out`.
    pub accumulate: bool,
}

/// How a batch of matrices lies in memory, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrices {
    /// From one row to the next, at least a row's length; in a row, neighbours lie together. Where the matrix lies transposed,
    /// this holds of its columns.
    pub pitch: usize,
    /// Whether its columns lie together, not its rows.
    pub transposed: bool,
    /// From one matrix of the batch to the next; 0 where it is the same.
    pub step: usize,
}

impl Matrices {
    /// Elements from the first of a batch of matrices `[rows, columns]` to behind the last.
    pub fn extent(&self, rows: usize, columns: usize, batch: usize) -> usize {
        let (lines, len) = if self.transposed { (columns, rows) } else { (rows, columns) };
        (batch - 1) * self.step + (lines - 1) * self.pitch + len
    }

    /// The element in a row and a column of a matrix of the batch.
    pub fn at(&self, matrix: usize, row: usize, column: usize) -> usize {
        let (line, place) = if self.transposed { (column, row) } else { (row, column) };
        matrix * self.step + line * self.pitch + place
    }
}
