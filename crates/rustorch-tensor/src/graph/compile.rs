//! Functions that are captured when they are called with new shapes, and run as programs from there on.

use super::{Program, TensorSpec, capture};
use crate::Tensor;
use crate::autograd::{autocast, is_grad_enabled};
use rustorch_core::{DType, Device, Result};
use rustorch_runtime::{HybridExecutor, Placement, default_device, default_dtype};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Programs that a compiled function keeps, the least recently used of which goes first.
const MOST: usize = 16;

/// A function and its programs: see [`compile`].
pub struct Compiled<F> {
    f: F,
    /// The most recently used last.
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    programs: Vec<(Key, Arc<Program>)>,
    counts: CompileCounts,
}

impl Cache {
    /// The programs for a key.
    fn of(&self, key: &Key) -> Vec<Arc<Program>> {
        let alike = self.programs.iter().filter(|(other, _)| other == key);
        alike.map(|(_, program)| Arc::clone(program)).collect()
    }

    /// Counts a use of a program, which then is the one that was used last.
    fn note_hit(&mut self, program: &Arc<Program>) {
        self.counts.hits += 1;
        if let Some(at) = self.programs.iter().position(|(_, other)| Arc::ptr_eq(other, program)) {
            let used = self.programs.remove(at);
            self.programs.push(used);
        }
    }
}

/// What a program is right for, beside what its guards say.
#[derive(PartialEq)]
struct Key {
    inputs: Vec<TensorSpec>,
    is_recorded: bool,
    autocast: Option<DType>,
    dtype: DType,
    device: Device,
    placement: Placement,
}

/// How often a compiled function was captured, and how often a program was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileCounts {
    /// Captures.
    pub captures: usize,
    /// Runs of programs from before.
    pub hits: usize,
}

/// Makes a function run as a program: it is [captured](capture) when it is called with arguments of new dtypes, shapes or devices, with or
/// without [`no_grad`](crate::autograd::no_grad) or [`Autocast`](crate::autograd::Autocast), or after something that it read in Rust has changed (a module's training mode, see
/// [`guard`](super::guard)); else the program of an earlier call runs. It keeps the 16 programs that were used last.
///
/// ```
/// use rustorch_tensor::{Result, Tensor, compile};
/// let weight = Tensor::new([2.0f32, 3.0])?;
/// let f = compile(|x| Ok(vec![x[0].mul(&weight)?.exp()?.sum(-1, false)?]));
/// for rows in [1, 4, 1, 4] {
///     let x = Tensor::full([rows, 2], 0.5, weight.dtype())?;
///     assert_eq!(f.run(&[&x])?[0].dims(), [rows]);
/// }
/// assert_eq!((f.counts().captures, f.counts().hits), (2, 2));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
pub fn compile<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>>(f: F) -> Compiled<F> {
    Compiled { f, cache: Mutex::default() }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// The function's results, which have no history.
    ///
    /// # Errors
    /// As [`capture`] and [`Program::run`].
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.program(inputs)?.run(inputs)
    }

    /// The program for arguments like these, captured now if there is none.
    ///
    /// # Errors
    /// As [`capture`].
    pub fn program(&self, inputs: &[&Tensor]) -> Result<Arc<Program>> {
        let inputs = inputs.iter().map(|x| TensorSpec::from(*x)).collect();
        let key = Key {
            inputs,
            is_recorded: is_grad_enabled(),
            autocast: autocast::dtype(),
            dtype: default_dtype(),
            device: default_device(),
            placement: HybridExecutor::with_current(|executor| executor.placement().clone()),
        };
        // Guards and the function are the user's, and may call this.
        let known: Vec<Arc<Program>> = self.lock().of(&key);
        if let Some(program) = known.into_iter().find(|program| program.is_current()) {
            self.lock().note_hit(&program);
            return Ok(program);
        }
        let program = Arc::new(capture(&key.inputs, &self.f)?);
        let cache = &mut *self.lock();
        cache.counts.captures += 1;
        cache.programs.push((key, Arc::clone(&program)));
        if cache.programs.len() > MOST {
            cache.programs.remove(0);
        }
        Ok(program)
    }

    /// How often it was captured so far, and how often not.
    pub fn counts(&self) -> CompileCounts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // A panic of the function leaves the programs of before.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
