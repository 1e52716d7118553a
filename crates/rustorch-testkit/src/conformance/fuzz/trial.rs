//! A random case, and where its arguments and outputs are.

use super::super::place::{self, Left, Memory, Place};
use super::super::{Argument, Case, Outcome, compare, metas};
use super::draw::Draw;
use rustorch_core::{Backend, DType, Device, Fault, OutputMeta, Outputs};
use std::fmt;

/// A case, and where its arguments and results are.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) case: Case,
    /// For each argument, the first one in the same memory.
    pub(crate) shares: Vec<usize>,
    /// For each result, its place.
    pub(crate) places: Vec<Place>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        if self.shares.iter().enumerate().any(|(i, &of)| i != of) {
            write!(f, ", in memories {:?}", self.shares)?;
        }
        for place in &self.places {
            let (strides, offset) = (place.layout.strides(), place.layout.offset());
            match &place.memory {
                Memory::Fresh => {}
                Memory::Larger(bytes) => {
                    write!(f, ", into {} bytes (strides {strides:?} from {offset})", bytes.len())?
                }
                Memory::Argument(i) => write!(f, ", into argument {i} (strides {strides:?} from {offset})")?,
            }
        }
        Ok(())
    }
}

impl Trial {
    /// Draws the places.
    pub(super) fn around(mut case: Case, draw: &mut Draw) -> Trial {
        let apart = (0..case.args.len()).collect();
        let mut shares = if draw.simpler.packed { apart } else { share(&mut case.args, draw) };
        // An argument may be one that the operation takes in another arrangement than its neighbour's.
        if case.op.infer(&metas(&case.args, Device::CPU)).is_err() {
            case.args.iter_mut().for_each(|arg| *arg = arg.packed());
            shares = (0..case.args.len()).collect();
        }
        let outs = infer(&case);
        let places = outs.iter().map(|out| place(out, &mut case.args, &shares, draw)).collect();
        Trial { case, shares, places }
    }

    /// Runs it on `backend` and compares with `reference`, which gets packed arguments and fresh memory.
    pub(crate) fn check(&self, backend: &dyn Backend, reference: &dyn Backend, ordered: bool) -> Outcome {
        let Case { op, args } = &self.case;
        let metas = metas(args, backend.device());
        let outs = match op.infer(&metas) {
            Ok(outs) => outs,
            Err(error) => return Outcome::Unknown(error.into()),
        };
        if let Err(decline) = backend.supports(op, &metas) {
            return Outcome::Declined(decline);
        }
        let packed: Vec<Argument> = args.iter().map(Argument::packed).collect();
        let fresh: Vec<Place> = outs.iter().map(Place::fresh).collect();
        let want = place::run(op, &packed, &[], &outs, &fresh, reference);
        let got = place::run(op, args, &self.shares, &outs, &self.places, backend);
        match (want, got) {
            (Ok(want), Ok(got)) => self.compare(&outs, &got, &want, ordered),
            // A mistake that the reference sees the device must see, too.
            (Err(Fault::Invalid(_)), Err(Fault::Invalid(_))) => Outcome::Agreed,
            (Err(Fault::Invalid(_)), Ok(_)) if outs.iter().all(|out| out.shape.numel() == 0) => {
                Outcome::Agreed
            }
            (Err(fault), _) => Outcome::Unknown(fault),
            (Ok(_), Err(fault)) => Outcome::Failed(fault),
        }
    }

    fn compare(&self, outs: &[OutputMeta], got: &Left, want: &Left, ordered: bool) -> Outcome {
        for ((got, want), out) in got.results.iter().zip(&want.results).zip(outs) {
            if let Some(how) = compare::difference(&self.case, out.dtype, got, want, ordered) {
                return Outcome::Different(how);
            }
        }
        got.spoilt.clone().map_or(Outcome::Agreed, Outcome::Different)
    }
}

fn infer(case: &Case) -> Outputs {
    case.op.infer(&metas(&case.args, Device::CPU)).expect("what was drawn was accepted")
}

/// Puts neighbours among the arguments into one memory, now and then: beside each other, or one over the other.
fn share(args: &mut [Argument], draw: &mut Draw) -> Vec<usize> {
    let mut shares: Vec<usize> = (0..args.len()).collect();
    for i in 1..args.len() {
        let (how, pad) = (draw.fine.below(100), draw.fine.below(9));
        let free = shares[i - 1] == i - 1 && !args[i - 1].dtype.is_quant() && !args[i].dtype.is_quant();
        if how >= 15 || !free {
            continue;
        }
        let (first, second) = (args[i - 1].clone(), args[i].clone());
        if how < 3 && first.dtype == second.dtype && first.layout.dims() == second.layout.dims() {
            // The very same.
            args[i] = first;
        } else {
            let size = second.dtype.block_bytes();
            let mut bytes = first.bytes;
            bytes.resize((bytes.len() + pad).next_multiple_of(size), 0xA5);
            let at = bytes.len() / size;
            bytes.extend_from_slice(&second.bytes);
            let offset = second.layout.offset() + at;
            args[i].layout = second.layout.at_offset(offset).expect("offsets of cases are small");
            args[i].bytes.clone_from(&bytes);
            args[i - 1].bytes = bytes;
        }
        shares[i] = i - 1;
    }
    shares
}

/// Where a result goes: mostly into memory of its own, else into a view of larger memory, or beside an argument.
fn place(out: &OutputMeta, args: &mut [Argument], shares: &[usize], draw: &mut Draw) -> Place {
    let (how, seed) = (draw.fine.below(100), draw.fine.next());
    let dims: Vec<usize> = out.shape.to_vec();
    let (layout, elements) = draw.arrange(&dims, false);
    if how < 45 || draw.simpler.fresh || out.dtype.is_quant() {
        return Place::fresh(out);
    }
    let size = out.dtype.block_bytes();
    let random = |bytes: usize| super::super::values::bytes(DType::U8, bytes, seed, 0.0, 255.9);
    let alone = |i: usize| {
        !args[i].dtype.is_quant() && !shares.iter().enumerate().any(|(j, &of)| j != of && (j == i || of == i))
    };
    let host = (0..args.len()).find(|&i| alone(i)).filter(|_| how >= 85 && !draw.simpler.packed);
    if let Some(i) = host {
        // Right behind the argument's bytes, in the same word where elements are small.
        let bytes = &mut args[i].bytes;
        let at = bytes.len().div_ceil(size);
        bytes.resize((at + elements) * size, 0x5A);
        let own = args[i].dtype.block_bytes();
        let whole = args[i].bytes.len().next_multiple_of(own);
        args[i].bytes.resize(whole, 0x5A);
        let offset = layout.offset() + at;
        let layout = layout.at_offset(offset).expect("offsets of cases are small");
        return Place { layout, memory: Memory::Argument(i) };
    }
    Place { layout, memory: Memory::Larger(random(elements * size)) }
}
