//! Pointwise operations: each gradient is one fused operation, from the table in `derivative`.

use super::derivative::{self, Operand, Terms};
use super::{Gradient, Recording, Rule};
use crate::autograd::context::{Context, Grads};
use crate::autograd::node::Meta;
use crate::autograd::saved::{Saves, Which};
use crate::fuse::Partial;
use crate::{Expr, Tensor};
use rustc_hash::FxHashMap;
use rustorch_core::{
    BinaryOp, Cast, Clamp, DType, FusedPointwise, FusedValue, GluOp, Op, Result, Scalar, UnaryOp, Where,
};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::{Discriminant, discriminant};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The gradient of one argument: an expression of arguments, result and the result's gradient, in this order; none where it is zero.
type Derivative = Option<Partial>;

/// How many dtypes have gradients.
const DTYPES: usize = 6;

/// Where a dtype stands among those that have gradients.
#[inline]
fn column(dtype: DType) -> Option<usize> {
    Some(match dtype {
        DType::F16 => 0,
        DType::BF16 => 1,
        DType::F32 => 2,
        DType::F64 => 3,
        DType::C64 => 4,
        DType::C128 => 5,
        _ => return None,
    })
}

/// A pointwise operation, whose rule stands here.
trait Pointwise {
    /// The operation as data.
    fn to_op(&self) -> Op;

    /// The row of its first argument's derivatives in [`KNOWN`]; `None` of operations with further parameters, which are seldom used.
    fn row(&self) -> Option<usize>;
}

/// Where the derivative of an operation of tensors stands among those that are known, by the row of the first argument, which argument,
/// and their dtype.
#[inline(always)]
fn place(row: Option<usize>, arg: usize, dtype: DType) -> Option<usize> {
    Some((row? + arg) * DTYPES + column(dtype)?)
}

const BINARY: usize = UnaryOp::ALL.len();
const GLU: usize = BINARY + 2 * BinaryOp::ALL.len();
const WHERE: usize = GLU + 2 * GluOp::ALL.len();

fn row(op: &Op) -> Option<usize> {
    match op {
        Op::Unary(op) => op.row(),
        Op::Binary(op) => op.row(),
        Op::Glu(op) => op.row(),
        Op::Where(op) => op.row(),
        _ => None,
    }
}

/// How many rows there are.
const ROWS: usize = WHERE + 3;

/// The derivatives of operations of tensors, each made when it is first used.
static KNOWN: [OnceLock<Box<Derivative>>; ROWS * DTYPES] = [const { OnceLock::new() }; ROWS * DTYPES];

/// What tells operations of a tensor and a scalar apart: the dtype, the scalar's bits, and whether it is the first operand.
type ScalarKey = (BinaryOp, DType, ScalarBits, bool);

/// What tells scalars apart.
type ScalarBits = (Discriminant<Scalar>, [u64; 2]);

fn bits(number: Scalar) -> ScalarBits {
    let bits = match number {
        Scalar::Bool(x) => [u64::from(x), 0],
        Scalar::Int(x) => [x as u64, 0],
        Scalar::Float(x) => [x.to_bits(), 0],
        Scalar::Complex(x) => [x.re.to_bits(), x.im.to_bits()],
    };
    (discriminant(&number), bits)
}

/// Derivatives that are kept of operations with a scalar, which may be any number.
const MOST: usize = 512;

thread_local! {
    static KNOWN_OF_SCALARS: RefCell<FxHashMap<ScalarKey, Rc<Derivative>>> = RefCell::default();
}

