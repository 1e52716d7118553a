//! Argument types that let methods take what a person would write: `[2, 3]`, `-1`, `..`, `&other`, `2.5`.

use crate::Tensor;
use rustorch_core::{C64, C128, DType, Device, Dims, Error, Result, Scalar, Shape, bf16, f16, resolve_axis};
use smallvec::SmallVec;
use std::ops::RangeFull;

/// What has the lengths of a new tensor: `[2, 3]`, `5`, `()` for a scalar, a slice, a [`Shape`].
pub trait IntoShape {
    /// The shape.
    ///
    /// # Errors
    /// If it has more elements than can be addressed.
    fn into_shape(self) -> Result<Shape>;
}

macro_rules! into_shape {
    ($([$($generics:tt)*] $ty:ty: $v:ident => $expr:expr;)*) => {$(
        impl<$($generics)*> IntoShape for $ty {
            fn into_shape(self) -> Result<Shape> {
                let $v = self;
                $expr
            }
        }
    )*};
}

into_shape! {
    [] (): _v => Ok(Shape::scalar());
    [] usize: v => Shape::new([v].as_slice());
    [const N: usize] [usize; N]: v => Shape::new(v.as_slice());
    [const N: usize] &[usize; N]: v => Shape::new(v.as_slice());
    [] &[usize]: v => Shape::new(v);
    [] Vec<usize>: v => Shape::new(v.as_slice());
    [] &Vec<usize>: v => Shape::new(v.as_slice());
    [] Dims: v => Shape::new(v);
    [] Shape: v => Ok(v);
    [] &Shape: v => Ok(v.clone());
}

/// Lengths of which one may be −1, to be found out: `[2, -1]`.
#[derive(Clone, Debug)]
pub struct Sizes(pub(crate) SmallVec<[isize; 6]>, Given);

/// How lengths were given, which is how modules print them.
#[derive(Clone, Copy, Debug)]
enum Given {
    One,
    List,
}

/// Axes to reduce over: one (`1`, `-1`), several (`[0, 2]`), or all (`..`). None at all (`[]`) means all, as in PyTorch.
#[derive(Clone, Debug)]
pub struct Axes(SmallVec<[isize; 6]>);

macro_rules! lists {
    ($($target:ident: $($ty:ty),*;)*) => {$($(
        impl<const N: usize> From<[$ty; N]> for $target {
            fn from(list: [$ty; N]) -> $target {
                $target::of_list(list.iter().map(|&n| n as isize).collect())
            }
        }

        impl<const N: usize> From<&[$ty; N]> for $target {
            fn from(list: &[$ty; N]) -> $target {
                $target::of_list(list.iter().map(|&n| n as isize).collect())
            }
        }

        impl From<&[$ty]> for $target {
            fn from(list: &[$ty]) -> $target {
                $target::of_list(list.iter().map(|&n| n as isize).collect())
            }
        }

        impl From<Vec<$ty>> for $target {
            fn from(list: Vec<$ty>) -> $target {
                list.as_slice().into()
            }
        }

        impl From<$ty> for $target {
            fn from(one: $ty) -> $target {
                $target::of_one(one as isize)
            }
        }
    )*)*};
}

lists! {
    Sizes: isize, usize, i32, i64;
    Axes: isize, usize, i32, i64;
}

impl Sizes {
    fn of_list(lengths: SmallVec<[isize; 6]>) -> Sizes {
        Sizes(lengths, Given::List)
    }

    fn of_one(length: isize) -> Sizes {
        Sizes(SmallVec::from_slice(&[length]), Given::One)
    }
}

impl Axes {
    fn of_list(axes: SmallVec<[isize; 6]>) -> Axes {
        Axes(axes)
    }

    fn of_one(axis: isize) -> Axes {
        Axes(SmallVec::from_slice(&[axis]))
    }
}

impl From<&Shape> for Sizes {
    fn from(shape: &Shape) -> Sizes {
        shape.dims().into()
    }
}

impl From<()> for Sizes {
    fn from((): ()) -> Sizes {
        Sizes::of_list(SmallVec::new())
    }
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Axes {
        Axes(SmallVec::new())
    }
}

impl Axes {
    /// The axes as ascending indices. A scalar has none.
    pub(crate) fn resolve(&self, op: &'static str, ndim: usize) -> Result<Dims> {
        if self.0.is_empty() {
            return Ok((0..ndim).collect());
        }
        let mut dims = Dims::new();
        for &axis in &self.0 {
            dims.push(resolve_axis(op, axis, ndim)?);
        }
        dims.sort_unstable();
        if dims.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::argument(op, format!("a dimension appears twice in {:?}", &self.0[..])));
        }
        if ndim == 0 {
            dims.clear();
        }
        Ok(dims)
    }
}

impl Sizes {
    /// The lengths.
    pub fn as_slice(&self) -> &[isize] {
        &self.0
    }

