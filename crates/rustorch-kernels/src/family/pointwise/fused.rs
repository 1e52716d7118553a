//! Fused pointwise operations: one kernel per sequence of steps and dtypes; constants are parameters.
//!
//! Each step is the WGSL expression of the single operation, rounded as if it were stored, so the results equal those of the
//! steps run one by one.

use super::frame::{self, Frame};
use super::{Function, clamp};
use crate::family::{self, Kernels, Plan};
use crate::library::kind::Kind;
use crate::library::{scalars, strided};
use crate::plan::Request;
use crate::splitting::{SplitPlan, axes};
use crate::wgsl::{Wgsl, value_type};
use crate::{Hardware, library};
use rustorch_core::{
    Clamp, DType, Decline, FromScalar, FusedConstant, FusedPointwise as Program, FusedValue, Layout, Op,
    Shape, TensorMeta,
};
use smallvec::SmallVec;
use std::fmt::Write;

/// The kernel of a fused op: its structure and dtypes. Numbers are parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedPointwise {
    constants: Vec<DType>,
    steps: Vec<Step>,
    frame: Frame,
}

/// A step of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Step {
    function: Function,
    args: SmallVec<[FusedValue; 3]>,
    /// The dtype of its result.
    dtype: DType,
}

/// What `Op::infer` has ruled out.
const NOT_INFERRED: Decline = Decline::Attr("steps that do not take their arguments");

/// Whether a kernel can do every step, with as many tensors and numbers.
pub(super) fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let Op::FusedPointwise(program) = op else { return Err(Decline::Op(op.name())) };
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
        family::supports(step.op(), &metas, hardware)?;
    }
    let buffers = inputs.len() + 1 + usize::from(may_assert(program, &inputs, &dtypes));
    if buffers > hardware.buffers as usize {
        return Err(Decline::Attr("more tensors than a kernel of the device sees"));
    }
    let outs = op.infer(args).map_err(|_| NOT_INFERRED)?;
    let layouts = frame::broadcast(args, &Layout::contiguous(outs[0].shape.clone()))?;
    let rank = frame::grid(&layouts).map_or(0, |grid| grid.ndim());
    if rank > strided::MAX_RANK {
        return Err(Decline::Rank { ndim: rank, limit: strided::MAX_RANK });
    }
    let clamps = program.steps().iter().filter(|step| matches!(step.op(), Op::Clamp(_))).count();
    // The number of elements, where each tensor begins, three words for each number, lengths and strides.
    let numbers: usize = program.constants().iter().map(|c| parts(c.dtype)).sum::<usize>() + 2 * clamps;
    let words = 2 + inputs.len() + 3 * numbers + rank + inputs.len() * rank;
    if 4 * words.next_multiple_of(4) + 8 * buffers > hardware.parameters as usize {
        return Err(Decline::Attr("more numbers than a launch on the device takes"));
    }
    Ok(())
}

/// Whether a step may divide integers by zero.
fn may_assert(program: &Program, inputs: &[DType], dtypes: &[DType]) -> bool {
    program.steps().iter().any(|step| {
        let dtype = program.dtype(step.args()[0], inputs, dtypes);
        Function::of(step.op()).is_ok_and(|function| function.may_assert(dtype))
    })
}

impl Kernels for Program {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        axes::broadcasting(request).map(Some)
    }
}

/// Plans the launch.
fn plan(plan: &mut Plan, request: &Request<'_>, program: &Program) -> Result<(), Decline> {
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
    let asserts = may_assert(program, &inputs, &dtypes);
    // Constants, then bounds: as [`FusedPointwise::kinds`] has them.
    let mut numbers: Vec<scalars::Words> = program.constants().iter().flat_map(words).collect();
    for (step, &dtype) in program.steps().iter().zip(&dtypes) {
        if let Op::Clamp(Clamp { min, max }) = step.op() {
            numbers.extend(clamp::bounds([*min, *max], dtype));
        }
    }
    frame::plan(plan, request, |frame| FusedPointwise { constants, steps, frame }.into(), asserts, numbers)
}

/// How many real numbers make one of a dtype.
fn parts(dtype: DType) -> usize {
    if dtype.is_complex() { 2 } else { 1 }
}

/// A constant's parts, as words.
fn words(constant: &FusedConstant) -> SmallVec<[scalars::Words; 2]> {
    let FusedConstant { value, dtype } = *constant;
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

/// The kinds of a constant's parts.
fn part_kinds(dtype: DType, hardware: &Hardware) -> SmallVec<[Kind; 2]> {
    match Kind::of(dtype, hardware) {
        Kind::Bool => SmallVec::from_slice(&[Kind::Unsigned(32)]),
        Kind::Complex => SmallVec::from_slice(&[Kind::Single; 2]),
        Kind::ComplexDouble => SmallVec::from_slice(&[Kind::Double; 2]),
        kind => SmallVec::from_slice(&[kind]),
    }
}

/// A constant's value, an expression, of its parts.
fn constant(dtype: DType, hardware: &Hardware, parts: &[String]) -> String {
    match Kind::of(dtype, hardware) {
        Kind::Bool => format!("({} != 0u)", parts[0]),
        Kind::Complex => format!("vec2<f32>({}, {})", parts[0], parts[1]),
        Kind::ComplexDouble => format!("vec2<f64>({}, {})", parts[0], parts[1]),
        _ => parts[0].clone(),
    }
}

impl FusedPointwise {
    /// The dtype of a value.
    fn dtype(&self, value: FusedValue) -> DType {
        match value {
            FusedValue::Input(i) => self.frame.inputs[i],
            FusedValue::Constant(i) => self.constants[i],
            FusedValue::Step(i) => self.steps[i].dtype,
        }
    }

    /// The kinds of the parameters: of the constants' parts, then of the bounds of clamping steps.
    fn kinds(&self, hardware: &Hardware) -> Vec<Kind> {
        let constants = self.constants.iter().flat_map(|&dtype| part_kinds(dtype, hardware));
        let clamps = self.steps.iter().filter(|step| step.function == Function::Clamp);
        let bounds = clamps.flat_map(|step| [Kind::of(self.dtype(step.args[0]), hardware); 2]);
        constants.chain(bounds).collect()
    }

    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let dtype = |value: &FusedValue| self.dtype(*value);
        let asserts = self.steps.iter().any(|step| step.function.may_assert(dtype(&step.args[0])));
        self.frame.wgsl(hardware, asserts, self.kinds(hardware), |module, given| {
            let mut given = given.into_iter();
            let mut numbers: Vec<String> = self
                .constants
                .iter()
                .map(|&dtype| {
                    constant(dtype, hardware, &given.by_ref().take(parts(dtype)).collect::<Vec<_>>())
                })
                .collect();
            let mut bounds = given;
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
                let mut passed: Vec<String> = step
                    .args
                    .iter()
                    .map(|arg| match arg {
                        FusedValue::Input(i) => format!("input{i}"),
                        FusedValue::Constant(i) => format!("constant{i}"),
                        FusedValue::Step(i) => format!("value{i}"),
                    })
                    .collect();
                if step.function == Function::Clamp {
                    for (bound, number) in ["low", "high"].iter().zip(bounds.by_ref().take(2)) {
                        let name = format!("{bound}{i}");
                        signature.push(format!("{name}: {}", value(step.dtype)));
                        passed.push(name);
                        numbers.push(number);
                    }
                }
                let _ = writeln!(body, "    let value{i} = {name}({});", passed.join(", "));
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
