//! From an operation to launches: which kernels, over which memory, with which numbers.

use crate::family::weight::Rounded;
use crate::{Hardware, Kernel};
use rustorch_core::{DType, Decline, Layout, Op, TensorMeta};
use smallvec::SmallVec;
use std::ops::Range;

/// The launches that do an operation.
#[derive(Debug, Default)]
pub struct Plan {
    /// Bytes of each piece of temporary memory.
    pub scratch: SmallVec<[usize; 2]>,
    /// What runs, in order.
    pub steps: SmallVec<[Step; 2]>,
    /// Activations that are rounded already, by where they lie in the first argument: for the next piece of a product.
    pub(crate) rounded: SmallVec<[(Layout, Rounded); 1]>,
    /// Choices of experts that are grouped already, by where they lie in the third argument, and their tiles.
    pub(crate) grouped: SmallVec<[(Layout, Place); 1]>,
}

/// One launch.
#[derive(Debug)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// The memory that it sees, in the order of its bindings.
    pub bindings: SmallVec<[Binding; 6]>,
    /// Its parameter block, padded to whole vectors of four words.
    pub parameters: SmallVec<[u32; 32]>,
    /// Workgroups by dimension.
    pub groups: [u32; 3],
    /// Whether other operations are likely to need what it makes: one piece of temporary memory, of arguments alone. Where that
    /// is still there, the step is left out, unless another step makes something else in the same memory.
    pub kept: bool,
}

/// Memory that a kernel sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whose memory.
    pub place: Place,
    /// The first byte, aligned as the device's windows must be.
    pub start: u64,
    /// The end in bytes, rounded up to a word.
    pub end: u64,
    /// Whether it is written.
    pub writes: bool,
}

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An argument's.
    Arg(usize),
    /// A result's.
    Out(usize),
    /// A temporary's.
    Scratch(usize),
    /// The engine's mistakes: see [`Mistake`](crate::Mistake).
    Mistakes,
}

/// A tensor that a kernel reads or writes: where, and how it lies there.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Whose memory.
    pub place: Place,
    /// The dtype.
    pub dtype: DType,
    /// Shape, strides and offset.
    pub layout: &'a Layout,
}

/// What planning an operation has to go by.
pub struct Request<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Its arguments.
    pub args: &'a [TensorMeta<'a>],
    /// Its results: contiguous, but for a product's, whose rows are, and a pointwise function's or a rotation's, which may
    /// have gaps between rows of whole words.
    pub outs: &'a [TensorMeta<'a>],
    /// The device.
    pub hardware: &'a Hardware,
    /// What part of an operation it is.
    pub(crate) part: Part<'a>,
}

/// What part of an operation on large operands a request is. Its arguments and results are those of the part.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// Where its first result is among those of the whole.
    pub(crate) first: usize,
    /// The whole, if it is not this. What decides in which order numbers are added goes by it.
    pub(crate) whole: Option<&'a Request<'a>>,
    /// What it has of the dimension of an argument along which indices choose, if not all. Kernels leave results alone whose
    /// index is of another part.
    pub(crate) chosen: Option<Chosen>,
    /// Where it lies in dimensions along which results share elements of the first argument.
    pub(crate) corner: Corner,
}

/// The first position of a part in depth, height and width.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Corner {
    /// In those of the whole's first result.
    pub(crate) target: [usize; 3],
    /// In those of the whole's first argument.
    pub(crate) source: [usize; 3],
}

/// A part of a dimension along which indices choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    /// The first index.
    pub(crate) first: usize,
    /// How many there are.
    pub(crate) len: usize,
    /// How many there are in the whole.
    pub(crate) whole: usize,
}

impl<'a> Request<'a> {
    /// A whole operation.
    pub fn new(
        op: &'a Op,
        args: &'a [TensorMeta<'a>],
        outs: &'a [TensorMeta<'a>],
        hardware: &'a Hardware,
    ) -> Request<'a> {
        let part = Part { first: 0, whole: None, chosen: None, corner: Corner::default() };
        Request { op, args, outs, hardware, part }
    }

    /// The operation that it is a part of, which may be itself.
    pub(crate) fn whole(&self) -> &Request<'a> {
        self.part.whole.unwrap_or(self)
    }

    /// Argument `i`.
    pub fn arg(&self, i: usize) -> Operand<'a> {
        let TensorMeta { dtype, layout, .. } = self.args[i];
        Operand { place: Place::Arg(i), dtype, layout }
    }

    /// Result `i`.
    pub fn out(&self, i: usize) -> Operand<'a> {
        let TensorMeta { dtype, layout, .. } = self.outs[i];
        Operand { place: Place::Out(i), dtype, layout }
    }
}