/// The dtype in which a gradient is computed: 16 bits are rounded to once, at the end.
fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn widened(x: Expr<'_>, dtype: DType) -> Expr<'_> {
    if wide(dtype) == dtype { x } else { x.to_dtype(wide(dtype)) }
}

/// The derivative of an operation of tensors, all of one dtype but for a condition, and perhaps a scalar.
fn derive(op: &Op, arg: usize, count: usize, dtype: DType, scalar: Option<(Scalar, bool)>) -> Derivative {
    let result_dtype = match op {
        Op::Unary(op) => op.output(dtype).unwrap_or(dtype),
        Op::Cast(Cast { to }) => *to,
        _ => dtype,
    };
    let mut exists = true;
    let partial = Partial::new(count + 2, |values| {
        let [args @ .., result, grad] = values else { unreachable!("two values more than arguments") };
        let is_condition = |i: usize| matches!(op, Op::Where(_)) && i == 0;
        let mut operands: SmallVec<[Operand<'_>; 3]> = args
            .iter()
            .enumerate()
            .map(|(i, &x)| if is_condition(i) { x } else { widened(x, dtype) }.into())
            .collect();
        let mut position = arg;
        if let Some((number, is_first)) = scalar {
            operands.insert(if is_first { 0 } else { 1 }, number.into());
            position += usize::from(is_first);
        }
        let (result, grad) = (widened(*result, result_dtype), widened(*grad, result_dtype));
        let terms = Terms { args: &operands, result, grad, dtype: wide(dtype) };
        match derivative::of(op, position, &terms) {
            // What is complex where the argument is real, the pass takes the real part of.
            Some(slope) if wide(dtype) != dtype => slope.to_dtype(dtype),
            Some(slope) => slope,
            None => {
                exists = false;
                grad
            }
        }
    });
    exists.then_some(partial)
}

/// The value of a function of an operation's derivative, which is looked for among those that are known.
#[inline]
fn with_derivative<R>(
    op: &Op,
    arg: usize,
    count: usize,
    dtype: DType,
    scalar: Option<(Scalar, bool)>,
    f: impl FnOnce(&Derivative) -> R,
) -> R {
    match (op, scalar) {
        (Op::Binary(binary), Some(scalar)) => f(&of_scalar(*binary, arg, count, dtype, scalar)),
        _ => match place(row(op), arg, dtype) {
            Some(place) => f(KNOWN[place].get_or_init(|| Box::new(derive(op, arg, count, dtype, None)))),
            None => f(&derive(op, arg, count, dtype, scalar)),
        },
    }
}

/// The derivative of a binary operation of a tensor and a scalar.
#[inline(never)]
fn of_scalar(
    op: BinaryOp,
    arg: usize,
    count: usize,
    dtype: DType,
    (number, is_first): (Scalar, bool),
) -> Rc<Derivative> {
    KNOWN_OF_SCALARS.with(|known| {
        let mut known = known.borrow_mut();
        if known.len() == MOST {
            known.clear();
        }
        let new = || Rc::new(derive(&Op::Binary(op), arg, count, dtype, Some((number, is_first))));
        Rc::clone(known.entry((op, dtype, bits(number), is_first)).or_insert_with(new))
    })
}

/// What the derivatives of [`KNOWN`] read, and [`IS_KNOWN`] of those that were looked at: recording asks for no more.
static READS: [AtomicU8; ROWS * DTYPES] = [const { AtomicU8::new(0) }; ROWS * DTYPES];
const IS_KNOWN: u8 = 1 << 7;

/// The set of the values that an operation's derivative reads, of which there are five at most.
#[inline(always)]
fn read_by(op: &impl Pointwise, arg: usize, dtype: DType, recording: &Recording<'_>) -> u32 {
    let place = if recording.scalar.is_none() { place(op.row(), arg, dtype) } else { None };
    let known = place.map_or(0, |place| READS[place].load(Ordering::Relaxed));
    if known & IS_KNOWN != 0 {
        return u32::from(known & !IS_KNOWN);
    }
    read_anew(op, arg, dtype, recording, place)
}

#[inline(never)]
fn read_anew(
    op: &impl Pointwise,
    arg: usize,
    dtype: DType,
    recording: &Recording<'_>,
    place: Option<usize>,
) -> u32 {
    let count = recording.args.len();
    let op = op.to_op();
    let set = with_derivative(&op, arg, count, dtype, recording.scalar, |derivative| match derivative {
        Some(partial) => reads(partial),
        None if is_composed(&op) => 1,
        None => 0,
    });
    if let (Some(place), Ok(set)) = (place, u8::try_from(set)) {
        READS[place].store(set | IS_KNOWN, Ordering::Relaxed);
    }
    set
}

/// The set of the values that an expression over arguments, result and gradient reads: a bit for each. A fused operation has at most 16
/// inputs.
#[inline]
fn reads(partial: &Partial) -> u32 {
    partial.uses.iter().fold(0, |set, &value| set | 1 << value)
}

/// The tensors of a set of arguments and, after these, the result.
#[inline]
fn kept(set: u32, count: usize) -> Saves {
    let mut saves = Saves::new();
    for arg in 0..count {
        if set >> arg & 1 == 1 {
            saves.push(Which::Arg(arg));
        }
    }
    if set >> count & 1 == 1 {
        saves.push(Which::Result(0));
    }
    saves
}

/// The value of an expression over arguments, result and gradient.
fn value(partial: &Partial, cx: &Context<'_>) -> Result<Tensor> {
    let count = cx.inputs();
    let mut tensors: SmallVec<[&Tensor; 8]> = SmallVec::new();
    for &value in &partial.uses {
        tensors.push(match value {
            _ if value < count => cx.arg(value)?,
            _ if value == count => cx.result(0)?,
            _ => cx.grad()?,
        });
    }
    partial.apply(&tensors)
}

#[inline(always)]
fn saves(op: &impl Pointwise, recording: &Recording<'_>) -> Saves {
    let count = recording.args.len();
    let dtype = leading(count, |i| recording.args[i].dtype());
    let mut read = 0;
    for (arg, edge) in recording.edges.iter().enumerate() {
        if edge.is_some() {
            read |= read_by(op, arg, dtype, recording);
        }
    }
    // The value behind arguments and result is the gradient, which is not kept.
    match read & !(!0 << (count + 1)) {
        0 => Saves::new(),
        read => kept(read, count),
    }
}

/// Whether an operation's derivative is no expression, but composed of several operations: that of trigamma.
fn is_composed(op: &Op) -> bool {
    matches!(op, Op::Unary(UnaryOp::Trigamma))
}

fn backward(op: &Op, cx: &Context<'_>) -> Result<Grads> {
    if is_composed(op) {
        return cx.first(|| cx.grad()?.mul(&cx.arg(0)?.polygamma(2)?));
    }
    let dtype = leading(cx.inputs(), |i| cx.input(i).dtype);
    cx.each(|arg| {
        with_derivative(op, arg, cx.inputs(), dtype, cx.scalar(), |derivative| match derivative {
            Some(partial) => value(partial, cx).map(Some),
            None => zeros(cx.input(arg)).map(Some),
        })
    })
}

/// The dtype of the arguments; of a selection the second one's.
fn leading(count: usize, dtype: impl Fn(usize) -> DType) -> DType {
    dtype(count.saturating_sub(1))
}

pub(super) fn zeros(meta: &Meta) -> Result<Tensor> {
    Tensor::zeros(meta.shape.clone(), (meta.dtype, meta.device))
}

macro_rules! pointwise {
    ($($ty:ty => $op:expr, $row:expr, $gradient:expr;)*) => {$(
        impl Pointwise for $ty {
            fn to_op(&self) -> Op {
                let op: fn(&$ty) -> Op = $op;
                op(self)
            }

            #[inline(always)]
            fn row(&self) -> Option<usize> {
                let row: fn(&$ty) -> Option<usize> = $row;
                row(self)
            }
        }

        impl Rule for $ty {
            fn gradient(&self, args: &[&Tensor]) -> Gradient {
                let gradient: fn(&$ty, &[&Tensor]) -> Gradient = $gradient;
                gradient(self, args)
            }

            fn saves(&self, recording: &Recording<'_>) -> Saves {
                saves(self, recording)
            }

            fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
                backward(&self.to_op(), cx)
            }
        }
    )*};
}

pointwise! {
    UnaryOp => |op| Op::Unary(*op), |op| Some(*op as usize), |op, _| match op {
        UnaryOp::LogicalNot | UnaryOp::BitwiseNot | UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::IsFinite => Gradient::None,
        _ => Gradient::Exists,
    };
    BinaryOp => |op| Op::Binary(*op), |op| Some(BINARY + 2 * *op as usize), |op, args| match op {
        BinaryOp::FloorDiv if args[0].dtype().is_float() => {
            Gradient::Refused("has no gradient (sub(remainder) and div have one)")
        }
        _ => Gradient::Exists,
    };
    GluOp => |op| Op::Glu(*op), |op| Some(GLU + 2 * *op as usize), |_, _| Gradient::Exists;
    Where => |_| Op::Where(Where), |_| Some(WHERE), |_, _| Gradient::Exists;
    Clamp => |op| Op::Clamp(op.clone()), |_| None, |_, _| Gradient::Exists;
}

impl Rule for Cast {
    fn gradient(&self, _: &[&Tensor]) -> Gradient {
        if self.to.is_quant() {
            Gradient::Refused("to a block type has no gradient")
        } else {
            Gradient::Exists
        }
    }

    fn saves(&self, _: &Recording<'_>) -> Saves {
        Saves::new()
    }

    /// The pass converts.
    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        cx.first(|| cx.grad().cloned())
    }
}

