//! How layers are made: optional arguments with PyTorch's names and defaults, and arguments for each spatial dimension.

use crate::Repr;
use rustorch_tensor::{Error, Result, Shape, Tensor};

/// One length for each of `N` spatial dimensions: `3` stands for all, `[3, 5]` names each. It is called as in PyTorch's C++ interface.
#[derive(Clone, Copy, Debug)]
pub struct ExpandingArray<const N: usize>(pub(super) [usize; N], Given);

/// How lengths were given, which is how they are printed.
#[derive(Clone, Copy, Debug)]
enum Given {
    One,
    Each,
}

impl<const N: usize> PartialEq for ExpandingArray<N> {
    /// However they were given.
    fn eq(&self, other: &ExpandingArray<N>) -> bool {
        self.0 == other.0
    }
}

impl<const N: usize> Eq for ExpandingArray<N> {}

impl<const N: usize> Repr for ExpandingArray<N> {
    fn repr(&self) -> String {
        match (self.1, self.0.first()) {
            (Given::One, Some(one)) => one.repr(),
            _ => self.0.repr(),
        }
    }
}

impl<const N: usize> From<usize> for ExpandingArray<N> {
    fn from(all: usize) -> ExpandingArray<N> {
        ExpandingArray([all; N], Given::One)
    }
}

impl<const N: usize> From<[usize; N]> for ExpandingArray<N> {
    fn from(each: [usize; N]) -> ExpandingArray<N> {
        ExpandingArray(each, Given::Each)
    }
}

/// Declares the optional arguments of a layer: a struct with a default and a method for each argument. An argument is `plain`, or what
/// converts `into` its type.
macro_rules! options {
    (
        $(#[$doc:meta])*
        $name:ident $(<const $n:ident>)? {
            $($(#[$field_doc:meta])* $field:ident: $kind:ident $ty:ty = $default:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name $(<const $n: usize>)? {
            $(pub(super) $field: $ty,)*
            pub(super) tensor: rustorch_tensor::TensorOptions,
        }

        impl $(<const $n: usize>)? Default for $name $(<$n>)? {
            fn default() -> Self {
                $name { $($field: $default,)* tensor: Default::default() }
            }
        }

        impl $(<const $n: usize>)? $name $(<$n>)? {
            $(options! { @setter $kind, $(#[$field_doc])* $field: $ty })*

            /// Dtype and device of its parameters: by default the default dtype, on the device of new tensors.
            #[must_use]
            pub fn tensor(self, options: impl Into<rustorch_tensor::TensorOptions>) -> Self {
                $name { tensor: options.into(), ..self }
            }
        }
    };
    (@setter plain, $(#[$doc:meta])* $field:ident: $ty:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(self, $field: $ty) -> Self {
            Self { $field, ..self }
        }
    };
    (@setter into, $(#[$doc:meta])* $field:ident: $ty:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(self, $field: impl Into<$ty>) -> Self {
            Self { $field: $field.into(), ..self }
        }
    };
}

/// Calls the method for `N` spatial dimensions.
macro_rules! spatial {
    ($n:ident, $x:ident, $one:ident, $two:ident, $three:ident, ($($argument:expr),*)) => {
        match $n {
            1 => $x.$one($($argument),*),
            2 => $x.$two($($argument),*),
            _ => $x.$three($($argument),*),
        }
    };
}

pub(super) use {options, spatial};

/// The name of a layer that there is for one to three spatial dimensions.
pub(super) const fn spatial_name<const N: usize>(names: [&'static str; 3]) -> &'static str {
    const { assert!(1 <= N && N <= 3, "there are layers for one, two and three spatial dimensions") };
    names[N - 1]
}

/// An operation's error, told as the layer's.
pub(super) fn of_layer(layer: &'static str) -> impl Fn(Error) -> Error {
    move |error| match error {
        Error::Shape { message, shapes, .. } => Error::shape(layer, message, shapes.iter()),
        Error::DType { message, dtypes, .. } => Error::dtype(layer, message, dtypes),
        Error::Argument { message, .. } => Error::argument(layer, message),
        Error::Axis { axis, ndim, .. } => Error::Axis { op: layer, axis, ndim },
        Error::Index { index, len, .. } => Error::Index { op: layer, index, len },
        other => other,
    }
}

/// Checks that an argument is `[n, channels, ..]` with so many spatial dimensions, or one without `n`.
pub(super) fn expect_channels(
    layer: &'static str,
    x: &Tensor,
    channels: usize,
    spatial: usize,
) -> Result<()> {
    let ndim = x.ndim();
    if (ndim == spatial + 1 || ndim == spatial + 2) && x.dims()[ndim - spatial - 1] == channels {
        return Ok(());
    }
    let lengths = &["l", "h, w", "d, h, w"][spatial - 1];
    let message = format!("takes [n, {channels}, {lengths}], or [{channels}, {lengths}] for a single sample");
    Err(Error::shape(layer, message, [x.shape()]))
}

/// Checks that a number of channels falls into groups.
pub(super) fn expect_groups(layer: &'static str, what: &str, channels: usize, groups: usize) -> Result<()> {
    if groups != 0 && channels.is_multiple_of(groups) {
        return Ok(());
    }
    Err(Error::argument(layer, format!("{what} {channels} must be a multiple of groups {groups}")))
}

/// A shape of leading lengths and those of a kernel.
pub(super) fn kernel_shape<const N: usize>(leading: [usize; 2], kernel: [usize; N]) -> Result<Shape> {
    let lengths: Vec<usize> = leading.into_iter().chain(kernel).collect();
    rustorch_tensor::IntoShape::into_shape(lengths)
}
