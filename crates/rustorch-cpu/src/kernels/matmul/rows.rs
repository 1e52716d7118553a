//! Operands and results as rows, wherever strides put them.

use super::dense::Pitched;
use crate::kernels::pointwise::Pointwise;
use rustorch_core::UnaryOp;
use std::marker::PhantomData;
use std::ops::Range;

/// Where rows begin, in elements from the first.
#[derive(Clone, Copy)]
pub(crate) enum RowOffsets<'a> {
    /// Evenly apart.
    Strided(usize),
    /// Each where the list says.
    Listed(&'a [usize]),
}

impl RowOffsets<'_> {
    /// Where row `i` begins.
    #[inline(always)]
    fn get(self, i: usize) -> usize {
        match self {
            RowOffsets::Strided(step) => i * step,
            RowOffsets::Listed(offsets) => offsets[i],
        }
    }
}

/// Rows to read: row `i` begins at its offset, and its elements are `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct StridedRows<'a, T> {
    base: *const T,
    offsets: RowOffsets<'a>,
    /// How many rows.
    pub(crate) count: usize,
    /// Elements in a row.
    len: usize,
    stride: usize,
    _lifetime: PhantomData<&'a T>,
}

// SAFETY: like a shared slice.
unsafe impl<T: Sync> Sync for StridedRows<'_, T> {}

impl<'a, T: Copy> StridedRows<'a, T> {
    /// `count` rows of `len` elements, `stride` apart.
    ///
    /// # Safety
    /// Every element that the description reaches from `base` is valid and unchanging for the lifetime.
    pub(crate) unsafe fn new(
        base: *const T,
        offsets: RowOffsets<'a>,
        count: usize,
        (len, stride): (usize, usize),
    ) -> StridedRows<'a, T> {
        StridedRows { base, offsets, count, len, stride, _lifetime: PhantomData }
    }

    /// Elements in a row.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Elements from one row to the next, if rows are evenly apart.
    pub(crate) fn pitch(&self) -> Option<usize> {
        match self.offsets {
            RowOffsets::Strided(pitch) => Some(pitch),
            RowOffsets::Listed(_) => None,
        }
    }

    /// Elements from one value of a row to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The address of row `i`, whose elements are [`stride`](Self::stride) apart.
    #[inline(always)]
    pub(crate) fn address(&self, i: usize) -> *const T {
        // SAFETY: reached, by the contract of `new`; an empty row has no address of its own.
        unsafe { self.base.add(if self.len == 0 { 0 } else { self.offsets.get(i) }) }
    }

    /// Row `i`, gathered into `scratch` where its elements are not contiguous.
    pub(crate) fn row<'s>(&'s self, i: usize, scratch: &'s mut Vec<T>) -> &'s [T] {
        let first = self.address(i);
        if self.stride == 1 || self.len <= 1 {
            // SAFETY: reached, by the contract of `new`.
            return unsafe { std::slice::from_raw_parts(first, self.len) };
        }
        scratch.clear();
        // SAFETY: as above.
        scratch.extend((0..self.len).map(|j| unsafe { *first.add(j * self.stride) }));
        scratch
    }
}

/// Hands disjoint parts of memory to several threads.
pub(crate) struct Parts<T>(*mut T);

// SAFETY: hands out disjoint parts only, by the contract of `part`.
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    /// Parts of the elements from `first` on.
    pub(crate) fn new(first: *mut T) -> Parts<T> {
        Parts(first)
    }

    /// The address of an element.
    ///
    /// # Safety
    /// It exists, or is the end.
    pub(crate) unsafe fn address(&self, i: usize) -> *mut T {
        // SAFETY: this function's contract.
        unsafe { self.0.add(i) }
    }

    /// `len` elements from `start`.
    ///
    /// # Safety
    /// They exist while the part is used; and no other part in use has any of them.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        // SAFETY: this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), len) }
    }
}

/// Where results go: element `j` of row `i` to `base[offset of i + j * stride]`, after adding its bias; and the function
/// that is applied to it in the end.
#[derive(Clone, Copy)]
pub(crate) struct GemmOutput<'a, T> {
    /// The first element of the output.
    pub(crate) base: *mut T,
    /// Where each row begins.
    pub(crate) offsets: RowOffsets<'a>,
    /// Elements from one column to the next.
    pub(crate) stride: usize,
    /// The bias of column 0 and the elements from one to the next.
    pub(crate) bias: Option<(*const T, usize)>,
    /// The function.
    pub(crate) activation: Option<UnaryOp>,
}

// SAFETY: kernels write disjoint elements, and the bias is not written.
unsafe impl<T: Send + Sync> Sync for GemmOutput<'_, T> {}

/// Elements that [`GemmOutput::store`] takes at a time.
const STORED: usize = 16;

/// Elements that [`GemmOutput::activate`] takes at a time.
const ACTIVATED: usize = 128;