/// The derivatives of a program, one for each argument.
type ProgramDerivatives = SmallVec<[ProgramDerivative; 4]>;

/// The derivative of a program with respect to an argument.
enum ProgramDerivative {
    /// The argument is only compared: nothing goes on from here, not even zeros, which are NaN behind an infinite derivative.
    None,
    Zero,
    By(Partial),
    /// It is no operation: the program's steps are recorded one by one.
    Steps,
}

/// A program and the dtypes of its arguments.
type ProgramKey = (FusedPointwise, SmallVec<[DType; 4]>);

/// Programs whose derivatives are kept.
const PROGRAMS: usize = 64;

thread_local! {
    static KNOWN_PROGRAMS: RefCell<Vec<(ProgramKey, Rc<ProgramDerivatives>)>> = const { RefCell::new(Vec::new()) };
}

fn program_derivatives(program: &FusedPointwise, dtypes: SmallVec<[DType; 4]>) -> Rc<ProgramDerivatives> {
    KNOWN_PROGRAMS.with(|known| {
        let mut known = known.borrow_mut();
        if let Some((_, derivatives)) = known.iter().find(|((have, of), _)| *of == dtypes && have == program)
        {
            return Rc::clone(derivatives);
        }
        let derivatives: Rc<ProgramDerivatives> =
            Rc::new((0..program.inputs()).map(|arg| derive_program(program, arg, &dtypes)).collect());
        if known.len() == PROGRAMS {
            known.clear();
        }
        known.push(((program.clone(), dtypes), Rc::clone(&derivatives)));
        derivatives
    })
}

