//! Fourier transforms, by rustfft and realfft. Lines are transformed one by one, each on one thread, so that results do not
//! depend on the number of threads.

use super::strided::{for_rows, unreachable_memory};
use crate::ThreadPool;
use bytemuck::Pod;
use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{FftDirection, FftNum, FftPlanner};
use rustorch_core::{DType, Element, Fault, Fft, View, ViewMut};
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::LocalKey;

/// Points of the plans that are kept, all together: their tables take up to twice the points' bytes.
const KEPT_POINTS: usize = 1 << 22;
/// How many plans are kept: of short transforms more would be searched for longer than they take to make.
const KEPT_PLANS: usize = 64;
/// Bytes of scratch that a thread keeps.
const KEPT_SCRATCH: usize = 64 << 20;

/// Any operation of the family.
pub(super) fn run(pool: &ThreadPool, op: Fft, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    if out.layout().numel() == 0 {
        return Ok(());
    }
    match x.dtype() {
        DType::F32 | DType::C64 => run_typed::<f32>(pool, op, x, out),
        DType::F64 | DType::C128 => run_typed::<f64>(pool, op, x, out),
        _ => Err(unreachable_memory()),
    }
}

fn run_typed<T: Real>(pool: &ThreadPool, op: Fft, x: &View<'_>, out: &mut ViewMut<'_>) -> Result<(), Fault>
where
    Complex<T>: Element + Pod,
{
    let axis = op.axis();
    let n = op.points(x.layout().dims().get(axis).copied().unwrap_or(1));
    let cost = n.saturating_mul(n.max(2).ilog2() as usize);
    match (op, plan::<T>(op, n)) {
        (Fft::ComplexToComplex { scale, .. }, Plan::ComplexToComplex(plan)) => {
            let (factor, room) = (T::rounded(scale.factor(n)), plan.get_immutable_scratch_len());
            for_rows(pool, x, out, axis, cost, &|_, x: &[Complex<T>], out: &mut [Complex<T>]| {
                with_scratch(room, |scratch| plan.process_immutable_with_scratch(x, out, scratch));
                if factor != T::one() {
                    out.iter_mut().for_each(|z| *z = Complex::new(z.re * factor, z.im * factor));
                }
            })
        }
        (Fft::RealToComplex { scale, .. }, Plan::RealToComplex(plan)) => {
            let (factor, room) = (T::rounded(scale.factor(n)), plan.get_scratch_len());
            let pairs = n.div_ceil(2);
            for_rows(pool, x, out, axis, cost, &|_, x: &[T], out: &mut [Complex<T>]| {
                with_scratch(pairs + room, |scratch| {
                    let (copy, scratch) = scratch.split_at_mut(pairs);
                    let copy = &mut bytemuck::cast_slice_mut::<_, T>(copy)[..n];
                    copy.copy_from_slice(x);
                    // The lengths are the plan's, which is all that can be wrong.
                    plan.process_with_scratch(copy, out, scratch).expect("lengths of the plan");
                });
                if factor != T::one() {
                    out.iter_mut().for_each(|z| *z = Complex::new(z.re * factor, z.im * factor));
                }
            })
        }
        (Fft::ComplexToReal { scale, .. }, Plan::ComplexToReal(plan)) => {
            let (factor, room) = (T::rounded(scale.factor(n)), plan.get_scratch_len());
            let half = n / 2 + 1;
            for_rows(pool, x, out, axis, cost, &|_, x: &[Complex<T>], out: &mut [T]| {
                with_scratch(half + room, |scratch| {
                    let (copy, scratch) = scratch.split_at_mut(half);
                    copy.copy_from_slice(x);
                    copy[0].im = T::zero();
                    if n.is_multiple_of(2) {
                        copy[half - 1].im = T::zero();
                    }
                    // The lengths are the plan's, and the imaginary parts that have to be zero are.
                    plan.process_with_scratch(copy, out, scratch)
                        .expect("a Hermitian line of the plan's length");
                });
                if factor != T::one() {
                    out.iter_mut().for_each(|x| *x = *x * factor);
                }
            })
        }
        _ => Err(unreachable_memory()),
    }
}

