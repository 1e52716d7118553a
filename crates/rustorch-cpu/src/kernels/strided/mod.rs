//! Loops over strided views, and the only place where kernels turn addresses into references.
//!
//! Kernels see slices: [`map1`] and its kin feed them runs of elements at equal positions, [`Rows`] lines along one
//! axis, [`Matrices`] stacks of matrices. Where a view is awkward, elements are gathered into a small buffer first and
//! scattered from one afterwards.
//!
//! # Why this is sound
//! By the contracts of `View::new` and `ViewMut::new`, every index of a layout lies inside its buffer; what a `View`
//! reaches is valid and unchanging, what a `ViewMut` reaches belongs to it alone and does not overlap itself. So an
//! address `base + Σ iₖ·strideₖ` with `iₖ < dimₖ` may be read or written, and distinct positions of an output may be
//! written from different threads. Output memory may be uninitialised: it is plain data, and kernels write every
//! element before they read any.
//!
//! An aliased view has the elements of an output. No reference to those is made but the output's: loops copy a block of them
//! to a buffer of the thread before they write the same block, which no other thread reads.

mod blocks;
mod copy;
mod grid;
mod map;
mod matrices;
mod outer;
mod rows;
mod scalar_rows;
mod slices;
mod tiles;
mod updated;

pub(crate) use blocks::Blocks;
pub(crate) use copy::copy_rows;
pub(crate) use grid::Grid;
pub(crate) use map::{InPlace, copy_run, fill_with, for_parts, map1, map1_at, map2, map3};
pub(crate) use matrices::{Matrices, Matrix};
pub(crate) use rows::{
    GROUP, Rows, RowsMut, for_row_groups, for_row_pairs, for_row_parts, for_rows, for_rows2,
};
pub(crate) use scalar_rows::{Side, for_scalar_rows};
pub(crate) use slices::for_slices;
pub(crate) use updated::Updated;

use crate::ThreadPool;
use rustorch_core::{DType, Dims, Element, Error, Fault, Layout, Shape, View, ViewMut};
use std::borrow::Cow;
use std::marker::PhantomData;

/// A fault for memory that the CPU cannot reach, or a dtype that is not the kernel's: a broken caller.
pub(crate) fn unreachable_memory() -> Fault {
    Error::argument("cpu", "an operand is not in host memory or not of the dtype that the operation infers")
        .into()
}

/// The address of a view's first element, of any dense dtype.
pub(crate) fn base(x: &View<'_>) -> Result<*const u8, Fault> {
    address(x.buffer().host_address(), x.dtype(), x.layout()).map(<*mut u8>::cast_const)
}

/// The address of an output's first element, of any dense dtype.
pub(crate) fn base_mut(x: &mut ViewMut<'_>) -> Result<*mut u8, Fault> {
    address(x.buffer().host_address(), x.dtype(), x.layout())
}

fn address(host: Option<std::ptr::NonNull<u8>>, dtype: DType, layout: &Layout) -> Result<*mut u8, Fault> {
    let host = host.ok_or_else(unreachable_memory)?.as_ptr();
    let size = dtype.size().ok_or_else(unreachable_memory)?;
    let offset = if layout.numel() == 0 { 0 } else { layout.offset() };
    // SAFETY: a non-empty layout's offset is inside the buffer.
    Ok(unsafe { host.add(offset * size) })
}

/// The elements in row-major order: borrowed where they lie so, else gathered.
pub(crate) fn dense<'a, T: Element>(x: &View<'a>) -> Result<Cow<'a, [T]>, Fault> {
    if let Some(slice) = x.as_slice() {
        return Ok(Cow::Borrowed(slice));
    }
    let base = x.address::<T>().ok_or_else(unreachable_memory)?;
    let layout = x.layout().collapsed();
    let (n, offset) = (layout.numel(), layout.offset());
    let mut out = Vec::with_capacity(n);
    let (run, stride) = match (layout.dims().last(), layout.strides().last()) {
        (Some(&run), Some(&stride)) => (run, stride),
        _ => (1, 1),
    };
    if n != 0 {
        let outer = match layout.ndim() {
            0 => layout,
            ndim => layout.select(ndim - 1, 0)?,
        };
        for start in outer.indices() {
            // SAFETY: `start − offset` plus `i` strides of the last axis is an index of the layout.
            out.extend((0..run).map(|i| unsafe { *base.add(start - offset + i * stride) }));
        }
    }
    Ok(Cow::Owned(out))
}

/// Runs `fill` on the output's elements as one slice: in place where they lie in row-major order, else on a buffer
/// that is scattered afterwards.
pub(crate) fn with_slice<T: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    fill: impl FnOnce(&mut [T]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (mut packed, n) = (Vec::new(), out.layout().numel());
    let base = writable(out, &mut packed)?;
    // SAFETY: the view's own elements (see the module's documentation), or as many of the buffer, and `fill` writes every element before
    // reading any.
    fill(unsafe { std::slice::from_raw_parts_mut(base, n) })?;
    // SAFETY: `writable` had it, and where it is a buffer, all `n` were written.
    unsafe { scatter(pool, out, packed) }
}

