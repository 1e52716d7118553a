//! Creating tensors.

use crate::dispatch::{create, create_beside, transfer, upload};
use crate::{IntoShape, NestedArray, Tensor, TensorOptions};
use rustorch_core::{
    Arange, Buffer, DType, Device, Dims, Element, Error, Fill, FromScalar, Layout, Op, Result, Scalar, Shape,
    dispatch_dtype,
};
use rustorch_runtime::Storage;
use std::sync::Arc;

/// A 0-d tensor of one scalar.
pub(crate) fn scalar(value: Scalar, dtype: DType) -> Result<Tensor> {
    dispatch_dtype!(
        dtype,
        all,
        T => upload_elements(&[T::from_scalar(value)], &Shape::scalar()),
        _ => Err(Error::dtype("scalar", "a block-quantized tensor is made by casting", [dtype]))
    )
}

/// The bytes of elements.
fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an `Element` is a plain number without padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

fn upload_elements<T: Element>(elements: &[T], shape: &Shape) -> Result<Tensor> {
    upload(bytes_of(elements), T::DTYPE, shape, None)
}

impl Tensor {
    /// A tensor of the numbers of nested arrays, or a 0-d tensor of one scalar, in the dtype of the Rust type.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!((x.dims(), x.dtype()), (&[2, 3][..], DType::F32));
    /// assert_eq!(Tensor::new(true)?.ndim(), 0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn new<A: NestedArray>(array: A) -> Result<Tensor> {
        let mut dims = Dims::new();
        A::dims(&mut dims);
        let shape = Shape::new(dims)?;
        let mut items = Vec::with_capacity(shape.numel());
        array.append(&mut items);
        upload_elements(&items, &shape)
    }

    /// A tensor of these elements, in row-major order.
    ///
    /// # Errors
    /// If their number is not the shape's.
    pub fn from_slice<T: Element>(elements: &[T], shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if shape.numel() != elements.len() {
            return Err(Error::shape(
                "from_slice",
                format!("{} elements were given", elements.len()),
                [&shape],
            ));
        }
        upload_elements(elements, &shape)
    }

    /// As [`from_slice`](Self::from_slice).
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: impl IntoShape) -> Result<Tensor> {
        Tensor::from_slice(&elements, shape)
    }

    /// A tensor of elements, or blocks of a block type, given as bytes in row-major order and the machine's byte order.
    ///
    /// # Errors
    /// If their number is not what dtype and shape take, rows are not whole blocks, or a `Bool` is neither 0 nor 1.
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        byte_len("from_bytes", dtype, &shape)?;
        upload(bytes, dtype, &shape, None)
    }

    /// A tensor in read-only memory that something else owns, such as a mapped file, without a copy: the elements (or
    /// blocks, of a block type) start `byte_offset` bytes into `buffer`, in row-major order. Writing to it is an error.
    ///
    /// Where the address is not aligned for the dtype, which only careless file formats cause, and for `Bool`, the
    /// elements are copied. Either way they stay in host memory, wherever new tensors are made.
    ///
    /// # Errors
    /// If the elements reach beyond the end, rows are not whole blocks, a `Bool` is neither 0 nor 1, or the buffer is not
    /// made by [`Buffer::shared`] (others may be uninitialised).
    pub fn from_buffer(
        buffer: Buffer,
        dtype: DType,
        shape: impl IntoShape,
        byte_offset: usize,
    ) -> Result<Tensor> {
        const NAME: &str = "from_buffer";
        let shape = shape.into_shape()?;
        let len = byte_len(NAME, dtype, &shape)?;
        let Some(window) = Window::new(buffer, byte_offset, len) else {
            return Err(Error::shape(
                NAME,
                format!(
                    "no {len} bytes of {dtype} lie at {byte_offset}, or the buffer is not read-only host memory"
                ),
                [&shape],
            ));
        };
        let bytes = window.as_ref();
        if dtype == DType::Bool || !bytes.as_ptr().addr().is_multiple_of(alignment(dtype)) {
            return upload(bytes, dtype, &shape, Some(Device::CPU));
        }
        // SAFETY: a window gives the same bytes every time; that they do not change was promised to `Buffer::shared`.
        let storage = unsafe { Storage::shared(Arc::new(window)) };
        Ok(Tensor::from_parts(storage, dtype, Layout::contiguous(shape)))
    }

    /// A 0-d tensor of one scalar: `Bool`, `I64`, `F32` or `C64` by the kind of the scalar, as in PyTorch.
    pub fn scalar(value: impl Into<Scalar>) -> Result<Tensor> {
        let value = value.into();
        scalar(value, value.default_dtype())
    }

    /// A tensor of one scalar everywhere.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// assert_eq!(Tensor::full([2, 2], 7, DType::F16)?.to_string(), "tensor([[7., 7.],\n        [7., 7.]], dtype=f16)");
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the scalar is outside the range of an integer dtype.
    pub fn full(
        shape: impl IntoShape,
        value: impl Into<Scalar>,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        let (value, options) = (value.into(), options.into());
        crate::binary::expect_fits("full", value, options.dtype)?;
        let fill = Fill { shape: shape.into_shape()?, dtype: options.dtype, value };
        create(options, &Op::Fill(fill))
    }

    /// A tensor of zeros.
    pub fn zeros(shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        Tensor::full(shape, 0, options)
    }

    /// A tensor of ones.
    pub fn ones(shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        Tensor::full(shape, 1, options)
    }

    /// A tensor to be written. PyTorch's holds whatever is there; this one holds zeros, because reading memory that nobody wrote is
    /// undefined in Rust.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor, i};
    /// let x = Tensor::empty([2, 2], DType::F32)?;
    /// x.set(i![0], 1)?;
    /// x.set(i![1], 2)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    pub fn empty(shape: impl IntoShape, options: impl Into<TensorOptions>) -> Result<Tensor> {
        Tensor::zeros(shape, options)
    }

    /// As [`empty`](Self::empty), of this tensor's shape, dtype and device.
    pub fn empty_like(&self) -> Result<Tensor> {
        self.zeros_like()
    }

    /// A tensor of one scalar, of this one's shape, dtype and device.
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        let value = value.into();
        crate::binary::expect_fits("full", value, self.dtype())?;
        create_beside(self, &Op::Fill(Fill { shape: self.shape().clone(), dtype: self.dtype(), value }))
    }

    /// Zeros of this tensor's shape, dtype and device.
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_like(0)
    }

    /// Ones of this tensor's shape, dtype and device.
    pub fn ones_like(&self) -> Result<Tensor> {
        self.full_like(1)
    }

    /// `start`, `start + step`, … up to but without `end`: `I64` if all three are integers, else `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::arange(5, 0, -2)?.to_vec::<i64>()?, [5, 3, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `step` is zero or leads away from `end`.
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        let whole = [start, end, step].iter().all(|n| matches!(n, Scalar::Int(_)));
        Tensor::arange_with(start, end, step, if whole { DType::I64 } else { DType::F32 })
    }

    /// As [`arange`](Self::arange), in a given dtype.
    pub fn arange_with(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        options: impl Into<TensorOptions>,
    ) -> Result<Tensor> {
        let (start, end, step, options) = (start.into(), end.into(), step.into(), options.into());
        let refuse =
            |why: &str| Err(Error::argument("arange", format!("from {start} to {end} by {step}: {why}")));
        let len = if let (Scalar::Int(a), Scalar::Int(b), Scalar::Int(s)) = (start, end, step) {
            let (a, b, s) = (i128::from(a), i128::from(b), i128::from(s));
            if s == 0 {
                return refuse("the step is zero");
            }
            let (gap, stride) = if s > 0 { (b - a, s) } else { (a - b, -s) };
            if gap < 0 {
                return refuse("the step leads away from the end");
            }
            (gap + stride - 1) / stride
        } else {
            let (a, b, s) = (start.to_f64(), end.to_f64(), step.to_f64());
            let steps = ((b - a) / s).ceil();
            if s == 0.0 || !steps.is_finite() {
                return refuse("needs finite numbers and a step other than zero");
            }
            if steps < 0.0 {
                return refuse("the step leads away from the end");
            }
            steps as i128
        };
        match usize::try_from(len) {
            Ok(len) => create(options, &Op::Arange(Arange { start, step, len, dtype: options.dtype })),
            Err(_) => refuse("that is more numbers than can be addressed"),
        }
    }

    /// `steps` numbers from `start` to `end`, both included.
    pub fn linspace(start: f64, end: f64, steps: usize, options: impl Into<TensorOptions>) -> Result<Tensor> {
        let options = options.into();
        let step = (end - start) / steps.saturating_sub(1).max(1) as f64;
        // From both ends to the middle, so that both ends are exact.
        let numbers: Vec<f64> = (0..steps)
            .map(|i| {
                if i < steps.div_ceil(2) {
                    start + step * i as f64
                } else {
                    end - step * (steps - 1 - i) as f64
                }
            })
            .collect();
        let shape = steps.into_shape()?;
        let line =
            upload(bytes_of(&numbers), DType::F64, &shape, Some(Device::CPU))?.to_dtype(options.dtype)?;
        options.finish(transfer(&line, options.device)?)
    }

    /// The identity matrix of `rows` and `columns`: ones on the main diagonal, zeros elsewhere.
    pub fn eye(rows: usize, columns: usize, options: impl Into<TensorOptions>) -> Result<Tensor> {
        let options = options.into();
        let matrix = Tensor::zeros([rows, columns], options.requires_grad(false))?;
        matrix.diagonal(0, 0, 1)?.fill_(1)?;
        options.finish(matrix)
    }

    /// The rows and columns of all elements on and below a diagonal of a matrix, in row-major order: `I64` of shape `[2, count]`.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::tril_indices(2, 2, 0)?.to_vec::<i64>()?, [0, 1, 1, 0, 0, 1]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are more than can be addressed.
    pub fn tril_indices(rows: usize, columns: usize, offset: i64) -> Result<Tensor> {
        triangle("tril_indices", [rows, columns], |row| (i64::MIN, row.saturating_add(offset)))
    }

    /// The rows and columns of all elements on and above a diagonal; see [`tril_indices`](Self::tril_indices).
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// assert_eq!(Tensor::triu_indices(2, 3, 1)?.to_vec::<i64>()?, [0, 0, 1, 1, 2, 2]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are more than can be addressed.
    pub fn triu_indices(rows: usize, columns: usize, offset: i64) -> Result<Tensor> {
        triangle("triu_indices", [rows, columns], |row| (row.saturating_add(offset), i64::MAX))
    }
}

