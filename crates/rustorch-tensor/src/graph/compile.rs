//! Functions that are captured when they are called with new shapes, and run as programs from there on.

use super::buckets::{Buckets, Padded};
use super::{Program, TensorSpec, capture};
use crate::Tensor;
use crate::autograd::{autocast, is_grad_enabled, no_grad};
use rustorch_core::{DType, Device, Result};
use rustorch_runtime::{HybridExecutor, Placement, default_device, default_dtype};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Programs that a compiled function keeps, the least recently used of which goes first.
const MOST: usize = 16;

/// A function and its programs: see [`compile`].
pub struct Compiled<F> {
    f: F,
    /// The most recently used last.
    cache: Mutex<Cache>,
    buckets: Option<Buckets>,
}

#[derive(Default)]
struct Cache {
    programs: Vec<(Key, Arc<Program>)>,
    /// Those whose results for padded arguments were compared with the function's.
    checked: Vec<Weak<Program>>,
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
    /// Runs whose arguments were padded to a [bucket](Compiled::buckets).
    pub padded: usize,
    /// Rows that were added in these.
    pub padding: usize,
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
    Compiled { f, cache: Mutex::default(), buckets: None }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// Has the function captured for these numbers of rows only, in ascending order: arguments of fewer rows than a bucket are padded to it, by
    /// repeating their last row, and results are cut. Arguments of more rows than the largest one are captured as they are.
    ///
    /// By this the caller states that the first dimension of all arguments and results are rows, and that each row of the results depends
    /// on that of the arguments alone. The first padded run of a program is compared with the function itself.
    ///
    /// ```
    /// use rustorch_tensor::{DType, Result, Tensor, compile};
    /// let weight = Tensor::new([2.0f32, 3.0])?;
    /// let f = compile(|x| Ok(vec![x[0].mul(&weight)?.sum(-1, false)?])).buckets(&[1, 16, 64])?;
    /// for rows in [1, 5, 9, 16, 30] {
    ///     assert_eq!(f.run(&[&Tensor::ones([rows, 2], DType::F32)?])?[0].dims(), [rows]);
    /// }
    /// let counts = f.counts();
    /// assert_eq!((counts.captures, counts.hits, counts.padded, counts.padding), (3, 2, 3, 11 + 7 + 34));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are none, or they are not in order. Of [`run`](Self::run): if arguments have different numbers of rows or a result has
    /// not theirs, rows depend on each other, or the function draws random numbers or changes anything.
    pub fn buckets(self, rows: &[usize]) -> Result<Compiled<F>> {
        Ok(Compiled { buckets: Some(Buckets::new(rows)?), ..self })
    }

    /// The function's results, which have no history.
    ///
    /// # Errors
    /// As [`capture`] and [`Program::run`], and those that [`buckets`](Self::buckets) names.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let padded = self.buckets.as_ref().map(|buckets| buckets.pad(inputs)).transpose()?.flatten();
        match padded {
            Some(padded) => self.run_padded(inputs, &padded),
            None => self.program(inputs)?.run(inputs),
        }
    }

    fn run_padded(&self, inputs: &[&Tensor], padded: &Padded) -> Result<Vec<Tensor>> {
        let whole: Vec<&Tensor> = padded.inputs.iter().collect();
        let program = self.program(&whole)?;
        padded.check_program(&program)?;
        let results = padded.cut(program.run(&whole)?)?;
        let is_known =
            |cache: &Cache| cache.checked.iter().any(|known| std::ptr::eq(known.as_ptr(), &*program));
        if !is_known(&self.lock()) {
            let inputs: Vec<Tensor> = inputs.iter().map(|x| x.detach()).collect();
            padded.check(&results, &no_grad(|| (self.f)(&inputs))?)?;
            let cache = &mut *self.lock();
            cache.checked.retain(|known| known.strong_count() > 0);
            cache.checked.push(Arc::downgrade(&program));
        }
        let counts = &mut self.lock().counts;
        counts.padded += 1;
        counts.padding += padded.padding();
        Ok(results)
    }

    /// The program for arguments like these, not padded, captured now if there is none.
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