impl Rule for FusedPointwise {
    fn gradient(&self, args: &[&Tensor]) -> Gradient {
        if self.steps().iter().any(|step| matches!(step.op(), Op::Binary(BinaryOp::FloorDiv))) {
            return Gradient::Refused("has a step floor_divide, which has no gradient");
        }
        if self.steps().iter().any(|step| is_composed(step.op())) {
            return Gradient::Steps;
        }
        let derivatives = program_derivatives(self, args.iter().map(|x| x.dtype()).collect());
        match derivatives.iter().any(|derivative| matches!(derivative, ProgramDerivative::Steps)) {
            true => Gradient::Steps,
            false => Gradient::Exists,
        }
    }

    fn saves(&self, recording: &Recording<'_>) -> Saves {
        let count = recording.args.len();
        let derivatives = program_derivatives(self, recording.args.iter().map(|x| x.dtype()).collect());
        let mut read = 0;
        for (_, derivative) in derivatives.iter().enumerate().filter(|(arg, _)| recording.needs(*arg)) {
            if let ProgramDerivative::By(partial) = derivative {
                read |= reads(partial);
            }
        }
        kept(read, count)
    }

    fn backward(&self, cx: &Context<'_>) -> Result<Grads> {
        let derivatives = program_derivatives(self, (0..cx.inputs()).map(|i| cx.input(i).dtype).collect());
        cx.each(|arg| match &derivatives[arg] {
            ProgramDerivative::By(partial) => value(partial, cx).map(Some),
            ProgramDerivative::Zero => zeros(cx.input(arg)).map(Some),
            ProgramDerivative::None => Ok(None),
            ProgramDerivative::Steps => unreachable!("recorded as its steps"),
        })
    }
}

