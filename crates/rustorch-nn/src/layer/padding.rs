//! Elements added at the ends of spatial dimensions.

use super::options::{of_layer, spatial_name};
use crate::{Layer, Module, Repr};
use rustorch_tensor::{Error, Result, Tensor};

/// What stands at the ends of a padded tensor, by PyTorch's names. For `a b c` and two elements at either end:
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PaddingMode {
    /// `0 0 a b c 0 0`
    #[default]
    Zeros,
    /// `c b a b c b a`
    Reflect,
    /// `a a a b c c c`
    Replicate,
    /// `b c a b c a b`
    Circular,
}

impl PaddingMode {
    /// PyTorch's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            PaddingMode::Zeros => "zeros",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Replicate => "replicate",
            PaddingMode::Circular => "circular",
        }
    }
}

/// With so many elements before and after along each of the last dimensions; fewer than none crop.
pub(crate) fn pad(
    layer: &'static str,
    x: &Tensor,
    mode: PaddingMode,
    sides: &[(isize, isize)],
) -> Result<Tensor> {
    if mode == PaddingMode::Zeros {
        return fill(x, sides, 0.0).map_err(of_layer(layer));
    }
    let mut x = x.clone();
    for (i, &(before, after)) in sides.iter().enumerate().filter(|(_, sides)| **sides != (0, 0)) {
        let dim = x.ndim() - sides.len() + i;
        let len = x.dims()[dim] as isize;
        let most = match mode {
            PaddingMode::Reflect => len - 1,
            PaddingMode::Circular => len,
            _ => isize::MAX,
        };
        if before > most || after > most || len + before.min(0) + after.min(0) <= 0 {
            let message = format!("padding {before} and {after} of {mode:?} does not fit dimension {dim}");
            return Err(Error::shape(layer, message, [x.shape()]));
        }
        // What is left of the tensor goes round, as in PyTorch.
        let (first, left) = ((-before).max(0), len + before.min(0) + after.min(0));
        let source = |at: isize| match mode {
            PaddingMode::Reflect if at < 0 => -at,
            PaddingMode::Reflect if at >= len => 2 * (len - 1) - at,
            PaddingMode::Circular => first + (at - first).rem_euclid(left),
            _ => at.clamp(0, len - 1),
        };
        let index: Vec<i64> = (-before..len + after).map(|at| source(at) as i64).collect();
        let index = Tensor::from_slice(&index, index.len())?.to_device(x.device())?;
        x = x.index_select(dim as isize, &index)?;
    }
    Ok(x)
}

/// With a value at the ends of the last dimensions.
fn fill(x: &Tensor, sides: &[(isize, isize)], value: f64) -> Result<Tensor> {
    // The operation takes the last dimension first.
    let widths: Vec<isize> = sides.iter().rev().flat_map(|&(before, after)| [before, after]).collect();
    x.pad(widths, value)
}

/// How much is added before and after each of `N` spatial dimensions, the first of them first; fewer than none crop: `1`, or
/// `[(1, 2), (0, 3)]`.
#[derive(Clone, Copy, Debug)]
pub struct PaddingSides<const N: usize>([(isize, isize); N]);

impl<const N: usize> Repr for PaddingSides<N> {
    /// PyTorch's pairs are those of the last dimension first.
    fn repr(&self) -> String {
        let sides: Vec<isize> = self.0.iter().rev().flat_map(|&(before, after)| [before, after]).collect();
        sides.as_slice().repr()
    }
}

impl<const N: usize> From<isize> for PaddingSides<N> {
    fn from(all: isize) -> PaddingSides<N> {
        PaddingSides([(all, all); N])
    }
}

impl<const N: usize> From<[(isize, isize); N]> for PaddingSides<N> {
    fn from(sides: [(isize, isize); N]) -> PaddingSides<N> {
        PaddingSides(sides)
    }
}

/// Checks that there is at least a channel dimension before `N` spatial ones.
fn expect_spatial<const N: usize>(layer: &'static str, x: &Tensor) -> Result<()> {
    if x.ndim() == N + 1 || x.ndim() == N + 2 {
        return Ok(());
    }
    let message =
        format!("takes {} dimensions, or {} without a batch; the last {N} are padded", N + 2, N + 1);
    Err(Error::shape(layer, message, [x.shape()]))
}

