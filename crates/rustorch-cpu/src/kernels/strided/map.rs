//! Pointwise loops over strided, broadcasting views.

use super::{base, base_mut, tiles};
use crate::ThreadPool;
use crate::simd::{self, Level, Task};
use rustorch_core::{DType, Dims, Element, Fault, FusedPointwise, Layout, View, ViewMut};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Elements of the largest size that are gathered at a time.
const BLOCK: usize = 512;
/// Rows shorter than this are gathered several together.
const SHORT: usize = 64;
/// Operands of most loops at most: three inputs and an output.
const MOST: usize = 4;
/// Operands of any loop at most: those of a fused op.
const MOST_OF_ALL: usize = FusedPointwise::MAX_INPUTS + 1;

/// Room for a block of elements of up to 16 bytes.
type Scratch = [MaybeUninit<u128>; BLOCK];

/// How a function treats elements of aliased arguments.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum InPlace {
    /// It makes references to them: it gets a copy.
    Copied,
    /// It makes none while it makes one to the output's: it gets them where they are.
    Direct,
}

/// One view in a joint loop.
#[derive(Clone)]
pub(super) struct Operand {
    pub(super) base: *mut u8,
    pub(super) size: usize,
    pub(super) strides: Dims,
    /// Whether the elements lie in the order of the loop without gaps.
    packed: bool,
    /// Whether the output has the same elements, so that they are gathered before those are written.
    aliased: bool,
}

/// Dimensions shared by several views, as few as possible. The output comes first.
pub(super) struct Loop {
    pub(super) dims: Dims,
    pub(super) operands: SmallVec<[Operand; MOST]>,
}

// SAFETY: the address is that of a view that outlives the loop; see the documentation of `strided`.
unsafe impl Sync for Operand {}

