//! Steps of optimizers: one pass over the memory of all parameters of a group, whose chunks the threads share.

use super::copy::copy;
use super::strided::{self, Disjoint, Updated, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Half, Real, Wide};
use crate::simd::{self, LANES, Level, Task};
use rustorch_core::{DType, Fault, OptimizerRule, OptimizerStep, View, ViewMut, bf16, dispatch_dtype, f16};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;

/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 14;
/// Elements that are widened, updated and rounded while they are in the first cache.
const BLOCK: usize = 1 << 11;
/// The most states that a parameter has.
const STATES: usize = 3;

pub(super) fn run(
    pool: &ThreadPool,
    op: &OptimizerStep,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let [lr, t, parameter, ..] = args else { return Err(unreachable_memory()) };
    // From here on results are updated, which hold the arguments.
    for (i, out) in outs.iter_mut().enumerate() {
        let argument = &args[op.overwritten(i)];
        if !argument.is_aliased() {
            copy(pool, argument, out)?;
        }
    }
    dispatch_dtype!(parameter.dtype(), float, T => {
        let step = Coefficients::new(op, scalar(lr)?, scalar(t)?);
        update_all::<T>(pool, op, &step, args, outs)
    }, _ => Err(unreachable_memory()))
}

/// The value of a tensor of no dimensions.
pub(super) fn scalar(x: &View<'_>) -> Result<f64, Fault> {
    match x.dtype() {
        DType::F64 => Ok(strided::dense::<f64>(x)?[0]),
        _ => Ok(strided::dense::<f32>(x)?[0].into()),
    }
}

fn update_all<T: Parameter>(
    pool: &ThreadPool,
    op: &OptimizerStep,
    step: &Coefficients<f64>,
    args: &[View<'_>],
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let tensors = args[OptimizerStep::SCALARS..].chunks(op.args_per_parameter());
    let grads: Vec<Cow<'_, [T]>> = tensors.map(|own| strided::dense(&own[1])).collect::<Result<_, _>>()?;
    let mut updated: Vec<Operands<'_, '_, T>> = outs
        .chunks_mut(op.results_per_parameter())
        .map(|own| Operands::new(op.master, own))
        .collect::<Result<_, _>>()?;
    let mut chunks = 0;
    let tensors: Vec<Tensor<'_, T>> = updated
        .iter_mut()
        .zip(&grads)
        .map(|(operands, grad)| {
            let first = chunks;
            chunks += grad.len().div_ceil(LANES);
            operands.tensor(grad, first..chunks)
        })
        .collect::<Result<_, _>>()?;
    let step = step.round::<T::Acc>();
    pool.ranges(chunks, GRAIN / LANES, |range| {
        let mut scratch = Scratch::default();
        let first = tensors.partition_point(|tensor| tensor.chunks.end <= range.start);
        for tensor in tensors[first..].iter().take_while(|tensor| tensor.chunks.start < range.end) {
            let start = range.start.max(tensor.chunks.start);
            let end = range.end.min(tensor.chunks.end);
            let at = |chunk: usize| ((chunk - tensor.chunks.start) * LANES).min(tensor.grad.len());
            for from in (at(start)..at(end)).step_by(BLOCK) {
                // SAFETY: ranges of one job do not overlap, and neither do blocks of one range.
                unsafe { tensor.update(&step, from..at(end).min(from + BLOCK), &mut scratch) };
            }
        }
    });
    drop(tensors);
    updated.into_iter().try_for_each(|operands| operands.scatter(pool))
}

/// What is updated of a parameter.
struct Operands<'a, 'v, T: Wide> {
    x: Updated<'a, 'v, T>,
    master: Option<Updated<'a, 'v, T::Acc>>,
    states: SmallVec<[Updated<'a, 'v, T::Acc>; STATES]>,
}

impl<'a, 'v, T: Wide> Operands<'a, 'v, T> {
    fn new(has_master: bool, outs: &'a mut [ViewMut<'v>]) -> Result<Operands<'a, 'v, T>, Fault> {
        let [x, rest @ ..] = outs else { return Err(unreachable_memory()) };
        // SAFETY: `run` has seen to it that each holds its argument.
        let mut rest = rest.iter_mut().map(|out| unsafe { Updated::new(out) });
        let master = if has_master { rest.next().transpose()? } else { None };
        let states = rest.collect::<Result<_, _>>()?;
        // SAFETY: as above.
        Ok(Operands { x: unsafe { Updated::new(x)? }, master, states })
    }

    fn tensor<'s>(&'s mut self, grad: &'s [T], chunks: Range<usize>) -> Result<Tensor<'s, T>, Fault> {
        let master = self.master.as_mut().map(Updated::elements).transpose()?;
        let states = self.states.iter_mut().map(Updated::elements).collect::<Result<_, _>>()?;
        Ok(Tensor { x: self.x.elements()?, grad, master, states, chunks })
    }

    fn scatter(self, pool: &ThreadPool) -> Result<(), Fault> {
        self.x.scatter(pool)?;
        self.master.into_iter().chain(self.states).try_for_each(|operand| operand.scatter(pool))
    }
}

