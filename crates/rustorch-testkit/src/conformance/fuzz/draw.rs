//! Random draws: values, lengths, shapes, layouts.

use super::super::values;
use super::super::{Argument, Case};
use rustorch_core::{DType, DTypeKind, Device, Layout, Op, Shape, TensorMeta};

/// Random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True in so many of 100 cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }

    /// Between two numbers.
    pub(super) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// What makes a case simpler without making it another one: the way to a short failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simpler {
    /// No length is larger.
    pub largest: usize,
    /// Arguments are packed, each in its own memory.
    pub packed: bool,
    /// Results have memory of their own.
    pub fresh: bool,
    /// No zeros, infinities, NaN and the like among ordinary numbers.
    pub tame: bool,
}

impl Simpler {
    /// As it was drawn.
    pub const NOT: Simpler = Simpler { largest: usize::MAX, packed: false, fresh: false, tame: false };
}

/// Where functions change their way: around the edges of tiles, groups and words, and primes.
const EDGES: &[usize] = &[
    11, 13, 15, 16, 17, 19, 23, 29, 31, 32, 33, 37, 47, 48, 49, 61, 63, 64, 65, 67, 97, 127, 128, 129, 130,
    255, 256, 257,
];

/// What special numbers there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    None,
    /// Zeros of both signs.
    Zeros,
    /// Zeros and subnormal numbers.
    Subnormal,
    /// These and the ends of the range, but no infinities.
    Finite,
    /// Zeros, infinities and NaN.
    NotFinite,
    /// Zeros, subnormal numbers, infinities and NaN.
    Infinite,
    /// All of these.
    All,
}

/// Which values an argument has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    least: f64,
    most: f64,
    /// Rounded to a multiple of this, unless 0.
    step: f64,
    special: Special,
    nonzero: bool,
}

impl Numbers {
    pub(super) const fn within(least: f64, most: f64) -> Numbers {
        Numbers { least, most, step: 0.0, special: Special::None, nonzero: false }
    }

    /// Quarters up to 2: sums of thousands of their products are exact in `f32`, in any order.
    pub(super) const GRID: Numbers = Numbers { step: 0.25, ..Numbers::within(-2.0, 2.0) };

    pub(super) const fn with(self, special: Special) -> Numbers {
        Numbers { special, ..self }
    }

    /// Whole numbers.
    pub(super) const fn whole(self) -> Numbers {
        Numbers { step: 1.0, ..self }
    }

    /// No zeros.
    pub(super) const fn nonzero(self) -> Numbers {
        Numbers { nonzero: true, ..self }
    }
}

/// Draws a case. One stream of random numbers decides which kernels it needs, another one the rest.
pub(super) struct Draw {
    pub(super) kind: Rng,
    pub(super) fine: Rng,
    pub(super) simpler: Simpler,
    /// Whether this case may have special numbers.
    special: bool,
}

impl Draw {
    pub(super) fn new(kind: u64, fine: u64, simpler: Simpler) -> Draw {
        let mut fine = Rng::new(fine);
        let special = fine.chance(40);
        Draw { kind: Rng::new(kind), fine, simpler, special: special && !simpler.tame }
    }

    /// A length, at most so many.
    pub(super) fn len(&mut self, most: usize) -> usize {
        let fine = &mut self.fine;
        let (how, small, edge, large) =
            (fine.below(100), 2 + fine.below(8), fine.pick(EDGES), fine.below(4000));
        let n = match how {
            0..3 => 0,
            3..13 => 1,
            13..60 => small,
            60..90 => edge,
            90..98 => 10 + large % 300,
            _ => 1000 + large,
        };
        // What does not fit is folded, so that lengths near the limit are not all the same.
        let n = if n > most { 1 + n % most.max(1) } else { n };
        n.min(self.simpler.largest)
    }

    /// A length that is not 0.
    pub(super) fn some(&mut self, most: usize) -> usize {
        self.len(most).max(1)
    }