impl<T: Pointwise> GemmOutput<'_, T> {
    /// # Safety
    /// The row exists, and its column `j`.
    #[inline(always)]
    unsafe fn address(&self, i: usize, j: usize) -> *mut T {
        // SAFETY: this function's contract.
        unsafe { self.base.add(self.offsets.get(i) + j * self.stride) }
    }

    /// The rows from column `j` on, if they are evenly apart and their elements contiguous.
    pub(crate) fn pitched(&self, j: usize) -> Option<Pitched<*mut T>> {
        match self.offsets {
            RowOffsets::Strided(pitch) if self.stride == 1 => {
                Some(Pitched { first: self.base.wrapping_add(j), pitch })
            }
            _ => None,
        }
    }

    /// Reads elements `j..` of row `i` as the beginnings of sums.
    ///
    /// # Safety
    /// The elements exist and were written, and no other thread uses them.
    #[inline(always)]
    pub(crate) unsafe fn load<E: Copy>(&self, i: usize, j: usize, sums: &mut [E], start: impl Fn(T) -> E) {
        // SAFETY: this function's contract.
        unsafe {
            let from = self.address(i, j);
            for (c, sum) in sums.iter_mut().enumerate() {
                *sum = start(*from.add(c * self.stride));
            }
        }
    }

    /// Writes elements `j..` of row `i`: sums finished by `finish`, which is given the bias, too.
    ///
    /// # Safety
    /// The elements exist and no other thread uses them.
    #[inline(always)]
    pub(crate) unsafe fn store<E: Copy>(
        &self,
        i: usize,
        j: usize,
        sums: &[E],
        finish: impl Fn(E, Option<T>) -> T,
    ) {
        // SAFETY: this function's contract; the bias has every column.
        unsafe {
            let to = self.address(i, j);
            match (self.bias, self.stride) {
                (None, 1) => {
                    // Arrays: a copy whose length is not known is a call.
                    let (chunks, rest) = sums.as_chunks::<STORED>();
                    for (c, sums) in chunks.iter().enumerate() {
                        let values: [T; STORED] = std::array::from_fn(|c| finish(sums[c], None));
                        to.add(c * STORED).cast::<[T; STORED]>().write_unaligned(values);
                    }
                    let to = to.add(chunks.len() * STORED);
                    let (chunks, rest) = rest.as_chunks::<4>();
                    for (c, sums) in chunks.iter().enumerate() {
                        let values: [T; 4] = std::array::from_fn(|c| finish(sums[c], None));
                        to.add(4 * c).cast::<[T; 4]>().write_unaligned(values);
                    }
                    for (c, &sum) in rest.iter().enumerate() {
                        *to.add(4 * chunks.len() + c) = finish(sum, None);
                    }
                }
                (Some((bias, 1)), 1) => {
                    let (chunks, rest) = sums.as_chunks::<STORED>();
                    for (c, sums) in chunks.iter().enumerate() {
                        let at = c * STORED;
                        // Copies overlap nothing, so that the compiler need not look.
                        let bias = bias.add(j + at).cast::<[T; STORED]>().read_unaligned();
                        let values: [T; STORED] = std::array::from_fn(|c| finish(sums[c], Some(bias[c])));
                        to.add(at).cast::<[T; STORED]>().write_unaligned(values);
                    }
                    for (c, &sum) in (chunks.len() * STORED..).zip(rest) {
                        *to.add(c) = finish(sum, Some(*bias.add(j + c)));
                    }
                }
                (bias, stride) => {
                    for (c, &sum) in sums.iter().enumerate() {
                        *to.add(c * stride) = finish(sum, bias.map(|(bias, step)| *bias.add((j + c) * step)));
                    }
                }
            }
        }
    }

    /// Applies the activation, if there is one, to columns of rows that are stored and still in the caches.
    ///
    /// # Safety
    /// The elements exist and were written, and no other thread uses them.
    pub(crate) unsafe fn activate(&self, rows: Range<usize>, columns: Range<usize>) {
        let Some(activation) = self.activation else { return };
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        // SAFETY: this function's contract.
        let any = unsafe { *self.address(rows.start, columns.start) };
        let (mut before, mut after) = ([any; ACTIVATED], [any; ACTIVATED]);
        for i in rows {
            for j in columns.clone().step_by(ACTIVATED) {
                let n = ACTIVATED.min(columns.end - j);
                let (before, after) = (&mut before[..n], &mut after[..n]);
                // SAFETY: this function's contract.
                unsafe {
                    self.load(i, j, before, |x| x);
                    T::unary(activation, before, after);
                    let to = self.address(i, j);
                    for (c, &value) in after.iter().enumerate() {
                        *to.add(c * self.stride) = value;
                    }
                }
            }
        }
    }
}

/// A sum and its bias.
#[inline(always)]
pub(crate) fn with_bias(sum: f32, bias: Option<f32>) -> f32 {
    match bias {
        Some(bias) => sum + bias,
        None => sum,
    }
}

/// One GEMM of several: a matrix and the rows that are multiplied with it. A plain GEMM is a group of one.
pub(crate) struct GroupedGemm<'a, X, T> {
    /// The first element or block of the matrix.
    pub(crate) w: *const u8,
    /// The rows of the left operand.
    pub(crate) x: X,
    /// The row of the output for each of them.
    pub(crate) out: GemmOutput<'a, T>,
}

// SAFETY: the matrix is only read.
unsafe impl<X: Sync, T: Send + Sync> Sync for GroupedGemm<'_, X, T> {}