/// The elements of a parameter's operands.
struct Tensor<'a, T: Wide> {
    x: Disjoint<'a, T>,
    grad: &'a [T],
    master: Option<Disjoint<'a, T::Acc>>,
    states: SmallVec<[Disjoint<'a, T::Acc>; STATES]>,
    /// Its chunks of [`LANES`] elements among those of all parameters.
    chunks: Range<usize>,
}

/// Memory of a thread for a block.
struct Scratch<T: Wide> {
    rounded: Vec<T>,
    grad: Vec<T::Acc>,
}

impl<T: Wide> Default for Scratch<T> {
    fn default() -> Scratch<T> {
        Scratch { rounded: Vec::new(), grad: Vec::new() }
    }
}

impl<T: Parameter> Tensor<'_, T> {
    /// # Safety
    /// Nobody else uses these elements.
    unsafe fn update(&self, step: &Coefficients<T::Acc>, range: Range<usize>, scratch: &mut Scratch<T>) {
        let (start, len) = (range.start, range.len());
        let Scratch { rounded, grad: widened } = scratch;
        let grad = T::widen(&self.grad[range], widened);
        let mut states: [&mut [T::Acc]; STATES] = Default::default();
        for (state, all) in states.iter_mut().zip(&self.states) {
            // SAFETY: by the contract.
            *state = unsafe { all.slice(start, len) };
        }
        // SAFETY: by the contract.
        let (x, master) =
            unsafe { (self.x.slice(start, len), self.master.as_ref().map(|all| all.slice(start, len))) };
        T::with_master(x, master, rounded, |x| simd::run(Update { step, x, grad, states }));
    }
}

/// The dtype of a parameter.
trait Parameter: Wide {
    /// Runs `update` on the parameter, or on its master copy, which is rounded to it afterwards. Elements that are not their master
    /// copy rounded take its place first.
    fn with_master(
        x: &mut [Self],
        master: Option<&mut [Self::Acc]>,
        rounded: &mut Vec<Self>,
        update: impl FnOnce(&mut [Self::Acc]),
    );
}

macro_rules! without_master {
    ($($t:ty),*) => {$(
        impl Parameter for $t {
            fn with_master(x: &mut [$t], _: Option<&mut [$t]>, _: &mut Vec<$t>, update: impl FnOnce(&mut [$t])) {
                update(x);
            }
        }
    )*};
}

macro_rules! rounded {
    ($($t:ty),*) => {$(
        impl Parameter for $t {
            fn with_master(
                x: &mut [$t],
                master: Option<&mut [f32]>,
                rounded: &mut Vec<$t>,
                update: impl FnOnce(&mut [f32]),
            ) {
                let Some(master) = master else { unreachable!("`infer` asks for a master copy") };
                rounded.resize(x.len(), <$t>::ZERO);
                <$t as Half>::narrow_all(master, rounded);
                for ((master, rounded), x) in master.iter_mut().zip(rounded).zip(&*x) {
                    *master = if *rounded == *x { *master } else { x.to_f32() };
                }
                update(master);
                <$t as Half>::narrow_all(master, x);
            }
        }
    )*};
}

without_master!(f32, f64);
rounded!(f16, bf16);

/// What an [`OptimizerStep`] multiplies with.
#[derive(Clone, Copy)]
struct Coefficients<T> {
    rule: Rule<T>,
    /// −1 if the loss is to grow.
    sign: T,
    /// How much of the parameter is added to the gradient, if any is.
    decay: Option<T>,
}

#[derive(Clone, Copy)]
enum Rule<T> {
    Sgd {
        lr: T,
        /// How much of the last direction and of the gradient make the direction, if there is momentum.
        direction: Option<[T; 2]>,
        /// How much of the new direction is added to the gradient, if it is to look ahead.
        nesterov: Option<T>,
    },
    Adam {
        /// What is left of the parameter.
        kept: T,
        /// How much of the gradient's difference from its mean is added to it.
        mean: T,
        /// How much of the mean of squares and of the square make it.
        squares: [T; 2],
        /// The learning rate without the mean's bias.
        rate: T,
        /// What frees the root of the mean of squares of its bias.
        root: T,
        eps: T,
        amsgrad: bool,
    },
    RmsProp {
        lr: T,
        squares: [T; 2],
        eps: T,
        momentum: Option<T>,
        centered: bool,
    },
    Adagrad {
        rate: T,
        eps: T,
    },
}