    /// How many dimensions.
    pub(super) fn ndim(&mut self, least: usize, most: usize) -> usize {
        const RANKS: &[usize] = &[0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6];
        let drawn = self.kind.pick(RANKS);
        if (least..=most).contains(&drawn) { drawn } else { least + drawn % (most - least + 1) }
    }

    /// The lengths of `rank` dimensions with at most so many elements in all.
    pub(super) fn dims(&mut self, ndim: usize, most: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..ndim).collect();
        self.fine.shuffle(&mut order);
        let (mut dims, mut room) = (vec![1; ndim], most);
        for axis in order {
            dims[axis] = self.len(room.max(1));
            room /= dims[axis].max(1);
        }
        dims
    }

    /// Shape of an operand that broadcasts to `dims`.
    pub(super) fn narrower(&mut self, dims: &[usize]) -> Vec<usize> {
        let skip = if self.kind.chance(30) { self.kind.below(dims.len() + 1) } else { 0 };
        let one = self.kind.chance(40);
        dims[skip..].iter().map(|&len| if one && self.fine.chance(40) { 1 } else { len }).collect()
    }

    /// A view of this shape and the elements behind it. Only what is read may have elements in several places.
    pub(super) fn arrange(&mut self, dims: &[usize], read: bool) -> (Layout, usize) {
        let mut rng = Rng::new(self.fine.next());
        let how = rng.below(100);
        let shape = || Shape::new(dims).expect("shapes of cases are small");
        let packed = Layout::contiguous(shape());
        let elements = packed.numel();
        if how < 30 || self.simpler.packed && read {
            return (packed, elements);
        }
        let offset = match rng.below(4) {
            0 => 0,
            1 => rng.below(9),
            2 => 4 * rng.below(40),
            _ => rng.below(300),
        };
        let tail = rng.below(5);
        if how < 45 {
            let later = packed.at_offset(offset).expect("offsets of cases are small");
            return (later, offset + elements + tail);
        }
        let mut order: Vec<usize> = (0..dims.len()).rev().collect();
        if rng.chance(50) {
            rng.shuffle(&mut order);
        }
        let (mut strides, mut reach) = (vec![0; dims.len()], 0);
        for axis in order {
            let (way, factor, gap, any) = (rng.below(100), 2 + rng.below(2), 1 + rng.below(5), rng.next());
            strides[axis] = match way {
                _ if dims[axis] == 1 => any as usize % 7,
                0..10 if read => 0,
                10..16 if read => (any % (reach as u64 + 1)) as usize,
                16..32 => (reach + 1) * factor,
                32..48 => reach + 1 + gap,
                _ => reach + 1,
            };
            reach += dims[axis].saturating_sub(1) * strides[axis];
        }
        if elements == 0 {
            let layout =
                Layout::new(shape(), strides.as_slice(), offset).expect("strides of cases are small");
            return (layout, rng.below(3));
        }
        if reach > 300_000 {
            return (packed, elements);
        }
        let layout = Layout::new(shape(), strides.as_slice(), offset).expect("strides of cases are small");
        (layout, offset + reach + 1 + tail)
    }

    /// An argument of a dense dtype.
    pub(super) fn argument(&mut self, dtype: DType, dims: &[usize], numbers: Numbers) -> Argument {
        let (layout, elements) = self.arrange(dims, true);
        let seed = self.fine.next();
        let special = if self.special { numbers.special } else { Special::None };
        let mut rng = Rng::new(seed);
        let often = rng.pick(&[3, 10, 40]);
        let mut bytes = values::bytes(dtype, elements, seed, numbers.least, numbers.most);
        let size = dtype.block_bytes();
        for element in bytes.chunks_exact_mut(size) {
            if numbers.step != 0.0 {
                let x = values::decode(dtype, element)[0];
                let (re, im) = (
                    (x.re / numbers.step).round() * numbers.step,
                    (x.im / numbers.step).round() * numbers.step,
                );
                element.copy_from_slice(&values::encode(dtype, re, im));
            }
            if special != Special::None && rng.chance(often) {
                element.copy_from_slice(&extreme(dtype, special, &mut rng));
            }
            if numbers.nonzero && element.iter().all(|&byte| byte == 0) {
                element.copy_from_slice(&values::encode(dtype, 1.0, 0.0));
            }
        }
        Argument { dtype, layout, bytes }
    }

    /// Indices below a length, now and then with one that is not: a mistake that must be noticed.
    pub(super) fn indices(&mut self, dims: &[usize], below: usize) -> Argument {
        let dtype = self.kind.pick(&[DType::I32, DType::I64]);
        let mut ids = self.argument(dtype, dims, Numbers::within(0.0, below as f64 - 0.01));
        let (place, wrong) = (self.fine.next(), self.fine.pick(&[-1.0, below as f64, 2e9]));
        if self.mistake() && ids.layout.numel() != 0 {
            let at = ids.layout.indices().nth(place as usize % ids.layout.numel()).unwrap_or(0);
            let size = dtype.block_bytes();
            ids.bytes[at * size..(at + 1) * size].copy_from_slice(&values::encode(dtype, wrong, 0.0));
        }
        ids
    }

    /// Whether an argument may be wrong.
    pub(super) fn mistake(&mut self) -> bool {
        self.fine.chance(8) && self.special
    }

    /// A case, if the operation accepts the arguments.
    pub(super) fn case(&self, op: Op, args: Vec<Argument>) -> Option<Case> {
        let metas: Vec<TensorMeta<'_>> = args
            .iter()
            .map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device: Device::CPU })
            .collect();
        op.infer(&metas).is_ok().then_some(())?;
        Some(Case { op, args })
    }

    /// A dtype of some, the common ones more often.
    pub(super) fn dtype(&mut self, of: &[DType]) -> DType {
        let common: Vec<DType> = [DType::F32, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32]
            .into_iter()
            .filter(|dtype| of.contains(dtype))
            .collect();
        if !common.is_empty() && self.kind.chance(40) { self.kind.pick(&common) } else { self.kind.pick(of) }
    }
}

