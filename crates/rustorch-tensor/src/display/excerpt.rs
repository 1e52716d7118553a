//! The elements that are printed, copied to the CPU.

use super::PrintOptions;
use crate::Tensor;
use rustorch_core::{C64, C128, DType, DTypeKind, Dims, Result, Scalar, dispatch_dtype};

/// The printed elements, widened to the widest of their kind.
pub(super) enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Complex(Vec<C128>),
}

pub(super) struct Excerpt {
    pub(super) values: Values,
    /// The lengths, after what is left out.
    pub(super) dims: Dims,
    /// Per dimension, whether its middle is left out.
    cut: Vec<bool>,
    /// How many elements stay at each end, then.
    edge: usize,
}

impl Excerpt {
    pub(super) fn new(x: &Tensor, options: &PrintOptions) -> Result<Excerpt> {
        let edge = options.edge_items;
        let is_long = |dim: usize| dim > edge.saturating_mul(2);
        let cut: Vec<bool> =
            x.dims().iter().map(|&dim| x.numel() > options.threshold && is_long(dim)).collect();
        // Blocks lie along the last dimension, so a block type is cut there after dequantization only.
        let mut part = x.clone();
        if x.dtype().is_quant() {
            part = ends(&part, &cut, edge, x.ndim().saturating_sub(1))?.to_dtype(DType::F32)?;
        }
        part = ends(&part, &cut, edge, part.ndim())?;
        Ok(Excerpt { values: values(&part)?, dims: part.dims().into(), cut, edge })
    }

    /// Before which of the remaining indices of a dimension something is left out.
    pub(super) fn gap(&self, axis: usize) -> Option<usize> {
        self.cut[axis].then_some(self.edge)
    }
}

/// The ends of the dimensions to be cut, among the first `axes`, that are longer than their ends still.
fn ends(x: &Tensor, cut: &[bool], edge: usize, axes: usize) -> Result<Tensor> {
    let mut part = x.clone();
    for axis in (0..axes).filter(|&axis| cut[axis]) {
        let len = part.dims()[axis];
        if len == 2 * edge {
            continue;
        }
        let dim = axis as isize;
        let (head, tail) = (part.narrow(dim, 0, edge)?, part.narrow(dim, len - edge, edge)?);
        part = if part.dtype().is_quant() {
            Tensor::cat(&[head.to_dtype(DType::F32)?, tail.to_dtype(DType::F32)?], dim)?
        } else {
            Tensor::cat(&[head, tail], dim)?
        };
    }
    Ok(part)
}

fn values(x: &Tensor) -> Result<Values> {
    Ok(match x.dtype().kind() {
        DTypeKind::Bool => Values::Bool(x.to_vec()?),
        DTypeKind::Int => Values::Int(dispatch_dtype!(
            x.dtype(),
            int,
            T => x.to_vec::<T>()?.into_iter().map(|n| Scalar::from(n).to_i64()).collect(),
            _ => unreachable!("all integer types are served")
        )),
        DTypeKind::Float | DTypeKind::Quant => Values::Float(dispatch_dtype!(
            x.dtype(),
            float,
            T => x.to_vec::<T>()?.into_iter().map(|x| Scalar::from(x).to_f64()).collect(),
            _ => unreachable!("all float types are served, and block types are dequantized")
        )),
        DTypeKind::Complex => Values::Complex(match x.dtype() {
            DType::C64 => {
                x.to_vec::<C64>()?.into_iter().map(|z| C128::new(z.re.into(), z.im.into())).collect()
            }
            _ => x.to_vec()?,
        }),
    })
}
