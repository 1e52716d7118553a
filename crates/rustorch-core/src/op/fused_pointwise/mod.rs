//! Fused pointwise ops: several pointwise operations in one pass over memory.
//!
//! A fused op is a straight-line program: each step applies one pointwise operation to inputs, constants and results of
//! earlier steps, and the last step's result is the fused op's. It means what its steps mean one after another, to the last
//! bit where a device rounds each step by itself, but reads every input and writes the result once.

mod expression;
#[cfg(feature = "serde")]
mod serial;

use super::{Op, OpType, Operation, dense, one};
use crate::{Cast, Clamp, DType, Device, Error, Layout, Outputs, Result, Scalar, Shape, TensorMeta};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A program of pointwise steps, valid by construction: see [`FusedPointwise::builder`].
///
/// Constants have a dtype of their own; dtypes of steps follow from those of the inputs, by each operation's own rules.
/// All inputs broadcast to one shape, the result's. Cloning is cheap.
///
/// ```
/// use rustorch_core::{BinaryOp, FusedPointwise, DType, Op, UnaryOp};
/// let mut fused = FusedPointwise::builder(2)?;
/// let (a, b) = (fused.input(0)?, fused.input(1)?);
/// let half = fused.constant(0.5, DType::F32)?;
/// let product = fused.step(Op::Binary(BinaryOp::Mul), &[a, b])?;
/// let sum = fused.step(Op::Binary(BinaryOp::Add), &[product, a])?;
/// let scaled = fused.step(Op::Binary(BinaryOp::Mul), &[sum, half])?;
/// let shifted = fused.step(Op::Binary(BinaryOp::Sub), &[scaled, b])?;
/// let result = fused.step(Op::Unary(UnaryOp::Tanh), &[shifted])?;
/// let fused = fused.finish(result)?;
/// assert_eq!(fused.to_string(), "tanh((x0 * x1 + x0) * 0.5 - x1)");
/// assert_eq!(fused.dtypes(&[DType::F32, DType::F32])?.last(), Some(&DType::F32));
/// assert!(fused.dtypes(&[DType::F32, DType::I32]).is_err());
/// # Ok::<(), rustorch_core::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct FusedPointwise(Arc<Program>);

#[derive(PartialEq)]
struct Program {
    inputs: usize,
    constants: Vec<FusedConstant>,
    /// Never empty; the last one is the result.
    steps: Vec<FusedStep>,
    /// The dtypes, of `f32` and `f64`, that all values have where the inputs have them.
    uniform: SmallVec<[DType; 2]>,
}

/// A constant of a fused op.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct FusedConstant {
    /// The number, which becomes one of `dtype` as casting does it.
    pub value: Scalar,
    /// Its dtype, never a block type.
    pub dtype: DType,
}

/// What a step may compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub enum FusedValue {
    /// The fused op's input of this number.
    Input(usize),
    /// The fused op's constant of this number.
    Constant(usize),
    /// The result of the step of this number.
    Step(usize),
}

/// One operation of a fused op.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedStep {
    op: Op,
    args: SmallVec<[FusedValue; 3]>,
}

impl FusedStep {
    /// The operation: unary, binary, a comparison, a selection, a clamp, a GLU, or a cast to a dense dtype.
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// Its arguments: as many as it takes, none of them a later step.
    pub fn args(&self) -> &[FusedValue] {
        &self.args
    }
}

/// Puts a [`FusedPointwise`] together.
#[derive(Clone, Debug)]
pub struct FusedBuilder {
    inputs: usize,
    constants: Vec<FusedConstant>,
    steps: Vec<FusedStep>,
}

/// The dtypes of a fused op's steps.
type StepDTypes = SmallVec<[DType; 8]>;

impl FusedPointwise {
    /// The operation's name.
    pub const NAME: &'static str = "fused_pointwise";
    /// The most inputs of a fused op. A device may take fewer, and then declines.
    pub const MAX_INPUTS: usize = 16;
    /// The most steps of a fused op.
    pub const MAX_STEPS: usize = 64;

    /// A fused op of so many inputs, without a step yet.
    ///
    /// # Errors
    /// For no input, or more than [`MAX_INPUTS`](Self::MAX_INPUTS).
    pub fn builder(inputs: usize) -> Result<FusedBuilder> {
        if (1..=FusedPointwise::MAX_INPUTS).contains(&inputs) {
            return Ok(FusedBuilder { inputs, constants: Vec::new(), steps: Vec::new() });
        }
        Err(wrong(format!("has 1 to {} inputs, not {inputs}", FusedPointwise::MAX_INPUTS)))
    }

    /// How many inputs it has. Each of them is used.
    pub fn inputs(&self) -> usize {
        self.0.inputs
    }

    /// The constants.
    pub fn constants(&self) -> &[FusedConstant] {
        &self.0.constants
    }

