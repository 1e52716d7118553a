//! What L-BFGS remembers: changes of the parameters and of the gradient.

use rustorch_tensor::{Result, Tensor};
use std::collections::VecDeque;

/// The least product of changes that tells of a curvature.
const LEAST: f64 = 1e-10;

/// The inner product of two vectors.
pub(super) fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    Ok(a.dot(b)?.item()?.to_f64())
}

/// A change of the gradient (`y`) and the step that led to it (`s`).
pub(super) struct Change {
    pub(super) y: Tensor,
    pub(super) s: Tensor,
    /// 1 / (y · s).
    pub(super) ro: f64,
}

/// The last step: its direction, its length in multiples of that, and the gradient before it.
pub(super) struct Last {
    pub(super) direction: Tensor,
    pub(super) t: f64,
    pub(super) grad: Tensor,
}

/// The last step, and changes of the gradient, the oldest first.
#[derive(Default)]
pub(super) struct History {
    pub(super) last: Option<Last>,
    pub(super) changes: VecDeque<Change>,
    /// What the inverse Hessian is a multiple of the identity by, before changes improve it.
    pub(super) scale: Option<f64>,
}

impl History {
    /// Whether there was no step yet.
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Remembers a step.
    pub(super) fn set_last(&mut self, direction: &Tensor, t: f64, grad: &Tensor) {
        self.last = Some(Last { direction: direction.clone(), t, grad: grad.clone() });
    }

    /// Sets the length of the last step.
    pub(super) fn set_length(&mut self, t: f64) {
        if let Some(last) = &mut self.last {
            last.t = t;
        }
    }

    /// The negative gradient times the approximation of the inverse Hessian, after what the gradient tells of it.
    pub(super) fn direction(&mut self, grad: &Tensor, size: usize) -> Result<Tensor> {
        let Some(last) = &self.last else { return grad.neg() };
        let (y, s) = (grad.sub(&last.grad)?, last.direction.mul(last.t)?);
        let curvature = dot(&y, &s)?;
        if curvature > LEAST {
            while self.changes.len() >= size {
                self.changes.pop_front();
            }
            self.scale = Some(curvature / dot(&y, &y)?);
            self.changes.push_back(Change { y, s, ro: 1.0 / curvature });
        }
        let mut direction = grad.neg()?;
        let mut shares = Vec::new();
        for Change { y, s, ro } in self.changes.iter().rev() {
            let share = dot(s, &direction)? * ro;
            direction = direction.sub(&y.mul(share)?)?;
            shares.push(share);
        }
        direction = direction.mul(self.scale.unwrap_or(1.0))?;
        for (Change { y, s, ro }, share) in self.changes.iter().zip(shares.into_iter().rev()) {
            let other = dot(y, &direction)? * ro;
            direction = direction.add(&s.mul(share - other)?)?;
        }
        Ok(direction)
    }
}
