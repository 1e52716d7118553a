//! Functions that are captured when they are called with new shapes, and run as programs from there on.

use super::{Program, TensorSpec, capture};
use crate::Tensor;
use crate::autograd::{autocast, is_grad_enabled};
use rustorch_core::{DType, Result};
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

/// What a program is right for, beside what its guards say.
#[derive(PartialEq)]
struct Key {
    inputs: Vec<TensorSpec>,
    is_recorded: bool,
    autocast: Option<DType>,
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
        let key = Key { inputs, is_recorded: is_grad_enabled(), autocast: autocast::dtype() };
        let cache = &mut *self.lock();
        // A program whose guards do not hold will hardly hold again, but may: it goes when it is the oldest.
        let found = cache.programs.iter().position(|(other, program)| *other == key && program.is_current());
        let (key, program) = match found {
            Some(at) => {
                cache.counts.hits += 1;
                cache.programs.remove(at)
            }
            None => {
                let program = Arc::new(capture(&key.inputs, &self.f)?);
                cache.counts.captures += 1;
                (key, program)
            }
        };
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
