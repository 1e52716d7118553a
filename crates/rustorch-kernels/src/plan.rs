//! Plans: the kernel launches of an operation, with their bindings and parameters.

pub(crate) mod parameters;

use crate::Hardware;
use crate::wgsl::vectors::VECTOR_BYTES;
use parameters::Parameter;
use rustorch_core::{DType, Decline, Layout, Op, TensorMeta};
use smallvec::SmallVec;
use std::ops::Range;

/// The launches that compute an operation, with kernels of type `K`.
#[derive(Debug)]
pub struct Plan<K> {
    /// Sizes of the scratch buffers in bytes.
    pub scratch: SmallVec<[usize; 2]>,
    /// The launches, in order.
    pub steps: SmallVec<[Step<K>; 2]>,
    /// Activations that were already quantized, by their layout in the first argument: for the next chunk.
    pub(crate) quantized: SmallVec<[(Layout, QuantizedActivations); 1]>,
    /// Expert ids that were already grouped, by their layout in the third argument, and their tiles.
    pub(crate) grouped: SmallVec<[(Layout, Place); 1]>,
}

/// One launch.
#[derive(Debug)]
pub struct Step<K> {
    /// Kernel key: everything its source depends on.
    pub kernel: K,
    /// Buffer bindings, in the order of the WGSL bindings.
    pub bindings: SmallVec<[Binding; 6]>,
    /// The parameter block, padded to multiples of four words.
    pub parameters: SmallVec<[u32; 32]>,
    /// Workgroups by dimension.
    pub groups: [u32; 3],
    /// Whether the result is cached because other operations are likely to need it: a scratch buffer that depends on arguments
    /// alone. If it is still cached, the step is skipped, unless another step writes something else to the same buffer.
    pub cached: bool,
}

/// A buffer binding of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whose memory.
    pub place: Place,
    /// The first byte, aligned as the device's windows must be.
    pub start: u64,
    /// The end in bytes, rounded up to a word or a vector.
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
    /// The engine's assert log: see `device_assert.rs`.
    AssertLog,
}

/// A tensor that a kernel reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Whose memory.
    pub place: Place,
    /// The dtype.
    pub dtype: DType,
    /// Shape, strides and offset.
    pub layout: &'a Layout,
}

/// Quantized activations: offsets of the parts in the scratch buffer, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuantizedActivations {
    pub(crate) place: Place,
    pub(crate) rows: usize,
    /// Scales.
    pub(crate) d: usize,
    /// Sums of 16 levels.
    pub(crate) sums: usize,
    /// Scaled sums of 32 levels.
    pub(crate) s: usize,
    pub(crate) words: usize,
}

/// An operation to plan.
pub struct Request<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Its arguments.
    pub args: &'a [TensorMeta<'a>],
    /// Its results: contiguous, except for those of matmul (rows at a constant pitch) and of pointwise functions and RoPE (rows of
    /// whole words, possibly with gaps).
    pub outs: &'a [TensorMeta<'a>],
    /// The device.
    pub hardware: &'a Hardware,
    /// Which results are in the place of the arguments that they overwrite; none if empty.
    pub(crate) in_place: &'a [bool],
    /// Which chunk of an operation it is.
    pub(crate) part: Part<'a>,
}

/// The chunk of a larger operation that a request stands for. Arguments and results are those of the chunk.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// Where its first result is among those of the whole.
    pub(crate) first: usize,
    /// The whole operation, unless this is it. It decides the order of accumulation.
    pub(crate) whole: Option<&'a Request<'a>>,
    /// The range of the indexed dimension in this chunk, if not all. Kernels skip results whose index is in another chunk.
    pub(crate) chosen: Option<Chosen>,
    /// Its position in dimensions whose results share elements of the first argument.
    pub(crate) corner: Corner,
}

/// The first position of a chunk in depth, height and width.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Corner {
    /// In those of the whole's first result.
    pub(crate) target: [usize; 3],
    /// In those of the whole's first argument.
    pub(crate) source: [usize; 3],
}