    /// The steps, at least one, in an order in which they can be done. The last one's result is the fused op's.
    pub fn steps(&self) -> &[FusedStep] {
        &self.0.steps
    }

    /// The dtype of each step's result for inputs of these dtypes.
    ///
    /// # Errors
    /// If a step does not take its arguments, as that operation says it; if the number of inputs is wrong.
    pub fn dtypes(&self, inputs: &[DType]) -> Result<StepDTypes> {
        if inputs.len() != self.inputs() {
            return Err(wrong(format!("takes {} inputs, {} were given", self.inputs(), inputs.len())));
        }
        let layout = Layout::contiguous(Shape::scalar());
        let mut dtypes = StepDTypes::new();
        for step in self.steps() {
            let args: SmallVec<[TensorMeta<'_>; 3]> = step
                .args
                .iter()
                .map(|&arg| {
                    let dtype = self.dtype(arg, inputs, &dtypes);
                    TensorMeta { dtype, layout: &layout, device: Device::CPU }
                })
                .collect();
            dtypes.push(step.op.infer(&args)?[0].dtype);
        }
        Ok(dtypes)
    }

    /// The dtype of a value, given those of the inputs and of the steps before.
    ///
    /// # Panics
    /// If the fused op has no such value.
    #[inline]
    pub fn dtype(&self, value: FusedValue, inputs: &[DType], steps: &[DType]) -> DType {
        match value {
            FusedValue::Input(i) => inputs[i],
            FusedValue::Constant(i) => self.0.constants[i].dtype,
            FusedValue::Step(i) => steps[i],
        }
    }

    /// The fused op as it prints itself, but with dtypes in place of constants and without the values of bounds: what a fused op with
    /// other constants shares with it. One kernel computes all fused ops of one pattern on inputs of the same dtypes.
    ///
    /// ```
    /// use rustorch_core::{BinaryOp, FusedPointwise, DType, Op, UnaryOp};
    /// let mut fused = FusedPointwise::builder(1)?;
    /// let (x, half) = (fused.input(0)?, fused.constant(0.5, DType::F32)?);
    /// let scaled = fused.step(Op::Binary(BinaryOp::Mul), &[x, half])?;
    /// let result = fused.step(Op::Unary(UnaryOp::Tanh), &[scaled])?;
    /// assert_eq!(fused.finish(result)?.pattern(), "tanh(x0 * f32)");
    /// # Ok::<(), rustorch_core::Error>(())
    /// ```
    pub fn pattern(&self) -> String {
        expression::of(self, false)
    }
}

impl Operation for FusedPointwise {
    const CLASS: OpType = OpType::Elementwise;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        dense(FusedPointwise::NAME, args)?;
        let inputs: SmallVec<[DType; 4]> = args.iter().map(|x| x.dtype).collect();
        let dtype = self.dtypes(&inputs)?[self.steps().len() - 1];
        let mut shape = args[0].shape().clone();
        for x in &args[1..] {
            shape = shape.broadcast(x.shape(), FusedPointwise::NAME)?;
        }
        one(dtype, shape)
    }

    fn fails_on_values(&self) -> bool {
        self.steps().iter().any(|step| step.op.fails_on_values())
    }

    /// Of those whose values all have one dtype, `f32` or `f64`.
    fn elementwise_output(&self, dtype: DType, args: usize) -> Option<DType> {
        (args == self.inputs() && self.0.uniform.contains(&dtype)).then_some(dtype)
    }

    fn may_overwrite(&self, arg: usize, out: usize) -> bool {
        self.steps().iter().all(|step| step.op.may_overwrite(arg, out))
    }

    /// Of all steps.
    fn flops_per_element(&self) -> u64 {
        self.steps().iter().map(|step| step.op.flops_per_element()).sum()
    }
}

fn wrong(message: String) -> Error {
    Error::argument(FusedPointwise::NAME, message)
}