impl Loop {
    pub(super) fn new(out: &mut ViewMut<'_>, args: &[View<'_>], in_place: InPlace) -> Result<Loop, Fault> {
        let shape = out.layout().shape();
        let size = |dtype: DType| dtype.size().ok_or_else(super::unreachable_memory);
        let operand = |base, size, layout: &Layout, aliased| Operand {
            base,
            size,
            strides: layout.strides().into(),
            packed: false,
            aliased,
        };
        let mut operands = SmallVec::new();
        operands.push(operand(base_mut(out)?, size(out.dtype())?, out.layout(), false));
        for x in args {
            let (at, size) = (base(x)?.cast_mut(), size(x.dtype())?);
            let aliased = x.is_aliased() && in_place == InPlace::Copied;
            if x.layout().shape() == shape {
                operands.push(operand(at, size, x.layout(), aliased));
            } else {
                operands.push(operand(at, size, &x.layout().broadcast_to(shape, "broadcast")?, aliased));
            }
        }
        let mut this = Loop { dims: shape.dims().into(), operands };
        this.collapse();
        Ok(this)
    }

    /// Orders dimensions as the output has them in memory, drops those of length 1, and merges neighbours that every
    /// operand steps through as one.
    fn collapse(&mut self) {
        let contiguous = |o: &Operand| {
            let mut step = 1;
            self.dims.iter().zip(&o.strides).rev().all(|(&dim, &stride)| {
                let fits = dim == 1 || stride == step;
                step *= dim;
                fits
            })
        };
        if self.operands.iter().all(contiguous) {
            self.dims = Dims::from_slice(&[self.dims.iter().product()]);
            for o in &mut self.operands {
                o.strides = Dims::from_slice(&[1]);
                o.packed = true;
            }
            return;
        }
        let mut order: Dims = (0..self.dims.len()).filter(|&i| self.dims[i] != 1).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.operands[0].strides[i]));
        let mut dims = Dims::new();
        let mut kept: SmallVec<[Dims; MOST]> = self.operands.iter().map(|_| Dims::new()).collect();
        for &axis in &order {
            let dim = self.dims[axis];
            let merges = !dims.is_empty()
                && self.operands.iter().zip(&kept).all(|(o, kept)| {
                    // The farther of two neighbours steps over the whole nearer one.
                    kept.last() == o.strides[axis].checked_mul(dim).as_ref()
                });
            if merges {
                if let Some(last) = dims.last_mut() {
                    *last *= dim;
                }
            } else {
                dims.push(dim);
            }
            for (o, kept) in self.operands.iter().zip(&mut kept) {
                match kept.last_mut() {
                    Some(last) if merges => *last = o.strides[axis],
                    _ => kept.push(o.strides[axis]),
                }
            }
        }
        if dims.is_empty() {
            dims.push(1);
            kept.iter_mut().for_each(|k| k.push(1));
        }
        self.dims = dims;
        for (o, kept) in self.operands.iter_mut().zip(kept) {
            o.strides = kept;
            let mut step = 1;
            o.packed = self.dims.iter().zip(&o.strides).rev().all(|(&dim, &stride)| {
                let fits = stride == step;
                step *= dim;
                fits
            });
        }
    }

    pub(super) fn numel(&self) -> usize {
        self.dims.iter().product()
    }

    /// Calls `each` with the addresses of runs of equal length that together cover `range`, output first, and the
    /// position of the run in the loop.
    /// There are `N` operands at most.
    fn walk<const N: usize>(
        &self,
        range: std::ops::Range<usize>,
        each: &mut dyn FnMut(usize, &[*mut u8], usize),
    ) {
        let ndim = self.dims.len();
        let inner = self.dims[ndim - 1];
        let mut scratch: [Scratch; N] = [const { [MaybeUninit::uninit(); BLOCK] }; N];
        // The element that fills a scratch buffer, and so many places of it, for operands that repeat one.
        let mut filled: [(*mut u8, usize); N] = [(std::ptr::null_mut(), 0); N];
        let most = BLOCK * size_of::<u128>() / self.operands.iter().map(|o| o.size).max().unwrap_or(1);
        let simple = self.operands.iter().all(|o| o.strides[ndim - 1] == 1 && !o.aliased);
        let grouped = inner < SHORT && ndim > 1;
        let mut position: Dims = SmallVec::from_elem(0, ndim);
        let mut at = range.start;
        if at < range.end {
            self.advance(&mut position, at);
        }
        while at < range.end {
            let col = position[ndim - 1];
            let len = if grouped {
                BLOCK.min(range.end - at)
            } else {
                let row = (inner - col).min(range.end - at);
                if simple { row } else { row.min(most) }
            };
            let mut addresses = [std::ptr::null_mut(); N];
            for (i, o) in self.operands.iter().enumerate() {
                let first = o.at(&position);
                let stride = o.strides[ndim - 1];
                addresses[i] = if ((!grouped && stride == 1) || o.packed) && !o.aliased {
                    first
                } else {
                    let buffer = scratch[i].as_mut_ptr().cast::<u8>();
                    if i == 0 {
                        // The output is scattered after the call.
                    } else if !grouped && stride == 0 {
                        if filled[i].0 != first || filled[i].1 < len {
                            // SAFETY: `first` is an element, and the buffer holds `most` of them.
                            unsafe { repeat(first, buffer, len, o.size) };
                            filled[i] = (first, len);
                        }
                    } else {
                        // SAFETY: the positions are inside the dimensions, and the buffer holds a block.
                        unsafe { self.gather(o, &position, len, buffer) };
                    }
                    buffer
                };
            }
            each(at, &addresses[..self.operands.len()], len);
            let out = &self.operands[0];
            if addresses[0] != out.at(&position) {
                // SAFETY: as for gathering; the call wrote `len` elements to the buffer.
                unsafe { self.scatter(out, &position, len, addresses[0]) };
            }
            at += len;
            self.advance(&mut position, len);
        }
    }

    /// Moves a position so many elements on.
    #[inline]
    fn advance(&self, position: &mut Dims, elements: usize) {
        let mut carry = elements;
        for (at, &dim) in position.iter_mut().zip(&self.dims).rev() {
            *at += carry;
            if *at < dim {
                return;
            }
            // Mostly the end of a row, for which no division is needed.
            (carry, *at) = if *at == dim { (1, 0) } else { (*at / dim, *at % dim) };
        }
    }

    /// Copies `len` elements from `position` on into `buffer`.
    ///
    /// # Safety
    /// The positions are inside the dimensions, and `buffer` has room.
    unsafe fn gather(&self, o: &Operand, position: &Dims, len: usize, buffer: *mut u8) {
        let stride = o.strides[self.dims.len() - 1];
        self.runs(o, position, len, |done, first, run| {
            // SAFETY: the run is inside one row of the view, the target inside the buffer.
            unsafe { copy_run(first, stride, buffer.add(done * o.size), 1, run, o.size) };
        });
    }

    /// The reverse of [`gather`](Self::gather).
    ///
    /// # Safety
    /// As there.
    unsafe fn scatter(&self, o: &Operand, position: &Dims, len: usize, buffer: *mut u8) {
        let stride = o.strides[self.dims.len() - 1];
        self.runs(o, position, len, |done, first, run| {
            // SAFETY: as in `gather`.
            unsafe { copy_run(buffer.add(done * o.size), 1, first, stride, run, o.size) };
        });
    }

    /// Cuts `len` elements from `position` on into runs along the last dimension.
    fn runs(&self, o: &Operand, position: &Dims, len: usize, mut each: impl FnMut(usize, *mut u8, usize)) {
        let last = self.dims.len() - 1;
        let mut position = position.clone();
        let mut done = 0;
        while done < len {
            let run = (self.dims[last] - position[last]).min(len - done);
            each(done, o.at(&position), run);
            done += run;
            position[last] += run;
            for axis in (1..=last).rev() {
                if position[axis] < self.dims[axis] {
                    break;
                }
                position[axis] = 0;
                position[axis - 1] += 1;
            }
        }
    }
}

