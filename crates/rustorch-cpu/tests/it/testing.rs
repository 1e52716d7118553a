//! What the tests of kernels share: owned tensors, and running an operation with several numbers of threads.

use rustorch_core::{
    Buffer, DType, Device, Element, Error, Fault, Fill, Layout, Op, Philox, Scalar, Shape, TensorMeta, View,
    ViewMut, bf16, dispatch_dtype, f16,
};
use rustorch_cpu::CpuBackend;
use std::sync::OnceLock;

/// A tensor that owns its buffer.
pub(crate) struct Tensor {
    buffer: Buffer,
    dtype: DType,
    pub(crate) layout: Layout,
}

impl Tensor {
    pub(crate) fn new<T: Element>(dims: &[usize], values: &[T]) -> Tensor {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        assert_eq!(layout.numel(), values.len());
        Tensor { buffer: buffer_of(values), dtype: T::DTYPE, layout }
    }

    pub(crate) fn quant(dtype: DType, dims: &[usize], bytes: &[u8]) -> Tensor {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        assert_eq!(dtype.bytes_for(layout.numel()), Some(bytes.len()));
        Tensor { buffer: buffer_of(bytes), dtype, layout }
    }

    /// The same buffer seen through another layout.
    pub(crate) fn with(self, change: impl FnOnce(&Layout) -> Layout) -> Tensor {
        let layout = change(&self.layout);
        Tensor { layout, ..self }
    }

    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: `new` wrote the whole buffer, and layouts are views of the one made there.
        unsafe { View::new(&self.buffer, self.dtype, &self.layout) }
    }

    /// Elements of a dense dtype, as bytes.
    pub(crate) fn of_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Tensor {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        assert_eq!(dtype.bytes_for(layout.numel()), Some(bytes.len()));
        Tensor { buffer: buffer_of(bytes), dtype, layout }
    }

    /// A tensor of one number.
    pub(crate) fn number(dtype: DType, value: Scalar) -> Tensor {
        let fill = Fill { shape: Shape::scalar(), dtype, value };
        run(&Op::Fill(fill), &[]).unwrap().remove(0)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    fn meta(&self) -> TensorMeta<'_> {
        TensorMeta { dtype: self.dtype, layout: &self.layout, device: Device::CPU }
    }

    /// The elements in row-major order.
    pub(crate) fn values<T: Element>(&self) -> Vec<T> {
        let all = self.view().address::<T>().unwrap();
        // SAFETY: indices of the layout, relative to its offset.
        self.layout.indices().map(|i| unsafe { *all.add(i - self.layout.offset()) }).collect()
    }

    /// Runs an operation with two threads, into this tensor's elements.
    pub(crate) fn write(&mut self, op: &Op, args: &[&Tensor]) -> Result<(), Fault> {
        let views: Vec<View<'_>> = args.iter().map(|x| x.view()).collect();
        // SAFETY: layouts are views of the one that was made for the buffer.
        let out = unsafe { ViewMut::new(&mut self.buffer, self.dtype, &self.layout) };
        cpu(2).run(op, &views, &mut [out])
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.view().as_bytes().unwrap().to_vec()
    }
}

fn buffer_of<T: Copy>(values: &[T]) -> Buffer {
    let bytes = size_of_val(values);
    let buffer = Buffer::host(bytes).unwrap();
    let to = buffer.host_address().unwrap().as_ptr();
    // SAFETY: the buffer has room for these bytes and is nobody else's.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), to, bytes) };
    buffer
}

/// A CPU with so many threads, which all tests share: starting threads takes longer than most operations here.
pub(crate) fn cpu(threads: usize) -> &'static CpuBackend {
    static ALL: [OnceLock<CpuBackend>; 8] = [const { OnceLock::new() }; 8];
    ALL[threads].get_or_init(|| CpuBackend::new(threads))
}