/// The real numbers that transforms are of.
trait Real: Element + FftNum + Pod {
    /// The plans that the process keeps, the most recently used last.
    fn plans() -> &'static Mutex<Vec<(Key, Plan<Self>)>>;

    /// The thread's scratch.
    fn scratch() -> &'static LocalKey<Cell<Vec<Complex<Self>>>>;

    fn rounded(x: f64) -> Self;
}

macro_rules! reals {
    ($($real:ident),*) => {$(
        impl Real for $real {
            fn plans() -> &'static Mutex<Vec<(Key, Plan<$real>)>> {
                static PLANS: Mutex<Vec<(Key, Plan<$real>)>> = Mutex::new(Vec::new());
                &PLANS
            }

            fn scratch() -> &'static LocalKey<Cell<Vec<Complex<$real>>>> {
                thread_local! {
                    static SCRATCH: Cell<Vec<Complex<$real>>> = const { Cell::new(Vec::new()) };
                }
                &SCRATCH
            }

            fn rounded(x: f64) -> $real {
                x as $real
            }
        }
    )*};
}

reals!(f32, f64);

/// What a plan depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    ComplexToComplex(FftDirection, usize),
    RealToComplex(usize),
    ComplexToReal(usize),
}

impl Key {
    fn points(self) -> usize {
        match self {
            Key::ComplexToComplex(_, n) | Key::RealToComplex(n) | Key::ComplexToReal(n) => n,
        }
    }
}

/// Tables and steps of a transform.
#[derive(Clone)]
enum Plan<T> {
    ComplexToComplex(Arc<dyn rustfft::Fft<T>>),
    RealToComplex(Arc<dyn RealToComplex<T>>),
    ComplexToReal(Arc<dyn ComplexToReal<T>>),
}

/// The plan of `n` points, kept or made.
fn plan<T: Real>(op: Fft, n: usize) -> Plan<T> {
    let key = match op {
        Fft::ComplexToComplex { inverse: false, .. } => Key::ComplexToComplex(FftDirection::Forward, n),
        Fft::ComplexToComplex { inverse: true, .. } => Key::ComplexToComplex(FftDirection::Inverse, n),
        Fft::RealToComplex { .. } => Key::RealToComplex(n),
        Fft::ComplexToReal { .. } => Key::ComplexToReal(n),
    };
    let lock = || T::plans().lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut kept = lock();
        if let Some(i) = kept.iter().rposition(|(have, _)| *have == key) {
            let found = kept.remove(i);
            let plan = found.1.clone();
            kept.push(found);
            return plan;
        }
    }
    // Made without the lock, as that takes as long as several transforms. A planner of its own keeps nothing afterwards.
    let plan = match key {
        Key::ComplexToComplex(direction, n) => {
            Plan::ComplexToComplex(FftPlanner::new().plan_fft(n, direction))
        }
        Key::RealToComplex(n) => Plan::RealToComplex(RealFftPlanner::new().plan_fft_forward(n)),
        Key::ComplexToReal(n) => Plan::ComplexToReal(RealFftPlanner::new().plan_fft_inverse(n)),
    };
    if n <= KEPT_POINTS {
        let mut kept = lock();
        kept.retain(|(have, _)| *have != key);
        kept.push((key, plan.clone()));
        let mut points: usize = kept.iter().map(|(key, _)| key.points()).sum();
        while points > KEPT_POINTS || kept.len() > KEPT_PLANS {
            points -= kept.remove(0).0.points();
        }
    }
    plan
}

/// Calls `run` with room for `len` elements, of unspecified values.
fn with_scratch<T: Real>(len: usize, run: impl FnOnce(&mut [Complex<T>])) {
    let mut scratch = T::scratch().take();
    if scratch.len() < len {
        scratch.resize(len, Complex::new(T::zero(), T::zero()));
    }
    run(&mut scratch[..len]);
    if size_of_val(&scratch[..]) <= KEPT_SCRATCH {
        T::scratch().set(scratch);
    }
}