impl Operand {
    pub(super) fn is_aliased(&self) -> bool {
        self.aliased
    }

    #[inline]
    fn at(&self, position: &Dims) -> *mut u8 {
        self.at_index(position.iter().zip(&self.strides).map(|(p, s)| p * s).sum())
    }

    #[inline]
    pub(super) fn at_index(&self, index: usize) -> *mut u8 {
        // `wrapping_add`: computing the address is no access; those that are accessed are inside the view.
        self.base.wrapping_add(index * self.size)
    }
}

/// Copies `n` elements of `size` bytes between strides given in elements.
///
/// # Safety
/// All elements are valid for reading and writing, and the two sides do not overlap.
#[inline]
pub(crate) unsafe fn copy_run(
    from: *const u8,
    step: usize,
    to: *mut u8,
    to_step: usize,
    n: usize,
    size: usize,
) {
    /// # Safety
    /// As of `copy_run`, with elements of type `W`.
    #[inline]
    unsafe fn typed<W: Copy>(from: *const u8, step: usize, to: *mut u8, to_step: usize, n: usize) {
        let (from, to) = (from.cast::<W>(), to.cast::<W>());
        if step == 2 && to_step == 1 {
            // A loop of its own, which the compiler vectorises.
            for i in 0..n {
                // SAFETY: by the contract.
                unsafe { *to.add(i) = *from.add(2 * i) };
            }
            return;
        }
        for i in 0..n {
            // SAFETY: by the contract.
            unsafe { *to.add(i * to_step) = *from.add(i * step) };
        }
    }
    // SAFETY: by the contract. Words have the size of the elements and at most their alignment.
    unsafe {
        if step == 1 && to_step == 1 {
            return std::ptr::copy_nonoverlapping(from, to, n * size);
        }
        match size {
            1 => typed::<u8>(from, step, to, to_step, n),
            2 => typed::<u16>(from, step, to, to_step, n),
            4 => typed::<u32>(from, step, to, to_step, n),
            // Complex numbers are aligned like their parts.
            8 => typed::<[u32; 2]>(from, step, to, to_step, n),
            _ => typed::<[u64; 2]>(from, step, to, to_step, n),
        }
    }
}

/// Fills a buffer with `n` times one element.
///
/// # Safety
/// `element` is valid for reading `size` bytes; `buffer` is aligned like a [`Scratch`] and has room for `n` such elements.
pub(super) unsafe fn repeat(element: *const u8, buffer: *mut u8, n: usize, size: usize) {
    struct Repeat<'a, W> {
        element: W,
        buffer: &'a mut [MaybeUninit<W>],
    }
    impl<W: Copy> Task for Repeat<'_, W> {
        type Output = ();
        #[inline(always)]
        fn run<L: Level>(self, _: L) {
            self.buffer.fill(MaybeUninit::new(self.element));
        }
    }
    /// # Safety
    /// As of `repeat`, with an element of type `W`.
    unsafe fn typed<W: Copy>(element: *const u8, buffer: *mut u8, n: usize) {
        // SAFETY: by the contract; a scratch buffer is aligned for every element, and nobody else uses it meanwhile.
        let (element, buffer) =
            unsafe { (element.cast::<W>().read(), std::slice::from_raw_parts_mut(buffer.cast(), n)) };
        simd::run(Repeat { element, buffer });
    }
    // SAFETY: by the contract. Words have the size of the elements and at most their alignment.
    unsafe {
        match size {
            1 => typed::<u8>(element, buffer, n),
            2 => typed::<u16>(element, buffer, n),
            4 => typed::<u32>(element, buffer, n),
            // Complex numbers are aligned like their parts.
            8 => typed::<[u32; 2]>(element, buffer, n),
            _ => typed::<[u64; 2]>(element, buffer, n),
        }
    }
}