/// [`with_slice`] for an output that may not be wanted.
pub(crate) fn with_slice_if_wanted<T: Element>(
    pool: &ThreadPool,
    mut out: Option<&mut ViewMut<'_>>,
    fill: impl FnOnce(Option<&mut [T]>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut packed = Vec::new();
    let slice = match &mut out {
        Some(out) => {
            let (base, n) = (writable(out, &mut packed)?, out.layout().numel());
            // SAFETY: as in `with_slice`.
            Some(unsafe { std::slice::from_raw_parts_mut(base, n) })
        }
        None => None,
    };
    fill(slice)?;
    match out {
        // SAFETY: as in `with_slice`.
        Some(out) => unsafe { scatter(pool, out, packed) },
        None => Ok(()),
    }
}

/// Where an output's elements may be written in row-major order: in its place where they lie so, else in memory that `packed` gets.
fn writable<T: Element>(out: &mut ViewMut<'_>, packed: &mut Vec<T>) -> Result<*mut T, Fault> {
    let base = out.address::<T>().ok_or_else(unreachable_memory)?;
    if out.layout().is_contiguous() {
        return Ok(base);
    }
    packed.reserve_exact(out.layout().numel());
    Ok(packed.as_mut_ptr())
}

/// Brings what was written to the memory of [`writable`] to its place.
///
/// # Safety
/// `packed` is what [`writable`] had for this output, and all elements were written.
unsafe fn scatter<T: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    mut packed: Vec<T>,
) -> Result<(), Fault> {
    if out.layout().is_contiguous() {
        return Ok(());
    }
    // SAFETY: this function's contract, and the capacity is at least that.
    unsafe { packed.set_len(out.layout().numel()) };
    fill_with(pool, out, 1 << 14, &|start, out: &mut [T]| {
        out.copy_from_slice(&packed[start..start + out.len()]);
    })
}

/// Runs `fill` on the bytes of a contiguous output of a block type.
pub(crate) fn with_bytes(
    out: &mut ViewMut<'_>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some((start, len)) = out.byte_range() else {
        let message = "an output of a block type must be contiguous and in host memory";
        return Err(Error::argument("cpu", message).into());
    };
    // SAFETY: the view's own bytes; see the module's documentation.
    fill(unsafe { std::slice::from_raw_parts_mut(start, len) })
}

/// Splits `out` into units of `unit` elements and runs `each` on runs of whole units in parallel, with the number of
/// the first unit. At least `grain` elements go together.
pub(crate) fn par_units<T: Send>(
    pool: &ThreadPool,
    out: &mut [T],
    unit: usize,
    grain: usize,
    each: impl Fn(usize, &mut [T]) + Sync,
) {
    units_dyn(pool, out, unit, grain, &each);
}

fn units_dyn<T: Send>(
    pool: &ThreadPool,
    out: &mut [T],
    unit: usize,
    grain: usize,
    each: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    if out.is_empty() || unit == 0 {
        return;
    }
    let units = out.len() / unit;
    let shared = Disjoint::new(out);
    pool.ranges(units, grain.div_ceil(unit).max(1), |range| {
        // SAFETY: ranges of one job do not overlap.
        each(range.start, unsafe { shared.slice(range.start * unit, range.len() * unit) });
    });
}

/// A slice of which several threads write different parts.
pub(crate) struct Disjoint<'a, T> {
    base: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: parts are handed out by `slice`, whose contract makes them disjoint, so this is a `&mut [T]` split up.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Disjoint<'a, T> {
        Disjoint { base: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// A part.
    ///
    /// # Safety
    /// No other part in use overlaps it.
    #[allow(clippy::mut_from_ref, reason = "exclusion is the caller's contract")]
    pub(crate) unsafe fn slice(&self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start <= self.len && len <= self.len - start, "part outside the slice");
        // SAFETY: in bounds as asserted, exclusive by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(start), len) }
    }
}

/// A view of part of another view's elements: `layout` must be a sub-layout of `x`'s.
pub(crate) fn part<'b>(x: &View<'b>, layout: &'b Layout) -> View<'b> {
    // SAFETY: callers pass slices, selections and permutations of `x`'s own layout, which reach no other elements.
    unsafe { x.part(layout) }
}

/// An output on part of another output's elements: `layout` must be a sub-layout of `x`'s.
pub(crate) fn part_mut<'b>(x: &'b mut ViewMut<'_>, layout: &'b Layout) -> ViewMut<'b> {
    // SAFETY: as in `part`; `x` is borrowed mutably meanwhile.
    unsafe { ViewMut::from_shared(x.buffer(), x.dtype(), layout) }
}

/// The bytes of `len` values of a block type that start at value `start` of the view's buffer.
pub(crate) fn quant_bytes<'a>(x: &View<'a>, start: usize, len: usize) -> Result<&'a [u8], Fault> {
    let dtype = x.dtype();
    let (Some(from), Some(bytes), Some(host)) =
        (dtype.bytes_for(start), dtype.bytes_for(len), x.buffer().host_address())
    else {
        return Err(unreachable_memory());
    };
    if from.checked_add(bytes).is_none_or(|end| end > x.buffer().bytes()) {
        return Err(unreachable_memory());
    }
    // SAFETY: inside the buffer as just checked; callers pass rows of the view, whose bytes are valid and unchanging.
    Ok(unsafe { std::slice::from_raw_parts(host.as_ptr().add(from), bytes) })
}

/// The layout of `x` with its last `dims` dimensions merged into one; `None` where that takes a copy.
pub(crate) fn merge_last(layout: &Layout, dims: usize) -> Result<Option<Layout>, Error> {
    let at = layout.ndim() - dims;
    let mut merged: Dims = layout.dims()[..at].into();
    merged.push(layout.dims()[at..].iter().product());
    layout.reshape(&Shape::new(merged)?)
}
