//! From the views of a matmul to a strided, batched GEMM.

use super::rows::{GemmOutput, RowOffsets, StridedRows};
use crate::kernels::pointwise::Pointwise;
use rustorch_core::{Device, Dims, Element, Error, Fault, Layout, Shape, UnaryOp, View, ViewMut};
use smallvec::SmallVec;

/// The sizes and strides of a batched GEMM.
pub(crate) struct GemmArgs {
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
    batches: SmallVec<[[usize; 3]; 1]>,
}

/// The rows of consecutive batches that share their right matrix, listed, so that they are rows of one GEMM.
pub(crate) struct SharedRows {
    a: Vec<usize>,
    out: Vec<usize>,
}

/// The rows that are multiplied with one matrix of `b`.
pub(crate) struct BatchRows<'a> {
    /// Where the matrix begins.
    pub(crate) b_start: usize,
    /// How many rows.
    pub(crate) m: usize,
    /// Where the rows of `a` begin: from an element on.
    pub(crate) a: (usize, RowOffsets<'a>),
    /// Where the rows of the output begin.
    pub(crate) out: (usize, RowOffsets<'a>),
}

impl GemmArgs {
    /// The matmul of `args[0]` and `args[1]`, which `Op::infer` accepted, into `out`.
    pub(crate) fn new(args: &[View<'_>], out: &ViewMut<'_>) -> Result<GemmArgs, Fault> {
        let (a, b, o) = (args[0].layout(), args[1].layout(), out.layout());
        let tail = |layout: &Layout| {
            let at = layout.ndim() - 2;
            ([layout.dims()[at], layout.dims()[at + 1]], [layout.strides()[at], layout.strides()[at + 1]])
        };
        let (([m, k], a_strides), ([_, n], b_strides), (_, out_strides)) = (tail(a), tail(b), tail(o));
        let batches = if o.ndim() == 2 { [[0; 3]].into() } else { batches([a, b, o])? };
        Ok(GemmArgs { m, n, k, a_strides, b_strides, out_strides, batches })
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batches.is_empty()
    }

    /// Whether it is one matrix times another, without batches.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.batches[..], [[0, 0, 0]])
    }

    /// Whether every row is multiplied with the same matrix.
    pub(crate) fn has_one_right(&self) -> bool {
        self.batches.iter().all(|batch| batch[1] == self.batches[0][1])
    }

    /// How many batches there are.
    pub(crate) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Where a batch begins: in `a`, `b` and the output, from their first elements.
    pub(crate) fn batch_starts(&self, batch: usize) -> [usize; 3] {
        self.batches[batch]
    }

    /// The GEMM of a batch.
    pub(crate) fn batch(&self, batch: usize) -> BatchRows<'static> {
        let ([a, b_start, out], strided) = (self.batches[batch], RowOffsets::Strided);
        BatchRows {
            b_start,
            m: self.m,
            a: (a, strided(self.a_strides[0])),
            out: (out, strided(self.out_strides[0])),
        }
    }

    /// Consecutive batches of one right matrix.
    fn shared(&self) -> impl Iterator<Item = &[[usize; 3]]> {
        self.batches.chunk_by(|one, next| one[1] == next[1])
    }

    /// Lists the rows of batches that share their right matrix; empty where each has its own.
    pub(crate) fn shared_rows(&self) -> SharedRows {
        let list = |operand: usize, stride: usize| {
            let batches = self.shared().filter(|batches| batches.len() > 1).flatten();
            batches.flat_map(|batch| (0..self.m).map(move |i| batch[operand] + i * stride)).collect()
        };
        SharedRows { a: list(0, self.a_strides[0]), out: list(2, self.out_strides[0]) }
    }

    /// The GEMMs: one for each batch, or for several that share their right matrix.
    pub(crate) fn gemms<'a>(&'a self, shared: &'a SharedRows) -> impl Iterator<Item = BatchRows<'a>> {
        let mut listed = 0;
        let mut before = 0;
        self.shared().map(move |batches| {
            let (first, m) = (before, batches.len() * self.m);
            before += batches.len();
            if batches.len() == 1 {
                return self.batch(first);
            }
            let b_start = batches[0][1];
            let rows = listed..listed + m;
            listed = rows.end;
            let listed = |rows| (0, RowOffsets::Listed(rows));
            BatchRows { b_start, m, a: listed(&shared.a[rows.clone()]), out: listed(&shared.out[rows]) }
        })
    }

    /// The rows of `a` for one of the [`gemms`](Self::gemms).
    ///
    /// # Safety
    /// As [`StridedRows::new`], for `a` the address of the view's first element.
    pub(crate) unsafe fn rows<'a, T: Copy>(&self, a: *const T, rows: &BatchRows<'a>) -> StridedRows<'a, T> {
        let (start, offsets) = rows.a;
        // SAFETY: this function's contract.
        unsafe { StridedRows::new(a.wrapping_add(start), offsets, rows.m, (self.k, self.a_strides[1])) }
    }

    /// The output of one of the [`gemms`](Self::gemms).
    pub(crate) fn output<'a, T: Pointwise>(&self, to: &Target<T>, rows: &BatchRows<'a>) -> GemmOutput<'a, T> {
        GemmOutput {
            base: to.base.wrapping_add(rows.out.0),
            offsets: rows.out.1,
            stride: self.out_strides[1],
            bias: to.bias,
            activation: to.activation,
        }
    }
}