/// A function of runs of two arguments and the output.
type Map2<'f, A, B, U> = dyn Fn(&[A], &[B], &mut [U]) + Sync + 'f;
/// A function of the position of a run, the run of an argument and that of the output.
type MapAt<'f, T> = dyn Fn(usize, &[T], &mut [T]) + Sync + 'f;
/// A function of runs of three arguments and the output.
type Map3<'f, A, B, C, U> = dyn Fn(&[A], &[B], &[C], &mut [U]) + Sync + 'f;

/// Runs `f` on addresses of runs at equal positions, the output's first; `grain` elements at least go to a thread.
fn for_runs(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    args: &[View<'_>],
    dtypes: &[DType],
    grain: usize,
    f: &(dyn Fn(&[*mut u8], usize) + Sync),
) -> Result<(), Fault> {
    let fits =
        out.dtype() == dtypes[0] && args.iter().zip(&dtypes[1..]).all(|(x, &dtype)| x.dtype() == dtype);
    if !fits {
        return Err(super::unreachable_memory());
    }
    for_parts(pool, out, args, InPlace::Copied, grain, &|| (), &|(), addresses, n| f(addresses, n))
}

/// Runs `f` on addresses of runs at equal positions of up to [`FusedPointwise::MAX_INPUTS`] arguments, which broadcast, the output's
/// first. `grain` elements at least go to a thread, where they share what `start` makes.
pub(crate) fn for_parts<S>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    args: &[View<'_>],
    in_place: InPlace,
    grain: usize,
    start: &(dyn Fn() -> S + Sync),
    f: &(dyn Fn(&mut S, &[*mut u8], usize) + Sync),
) -> Result<(), Fault> {
    // Few elements, all in one run: setting up a loop would take longer than they do. A contiguous argument with as many
    // elements as the output lies just like it: broadcasting would have made them fewer. One element is repeated in a buffer.
    let n = out.layout().numel();
    let alike = |layout: &Layout| layout.numel() == n && layout.is_contiguous();
    let numbers = args.iter().filter(|x| n > 1 && x.layout().numel() == 1).count();
    let copied = |x: &View<'_>| x.is_aliased() && in_place == InPlace::Copied;
    let buffered = numbers != 0 || args.iter().any(copied);
    if numbers <= 1
        && n <= if buffered { BLOCK } else { grain }
        && alike(out.layout())
        && args.iter().filter(|x| alike(x.layout())).count() + numbers == args.len()
    {
        // All aliased arguments have the output's elements.
        let [mut aliased, mut repeated]: [Scratch; 2] = [const { [MaybeUninit::uninit(); BLOCK] }; 2];
        let mut addresses: SmallVec<[*mut u8; MOST]> = SmallVec::new();
        addresses.push(base_mut(out)?);
        for x in args {
            let (at, size) = (base(x)?, x.dtype().size().ok_or_else(super::unreachable_memory)?);
            let is_number = n > 1 && x.layout().numel() == 1;
            let buffer = match (copied(x), is_number) {
                (false, false) => {
                    addresses.push(at.cast_mut());
                    continue;
                }
                (true, _) => aliased.as_mut_ptr().cast::<u8>(),
                (_, true) => repeated.as_mut_ptr().cast::<u8>(),
            };
            // SAFETY: the view has one element of `size` bytes there, or `n` of them from there on; the buffer has room for `n`.
            unsafe { copy_run(at, usize::from(!is_number), buffer, 1, n, size) };
            addresses.push(buffer);
        }
        f(&mut start(), &addresses, n);
        return Ok(());
    }
    let joint = Loop::new(out, args, in_place)?;
    if tiles::run(pool, &joint, grain, start, f) {
        return Ok(());
    }
    pool.ranges(joint.numel(), grain, |range| {
        let mut state = start();
        let mut each = |_: usize, addresses: &[*mut u8], n: usize| f(&mut state, addresses, n);
        match joint.operands.len() {
            ..=MOST => joint.walk::<MOST>(range, &mut each),
            _ => joint.walk::<MOST_OF_ALL>(range, &mut each),
        }
    });
    Ok(())
}

/// `out[i] = f(x[i])` for runs of elements. `f` gets slices of equal length; `grain` elements at least go to a thread.
pub(crate) fn map1<T: Element, U: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    x: &View<'_>,
    grain: usize,
    f: &(dyn Fn(&[T], &mut [U]) + Sync),
) -> Result<(), Fault> {
    for_runs(pool, out, &[*x], &[U::DTYPE, T::DTYPE], grain, &|p, n| {
        // SAFETY: runs of `n` elements of the views or of scratch buffers, of types that were checked.
        unsafe { f(source(p[1], n), target(p[0], n)) }
    })
}

