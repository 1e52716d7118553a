//! Fused pointwise ops: the steps' own kernels, one after another on blocks that stay in the CPU's cache.
//!
//! A step is run by the kernel that runs it alone, on as many elements as fit: so a fused op gives the bits that its steps
//! give one after another, and memory is read and written once.

use super::packed::{MOST_ARGS, room, run_any};
use super::{GRAIN, LONG_GRAIN, binary_grain, unary_grain};
use crate::ThreadPool;
use crate::kernels::strided::{InPlace, base, copy_run, for_parts, unreachable_memory};
use rustorch_core::{
    DType, Fault, FromScalar, FusedPointwise, FusedValue, Op, View, ViewMut, dispatch_dtype,
};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a block of the widest dtype. What the steps pass on then stays in the first cache beside what they read; blocks of 4 KiB and
/// more take up to 1.6 times as long for 10⁷ elements.
const BLOCK: usize = 2 << 10;
/// Cache lines between two blocks.
const SKEW: usize = 5;

/// Runs a fused op.
pub(crate) fn fused(
    pool: &ThreadPool,
    fused: &FusedPointwise,
    args: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let program = Program::new(fused, args, out.layout().numel())?;
    if program.steps.last() != Some(&out.dtype()) {
        return Err(unreachable_memory());
    }
    // The first step that failed anywhere, as if each had run by itself.
    let failed = AtomicUsize::new(usize::MAX);
    let moving: SmallVec<[View<'_>; 4]> =
        args.iter().zip(&program.sources).filter(|(_, source)| source.moves()).map(|(x, _)| *x).collect();
    let start = || program.workspace();
    for_parts(pool, out, &moving, InPlace::Direct, program.grain(), &start, &|workspace, addresses, n| {
        // SAFETY: addresses of `n` elements each, those of the arguments that move, of their dtypes, the output's first; the
        // views' contracts forbid that others write them. The workspace was made for the program.
        if let Err(step) = unsafe { program.run(workspace, addresses, n) } {
            failed.fetch_min(step, Ordering::Relaxed);
        }
    })?;
    match fused.steps().get(failed.into_inner()).map(|step| step.op()) {
        Some(Op::Binary(op)) => super::checked(*op, false),
        Some(_) => Err(unreachable_memory()),
        None => Ok(()),
    }
}

/// A fused op for arguments of known dtypes, and where its values are.
struct Program<'c> {
    fused: &'c FusedPointwise,
    /// Dtypes of inputs and of steps.
    inputs: SmallVec<[DType; 4]>,
    steps: SmallVec<[DType; 8]>,
    sources: SmallVec<[Source; 4]>,
    /// The slot of each step's result. The last one's is the output.
    slots: SmallVec<[usize; 8]>,
    slot_count: usize,
    /// Blocks of the workspace.
    kept: usize,
    /// Elements and bytes of a slot.
    block: usize,
    slot_bytes: usize,
}

/// Where an input's elements are.
#[derive(Clone, Copy)]
enum Source {
    /// At the address of this number: they go on from block to block.
    Moving(usize),
    /// As `Moving`; the output overwrites them while the last step reads them, so that the step gets a copy, in a block of this
    /// number after the slots.
    Overwritten { address: usize, copy: usize },
    /// There is one, for all elements of the output, with which the block of this number after the constants is full.
    One { number: usize, element: *const u8 },
}

// SAFETY: the element is one of a view that outlives the program, and nobody writes it meanwhile.
unsafe impl Sync for Source {}

impl Source {
    fn moves(&self) -> bool {
        !matches!(self, Source::One { .. })
    }
}

/// Memory for constants and inputs of one element, each a block full of it, then for the slots and for copies.
struct Workspace(Vec<Line>);

/// A step with its arguments, of which there are `count`, and the place of its result.
struct Call<'c> {
    op: &'c Op,
    args: [Memory; MOST_ARGS],
    count: usize,
    out: Memory,
}

/// Where the first block of a value is, and how many bytes further that of the next element: none where all blocks share one.
#[derive(Clone, Copy)]
struct Memory {
    address: *mut u8,
    dtype: DType,
    step: usize,
}

impl Memory {
    /// The address of the block that begins at an element, which lies within the memory.
    fn at(&self, element: usize) -> *mut u8 {
        self.address.wrapping_add(element * self.step)
    }
}