impl Plan {
    /// Room for `bytes` of temporary data.
    pub fn scratch(&mut self, bytes: usize) -> Place {
        self.scratch.push(bytes);
        Place::Scratch(self.scratch.len() - 1)
    }

    /// Adds a launch.
    pub fn step(&mut self, step: StepBuilder<'_>, groups: [u32; 3]) {
        let StepBuilder { kernel, bindings, mut parameters, .. } = step;
        parameters.resize(parameters.len().next_multiple_of(4).max(4), 0);
        self.steps.push(Step { kernel, bindings, parameters, groups, kept: false });
    }

    /// Adds a launch that is [kept](Step::kept).
    pub fn kept_step(&mut self, step: StepBuilder<'_>, groups: [u32; 3]) {
        self.step(step, groups);
        self.steps.last_mut().expect("it was added").kept = true;
    }
}

/// Collects what a launch is made of: the bindings and parameters in the order in which the kernel's text names them.
pub struct StepBuilder<'h> {
    hardware: &'h Hardware,
    kernel: Kernel,
    bindings: SmallVec<[Binding; 6]>,
    parameters: SmallVec<[u32; 32]>,
}

impl<'h> StepBuilder<'h> {
    /// A launch of `kernel`.
    pub fn new(hardware: &'h Hardware, kernel: impl Into<Kernel>) -> StepBuilder<'h> {
        let (bindings, parameters) = (SmallVec::new(), SmallVec::new());
        StepBuilder { hardware, kernel: kernel.into(), bindings, parameters }
    }

    /// Binds the elements of a tensor that is read; returns where its first element is, in elements (values of a block
    /// type) from the start of the binding.
    pub fn read(&mut self, x: &Operand<'_>) -> Result<u32, Decline> {
        self.bind(x, false)
    }

    /// Binds the elements of a tensor that is written; returns as [`read`](Self::read) does.
    pub fn write(&mut self, x: &Operand<'_>) -> Result<u32, Decline> {
        self.bind(x, true)
    }

    fn bind(&mut self, x: &Operand<'_>, writes: bool) -> Result<u32, Decline> {
        let (size, len) = (x.dtype.block_bytes() as u64, x.dtype.block_len() as u64);
        if x.layout.elements() == 0 {
            // It has no bytes, and its offset may lie behind the buffer, of which the least one has these. None is read.
            self.bytes(x.place, 0..16, writes)?;
            return Ok(0);
        }
        let at = x.layout.offset() as u64 / len * size;
        let end = (x.layout.end() as u64).div_ceil(len) * size;
        let start = self.bytes(x.place, at..end, writes)?;
        let offset = (at - start) / size * len;
        u32::try_from((end - start) / size * len)
            .map_err(|_| Decline::Attr("more than 2³² elements in one buffer"))?;
        if !(at - start).is_multiple_of(size) {
            return Err(Decline::Layout("blocks do not begin where the device's windows may"));
        }
        Ok(offset as u32)
    }

    /// Binds a range of bytes; returns the first byte of the binding, which may lie before the range.
    pub fn bytes(&mut self, place: Place, range: Range<u64>, writes: bool) -> Result<u64, Decline> {
        let start = match self.hardware.window {
            Some(align) => range.start / u64::from(align) * u64::from(align),
            None => 0,
        };
        let end = range.end.next_multiple_of(4);
        if end - start > self.hardware.max_binding {
            return Err(Decline::Attr("an operand is larger than what the device's kernels see at once"));
        }
        self.bindings.push(Binding { place, start, end, writes });
        Ok(start)
    }

    /// Adds a word to the parameters.
    pub fn word(&mut self, value: u32) -> &mut Self {
        self.parameters.push(value);
        self
    }

    /// Adds a number that must fit a word: a length, a stride.
    pub fn number(&mut self, value: usize) -> Result<&mut Self, Decline> {
        let value =
            u32::try_from(value).map_err(|_| Decline::Attr("a dimension of more than 2³² elements"))?;
        Ok(self.word(value))
    }

    /// Adds an `f32` to the parameters.
    pub fn float(&mut self, value: f32) -> &mut Self {
        self.word(value.to_bits())
    }

    /// The device.
    pub(crate) fn hardware(&self) -> &'h Hardware {
        self.hardware
    }

    /// Words so far.
    pub fn words(&self) -> usize {
        self.parameters.len()
    }
}

/// So many workgroups in a line, folded where a device has a limit. The kernel finds its place by
/// [`crate::wgsl::LINEAR_GROUP`].
pub fn line(groups: usize, hardware: &Hardware) -> Result<[u32; 3], Decline> {
    let limit = hardware.groups as usize;
    let x = groups.clamp(1, limit);
    let y = groups.div_ceil(x).max(1);
    if y > limit {
        return Err(Decline::Attr("more work than one launch takes"));
    }
    Ok([x as u32, y as u32, 1])
}