macro_rules! pads {
    ($($pad:ident, $mode:ident, $like:literal, $example:literal, [$($name:literal $alias:ident $n:literal),*];)*) => {$(
        #[doc = concat!("The argument with elements added at the ends of its `N` last dimensions, as `torch.nn.", $like,
            "`.\n\n```\nuse rustorch_nn::{Layer, ", $like, "};\nuse rustorch_tensor::Tensor;\nlet x = Tensor::new([[1.0f32, 2.0, 3.0]])?;\n",
            "let y = ", $like, "::new([(2, 1)]).forward(&x)?;\nassert_eq!(y.to_vec::<f32>()?, ", $example,
            ");\n# Ok::<(), rustorch_tensor::Error>(())\n```")]
        #[derive(Clone, Debug, rustorch_macros::Module)]
        #[module(type_name = spatial_name::<N>([$($name),*]))]
        pub struct $pad<const N: usize>(#[module(skip, repr = value)] PaddingSides<N>);

        impl<const N: usize> $pad<N> {
            /// With so many elements at the ends.
            pub fn new(padding: impl Into<PaddingSides<N>>) -> $pad<N> {
                $pad(padding.into())
            }
        }

        impl<const N: usize> Layer for $pad<N> {
            #[rustorch_macros::observed]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let name = self.type_name();
                expect_spatial::<N>(name, x)?;
                pad(name, x, PaddingMode::$mode, &self.0.0)
            }
        }

        $(
            #[doc = concat!("[`", stringify!($pad), "`] of ", stringify!($n), " spatial dimensions.")]
            pub type $alias = $pad<$n>;
        )*
    )*};
}

pads! {
    ZeroPad, Zeros, "ZeroPad1d", "[0.0, 0.0, 1.0, 2.0, 3.0, 0.0]",
        ["ZeroPad1d" ZeroPad1d 1, "ZeroPad2d" ZeroPad2d 2, "ZeroPad3d" ZeroPad3d 3];
    ReflectionPad, Reflect, "ReflectionPad1d", "[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]",
        ["ReflectionPad1d" ReflectionPad1d 1, "ReflectionPad2d" ReflectionPad2d 2, "ReflectionPad3d" ReflectionPad3d 3];
    ReplicationPad, Replicate, "ReplicationPad1d", "[1.0, 1.0, 1.0, 2.0, 3.0, 3.0]",
        ["ReplicationPad1d" ReplicationPad1d 1, "ReplicationPad2d" ReplicationPad2d 2, "ReplicationPad3d" ReplicationPad3d 3];
    CircularPad, Circular, "CircularPad1d", "[2.0, 3.0, 1.0, 2.0, 3.0, 1.0]",
        ["CircularPad1d" CircularPad1d 1, "CircularPad2d" CircularPad2d 2, "CircularPad3d" CircularPad3d 3];
}

/// The argument with a value added at the ends of its `N` last dimensions, as `torch.nn.ConstantPad2d`.
///
/// ```
/// use rustorch_nn::{ConstantPad1d, Layer};
/// use rustorch_tensor::Tensor;
/// let y = ConstantPad1d::new([(1, -1)], 7.0).forward(&Tensor::new([[1.0f32, 2.0]])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [7.0, 1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["ConstantPad1d", "ConstantPad2d", "ConstantPad3d"]))]
pub struct ConstantPad<const N: usize> {
    #[module(skip, repr)]
    padding: PaddingSides<N>,
    #[module(repr)]
    value: f64,
}

/// [`ConstantPad`] of 1 spatial dimension.
pub type ConstantPad1d = ConstantPad<1>;
/// [`ConstantPad`] of 2 spatial dimensions.
pub type ConstantPad2d = ConstantPad<2>;
/// [`ConstantPad`] of 3 spatial dimensions.
pub type ConstantPad3d = ConstantPad<3>;

impl<const N: usize> ConstantPad<N> {
    /// With so many times a value at the ends.
    pub fn new(padding: impl Into<PaddingSides<N>>, value: f64) -> ConstantPad<N> {
        ConstantPad { padding: padding.into(), value }
    }
}

impl<const N: usize> Layer for ConstantPad<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        expect_spatial::<N>(self.type_name(), x)?;
        fill(x, &self.padding.0, self.value).map_err(of_layer(self.type_name()))
    }
}