/// What is copied to where.
type Copies = SmallVec<[(Memory, Memory); 1]>;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "it is there for its size")] [MaybeUninit<u8>; 64]);

impl<'c> Program<'c> {
    fn new(fused: &'c FusedPointwise, args: &[View<'_>], elements: usize) -> Result<Program<'c>, Fault> {
        let inputs: SmallVec<[DType; 4]> = args.iter().map(View::dtype).collect();
        let steps = fused.dtypes(&inputs)?;
        let (slots, slot_count) = slots(fused);
        let size = |dtype: &DType| dtype.size().unwrap_or(16);
        let widest = steps.iter().chain(&inputs).chain(fused.constants().iter().map(|c| &c.dtype));
        let widest = widest.map(size).max().unwrap_or(1);
        let sources = sources(fused, args, elements)?;
        let beside = sources.iter().filter(|source| !matches!(source, Source::Moving(_))).count();
        let kept = fused.constants().len() + slot_count + beside;
        // Whole cache lines of any dtype, but not more than there is.
        let block = elements.next_multiple_of(64).clamp(64, BLOCK / widest);
        // CPUs compare the last 12 bits of addresses to find what a load has to wait for: elements of the same index differ in them.
        let slot_bytes = block * widest + SKEW * size_of::<Line>();
        Ok(Program { fused, inputs, steps, sources, slots, slot_count, kept, block, slot_bytes })
    }

    /// Elements that make a thread worth its while.
    fn grain(&self) -> usize {
        let least = self.fused.steps().iter().map(|step| match step.op() {
            Op::Unary(op) => unary_grain(*op),
            Op::Binary(op) => binary_grain(*op),
            Op::Glu(_) => LONG_GRAIN,
            _ => GRAIN,
        });
        (least.min().unwrap_or(GRAIN) / self.steps.len()).max(LONG_GRAIN)
    }

    fn workspace(&self) -> Workspace {
        let constants = self.fused.constants();
        let mut memory = Workspace(Vec::with_capacity(self.kept * self.slot_bytes / size_of::<Line>()));
        for (i, constant) in constants.iter().enumerate() {
            dispatch_dtype!(constant.dtype, all, T => {
                // SAFETY: block `i` of the memory has room for so many elements of any dtype of the fused op.
                let block = unsafe { room::<MaybeUninit<T>>(self.block_address(&mut memory, i), self.block) };
                block.fill(MaybeUninit::new(T::from_scalar(constant.value)));
            }, _ => {});
        }
        for (source, dtype) in self.sources.iter().zip(&self.inputs) {
            if let (Source::One { number, element }, Some(size)) = (source, dtype.size()) {
                let block = self.block_address(&mut memory, constants.len() + number);
                // SAFETY: an element of the view, and a block with room for so many of any dtype of the fused op.
                unsafe { copy_run(*element, 0, block, 1, self.block, size) };
            }
        }
        memory
    }

    /// The address of a block of the workspace: constants come first.
    fn block_address(&self, memory: &mut Workspace, i: usize) -> *mut u8 {
        memory.0.as_mut_ptr().cast::<u8>().wrapping_add(i * self.slot_bytes)
    }

    /// The steps with what they read and write, found once for all blocks; and what is copied before the last step, and where.
    fn calls(&self, memory: &mut Workspace, addresses: &[*mut u8]) -> (SmallVec<[Call<'c>; 16]>, Copies) {
        let constants = self.fused.constants().len();
        let ones = self.sources.iter().filter(|source| !source.moves()).count();
        let (slots, after) = (constants + ones, constants + ones + self.slot_count);
        // Inputs and the output go on from block to block.
        let moving =
            |address: *mut u8, dtype: DType| Memory { address, dtype, step: dtype.size().unwrap_or(0) };
        let mut block =
            |i: usize, dtype: DType| Memory { address: self.block_address(memory, i), dtype, step: 0 };
        let last = self.steps.len() - 1;
        let calls = self.fused.steps().iter().enumerate().map(|(i, step)| {
            let mut args = [moving(addresses[0], DType::Bool); MOST_ARGS];
            for (place, &arg) in args.iter_mut().zip(step.args()) {
                let dtype = self.fused.dtype(arg, &self.inputs, &self.steps);
                *place = match arg {
                    FusedValue::Input(input) => match self.sources[input] {
                        Source::Overwritten { copy, .. } if i == last => block(after + copy, dtype),
                        Source::Moving(address) | Source::Overwritten { address, .. } => {
                            moving(addresses[1 + address], dtype)
                        }
                        Source::One { number, .. } => block(constants + number, dtype),
                    },
                    FusedValue::Constant(i) => block(i, dtype),
                    FusedValue::Step(i) => block(slots + self.slots[i], dtype),
                };
            }
            let out = match i == last {
                true => moving(addresses[0], self.steps[i]),
                false => block(slots + self.slots[i], self.steps[i]),
            };
            Call { op: step.op(), args, count: step.args().len(), out }
        });
        let calls = calls.collect();
        let copies = self.sources.iter().zip(&self.inputs).filter_map(|(source, &dtype)| match *source {
            Source::Overwritten { address, copy } => {
                Some((moving(addresses[1 + address], dtype), block(after + copy, dtype)))
            }
            _ => None,
        });
        (calls, copies.collect())
    }

    /// Runs all steps on `n` elements; the number of the first step that fails, after all were done.
    ///
    /// # Safety
    /// `addresses` are those of `n` elements of the output and of each input that moves, of their dtypes and aligned; nobody else
    /// writes them meanwhile, and the output overlaps nothing but inputs that are known to be overwritten. `memory` is this program's.
    unsafe fn run(&self, memory: &mut Workspace, addresses: &[*mut u8], n: usize) -> Result<(), usize> {
        let mut failed = None;
        let (calls, copies) = self.calls(memory, addresses);
        let mut at = 0;
        while at < n {
            let len = self.block.min(n - at);
            for (from, to) in &copies {
                // SAFETY: `len` elements of the input, and a block that has room for them.
                unsafe { std::ptr::copy_nonoverlapping(from.at(at), to.address, len * from.step) };
            }
            for (i, Call { op, args, count, out }) in calls.iter().enumerate() {
                let args = args.map(|arg| (arg.dtype, arg.at(at).cast_const()));
                // SAFETY: the arguments are inputs by the contract, constants that were filled, or results of earlier
                // steps, all of `len` elements of these dtypes, which `FusedPointwise::dtypes` has accepted. The slot of a result is
                // none of its arguments'.
                if unsafe { run_any(op, &args[..*count], out.at(at), len) }.is_err() {
                    failed = Some(failed.map_or(i, |first: usize| first.min(i)));
                }
            }
            at += len;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Where inputs are, for so many elements of the output.
fn sources(
    fused: &FusedPointwise,
    args: &[View<'_>],
    elements: usize,
) -> Result<SmallVec<[Source; 4]>, Fault> {
    let last = fused.steps().last().map_or(&[][..], |step| step.args());
    let (mut addresses, mut numbers, mut copies) = (0.., 0.., 0..);
    let next = |numbers: &mut std::ops::RangeFrom<usize>| numbers.next().unwrap_or_default();
    let each = args.iter().enumerate().map(|(i, x)| {
        Ok(if elements > 1 && x.layout().numel() == 1 {
            Source::One { number: next(&mut numbers), element: base(x)? }
        } else if x.is_aliased() && last.contains(&FusedValue::Input(i)) {
            Source::Overwritten { address: next(&mut addresses), copy: next(&mut copies) }
        } else {
            Source::Moving(next(&mut addresses))
        })
    });
    each.collect()
}

/// Gives each step's result a slot, which others may have once nobody needs it any more; the number of slots.
fn slots(fused: &FusedPointwise) -> (SmallVec<[usize; 8]>, usize) {
    let steps = fused.steps();
    let mut last_use: SmallVec<[usize; 8]> = SmallVec::from_elem(0, steps.len());
    for (i, step) in steps.iter().enumerate() {
        for arg in step.args() {
            if let FusedValue::Step(j) = arg {
                last_use[*j] = i;
            }
        }
    }
    let mut free: SmallVec<[usize; 8]> = SmallVec::new();
    let mut slots: SmallVec<[usize; 8]> = SmallVec::new();
    let mut count = 0;
    for (i, step) in steps.iter().enumerate() {
        // The result is written while the arguments are read.
        slots.push(if i + 1 == steps.len() {
            0
        } else {
            free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            })
        });
        let mut done: SmallVec<[usize; 3]> = SmallVec::new();
        for arg in step.args() {
            if let FusedValue::Step(j) = *arg
                && last_use[j] == i
                && !done.contains(&slots[j])
            {
                done.push(slots[j]);
            }
        }
        free.extend(done);
    }
    (slots, count)
}