/// Where the batches begin in `a`, `b` and the output, whose leading dimensions the others broadcast to.
fn batches([a, b, out]: [&Layout; 3]) -> Result<SmallVec<[[usize; 3]; 1]>, Fault> {
    let batch = Shape::new(&out.dims()[..out.ndim() - 2])?;
    let starts = |layout: &Layout| -> Result<Layout, Fault> {
        let lead = layout.ndim() - 2;
        let dims: Dims = layout.dims()[..lead].into();
        let strides: Dims = layout.strides()[..lead].into();
        Ok(Layout::new(Shape::new(dims)?, strides, 0)?.broadcast_to(&batch, "matmul")?)
    };
    let [a, b, out] = [starts(a)?, starts(b)?, starts(out)?];
    Ok(a.indices().zip(b.indices()).zip(out.indices()).map(|((a, b), o)| [a, b, o]).collect())
}

/// Where results of a matmul go, and what is done to each.
pub(crate) struct Target<T> {
    base: *mut T,
    bias: Option<(*const T, usize)>,
    activation: Option<UnaryOp>,
}

// SAFETY: two addresses; whoever reads or writes there says why that is sound.
unsafe impl<T: Sync> Sync for Target<T> {}

impl<T: Element> Target<T> {
    pub(crate) fn new(
        out: &mut ViewMut<'_>,
        bias: Option<&View<'_>>,
        activation: Option<UnaryOp>,
    ) -> Result<Target<T>, Fault> {
        let bias = bias.map(|bias| Ok::<_, Fault>((address::<T>(bias)?, bias.layout().strides()[0])));
        Ok(Target { base: address_mut::<T>(out)?, bias: bias.transpose()?, activation })
    }
}

/// An error of the machinery around us: it gave a view that the CPU cannot reach, or of another dtype.
fn unreachable_view() -> Fault {
    Fault::Backend { device: Device::CPU, message: "a view is not in the CPU's memory".into() }
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
    let offset = if layout.numel() == 0 { 0 } else { layout.offset() };
    let bytes = view.dtype().bytes_for(offset).ok_or_else(|| {
        Fault::from(Error::argument("matmul", "a weight's offset is not on a block border"))
    })?;
    // SAFETY: inside the buffer, by the contract of the view.
    Ok(unsafe { base.add(bytes) }.cast_const())
}