/// The indices of the elements whose column lies between two bounds, both included, that their row gives.
fn triangle(op: &'static str, shape: [usize; 2], bounds: impl Fn(i64) -> (i64, i64)) -> Result<Tensor> {
    let [rows, columns] = shape;
    let whole = Shape::new(shape.as_slice())?;
    let too_many = || Error::shape(op, "has more indices than there is memory for", [&whole]);
    let (mut indices, mut second) = (Vec::<i64>::new(), Vec::<i64>::new());
    let rows = if columns == 0 { 0 } else { rows };
    for row in 0..rows as i64 {
        let (first, last) = bounds(row);
        for column in first.max(0)..=last.min(columns as i64 - 1) {
            for (list, index) in [(&mut indices, row), (&mut second, column)] {
                list.try_reserve(1).map_err(|_| too_many())?;
                list.push(index);
            }
        }
    }
    let count = second.len();
    indices.try_reserve(count).map_err(|_| too_many())?;
    indices.append(&mut second);
    Tensor::from_vec(indices, [2, count])
}

/// The bytes that a contiguous tensor takes.
fn byte_len(op: &'static str, dtype: DType, shape: &Shape) -> Result<usize> {
    let row = shape.last().copied().unwrap_or(1);
    if shape.numel() != 0 && !row.is_multiple_of(dtype.block_len()) {
        return Err(Error::shape(
            op,
            format!("the last dimension does not divide into {dtype}'s blocks of {}", dtype.block_len()),
            [shape],
        ));
    }
    dtype
        .bytes_for(shape.numel())
        .ok_or_else(|| Error::shape(op, format!("{dtype} of this shape has no size in bytes"), [shape]))
}

fn alignment(dtype: DType) -> usize {
    dispatch_dtype!(dtype, all, T => align_of::<T>(), _ => 1)
}

/// Part of read-only memory.
struct Window {
    buffer: Buffer,
    start: usize,
    len: usize,
}

impl Window {
    fn new(buffer: Buffer, start: usize, len: usize) -> Option<Window> {
        let inside = start.checked_add(len).is_some_and(|end| end <= buffer.bytes());
        let readable = buffer.is_read_only() && buffer.host_address().is_some();
        (inside && readable).then_some(Window { buffer, start, len })
    }
}

impl AsRef<[u8]> for Window {
    fn as_ref(&self) -> &[u8] {
        let address = self.buffer.host_address().expect("checked when it was made");
        // SAFETY: a read-only buffer comes from `Buffer::shared`, whose bytes are initialised, stay where they are, and
        // do not change; the window was checked to lie inside.
        unsafe { std::slice::from_raw_parts(address.as_ptr().add(self.start), self.len) }
    }
}
