//! Conversion to other dtypes, devices and plain Rust values.

use crate::Tensor;
use crate::autograd::caller;
use crate::dispatch::{run, transfer};
use rustorch_core::{
    Cast, CopyOp, DType, Element, Error, FromScalar, IntoDevice, Op, Result, Scalar, dispatch_dtype,
};
use rustorch_runtime::HybridExecutor;

impl Tensor {
    /// The same numbers in another dtype: rounded, truncated towards zero, compared with zero (`Bool`), reduced to
    /// their real parts. Block types quantize and dequantize, by way of `F32`. The tensor itself if it has the dtype.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, QuantType, Tensor};
    /// let x = Tensor::new([1.9f32, -1.9])?.to_dtype(DType::I32)?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, -1]);
    /// let weights = Tensor::full([4, 32], 127, DType::F32)?.to_dtype(DType::Quant(QuantType::Q8_0))?;
    /// assert_eq!(weights.to_dtype(DType::F32)?.to_vec::<f32>()?, [127.0; 128]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the last dimension does not divide into the blocks of a block type.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        let from = self.dtype();
        if from == dtype {
            return Ok(self.clone());
        }
        // Block types meet the others at f32, and dequantize to 16-bit floats at once.
        let direct = match (from, dtype) {
            (DType::Quant(_), to) => matches!(to, DType::F32 | DType::F16 | DType::BF16),
            (from, DType::Quant(_)) => from == DType::F32,
            _ => true,
        };
        if direct {
            run(&Op::Cast(Cast { to: dtype }), &[self])
        } else {
            run(&Op::Cast(Cast { to: dtype }), &[&run(&Op::Cast(Cast { to: DType::F32 }), &[self])?])
        }
    }

    /// On another device, given by value or by name; the tensor itself if it is there. A device of the process is opened when it
    /// is named first.
    ///
    /// ```
    /// # use rustorch_tensor::{Device, Tensor};
    /// let x = Tensor::new([1.0f32, 2.0])?;
    /// assert_eq!(x.to_device("cpu")?.device(), Device::CPU);
    /// assert!(x.to_device("cuda:99").is_err());
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the name means no device, the device is not here (the error says why and lists those that are), or one of the
    /// devices fails.
    pub fn to_device(&self, device: impl IntoDevice) -> Result<Tensor> {
        transfer(self, device.into_device()?)
    }

    /// A tensor of the same numbers with memory of its own, contiguous. (`clone` shares the memory.)
    pub fn copy(&self) -> Result<Tensor> {
        run(&Op::Copy(CopyOp), &[self])
    }

    /// The tensor itself if its elements lie in row-major order without gaps, else a copy in which they do.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// If `T` is not the tensor's dtype: this converts nothing; [`to_dtype`](Self::to_dtype) does.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.elements("to_vec")
    }

    /// The rows of a matrix.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[1i32, 2], [3, 4]])?;
    /// assert_eq!(x.t()?.to_vec2::<i32>()?, [[1, 3], [2, 4]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are not two dimensions, or `T` is not the tensor's dtype.
    pub fn to_vec2<T: Element>(&self) -> Result<Vec<Vec<T>>> {
        const NAME: &str = "to_vec2";
        let &[rows, columns] = self.dims() else {
            return Err(Error::shape(NAME, "needs two dimensions", [self.shape()]));
        };
        nested(NAME, self, self.elements(NAME)?, rows, columns)
    }

    /// The matrices of a tensor of three dimensions, each as its rows.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([[[1i32, 2]], [[3, 4]]])?;
    /// assert_eq!(x.to_vec3::<i32>()?, [[[1, 2]], [[3, 4]]]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are not three dimensions, or `T` is not the tensor's dtype.
    pub fn to_vec3<T: Element>(&self) -> Result<Vec<Vec<Vec<T>>>> {
        const NAME: &str = "to_vec3";
        let &[matrices, rows, columns] = self.dims() else {
            return Err(Error::shape(NAME, "needs three dimensions", [self.shape()]));
        };
        // Of no elements there may be more rows than can be counted.
        let count = matrices.saturating_mul(rows);
        let rows_of_all = nested(NAME, self, self.elements(NAME)?, count, columns)?;
        nested(NAME, self, rows_of_all, matrices, rows)
    }

    fn elements<T: Element>(&self, method: &'static str) -> Result<Vec<T>> {
        if self.dtype() != T::DTYPE {
            return Err(Error::dtype(
                method,
                format!("the elements are not {}; use to_dtype first", T::DTYPE),
                [self.dtype()],
            ));
        }
        let n = self.numel();
        let mut elements: Vec<T> = Vec::with_capacity(n);
        // SAFETY: the vector's own memory, of this size, made all zero, which every `Element` has as a valid value.
        let bytes = unsafe {
            elements.as_mut_ptr().write_bytes(0, n);
            std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast::<u8>(), n * size_of::<T>())
        };
        self.read_bytes(method, bytes)?;
        // SAFETY: all `n` elements are initialised, and hold what a tensor of their dtype holds.
        unsafe { elements.set_len(n) };
        Ok(elements)
    }

    /// The bytes of the elements, or of their blocks, in row-major order and the machine's byte order.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let len = self.dtype().bytes_for(self.numel()).ok_or_else(|| {
            Error::shape("to_bytes", format!("{} elements are no whole blocks", self.dtype()), [self.shape()])
        })?;
        let mut bytes = vec![0; len];
        self.read_bytes("to_bytes", &mut bytes)?;
        Ok(bytes)
    }

    fn read_bytes(&self, method: &'static str, bytes: &mut [u8]) -> Result<()> {
        self.expect_value(method)?;
        HybridExecutor::with_current(|exec| exec.download(&self.operand(), bytes))
    }

    /// # Errors
    /// If the tensor has no value, because it stands for a result in a captured function; the error names method, operation and the
    /// caller's line.
    pub(crate) fn expect_value(&self, method: &'static str) -> Result<()> {
        match self.storage().symbol_origin() {
            None => Ok(()),
            Some(origin) => Err(no_value(method, origin)),
        }
    }

    /// The value of a tensor of one element.
    ///
    /// # Errors
    /// If there is not exactly one.
    pub fn item(&self) -> Result<Scalar> {
        self.single("item")
    }

    fn single(&self, method: &'static str) -> Result<Scalar> {
        if self.numel() != 1 {
            return Err(Error::shape(
                method,
                format!("needs exactly one element, there are {}", self.numel()),
                [self.shape()],
            ));
        }
        self.expect_value(method)?;
        let x = if self.dtype().is_quant() { self.to_dtype(DType::F32)? } else { self.clone() };
        dispatch_dtype!(
            x.dtype(),
            all,
            T => Ok(x.to_vec::<T>()?[0].into()),
            _ => Err(Error::dtype(method, "has no single values", [self.dtype()]))
        )
    }

    /// The value of a tensor of one element in a Rust type: rounded to a float, truncated to an integer.
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let x = Tensor::new([2.75f64])?;
    /// assert_eq!((x.item_as::<f32>()?, x.item_as::<i64>()?), (2.75, 2));
    /// assert!(x.mul(200)?.item_as::<u8>().is_err());
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is not exactly one, it is outside the range of an integer type, or a real type would lose its imaginary part.
    pub fn item_as<T: FromScalar>(&self) -> Result<T> {
        const NAME: &str = "item_as";
        let value = self.single(NAME)?;
        let converted = T::from_scalar(value);
        let kept: Scalar = converted.into();
        let is_complex = T::DTYPE.is_complex();
        // The bounds are those of `i64`, beyond which a conversion saturates; within them it may wrap around.
        let in_range = |x: f64| (-(2f64.powi(63))..2f64.powi(63)).contains(&x) && kept.to_f64() == x.trunc();
        let (why, holds) = match value {
            Scalar::Complex(z) if z.im != 0.0 && !is_complex && T::DTYPE != DType::Bool => {
                ("has an imaginary part", false)
            }
            Scalar::Float(x) if T::DTYPE.is_int() => ("is out of range", in_range(x)),
            Scalar::Complex(z) if T::DTYPE.is_int() => ("is out of range", in_range(z.re)),
            Scalar::Int(i) if T::DTYPE.is_int() => ("is out of range", kept.to_i64() == i),
            _ => ("", true),
        };
        match holds {
            true => Ok(converted),
            false => Err(Error::argument(NAME, format!("{value} is no {}: it {why}", T::DTYPE))),
        }
    }

    /// The value at one place; indices may count from the end.
    ///
    /// # Errors
    /// If there are not as many indices as dimensions, or one is out of range.
    pub fn item_at(&self, place: &[isize]) -> Result<Scalar> {
        if place.len() != self.ndim() {
            return Err(Error::shape("item", format!("{} indices were given", place.len()), [self.shape()]));
        }
        let mut x = self.clone();
        for &index in place {
            x = x.select(0, index)?;
        }
        x.item()
    }
}

/// So many lists of `len` items each.
fn nested<T>(op: &'static str, x: &Tensor, items: Vec<T>, count: usize, len: usize) -> Result<Vec<Vec<T>>> {
    let mut lists = Vec::new();
    lists
        .try_reserve_exact(count)
        .map_err(|_| Error::shape(op, "has more rows than there is memory for", [x.shape()]))?;
    let mut items = items.into_iter();
    lists.extend((0..count).map(|_| items.by_ref().take(len).collect()));
    Ok(lists)
}

#[cold]
fn no_value(method: &'static str, origin: &str) -> Error {
    let message = format!(
        "asks for the value of {origin} in a captured function, where nothing is computed; return the tensor from the function and ask \
         what a run gives; called at {}",
        caller()
    );
    Error::argument(method, message)
}