/// A range of an indexed dimension.
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
        Request { op, args, outs, hardware, in_place: &[], part }
    }

    /// The operation that it is a part of, which may be itself.
    pub(crate) fn whole(&self) -> &Request<'a> {
        self.part.whole.unwrap_or(self)
    }

    /// Whether result `i` is in the place of the argument that it overwrites.
    pub(crate) fn is_in_place(&self, i: usize) -> bool {
        self.in_place.get(i).copied().unwrap_or(false)
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

impl<K> Default for Plan<K> {
    fn default() -> Plan<K> {
        let (scratch, steps) = (SmallVec::new(), SmallVec::new());
        Plan { scratch, steps, quantized: SmallVec::new(), grouped: SmallVec::new() }
    }
}

impl<K> Plan<K> {
    /// Adds a scratch buffer.
    pub fn scratch(&mut self, bytes: usize) -> Place {
        self.scratch.push(bytes);
        Place::Scratch(self.scratch.len() - 1)
    }

    /// Adds a launch.
    pub fn step(&mut self, step: StepBuilder<'_, K>, groups: [u32; 3]) {
        let StepBuilder { kernel, bindings, mut parameters, .. } = step;
        parameters.resize(parameters.len().next_multiple_of(4).max(4), 0);
        self.steps.push(Step { kernel, bindings, parameters, groups, cached: false });
    }

    /// Adds a launch whose parameter block has so many words, of which these are the first.
    pub(crate) fn exact_step(
        &mut self,
        step: StepBuilder<'_, K>,
        parameters: impl Iterator<Item = u32>,
        words: usize,
        groups: [u32; 3],
    ) {
        let mut parameters: SmallVec<[u32; 32]> = parameters.collect();
        parameters.resize(words, 0);
        let StepBuilder { kernel, bindings, .. } = step;
        self.steps.push(Step { kernel, bindings, parameters, groups, cached: false });
    }

    /// Adds a launch whose result is [cached](Step::cached).
    pub fn cached_step(&mut self, step: StepBuilder<'_, K>, groups: [u32; 3]) {
        self.step(step, groups);
        self.steps.last_mut().expect("it was added").cached = true;
    }
}

/// Builds a launch: the bindings in the order in which the WGSL declares them, and the parameters.
pub struct StepBuilder<'h, K> {
    hardware: &'h Hardware,
    kernel: K,
    bindings: SmallVec<[Binding; 6]>,
    parameters: SmallVec<[u32; 32]>,
    /// Bytes at whose multiples bindings end.
    unit: u64,
}

impl<'h, K> StepBuilder<'h, K> {
    /// A launch of `kernel`.
    pub fn new(hardware: &'h Hardware, kernel: impl Into<K>) -> StepBuilder<'h, K> {
        let (bindings, parameters) = (SmallVec::new(), SmallVec::new());
        StepBuilder { hardware, kernel: kernel.into(), bindings, parameters, unit: 4 }
    }

    /// The launch of a kernel whose buffers are arrays of [vectors](crate::wgsl::vectors): bindings end with whole ones, as memory
    /// does, since WebGPU does not let kernels see a part of the last.
    pub fn of_vectors(hardware: &'h Hardware, kernel: impl Into<K>) -> StepBuilder<'h, K> {
        StepBuilder { unit: VECTOR_BYTES as u64, ..StepBuilder::new(hardware, kernel) }
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
        if x.layout.numel() == 0 {
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
        let end = range.end.next_multiple_of(self.unit);
        if end - start > self.hardware.max_binding {
            return Err(Decline::Attr("an operand is larger than what the device's kernels see at once"));
        }
        self.bindings.push(Binding { place, start, end, writes });
        Ok(start)
    }

    /// Adds a word to the parameters.
    fn word(&mut self, value: u32) {
        self.parameters.push(value);
    }

    /// Gives the kernel's parameters.
    pub(crate) fn parameters(&mut self, parameters: &impl Parameter) -> Result<(), Decline> {
        parameters.write(self)
    }
}

/// A one-dimensional grid of workgroups, folded into two dimensions beyond the device's limit. Kernels compute their index by
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
