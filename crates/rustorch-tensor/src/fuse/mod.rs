//! `fuse`: expressions over tensors, computed in one pass over memory.

mod expr;
mod lower;
mod operators;

pub use expr::{Expr, ExprOrScalar};

use crate::Tensor;
use crate::dispatch::{run, run_into, run_many};
use expr::{Node, Tape};
use lower::{Input, Program};
use rustorch_core::{CopyOp, DType, Error, FusedPointwise, Op, PromotionCategory, Result};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::sync::{OnceLock, PoisonError, RwLock};

/// Makes one operation of an expression: its inputs are read once and its result is written once, whatever lies between.
///
/// The closure gets an [`Expr`] for each input and says what to compute, with the operators and methods that tensors have.
/// It runs once, now; the tensors come with [`Fused::apply`].
///
/// ```
/// use rustorch_tensor::{Tensor, fuse};
///
/// let f = fuse(|[a, b]| ((a * b + a) * 0.5 - b).tanh())?;
/// let (a, b) = (Tensor::new([[1.0f32], [-2.0]])?, Tensor::new([0.5f32, 3.0])?);
/// let y = f.apply(&[&a, &b])?;
/// assert_eq!(y.to_string(), "tensor([[ 0.2449, -0.7616],\n        [-0.9640, -1.0000]])");
/// // What the same operations give one after another.
/// let steps = ((&a * &b + &a) * 0.5 - &b).tanh()?;
/// assert_eq!(y.to_vec::<f32>()?, steps.to_vec::<f32>()?);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Promotion
/// Every operation promotes as the method of [`Tensor`] does that has its name, that is as PyTorch does: where dtypes
/// differ, both operands are cast to the one that holds them; scalars and tensors of no dimensions count only if they
/// are of a higher kind; functions with irrational values take integers to `F32`; a scalar is not rounded to 16 bits before
/// it meets a 16-bit float. On the CPU the result is that of the separate operations to the last bit.
///
/// # Errors
/// If there is no input or there are more than 16, or the expression does not use one of them.
pub fn fuse<const N: usize>(f: impl for<'t> FnOnce([Expr<'t>; N]) -> Expr<'t>) -> Result<Fused> {
    // The limit on inputs is that of the operation.
    FusedPointwise::builder(N)?;
    let tape = Tape::with_inputs(N);
    let result = f(std::array::from_fn(|i| tape.expr(i))).index();
    let nodes = tape.into_nodes();
    let needed = lower::needed(&nodes, result);
    if let Some(i) = (0..N).find(|&i| !needed[i]) {
        return Err(Error::argument("fuse", format!("the expression does not use its input {i}")));
    }
    Ok(Fused::new(N, nodes, result, needed))
}

/// An expression that is computed in one pass: see [`fuse`].
///
/// The program for inputs of some dtypes is made when they first come. It is one operation, [`Op::FusedPointwise`], to the executor,
/// which so chooses one device for all of it; a device that lacks one of the steps declines.
pub struct Fused {
    inputs: usize,
    nodes: Vec<Node>,
    result: usize,
    /// Which nodes the result depends on.
    needed: Vec<bool>,
    /// The program that was made first, which nearly always is the only one.
    first: OnceLock<(Inputs, Program)>,
    programs: RwLock<Vec<(Inputs, Program)>>,
}

/// An expression over some of several tensors, which need not all be used.
pub(crate) struct Partial {
    /// Which of the tensors it uses, ascending.
    pub(crate) uses: SmallVec<[usize; 4]>,
    /// None where it is the one tensor that it uses.
    fused: Option<Fused>,
}

impl Partial {
    /// The expression that a closure writes down for so many values.
    pub(crate) fn new(values: usize, f: impl for<'t> FnOnce(&[Expr<'t>]) -> Expr<'t>) -> Partial {
        let tape = Tape::with_inputs(values);
        let result = {
            let all: SmallVec<[Expr<'_>; 8]> = (0..values).map(|i| tape.expr(i)).collect();
            f(&all).index()
        };
        let mut nodes = tape.into_nodes();
        let needed = lower::needed(&nodes, result);
        let uses: SmallVec<[usize; 4]> = (0..values).filter(|&i| needed[i]).collect();
        if let Node::Input(_) = nodes[result] {
            return Partial { uses, fused: None };
        }
        for (place, &value) in uses.iter().enumerate() {
            nodes[value] = Node::Input(place);
        }
        let fused = Fused::new(uses.len(), nodes, result, needed);
        Partial { uses, fused: Some(fused) }
    }

    /// The value for the tensors that it uses.
    pub(crate) fn apply(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let Some(fused) = &self.fused else { return Ok(inputs[0].clone()) };
        match &*fused.program(inputs)? {
            Program::Input(i) => Ok(inputs[*i].clone()),
            Program::FusedPointwise(program) => match single_step(program) {
                Some((op, Operands::Pair([a, b]))) => run(op, &[inputs[a], inputs[b]]),
                Some((op, Operands::One(x))) => run(op, &[inputs[x]]),
                None => run_fused(program.clone(), inputs),
            },
        }
    }

    /// Whether it fits into one operation for tensors of these dtypes.
    pub(crate) fn fits(&self, dtypes: &[DType]) -> bool {
        let inputs =
            dtypes.iter().map(|&dtype| Input { dtype, category: PromotionCategory::Dimensioned }).collect();
        self.fused.as_ref().is_none_or(|fused| fused.program_for(inputs).is_ok())
    }
}