/// The derivative of a program with respect to an argument: its steps from the last to the first, each by the table.
fn derive_program(program: &FusedPointwise, arg: usize, inputs: &[DType]) -> ProgramDerivative {
    let differentiable = |dtype: DType| dtype.is_float() || dtype.is_complex();
    let Ok(dtypes) = program.dtypes(inputs) else { return ProgramDerivative::Zero };
    let last = dtypes.len() - 1;
    let mut leads: SmallVec<[bool; 8]> = SmallVec::new();
    for (step, dtype) in program.steps().iter().zip(&dtypes) {
        let from = |value: &FusedValue| match value {
            FusedValue::Step(i) => leads[*i],
            FusedValue::Input(i) => *i == arg && differentiable(inputs[arg]),
            FusedValue::Constant(_) => false,
        };
        let lead = differentiable(*dtype) && step.args().iter().any(from);
        leads.push(lead);
    }
    if !leads[last] {
        return ProgramDerivative::None;
    }
    let count = program.inputs();
    // Steps of constants alone have no place among expressions.
    let is_constant = |value: &FusedValue| matches!(value, FusedValue::Constant(_));
    let only_constants = |step: &rustorch_core::FusedStep| {
        let values = if matches!(step.op(), Op::Where(_)) { &step.args()[1..] } else { step.args() };
        values.iter().all(is_constant) || is_constant(&step.args()[0]) && step.args().len() == 3
    };
    if program.steps().iter().any(only_constants) {
        return ProgramDerivative::Steps;
    }
    let mut exists = false;
    let partial = Partial::new(count + 2, |values| {
        let mut steps: Vec<Expr<'_>> = Vec::new();
        let mut operands: Vec<SmallVec<[Operand<'_>; 3]>> = Vec::new();
        for step in program.steps() {
            let args: SmallVec<[Operand<'_>; 3]> = step
                .args()
                .iter()
                .map(|&value| match value {
                    FusedValue::Input(i) => widened(values[i], inputs[i]).into(),
                    FusedValue::Constant(i) => program.constants()[i].value.into(),
                    FusedValue::Step(i) => steps[i].into(),
                })
                .collect();
            let op = match step.op() {
                Op::Cast(Cast { to }) => Op::Cast(Cast { to: wide(*to) }),
                op => op.clone(),
            };
            let value = Expr::step(&op, &args).expect("steps are pointwise operations of a value at least");
            operands.push(args);
            steps.push(value);
        }
        let mut grads: Vec<Option<Expr<'_>>> = vec![None; steps.len()];
        grads[last] = Some(widened(values[count + 1], dtypes[last]));
        let mut total: Option<Expr<'_>> = None;
        for (i, step) in program.steps().iter().enumerate().rev() {
            let Some(grad) = grads[i] else { continue };
            for (position, &from) in step.args().iter().enumerate() {
                let place = match from {
                    FusedValue::Step(j) => &mut grads[j],
                    FusedValue::Input(i) if i == arg => &mut total,
                    FusedValue::Input(_) | FusedValue::Constant(_) => continue,
                };
                let dtype = wide(program.dtype(from, inputs, &dtypes));
                if !differentiable(dtype) {
                    continue;
                }
                let terms = Terms { args: &operands[i], result: steps[i], grad, dtype };
                let Some(slope) = derivative::of(step.op(), position, &terms) else { continue };
                // Of a real value the gradient's real part, which is what a cast keeps.
                let slope = slope.to_dtype(dtype);
                *place = Some(match *place {
                    Some(sum) => sum + slope,
                    None => slope,
                });
            }
        }
        exists = total.is_some();
        total.map_or(values[0], |total| total.to_dtype(inputs[arg]))
    });
    if !exists {
        return ProgramDerivative::Zero;
    }
    let dtypes: SmallVec<[DType; 8]> =
        partial.uses.iter().map(|&value| if value < count { inputs[value] } else { dtypes[last] }).collect();
    if partial.fits(&dtypes) { ProgramDerivative::By(partial) } else { ProgramDerivative::Steps }
}
