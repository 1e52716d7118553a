//! Outputs whose elements a kernel reads before it writes them.

use super::{Disjoint, dense, fill_with, unreachable_memory};
use crate::ThreadPool;
use rustorch_core::{Element, Fault, View, ViewMut};

/// Elements that come together when gathered ones are scattered.
const GRAIN: usize = 1 << 14;

/// The elements of an output that has values, in row-major order: in place where they are contiguous, else gathered, and scattered by
/// [`scatter`](Self::scatter).
pub(crate) struct Updated<'a, 'v, T> {
    out: &'a mut ViewMut<'v>,
    gathered: Option<Vec<T>>,
}

impl<'a, 'v, T: Element> Updated<'a, 'v, T> {
    /// # Safety
    /// Every element of the output was written, or holds the argument that the output overwrites.
    pub(crate) unsafe fn new(out: &'a mut ViewMut<'v>) -> Result<Updated<'a, 'v, T>, Fault> {
        if out.dtype() != T::DTYPE {
            return Err(unreachable_memory());
        }
        let gathered = match out.layout().is_contiguous() {
            true => None,
            // SAFETY: the elements are valid by the contract, and nobody writes them while the view lives.
            false => Some(dense(&unsafe { View::new(out.buffer(), T::DTYPE, out.layout()) })?.into_owned()),
        };
        Ok(Updated { out, gathered })
    }

    /// All elements.
    pub(crate) fn elements(&mut self) -> Result<Disjoint<'_, T>, Fault> {
        if let Some(gathered) = &mut self.gathered {
            return Ok(Disjoint::new(gathered));
        }
        let (base, n) = (self.out.address::<T>().ok_or_else(unreachable_memory)?, self.out.layout().numel());
        // SAFETY: the output's own elements, which are valid; see the module's documentation.
        Ok(Disjoint::new(unsafe { std::slice::from_raw_parts_mut(base, n) }))
    }

    /// Brings gathered elements back.
    pub(crate) fn scatter(self, pool: &ThreadPool) -> Result<(), Fault> {
        let Some(gathered) = self.gathered else { return Ok(()) };
        fill_with(pool, self.out, GRAIN, &|start, out: &mut [T]| {
            out.copy_from_slice(&gathered[start..start + out.len()]);
        })
    }
}