impl FusedBuilder {
    /// An input.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn input(&self, i: usize) -> Result<FusedValue> {
        self.known(FusedValue::Input(i))?;
        Ok(FusedValue::Input(i))
    }

    /// A number, as one of a dense dtype: rounded, truncated or wrapped as casting does it.
    ///
    /// # Errors
    /// For a block type.
    pub fn constant(&mut self, value: impl Into<Scalar>, dtype: DType) -> Result<FusedValue> {
        let constant = FusedConstant { value: value.into(), dtype };
        if dtype.is_quant() {
            return Err(Error::dtype(FusedPointwise::NAME, "has no constants of a block type", [dtype]));
        }
        // Zeros of either sign are equal, but not the same.
        let same = |have: &FusedConstant| {
            *have == constant
                && have.value.to_f64().is_sign_negative() == constant.value.to_f64().is_sign_negative()
                && !matches!(constant.value, Scalar::Complex(_))
        };
        let i = self.constants.iter().position(same).unwrap_or_else(|| {
            self.constants.push(constant);
            self.constants.len() - 1
        });
        Ok(FusedValue::Constant(i))
    }

    /// The result of a pointwise operation on values that exist. What has been computed already is not computed again.
    ///
    /// # Errors
    /// If the operation is not one of each element, takes another number of arguments, or has an argument that does not
    /// exist; if the fused op grows beyond [`FusedPointwise::MAX_STEPS`]. Whether it takes the arguments' dtypes is found when these
    /// are known.
    pub fn step(&mut self, op: Op, args: &[FusedValue]) -> Result<FusedValue> {
        if let Op::Cast(Cast { to }) = &op
            && to.is_quant()
        {
            return Err(Error::dtype(FusedPointwise::NAME, "casts to dense dtypes only", [*to]));
        }
        let Some(takes) = op.pointwise_arity() else {
            return Err(wrong(format!("{} is not a pointwise op", op.name())));
        };
        if args.len() != takes {
            return Err(wrong(format!("{} takes {takes} arguments, {} were given", op.name(), args.len())));
        }
        if let Op::Clamp(Clamp { min: None, max: None }) = op {
            return Err(wrong("clamp needs a lower or an upper bound".into()));
        }
        args.iter().try_for_each(|&arg| self.known(arg))?;
        let step = FusedStep { op, args: args.into() };
        // Bounds may be zeros of different signs, which are equal, but not the same.
        let same = |have: &FusedStep| *have == step && !matches!(have.op, Op::Clamp(_));
        if let Some(i) = self.steps.iter().position(same) {
            return Ok(FusedValue::Step(i));
        }
        if self.steps.len() == FusedPointwise::MAX_STEPS {
            return Err(wrong(format!("has {} steps at most; make two of it", FusedPointwise::MAX_STEPS)));
        }
        self.steps.push(step);
        Ok(FusedValue::Step(self.steps.len() - 1))
    }

    /// The fused op whose result is that of a step. Steps and constants on which it does not depend are left out.
    ///
    /// # Errors
    /// If `result` is not a step, or an input is not used: an operation reads all its arguments.
    pub fn finish(self, result: FusedValue) -> Result<FusedPointwise> {
        self.known(result)?;
        let FusedValue::Step(last) = result else {
            return Err(wrong("computes nothing: its result is an input or a constant".into()));
        };
        let mut used = Uses { inputs: vec![false; self.inputs], constants: vec![None; self.constants.len()] };
        let mut needed = vec![false; last + 1];
        needed[last] = true;
        for i in (0..=last).rev() {
            if !needed[i] {
                continue;
            }
            for &arg in &self.steps[i].args {
                match arg {
                    FusedValue::Input(i) => used.inputs[i] = true,
                    FusedValue::Constant(i) => used.constants[i] = Some(0),
                    FusedValue::Step(i) => needed[i] = true,
                }
            }
        }
        if let Some(i) = used.inputs.iter().position(|used| !used) {
            return Err(wrong(format!("does not use its input {i}")));
        }
        let mut constants = Vec::new();
        for (place, constant) in used.constants.iter_mut().zip(self.constants) {
            if let Some(place) = place {
                *place = constants.len();
                constants.push(constant);
            }
        }
        let mut places = vec![0; last + 1];
        let mut steps = Vec::new();
        for (i, mut step) in self.steps.into_iter().take(last + 1).enumerate() {
            if !needed[i] {
                continue;
            }
            for arg in &mut step.args {
                match arg {
                    FusedValue::Input(_) => {}
                    FusedValue::Constant(i) => *i = used.constants[*i].unwrap_or_default(),
                    FusedValue::Step(i) => *i = places[*i],
                }
            }
            places[i] = steps.len();
            steps.push(step);
        }
        let is_uniform = |&dtype: &DType| {
            let stays = |step: &FusedStep| step.op.elementwise_output(dtype, step.args.len()) == Some(dtype);
            constants.iter().all(|constant| constant.dtype == dtype) && steps.iter().all(stays)
        };
        let uniform = [DType::F32, DType::F64].into_iter().filter(is_uniform).collect();
        Ok(FusedPointwise(Arc::new(Program { inputs: self.inputs, constants, steps, uniform })))
    }

    fn known(&self, value: FusedValue) -> Result<()> {
        let (what, i, have) = match value {
            FusedValue::Input(i) => ("input", i, self.inputs),
            FusedValue::Constant(i) => ("constant", i, self.constants.len()),
            FusedValue::Step(i) => ("step", i, self.steps.len()),
        };
        if i < have {
            return Ok(());
        }
        Err(wrong(format!("has no {what} {i}, only {have} so far")))
    }
}

/// What a result depends on; constants with their new places.
struct Uses {
    inputs: Vec<bool>,
    constants: Vec<Option<usize>>,
}

impl fmt::Debug for FusedPointwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FusedPointwise({self})")
    }
}