    /// The only length, if it was given as a number and not in a list.
    pub fn as_one(&self) -> Option<isize> {
        match (self.1, self.0.as_slice()) {
            (Given::One, &[one]) => Some(one),
            _ => None,
        }
    }

    /// The shape of `elements` elements that these lengths mean.
    pub(crate) fn resolve(&self, op: &'static str, from: &Shape) -> Result<Shape> {
        let mut dims = Dims::new();
        let mut open = None;
        for (i, &size) in self.0.iter().enumerate() {
            match size {
                0.. => dims.push(size as usize),
                -1 if open.is_none() => {
                    open = Some(i);
                    dims.push(1);
                }
                _ => {
                    return Err(Error::argument(
                        op,
                        format!("in {:?}, only one length may be −1, and none less", &self.0[..]),
                    ));
                }
            }
        }
        if let Some(i) = open {
            let known = Shape::new(dims.clone())?.numel();
            if known == 0 || !from.numel().is_multiple_of(known) {
                return Err(Error::shape(
                    op,
                    format!("no length in place of −1 in {:?} gives {} elements", &self.0[..], from.numel()),
                    [from],
                ));
            }
            dims[i] = from.numel() / known;
        }
        Shape::new(dims)
    }
}

/// The second operand of arithmetic: another tensor, or a scalar, whose width does not count in promotion.
#[derive(Clone, Copy, Debug)]
pub enum TensorOrScalar<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A scalar.
    Scalar(Scalar),
}

impl<'a> From<&'a Tensor> for TensorOrScalar<'a> {
    #[inline]
    fn from(tensor: &'a Tensor) -> TensorOrScalar<'a> {
        TensorOrScalar::Tensor(tensor)
    }
}

macro_rules! from_numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for TensorOrScalar<'_> {
            #[inline]
            fn from(number: $ty) -> Self {
                TensorOrScalar::Scalar(number.into())
            }
        }
    )*};
}

from_numbers!(Scalar, bool, u8, i8, i16, i32, u32, i64, f16, bf16, f32, f64, C64, C128);

/// The dtype and device of a new tensor, `DType::F32` or `(DType::F32, Device::cuda(0))`, and whether it requires a gradient.
///
/// ```
/// # use rustorch_tensor::{DType, Tensor, TensorOptions};
/// let w = Tensor::randn([2, 3], TensorOptions::from(DType::F32).requires_grad(true))?;
/// assert!(w.requires_grad() && w.is_leaf());
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorOptions {
    /// The dtype.
    pub dtype: DType,
    /// Where it shall be; if not given, the executor decides.
    pub device: Option<Device>,
    /// Whether operations on it are recorded for its gradient: only floats and complex numbers have one.
    pub requires_grad: bool,
}

impl TensorOptions {
    /// With a gradient or without, which is the default.
    #[must_use]
    pub fn requires_grad(self, requires_grad: bool) -> TensorOptions {
        TensorOptions { requires_grad, ..self }
    }

    /// A new tensor as these options want it.
    pub(crate) fn finish(self, x: Tensor) -> Result<Tensor> {
        if self.requires_grad {
            x.requires_grad_(true)?;
        }
        Ok(x)
    }
}

impl Default for TensorOptions {
    /// Of the default dtype ([`with_default_dtype`](crate::with_default_dtype)), on the device of new tensors.
    fn default() -> TensorOptions {
        rustorch_runtime::default_dtype().into()
    }
}

impl From<DType> for TensorOptions {
    fn from(dtype: DType) -> TensorOptions {
        TensorOptions { dtype, device: None, requires_grad: false }
    }
}

impl From<(DType, Device)> for TensorOptions {
    fn from((dtype, device): (DType, Device)) -> TensorOptions {
        TensorOptions { dtype, device: Some(device), requires_grad: false }
    }
}

/// Numbers in nested arrays: `[[1.0, 2.0], [3.0, 4.0]]`, or one alone.
pub trait NestedArray {
    /// The type of the numbers.
    type Item: rustorch_core::Element;

    /// Appends the lengths, outermost first.
    fn dims(dims: &mut Dims);

    /// Appends the numbers in row-major order.
    fn append(self, items: &mut Vec<Self::Item>);
}

macro_rules! nested {
    ($($ty:ty),*) => {$(
        impl NestedArray for $ty {
            type Item = $ty;

            fn dims(_: &mut Dims) {}

            fn append(self, items: &mut Vec<$ty>) {
                items.push(self);
            }
        }
    )*};
}

nested!(bool, u8, i8, i16, i32, u32, i64, f16, bf16, f32, f64, C64, C128);

impl<A: NestedArray, const N: usize> NestedArray for [A; N] {
    type Item = A::Item;

    fn dims(dims: &mut Dims) {
        dims.push(N);
        A::dims(dims);
    }

    fn append(self, items: &mut Vec<A::Item>) {
        for inner in self {
            inner.append(items);
        }
    }
}
