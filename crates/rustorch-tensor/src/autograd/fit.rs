//! A gradient in the shape and dtype, and on the device, of what it is the gradient of.

use super::node::Meta;
use crate::Tensor;
use crate::dispatch::transfer;
use rustorch_core::{Dims, Error, Fault, Result};

/// Sums over what was broadcast, converts, and moves.
#[inline]
pub(crate) fn fit(grad: Tensor, meta: &Meta, op: &str) -> Result<Tensor> {
    let mut grad = if grad.shape() == &meta.shape { grad } else { sum_to(&grad, meta, op)? };
    if grad.dtype() != meta.dtype {
        grad = match grad.dtype().is_complex() && !meta.dtype.is_complex() {
            true => grad.real()?.to_dtype(meta.dtype)?,
            false => grad.to_dtype(meta.dtype)?,
        };
    }
    if grad.device() != meta.device {
        grad = match transfer(&grad, meta.device) {
            // Where the device is gone, the pass goes on without it.
            Err(Error::Fault(fault)) if matches!(*fault, Fault::DeviceLost { .. }) => grad,
            moved => moved?,
        };
    }
    Ok(grad)
}

/// The sums over dimensions along which a tensor of the shape was broadcast.
fn sum_to(grad: &Tensor, meta: &Meta, op: &str) -> Result<Tensor> {
    let wrong = || {
        Error::argument(
            "backward",
            format!("{op} gave a gradient of shape {} for an argument of {}", grad.shape(), meta.shape),
        )
    };
    let extra = grad.ndim().checked_sub(meta.shape.ndim()).ok_or_else(wrong)?;
    let mut axes: Dims = (0..extra).collect();
    for (i, (&have, &want)) in grad.dims()[extra..].iter().zip(meta.shape.dims()).enumerate() {
        if have != want {
            if want != 1 {
                return Err(wrong());
            }
            axes.push(extra + i);
        }
    }
    let axes: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    grad.sum(&axes[..], true)?.reshape_to(meta.shape.clone())
}