/// A special number of a dtype.
fn extreme(dtype: DType, special: Special, rng: &mut Rng) -> Vec<u8> {
    let float = |rng: &mut Rng, [tiny, least, most]: [f64; 3]| {
        let sign = rng.pick(&[1.0, -1.0]);
        let range = match special {
            Special::None | Special::Zeros => 5..6,
            Special::Subnormal => 3..6,
            Special::Finite => 0..6,
            Special::NotFinite => 5..8,
            Special::Infinite => 3..8,
            Special::All => 0..8,
        };
        let numbers = [least, most, 1.0, tiny, tiny * 5.0, 0.0, f64::INFINITY, f64::NAN];
        sign * numbers[range.start + rng.below(range.len())]
    };
    let ends = match dtype {
        DType::F16 => [2f64.powi(-24), 2f64.powi(-14), 65504.0],
        DType::BF16 => [2f64.powi(-133), 2f64.powi(-126), f64::from(f32::MAX) * (1.0 - 2f64.powi(-8))],
        DType::F32 | DType::C64 => [2f64.powi(-149), 2f64.powi(-126), f64::from(f32::MAX)],
        _ => [f64::from_bits(1), f64::MIN_POSITIVE, f64::MAX],
    };
    match dtype.kind() {
        DTypeKind::Float => {
            let x = float(rng, ends);
            values::encode(dtype, x, 0.0)
        }
        DTypeKind::Complex => {
            let (re, im) = (float(rng, ends), float(rng, ends));
            values::encode(dtype, re, im)
        }
        DTypeKind::Bool => vec![rng.below(2) as u8],
        _ => {
            let size = dtype.block_bytes();
            let (low, high) = ([0u8; 8], [0xff_u8; 8]);
            let mut bytes = [low, high][rng.below(2)][..size].to_vec();
            if special != Special::Zeros {
                // The least or the largest of signed numbers.
                if rng.chance(50) {
                    bytes[size - 1] ^= 0x80;
                }
            } else {
                bytes.fill(0);
            }
            bytes
        }
    }
}