impl Coefficients<f64> {
    fn new(op: &OptimizerStep, lr: f64, t: f64) -> Coefficients<f64> {
        let mut decay = op.weight_decay;
        let rule = match op.rule {
            OptimizerRule::Sgd { momentum, dampening, nesterov } => {
                let first = t <= 1.0;
                let direction = if first { [0.0, 1.0] } else { [momentum, 1.0 - dampening] };
                Rule::Sgd {
                    lr,
                    direction: (momentum != 0.0).then_some(direction),
                    nesterov: nesterov.then_some(momentum),
                }
            }
            OptimizerRule::Adam { beta1, beta2, eps, amsgrad, decoupled_weight_decay } => {
                let kept = if decoupled_weight_decay { 1.0 - lr * decay } else { 1.0 };
                decay = if decoupled_weight_decay { 0.0 } else { decay };
                Rule::Adam {
                    kept,
                    mean: 1.0 - beta1,
                    squares: [beta2, 1.0 - beta2],
                    rate: lr / (1.0 - beta1.powf(t)),
                    root: 1.0 / (1.0 - beta2.powf(t)).sqrt(),
                    eps,
                    amsgrad,
                }
            }
            OptimizerRule::RmsProp { alpha, eps, momentum, centered } => Rule::RmsProp {
                lr,
                squares: [alpha, 1.0 - alpha],
                eps,
                momentum: (momentum != 0.0).then_some(momentum),
                centered,
            },
            OptimizerRule::Adagrad { lr_decay, eps } => {
                Rule::Adagrad { rate: lr / (1.0 + (t - 1.0) * lr_decay), eps }
            }
        };
        let sign = if op.maximize { -1.0 } else { 1.0 };
        Coefficients { rule, sign, decay: (decay != 0.0).then_some(decay) }
    }

    /// In the dtype of the update.
    fn round<T: Real>(&self) -> Coefficients<T> {
        let of = T::of;
        let rule = match self.rule {
            Rule::Sgd { lr, direction, nesterov } => Rule::Sgd {
                lr: of(lr),
                direction: direction.map(|all| all.map(of)),
                nesterov: nesterov.map(of),
            },
            Rule::Adam { kept, mean, squares, rate, root, eps, amsgrad } => Rule::Adam {
                kept: of(kept),
                mean: of(mean),
                squares: squares.map(of),
                rate: of(rate),
                root: of(root),
                eps: of(eps),
                amsgrad,
            },
            Rule::RmsProp { lr, squares, eps, momentum, centered } => Rule::RmsProp {
                lr: of(lr),
                squares: squares.map(of),
                eps: of(eps),
                momentum: momentum.map(of),
                centered,
            },
            Rule::Adagrad { rate, eps } => Rule::Adagrad { rate: of(rate), eps: of(eps) },
        };
        Coefficients { rule, sign: of(self.sign), decay: self.decay.map(of) }
    }
}

/// The step over a block of a parameter.
struct Update<'a, T> {
    step: &'a Coefficients<T>,
    x: &'a mut [T],
    grad: &'a [T],
    states: [&'a mut [T]; STATES],
}