/// The inputs that a step takes, where it takes nothing else.
enum Operands {
    One(usize),
    Pair([usize; 2]),
}

/// The operation of a program of one step, which needs no program.
fn single_step(program: &FusedPointwise) -> Option<(&Op, Operands)> {
    use rustorch_core::FusedValue::Input;
    let [step] = program.steps() else { return None };
    match *step.args() {
        [Input(x)] => Some((step.op(), Operands::One(x))),
        [Input(a), Input(b)] => Some((step.op(), Operands::Pair([a, b]))),
        _ => None,
    }
}

fn run_fused(program: FusedPointwise, inputs: &[&Tensor]) -> Result<Tensor> {
    let op = Op::FusedPointwise(program);
    // A few elements of few arguments have a fast path.
    match *inputs {
        [x] => run(&op, &[x]),
        [x, y] => run(&op, &[x, y]),
        [x, y, z] => run(&op, &[x, y, z]),
        _ => run_many(&op, inputs),
    }
}

/// What a program depends on.
type Inputs = SmallVec<[Input; 4]>;

/// Programs that are kept. Few expressions meet as many combinations of dtypes.
const KEPT: usize = 64;

impl Fused {
    fn new(inputs: usize, nodes: Vec<Node>, result: usize, needed: Vec<bool>) -> Fused {
        Fused { inputs, nodes, result, needed, first: OnceLock::new(), programs: RwLock::default() }
    }

    /// How many tensors it takes.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The value of the expression for these tensors, which broadcast.
    ///
    /// ```
    /// use rustorch_tensor::{DType, Tensor, fuse};
    /// let mean_in_f32 = fuse(|[x, y]| (x.to_dtype(DType::F32) + y) / 2)?;
    /// let (x, y) = (Tensor::new([1u8, 200])?, Tensor::new([2u8, 100])?);
    /// assert_eq!(mean_in_f32.apply(&[&x, &y])?.to_vec::<f32>()?, [1.5, 150.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If their number is wrong, their shapes do not broadcast, or an operation is not defined for the dtypes that it meets;
    /// if the program has more than 64 steps, casts included; and as any operation.
    pub fn apply(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        match &*self.program(inputs)? {
            Program::Input(i) => inputs[*i].copy(),
            Program::FusedPointwise(fused) => run_fused(fused.clone(), inputs),
        }
    }

    /// As [`apply`](Self::apply), written into a tensor of the result's dtype and shape, which may be one of the inputs.
    ///
    /// ```
    /// use rustorch_tensor::{Tensor, fuse};
    /// let step = fuse(|[x, grad, lr]| x - lr * grad)?;
    /// let (x, grad) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([10.0f32, -10.0])?);
    /// step.apply_into(&[&x, &grad, &Tensor::scalar(0.1)?], &x)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 3.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`apply`](Self::apply); if the result has another dtype or shape, or the memory is read-only.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn apply_into(&self, inputs: &[&Tensor], out: &Tensor) -> Result<()> {
        match &*self.program(inputs)? {
            Program::Input(i) => run_into(&Op::Copy(CopyOp), &[inputs[*i]], out),
            Program::FusedPointwise(fused) => run_into(&Op::FusedPointwise(fused.clone()), inputs, out),
        }
    }

    /// The operation that [`apply`](Self::apply) runs for tensors of these dtypes; `None` where it only copies.
    ///
    /// ```
    /// use rustorch_tensor::{Tensor, fuse};
    /// let f = fuse(|[x, y]| (x * 2 + y).sqrt())?;
    /// let (x, y) = (Tensor::new([1.0f32])?, Tensor::new([7i64])?);
    /// assert_eq!(f.fused_pointwise(&[&x, &y])?.unwrap().to_string(), "sqrt(x0 * 2 + f32(x1))");
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If their number is wrong, or an operation is not defined for the dtypes that it meets.
    pub fn fused_pointwise(&self, inputs: &[&Tensor]) -> Result<Option<FusedPointwise>> {
        Ok(match &*self.program(inputs)? {
            Program::FusedPointwise(fused) => Some(fused.clone()),
            Program::Input(_) => None,
        })
    }

    fn program(&self, inputs: &[&Tensor]) -> Result<Cow<'_, Program>> {
        if inputs.len() != self.inputs {
            return Err(Error::argument(
                "fuse",
                format!("the expression has {} inputs, {} were given", self.inputs, inputs.len()),
            ));
        }
        let mut key = Inputs::new();
        for x in inputs {
            key.push(Input { dtype: x.dtype(), category: x.category() });
        }
        self.program_for(key)
    }

    fn program_for(&self, key: Inputs) -> Result<Cow<'_, Program>> {
        if let Some((have, program)) = self.first.get()
            && *have == key
        {
            return Ok(Cow::Borrowed(program));
        }
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, program)) = programs.iter().find(|(have, _)| *have == key) {
            return Ok(Cow::Owned(program.clone()));
        }
        drop(programs);
        let program = lower::lower(&self.nodes, self.result, &self.needed, &key)?;
        if let Err(another) = self.first.set((key, program.clone())) {
            let mut programs = self.programs.write().unwrap_or_else(PoisonError::into_inner);
            if programs.len() == KEPT {
                programs.clear();
            }
            programs.push(another);
        }
        Ok(Cow::Owned(program))
    }
}

impl fmt::Debug for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fused")
            .field("inputs", &self.inputs)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}
