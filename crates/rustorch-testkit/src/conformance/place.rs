//! Running an operation on a backend: arguments that may alias, outputs that may go into other operands' memory.

use super::Argument;
use rustorch_core::{
    Backend, Buffer, DType, Fault, Layout, Op, OutputMeta, Shape, View, ViewMut, packed_bytes, run_checked,
};

/// Where a result goes.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// How it lies there; its shape is the result's.
    pub(super) layout: Layout,
    /// Whose memory that is.
    pub(super) memory: Memory,
}

/// Memory for a result.
#[derive(Clone, Debug)]
pub(super) enum Memory {
    /// Its own, of the size that it takes.
    Fresh,
    /// Its own, with more bytes than it takes, which must stay as they are.
    Larger(Vec<u8>),
    /// That of an argument, beside whose elements it lies, or which it overwrites element for element.
    Argument(usize),
}

impl Place {
    /// Memory of its own.
    pub(super) fn fresh(out: &OutputMeta) -> Place {
        Place { layout: Layout::contiguous(out.shape.clone()), memory: Memory::Fresh }
    }

    /// An argument's, element for element.
    pub(super) fn argument(i: usize, argument: &Argument) -> Place {
        Place { layout: argument.layout.clone(), memory: Memory::Argument(i) }
    }
}

/// What an operation left.
pub(super) struct Left {
    /// The elements of each result, in row-major order.
    pub(super) results: Vec<Vec<u8>>,
    /// What it wrote that it should not have, if anything.
    pub(super) spoilt: Option<String>,
}

/// Runs an operation. Argument `i` is in the memory of argument `shares[i]`, whose bytes are the same.
pub(super) fn run(
    op: &Op,
    args: &[Argument],
    shares: &[usize],
    outs: &[OutputMeta],
    places: &[Place],
    backend: &dyn Backend,
) -> Result<Left, Fault> {
    let mut buffers: Vec<Option<Buffer>> = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let own = shares.get(i).is_none_or(|&of| of == i);
        buffers.push(if own { Some(filled(&arg.bytes, backend)?) } else { None });
    }
    let buffer = |i: usize| {
        let of = shares.get(i).copied().unwrap_or(i);
        buffers[of].as_ref().expect("a shared memory belongs to the first argument in it")
    };
    let size = |out: &OutputMeta| packed_bytes(out.dtype, out.shape.numel());
    let own: Vec<Option<Buffer>> = outs
        .iter()
        .zip(places)
        .map(|(out, place)| match &place.memory {
            Memory::Fresh => backend.alloc(size(out)).map(Some),
            Memory::Larger(bytes) => filled(bytes, backend).map(Some),
            Memory::Argument(_) => Ok(None),
        })
        .collect::<Result<_, Fault>>()?;
    let overwritten = |i: usize, arg: &Argument| {
        let here = |place: &Place| matches!(place.memory, Memory::Argument(of) if of == i);
        let same = |out: &OutputMeta, place: &Place| out.dtype == arg.dtype && place.layout == arg.layout;
        // Without elements a result beside the argument's may have its layout.
        arg.layout.numel() > 0 && outs.iter().zip(places).any(|(out, place)| here(place) && same(out, place))
    };
    let home = |i: usize| match &places[i].memory {
        Memory::Argument(arg) => buffer(*arg),
        _ => own[i].as_ref().expect("results have memory of their own or an argument's"),
    };
    {
        let views: Vec<View<'_>> = args
            .iter()
            .enumerate()
            // SAFETY: every byte was written, with values of the dtype where the layout reaches, and cases' layouts stay
            // inside.
            .map(|(i, arg)| unsafe {
                match overwritten(i, arg) {
                    true => View::aliased(buffer(i), arg.dtype, &arg.layout),
                    false => View::new(buffer(i), arg.dtype, &arg.layout),
                }
            })
            .collect();
        let mut targets: Vec<ViewMut<'_>> = outs
            .iter()
            .zip(places)
            .enumerate()
            // SAFETY: memory of the layout's size, of which nobody else uses what the layout reaches.
            .map(|(i, (out, place))| unsafe { ViewMut::from_shared(home(i), out.dtype, &place.layout) })
            .collect();
        run_checked(backend, op, &views, &mut targets)?;
    }
    let mut left = Left { results: Vec::new(), spoilt: None };
    for (i, (out, place)) in outs.iter().zip(places).enumerate() {
        let bytes = contents(home(i), backend)?;
        let before = match &place.memory {
            Memory::Fresh => {
                left.results.push(bytes);
                continue;
            }
            Memory::Larger(before) => before,
            Memory::Argument(arg) => &args[*arg].bytes,
        };
        let size = out.dtype.block_bytes();
        let elements = place.layout.indices();
        left.results.push(elements.flat_map(|at| &bytes[at * size..(at + 1) * size]).copied().collect());
        let mut ours = vec![false; bytes.len()];
        for (other, own) in outs.iter().zip(places).enumerate().filter_map(|(j, (other, own))| {
            let same = match (&own.memory, &place.memory) {
                (Memory::Argument(a), Memory::Argument(b)) => a == b,
                _ => i == j,
            };
            same.then_some((other, own))
        }) {
            let size = other.dtype.block_bytes();
            own.layout.indices().for_each(|at| ours[at * size..(at + 1) * size].fill(true));
        }
        let beside = (0..bytes.len()).find(|&at| !ours[at] && bytes[at] != before[at]);
        left.spoilt = left.spoilt.or_else(|| {
            beside.map(|at| {
                format!("result {i}: byte {at} beside it is {:#04x}, was {:#04x}", bytes[at], before[at])
            })
        });
    }
    // Where results have places of their own, arguments are looked at, too.
    if places.iter().any(|place| !matches!(place.memory, Memory::Fresh)) {
        for (i, arg) in args.iter().enumerate() {
            let own = shares.get(i).is_none_or(|&of| of == i);
            let written = places.iter().any(|place| matches!(place.memory, Memory::Argument(of) if of == i));
            if own && !written && contents(buffer(i), backend)? != arg.bytes {
                left.spoilt = left.spoilt.or_else(|| Some(format!("argument {i} was written")));
            }
        }
    }
    Ok(left)
}

/// A buffer of just these bytes.
fn filled(bytes: &[u8], backend: &dyn Backend) -> Result<Buffer, Fault> {
    let mut buffer = backend.alloc(bytes.len())?;
    if !bytes.is_empty() {
        let layout = flat(bytes.len())?;
        // SAFETY: the buffer has the size of the bytes, and the flat layout reaches just these.
        backend.copy_in(bytes, &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &layout) })?;
    }
    Ok(buffer)
}

/// All bytes of a buffer.
fn contents(buffer: &Buffer, backend: &dyn Backend) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; buffer.bytes()];
    if !bytes.is_empty() {
        let layout = flat(bytes.len())?;
        // SAFETY: it was filled, or a backend that ran has written every element.
        backend.copy_out(&unsafe { View::new(buffer, DType::U8, &layout) }, &mut bytes)?;
    }
    Ok(bytes)
}

/// A layout of so many bytes.
fn flat(bytes: usize) -> Result<Layout, Fault> {
    Ok(Layout::contiguous(Shape::new([bytes].as_slice())?))
}