impl<T: Real> Task for Update<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Update { step, x, grad, states: [first, second, third] } = self;
        let (sign, decay) = (step.sign, step.decay.unwrap_or(T::ZERO));
        let decays = step.decay.is_some();
        // A parameter that does not decay may be infinite.
        let grad_of = |x: T, grad: T| sign * grad + if decays { decay * x } else { T::ZERO };
        match step.rule {
            Rule::Sgd { lr, direction: None, .. } => {
                each(x, grad, [], |x, grad, []| (x - grad_of(x, grad) * lr, []));
            }
            Rule::Sgd { lr, direction: Some([kept, share]), nesterov } => {
                let (looks_ahead, momentum) = (nesterov.is_some(), nesterov.unwrap_or(T::ZERO));
                each(x, grad, [first], |x, grad, [buf]| {
                    let grad = grad_of(x, grad);
                    let buf = buf * kept + grad * share;
                    let direction = if looks_ahead { grad + buf * momentum } else { buf };
                    (x - direction * lr, [buf])
                });
            }
            Rule::Adam { kept, mean, squares: [beta, rest], rate, root, eps, amsgrad } => {
                let moments = |x: T, grad: T, [m, v]: [T; 2]| {
                    let grad = grad_of(x, grad);
                    [m + (grad - m) * mean, v * beta + grad * grad * rest]
                };
                let moved = |x: T, m: T, v: T| x * kept - m / (v.sqrt() * root + eps) * rate;
                if amsgrad {
                    each(x, grad, [first, second, third], |x, grad, [m, v, most]| {
                        let [m, v] = moments(x, grad, [m, v]);
                        let most = most.larger(v);
                        (moved(x, m, most), [m, v, most])
                    });
                } else {
                    each(x, grad, [first, second], |x, grad, states| {
                        let [m, v] = moments(x, grad, states);
                        (moved(x, m, v), [m, v])
                    });
                }
            }
            Rule::RmsProp { lr, squares: [alpha, rest], eps, momentum, centered } => {
                let squared = |v: T, grad: T| v * alpha + grad * grad * rest;
                let averaged = |m: T, grad: T| m + (grad - m) * rest;
                match (centered, momentum) {
                    (false, None) => each(x, grad, [first], |x, grad, [v]| {
                        let grad = grad_of(x, grad);
                        let v = squared(v, grad);
                        (x - grad / (v.sqrt() + eps) * lr, [v])
                    }),
                    (false, Some(momentum)) => each(x, grad, [first, second], |x, grad, [v, buf]| {
                        let grad = grad_of(x, grad);
                        let v = squared(v, grad);
                        let buf = buf * momentum + grad / (v.sqrt() + eps);
                        (x - buf * lr, [v, buf])
                    }),
                    (true, None) => each(x, grad, [first, second], |x, grad, [v, m]| {
                        let grad = grad_of(x, grad);
                        let (v, m) = (squared(v, grad), averaged(m, grad));
                        (x - grad / ((v - m * m).sqrt() + eps) * lr, [v, m])
                    }),
                    (true, Some(momentum)) => {
                        each(x, grad, [first, second, third], |x, grad, [v, m, buf]| {
                            let grad = grad_of(x, grad);
                            let (v, m) = (squared(v, grad), averaged(m, grad));
                            let buf = buf * momentum + grad / ((v - m * m).sqrt() + eps);
                            (x - buf * lr, [v, m, buf])
                        });
                    }
                }
            }
            Rule::Adagrad { rate, eps } => each(x, grad, [first], |x, grad, [sum]| {
                let grad = grad_of(x, grad);
                let sum = sum + grad * grad;
                (x - grad / (sum.sqrt() + eps) * rate, [sum])
            }),
        }
    }
}

/// Computes each element of a parameter and of its states from their old values and the gradient.
#[inline(always)]
fn each<T: Real, const S: usize>(
    x: &mut [T],
    grad: &[T],
    states: [&mut [T]; S],
    f: impl Fn(T, T, [T; S]) -> (T, [T; S]),
) {
    if S == 0 {
        // Over chunks without states the compiler gathers an element of each of several, which takes half as long again.
        for (x, &grad) in x.iter_mut().zip(grad) {
            (*x, _) = f(*x, grad, [T::ZERO; S]);
        }
        return;
    }
    // Loops, not adapters of arrays: this is compiled for each rule, dtype and instruction set.
    let whole = x.len() / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // Copies, so that the compiler knows that nothing overlaps.
        let (mut new, mut own) = ([T::ZERO; LANES], [[T::ZERO; LANES]; S]);
        new.copy_from_slice(&x[at..at + LANES]);
        for s in 0..S {
            own[s].copy_from_slice(&states[s][at..at + LANES]);
        }
        for (j, &grad) in grad[at..at + LANES].iter().enumerate() {
            let mut of_lane = [T::ZERO; S];
            for s in 0..S {
                of_lane[s] = own[s][j];
            }
            (new[j], of_lane) = f(new[j], grad, of_lane);
            for s in 0..S {
                own[s][j] = of_lane[s];
            }
        }
        x[at..at + LANES].copy_from_slice(&new);
        for s in 0..S {
            states[s][at..at + LANES].copy_from_slice(&own[s]);
        }
    }
    for at in whole..x.len() {
        let mut own = [T::ZERO; S];
        for s in 0..S {
            own[s] = states[s][at];
        }
        (x[at], own) = f(x[at], grad[at], own);
        for s in 0..S {
            states[s][at] = own[s];
        }
    }
}