/// As [`map1`] for elements of one type and shape, where `f` depends on their positions: it gets that of a run's first element in
/// row-major order.
pub(crate) fn map1_at<T: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    x: &View<'_>,
    grain: usize,
    f: &MapAt<'_, T>,
) -> Result<(), Fault> {
    if [out.dtype(), x.dtype()] != [T::DTYPE; 2] || out.layout().shape() != x.layout().shape() {
        return Err(super::unreachable_memory());
    }
    let flat = out.layout().is_contiguous() && x.layout().is_contiguous();
    let operand = |base, layout: &Layout, aliased| Operand {
        base,
        size: size_of::<T>(),
        strides: if flat { Dims::from_slice(&[1]) } else { layout.strides().into() },
        packed: layout.is_contiguous(),
        aliased,
    };
    let base = base_mut(out)?;
    let layout = out.layout();
    let joint = Loop {
        dims: if flat { Dims::from_slice(&[layout.numel()]) } else { layout.dims().into() },
        operands: SmallVec::from_iter([
            operand(base, layout, false),
            operand(super::base(x)?.cast_mut(), x.layout(), x.is_aliased()),
        ]),
    };
    pool.ranges(joint.numel(), grain, |range| {
        joint.walk::<MOST>(range, &mut |at, p, n| {
            // SAFETY: as in `map1`.
            unsafe { f(at, source(p[1], n), target(p[0], n)) }
        });
    });
    Ok(())
}

/// `out[i] = f(a[i], b[i])`, broadcasting; see [`map1`].
pub(crate) fn map2<A: Element, B: Element, U: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    (a, b): (&View<'_>, &View<'_>),
    grain: usize,
    f: &Map2<'_, A, B, U>,
) -> Result<(), Fault> {
    for_runs(pool, out, &[*a, *b], &[U::DTYPE, A::DTYPE, B::DTYPE], grain, &|p, n| {
        // SAFETY: as in `map1`.
        unsafe { f(source(p[1], n), source(p[2], n), target(p[0], n)) }
    })
}

/// `out[i] = f(a[i], b[i], c[i])`, broadcasting; see [`map1`].
pub(crate) fn map3<A: Element, B: Element, C: Element, U: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    (a, b, c): (&View<'_>, &View<'_>, &View<'_>),
    grain: usize,
    f: &Map3<'_, A, B, C, U>,
) -> Result<(), Fault> {
    for_runs(pool, out, &[*a, *b, *c], &[U::DTYPE, A::DTYPE, B::DTYPE, C::DTYPE], grain, &|p, n| {
        // SAFETY: as in `map1`.
        unsafe { f(source(p[1], n), source(p[2], n), source(p[3], n), target(p[0], n)) }
    })
}

/// Writes runs of an output in row-major order; `f` gets the position of a run's first element.
pub(crate) fn fill_with<U: Element>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    grain: usize,
    f: &(dyn Fn(usize, &mut [U]) + Sync),
) -> Result<(), Fault> {
    if out.dtype() != U::DTYPE {
        return Err(super::unreachable_memory());
    }
    let layout = out.layout();
    let packed = layout.is_contiguous();
    let joint = Loop {
        dims: if packed { Dims::from_slice(&[layout.numel()]) } else { layout.dims().into() },
        operands: SmallVec::from_iter([Operand {
            base: base_mut(out)?,
            size: size_of::<U>(),
            strides: if packed { Dims::from_slice(&[1]) } else { layout.strides().into() },
            packed,
            aliased: false,
        }]),
    };
    pool.ranges(joint.numel(), grain, |range| {
        joint.walk::<MOST>(range, &mut |at, p, n| {
            // SAFETY: as in `map1`.
            unsafe { f(at, target(p[0], n)) }
        });
    });
    Ok(())
}

/// # Safety
/// `address` points to `n` valid elements that stay unchanged meanwhile.
#[inline]
unsafe fn source<'a, T>(address: *mut u8, n: usize) -> &'a [T] {
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(address.cast_const().cast(), n) }
}

/// # Safety
/// `address` points to room for `n` elements that nobody else uses meanwhile.
#[inline]
unsafe fn target<'a, T>(address: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts_mut(address.cast(), n) }
}