/// Runs an operation with 1, 2, 3 and 7 threads, into contiguous outputs and into outputs with swapped strides, and
/// checks that all results are the same to the last bit.
pub(crate) fn run(op: &Op, args: &[&Tensor]) -> Result<Vec<Tensor>, Fault> {
    let metas: Vec<TensorMeta<'_>> = args.iter().map(|x| x.meta()).collect();
    let outs = op.infer(&metas)?;
    let views: Vec<View<'_>> = args.iter().map(|x| x.view()).collect();
    let mut reference: Option<Vec<Tensor>> = None;
    for (threads, strided) in [(1, false), (2, false), (3, false), (7, false), (2, true)] {
        if strided && outs.iter().any(|o| o.dtype.is_quant() || o.shape.ndim() < 2) {
            continue;
        }
        let mut results: Vec<Tensor> = outs
            .iter()
            .map(|o| {
                let bytes = o.dtype.bytes_for(o.shape.numel()).unwrap();
                let mut layout = Layout::contiguous(o.shape.clone());
                if strided {
                    let last = o.shape.ndim() - 1;
                    let swapped = layout.transpose(0, last).unwrap();
                    layout = Layout::contiguous(swapped.shape().clone()).transpose(0, last).unwrap();
                }
                // Bytes that no correct result leaves in place everywhere.
                Tensor { buffer: buffer_of(&vec![0x01u8; bytes]), dtype: o.dtype, layout }
            })
            .collect();
        let mut outs: Vec<ViewMut<'_>> = results
            .iter_mut()
            // SAFETY: the layout was made for the buffer.
            .map(|r| unsafe { ViewMut::new(&mut r.buffer, r.dtype, &r.layout) })
            .collect();
        cpu(threads).run(op, &views, &mut outs)?;
        drop(outs);
        match &reference {
            None => reference = Some(results),
            Some(first) => {
                for (a, b) in first.iter().zip(&results) {
                    assert!(same(a, b), "{op:?} differs with {threads} threads, strided {strided}");
                }
            }
        }
    }
    Ok(reference.unwrap())
}

/// Whether two tensors hold the same bits in the same order, but for those of NaNs.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let are_contiguous = a.layout.is_contiguous() && b.layout.is_contiguous();
    are_contiguous && a.bytes() == b.bytes() || bits(a) == bits(b)
}

/// The bytes of the elements in row-major order, where every NaN is the same: which of two that are added stays is not defined.
pub(crate) fn bits(x: &Tensor) -> Vec<u8> {
    fn of<T: Element>(x: &Tensor, one_nan: impl Fn(T) -> T) -> Vec<u8> {
        let values = x.values::<T>().into_iter().map(one_nan).collect::<Vec<T>>();
        Tensor::new(x.layout.dims(), &values).bytes()
    }
    match x.dtype {
        DType::F16 => of::<f16>(x, |x| if x.is_nan() { f16::NAN } else { x }),
        DType::BF16 => of::<bf16>(x, |x| if x.is_nan() { bf16::NAN } else { x }),
        DType::F32 => of::<f32>(x, |x| if x.is_nan() { f32::NAN } else { x }),
        DType::F64 => of::<f64>(x, |x| if x.is_nan() { f64::NAN } else { x }),
        _ if x.layout.is_contiguous() => x.bytes(),
        dtype => {
            dispatch_dtype!(dtype, all, T => of::<T>(x, |x| x), _ => unreachable!("block types are contiguous"))
        }
    }
}

/// Runs an operation with one output and returns its elements.
pub(crate) fn run1<T: Element>(op: &Op, args: &[&Tensor]) -> Vec<T> {
    run(op, args).unwrap()[0].values()
}

/// The error of an operation that must fail in the kernel.
pub(crate) fn fails(op: &Op, args: &[&Tensor]) -> Error {
    match run(op, args) {
        Err(Fault::Invalid(error)) => *error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{op:?} did not fail"),
    }
}

/// Numbers in [−2, 2).
pub(crate) fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Philox::new(seed);
    (0..n).map(|_| random.next_f64() as f32 * 4.0 - 2.0).collect()
}

/// Asserts that numbers agree within a tolerance relative to max(1, |b|).
#[track_caller]
pub(crate) fn close(a: &[f32], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
        let a = f64::from(a);
        let fine = (a - b).abs() <= tolerance * b.abs().max(1.0) || a == b || a.is_nan() && b.is_nan();
        assert!(fine, "element {i}: {a} instead of {b}");
    }
}
