//! From views to rows.

use crate::Pool;
use crate::kernels;
use rustorch_core::{
    Device, Dims, Element, Error, Fault, Layout, Op, Shape, UnaryOp, View, ViewMut, packed_bytes,
};

/// A product's sizes and strides.
pub(crate) struct Problem {
    /// Rows of each matrix of `a`.
    pub(crate) m: usize,
    /// Columns of `b`.
    pub(crate) n: usize,
    /// The inner dimension.
    pub(crate) k: usize,
    /// Elements from one row of `a` to the next, and from one inner element to the next.
    pub(crate) a_strides: [usize; 2],
    /// Elements of `b` from one inner element to the next, and from one column to the next.
    pub(crate) b_strides: [usize; 2],
    /// Elements from one row of the output to the next, and from one column to the next.
    pub(crate) out_strides: [usize; 2],
    /// Where the matrices of each batch begin: in `a`, `b` and the output, from their first elements.
    batches: Vec<[usize; 3]>,
}

/// The rows that are multiplied with one and the same matrix.
pub(crate) struct Group {
    /// Where the rows of `a` begin.
    pub(crate) a_rows: Vec<usize>,
    /// Where the matrix of `b` begins.
    pub(crate) b_start: usize,
    /// Where the rows of the output begin.
    pub(crate) out_rows: Vec<usize>,
}

impl Problem {
    /// The product of `args[0]` and `args[1]`, which `Op::infer` accepted, into `out`.
    pub(crate) fn new(args: &[View<'_>], out: &ViewMut<'_>) -> Result<Problem, Fault> {
        let (a, b, o) = (args[0].layout(), args[1].layout(), out.layout());
        let rank = o.rank();
        let tail = |layout: &Layout| {
            let at = layout.rank() - 2;
            ([layout.dims()[at], layout.dims()[at + 1]], [layout.strides()[at], layout.strides()[at + 1]])
        };
        let (([m, k], a_strides), ([_, n], b_strides), (_, out_strides)) = (tail(a), tail(b), tail(o));
        let batch = Shape::new(&o.dims()[..rank - 2])?;
        let starts = |layout: &Layout| -> Result<Vec<usize>, Fault> {
            let lead = layout.rank() - 2;
            let dims: Dims = layout.dims()[..lead].into();
            let strides: Dims = layout.strides()[..lead].into();
            let lead = Layout::new(Shape::new(dims)?, strides, 0)?.broadcast_to(&batch, "matmul")?;
            Ok(lead.indices().collect())
        };
        let batches =
            starts(a)?.into_iter().zip(starts(b)?).zip(starts(o)?).map(|((a, b), o)| [a, b, o]).collect();
        Ok(Problem { m, n, k, a_strides, b_strides, out_strides, batches })
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batches.is_empty()
    }

    /// Rows by the matrix that they are multiplied with; batches that share one are joined.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for &[a, b, o] in &self.batches {
            if groups.last().is_none_or(|group| group.b_start != b) {
                groups.push(Group { a_rows: Vec::new(), b_start: b, out_rows: Vec::new() });
            }
            if let Some(group) = groups.last_mut() {
                group.a_rows.extend((0..self.m).map(|i| a + i * self.a_strides[0]));
                group.out_rows.extend((0..self.m).map(|i| o + i * self.out_strides[0]));
            }
        }
        groups
    }
}

/// An error of the machinery around us: it gave a view that the processor cannot reach, or of another dtype.
fn unreachable_view() -> Fault {
    Fault::Backend { device: Device::Cpu, message: "a view is not in the processor's memory".into() }
}

/// The address of the first element.
pub(crate) fn address<T: Element>(view: &View<'_>) -> Result<*const T, Fault> {
    view.address::<T>().ok_or_else(unreachable_view)
}

/// The address of the first element.
pub(crate) fn address_mut<T: Element>(view: &mut ViewMut<'_>) -> Result<*mut T, Fault> {
    view.address::<T>().ok_or_else(unreachable_view)
}

/// The address of the first block of a weight.
pub(crate) fn weight_address(view: &View<'_>) -> Result<*const u8, Fault> {
    let base = view.buffer().host_address().ok_or_else(unreachable_view)?.as_ptr();
    let layout = view.layout();
    let offset = if layout.elements() == 0 { 0 } else { layout.offset() };
    let bytes = view.dtype().bytes_for(offset).ok_or_else(|| {
        Fault::from(Error::argument("matmul", "a weight's offset is not on a block border"))
    })?;
    // SAFETY: inside the buffer, by the contract of the view.
    Ok(unsafe { base.add(bytes) }.cast_const())
}

/// The bias of the first column and the elements from one to the next.
pub(crate) fn bias<T: Element>(view: Option<&View<'_>>) -> Result<Option<(*const T, usize)>, Fault> {
    view.map(|bias| Ok((address::<T>(bias)?, bias.layout().strides()[0]))).transpose()
}

/// Writes a product by `product`, and then applies the activation, if any.
pub(crate) fn finish(
    pool: &Pool,
    activation: Option<UnaryOp>,
    out: &mut ViewMut<'_>,
    product: impl FnOnce(&mut ViewMut<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some(activation) = activation else { return product(out) };
    let layout = Layout::contiguous(out.layout().shape().clone());
    let mut buffer = crate::memory::alloc(packed_bytes(out.dtype(), layout.elements()))?;
    // SAFETY: the buffer was made for this layout and dtype.
    product(&mut unsafe { ViewMut::new(&mut buffer, out.dtype(), &layout) })?;
    // SAFETY: as above, and the product wrote every element.
    let before = unsafe { View::new(&buffer, out.dtype(), &layout) };
    // SAFETY: the same window as `out`, which is not used meanwhile.
    let mut out = unsafe { ViewMut::from_shared(out.buffer(), out.dtype(), out.layout()) };
    kernels::run(pool, &Op::Unary(activation), &[before], std::slice::from_mut(&mut out))
}
