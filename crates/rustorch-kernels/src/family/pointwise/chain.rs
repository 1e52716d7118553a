//! Several functions in one pass: a kernel for each arrangement of steps, whatever its numbers.
//!
//! Each step is the function that it is alone, a line of WGSL, and its result is rounded as memory would round it. So a
//! chain's results are those of its steps.

use super::frame::{self, Frame};
use super::{Function, clamp};
use crate::family::kind::Kind;
use crate::family::{scalars, strided};
use crate::plan::{Plan, Request};
use crate::wgsl::{Module, Wgsl, value_type};
use crate::{Hardware, library, table};
use rustorch_core::{
    Chain as Program, ChainConstant, ChainValue, DType, Decline, FromScalar, Layout, Op, Shape, TensorMeta,
};
use smallvec::SmallVec;
use std::fmt::Write;

/// The kernel of a chain: its structure and dtypes. Numbers are parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    constants: Vec<DType>,
    steps: Vec<Step>,
    frame: Frame,
}

/// A step of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Step {
    function: Function,
    args: SmallVec<[ChainValue; 3]>,
    /// The dtype of its result.
    dtype: DType,
}

/// What `Op::infer` has ruled out.
const NOT_INFERRED: Decline = Decline::Attr("steps that do not take their arguments");

/// Whether a kernel can do every step, with as many tensors and numbers.
pub(super) fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let Op::Chain(program) = op else { return Err(Decline::Op(op.name())) };
    let inputs: SmallVec<[DType; 4]> = args.iter().map(|x| x.dtype).collect();
    let dtypes = program.dtypes(&inputs).map_err(|_| NOT_INFERRED)?;
    let scalar = Layout::contiguous(Shape::scalar());
    for step in program.steps() {
        let metas: SmallVec<[TensorMeta<'_>; 3]> = step
            .args()
            .iter()
            .map(|&arg| TensorMeta {
                dtype: program.dtype(arg, &inputs, &dtypes),
                layout: &scalar,
                device: hardware.device,
            })
            .collect();
        table::supports(step.op(), &metas, hardware)?;
    }
    let buffers = inputs.len() + 1 + usize::from(notes_mistakes(program, &inputs, &dtypes));
    if buffers > hardware.buffers as usize {
        return Err(Decline::Attr("more tensors than a kernel of the device sees"));
    }
    let outs = op.infer(args).map_err(|_| NOT_INFERRED)?;
    let layouts = frame::broadcast(args, &Layout::contiguous(outs[0].shape.clone()))?;
    let rank = frame::grid(&layouts).map_or(0, |grid| grid.rank());
    if rank > strided::MAX_RANK {
        return Err(Decline::Rank { rank, limit: strided::MAX_RANK });
    }
    let clamps = program.steps().iter().filter(|step| matches!(step.op(), Op::Clamp { .. })).count();
    // The number of elements, where each tensor begins, three words for each number, lengths and strides.
    let numbers: usize = program.constants().iter().map(|c| parts(c.dtype)).sum::<usize>() + 2 * clamps;
    let words = 2 + inputs.len() + 3 * numbers + rank + inputs.len() * rank;
    if 4 * words.next_multiple_of(4) + 8 * buffers > hardware.parameters as usize {
        return Err(Decline::Attr("more numbers than a launch on the device takes"));
    }
    Ok(())
}

/// Whether a step may divide integers by zero.
fn notes_mistakes(program: &Program, inputs: &[DType], dtypes: &[DType]) -> bool {
    program.steps().iter().any(|step| {
        let dtype = program.dtype(step.args()[0], inputs, dtypes);
        Function::of(step.op()).is_ok_and(|function| function.notes_mistakes(dtype))
    })
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>, program: &Program) -> Result<(), Decline> {
    let inputs: SmallVec<[DType; 4]> = request.args.iter().map(|x| x.dtype).collect();
    let dtypes = program.dtypes(&inputs).map_err(|_| NOT_INFERRED)?;
    let steps = program
        .steps()
        .iter()
        .zip(&dtypes)
        .map(|(step, &dtype)| {
            Ok(Step { function: Function::of(step.op())?, args: step.args().into(), dtype })
        })
        .collect::<Result<Vec<Step>, Decline>>()?;
    let constants = program.constants().iter().map(|c| c.dtype).collect();
    let mistakes = notes_mistakes(program, &inputs, &dtypes);
    frame::plan(
        plan,
        request,
        |frame| Chain { constants, steps, frame }.into(),
        mistakes,
        |launch| {
            for constant in program.constants() {
                words(constant).into_iter().for_each(|words| scalars::give(launch, words));
            }
            for (step, &dtype) in program.steps().iter().zip(&dtypes) {
                if let Op::Clamp { min, max } = step.op() {
                    clamp::bounds(launch, [*min, *max], dtype);
                }
            }
        },
    )
}

/// How many real numbers make one of a dtype.
fn parts(dtype: DType) -> usize {
    if dtype.is_complex() { 2 } else { 1 }
}

/// A constant's parts, as words.
fn words(constant: &ChainConstant) -> SmallVec<[[u32; 3]; 2]> {
    let ChainConstant { value, dtype } = *constant;
    let z = value.to_complex();
    SmallVec::from_slice(&match dtype {
        DType::C64 => return SmallVec::from([scalars::single(z.re as f32), scalars::single(z.im as f32)]),
        DType::C128 => return SmallVec::from([scalars::double(z.re), scalars::double(z.im)]),
        // Integers that do not fit wrap, as in casting.
        DType::Bool => [scalars::integer(value.to_bool().into())],
        DType::U8 => [scalars::integer(u8::from_scalar(value).into())],
        DType::I8 => [scalars::integer(i8::from_scalar(value).into())],
        DType::I16 => [scalars::integer(i16::from_scalar(value).into())],
        dtype => [scalars::words(value, dtype)],
    })
}

/// Declares a constant: its value, an expression.
fn declare(module: &mut Module, dtype: DType, hardware: &Hardware) -> String {
    let mut part = |kind| scalars::declare(module, kind);
    match Kind::of(dtype, hardware) {
        Kind::Bool => format!("({} != 0u)", part(Kind::Unsigned(32))),
        Kind::Complex => format!("vec2<f32>({}, {})", part(Kind::Single), part(Kind::Single)),
        Kind::ComplexDouble => format!("vec2<f64>({}, {})", part(Kind::Double), part(Kind::Double)),
        kind => part(kind),
    }
}

impl Chain {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let dtype = |value: &ChainValue| match *value {
            ChainValue::Input(i) => self.frame.inputs[i],
            ChainValue::Constant(i) => self.constants[i],
            ChainValue::Step(i) => self.steps[i].dtype,
        };
        let mistakes = self.steps.iter().any(|step| step.function.notes_mistakes(dtype(&step.args[0])));
        self.frame.wgsl(hardware, mistakes, |module| {
            let mut numbers: Vec<String> =
                self.constants.iter().map(|&dtype| declare(module, dtype, hardware)).collect();
            let value = |dtype| value_type(dtype, hardware.i64);
            let mut signature: Vec<String> = Vec::new();
            for (i, &dtype) in self.frame.inputs.iter().enumerate() {
                signature.push(format!("input{i}: {}", value(dtype)));
            }
            for (i, &dtype) in self.constants.iter().enumerate() {
                signature.push(format!("constant{i}: {}", value(dtype)));
            }
            let (mut functions, mut body) = (String::new(), String::new());
            for (i, step) in self.steps.iter().enumerate() {
                let inputs: SmallVec<[DType; 3]> = step.args.iter().map(dtype).collect();
                let last = i + 1 == self.steps.len();
                let settle = |value: &str| match last {
                    // Storing it does the same.
                    true => value.to_owned(),
                    false => library::settled(value, step.dtype),
                };
                let name = format!("step_{i}");
                functions.push_str(&step.function.text(&name, &inputs, step.dtype, hardware, settle));
                let mut given: Vec<String> = step
                    .args
                    .iter()
                    .map(|arg| match arg {
                        ChainValue::Input(i) => format!("input{i}"),
                        ChainValue::Constant(i) => format!("constant{i}"),
                        ChainValue::Step(i) => format!("value{i}"),
                    })
                    .collect();
                if step.function == Function::Clamp {
                    for (bound, number) in
                        ["low", "high"].iter().zip(clamp::parameters(module, Kind::of(inputs[0], hardware)))
                    {
                        let name = format!("{bound}{i}");
                        signature.push(format!("{name}: {}", value(step.dtype)));
                        given.push(name);
                        numbers.push(number);
                    }
                }
                let _ = writeln!(body, "    let value{i} = {name}({});", given.join(", "));
            }
            let _ = writeln!(
                functions,
                "fn f({}) -> {} {{\n{body}    return value{};\n}}",
                signature.join(", "),
                value(self.frame.output),
                self.steps.len() - 1
            );
            module.add(&library::called(&format!("{functions} {}", numbers.join(" ")), hardware));
            module.add(&functions);
            numbers
        })
    }
}
