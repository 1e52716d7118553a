//! Random numbers, each a function of the key and its own position.

use super::strided::{fill_with, unreachable_memory};
use crate::ThreadPool;
use crate::math::{Real, Wide};
use crate::simd::{self, Level, Task};
use rustorch_core::{
    DType, Distribution, Fault, FromScalar, PhiloxKey, Random, Scalar, ViewMut, bf16, dispatch_dtype, f16,
    unit_f32, unit_f64,
};

/// Elements made at a time: sixteen blocks of four words, or 32 of two pairs.
const CHUNK: usize = 64;
/// Elements that make a thread worth its while.
const GRAIN: usize = 1 << 11;

pub(super) fn run(pool: &ThreadPool, random: &Random, out: &mut ViewMut<'_>) -> Result<(), Fault> {
    let key = random.key;
    match (random.distribution, out.dtype()) {
        (Distribution::Uniform { low, high }, DType::F64) => {
            chunks(pool, out, |at, out: &mut [f64; CHUNK]| {
                let below = high.next_down().max(low);
                pairs(key, at, out, |w| (low + (high - low) * unit_f64(w[0], w[1])).min(below));
            })
        }
        (Distribution::Uniform { low, high }, DType::F32) => uniform::<f32>(pool, key, low, high, out),
        (Distribution::Uniform { low, high }, DType::F16) => uniform::<f16>(pool, key, low, high, out),
        (Distribution::Uniform { low, high }, DType::BF16) => uniform::<bf16>(pool, key, low, high, out),
        (Distribution::Normal { mean, std }, DType::F64) => {
            chunks(pool, out, |at, out: &mut [f64; CHUNK]| {
                let mut units = [0.0; CHUNK];
                pairs(key, at, &mut units, |w| unit_f64(w[0], w[1]));
                simd::run(Normal { mean, std, units: &units, out });
            })
        }
        (Distribution::Normal { mean, std }, DType::F32) => normal::<f32>(pool, key, mean, std, out),
        (Distribution::Normal { mean, std }, DType::F16) => normal::<f16>(pool, key, mean, std, out),
        (Distribution::Normal { mean, std }, DType::BF16) => normal::<bf16>(pool, key, mean, std, out),
        (Distribution::Integer { low, high }, DType::I64) => {
            let range = high.wrapping_sub(low) as u64;
            chunks(pool, out, |at, out: &mut [i64; CHUNK]| {
                pairs(key, at, out, |w| {
                    let word = u128::from(w[1]) << 32 | u128::from(w[0]);
                    low.wrapping_add(((word * u128::from(range)) >> 64) as i64)
                });
            })
        }
        (Distribution::Integer { low, high }, DType::F64) => {
            let range = high.wrapping_sub(low) as u64;
            chunks(pool, out, |at, out: &mut [f64; CHUNK]| {
                pairs(key, at, out, |w| {
                    let word = u128::from(w[1]) << 32 | u128::from(w[0]);
                    low.wrapping_add(((word * u128::from(range)) >> 64) as i64) as f64
                });
            })
        }
        (Distribution::Integer { low, high }, _) => {
            let range = high.wrapping_sub(low) as u64;
            dispatch_dtype!(out.dtype(), [U8 I8 I16 I32 U32 F16 BF16 F32], T => {
                chunks(pool, out, |at, out: &mut [T; CHUNK]| {
                    for (out, word) in out.iter_mut().zip(words(key, at)) {
                        let value = ((u128::from(word) * u128::from(range)) >> 32) as i64;
                        *out = T::from_scalar(Scalar::Int(low.wrapping_add(value)));
                    }
                })
            }, _ => Err(unreachable_memory()))
        }
        (Distribution::Bernoulli { p }, DType::F64) => chunks(pool, out, |at, out: &mut [f64; CHUNK]| {
            pairs(key, at, out, |w| f64::from(u8::from(unit_f64(w[0], w[1]) < p)));
        }),
        (Distribution::Bernoulli { p }, _) => dispatch_dtype!(out.dtype(), all, T => {
            let values = [false, true].map(|b| T::from_scalar(Scalar::Bool(b)));
            chunks(pool, out, |at, out: &mut [T; CHUNK]| {
                for (out, word) in out.iter_mut().zip(words(key, at)) {
                    *out = values[usize::from(f64::from(unit_f32(word)) < p)];
                }
            })
        }, _ => Err(unreachable_memory())),
        (Distribution::Permutation {}, DType::I64) => match u32::try_from(out.layout().numel()) {
            Ok(n) => permutation(pool, key, (0..n).collect(), out),
            Err(_) => permutation(pool, key, (0..out.layout().numel() as i64).collect(), out),
        },
        _ => Err(unreachable_memory()),
    }
}

/// Writes numbers in random order, one exchange after the other.
fn permutation<I: Copy + Into<i64> + Sync>(
    pool: &ThreadPool,
    key: PhiloxKey,
    mut order: Vec<I>,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let mut words = [0u64; CHUNK];
    for i in (1..order.len()).rev() {
        if i % CHUNK == CHUNK - 1 || i + 1 == order.len() {
            pairs(key, i / CHUNK * CHUNK, &mut words, |w| u64::from(w[1]) << 32 | u64::from(w[0]));
        }
        let below = u128::from(words[i % CHUNK]) * (i as u128 + 1);
        order.swap(i, (below >> 64) as usize);
    }
    fill_with(pool, out, GRAIN, &|start, out: &mut [i64]| {
        for (out, &i) in out.iter_mut().zip(&order[start..]) {
            *out = i.into();
        }
    })
}

/// Fills the output by chunks; `make` gets the position of a chunk's first element, a multiple of [`CHUNK`].
fn chunks<T: FromScalar>(
    pool: &ThreadPool,
    out: &mut ViewMut<'_>,
    make: impl Fn(usize, &mut [T; CHUNK]) + Sync,
) -> Result<(), Fault> {
    fill_with(pool, out, GRAIN, &|start, out: &mut [T]| {
        let mut chunk = [T::from_scalar(Scalar::Int(0)); CHUNK];
        let mut at = start;
        let mut rest = out;
        while !rest.is_empty() {
            let skip = at % CHUNK;
            let n = rest.len().min(CHUNK - skip);
            let (now, later) = rest.split_at_mut(n);
            match now.first_chunk_mut() {
                Some(whole) => make(at, whole),
                None => {
                    make(at - skip, &mut chunk);
                    now.copy_from_slice(&chunk[skip..skip + n]);
                }
            }
            rest = later;
            at += n;
        }
    })
}

fn uniform<T: FromScalar>(
    pool: &ThreadPool,
    key: PhiloxKey,
    low: f64,
    high: f64,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let (low32, width) = (low as f32, (high - low) as f32);
    let least = T::from_scalar(Scalar::Float(low));
    chunks(pool, out, |at, out: &mut [T; CHUNK]| {
        for (out, word) in out.iter_mut().zip(words(key, at)) {
            let unit = unit_f32(word);
            let mut value = T::from_scalar(Scalar::Float((low32 + width * unit).into()));
            let mut trial = unit;
            // Rounding may reach the upper bound, which does not belong to the interval: step back.
            while <T as Into<Scalar>>::into(value).to_f64() >= high && value != least {
                trial = if trial > 0.5 { trial - (1.0 - trial).max(1e-7) } else { 0.0 };
                value = T::from_scalar(Scalar::Float((low32 + width * trial).into()));
            }
            *out = value;
        }
    })
}

fn normal<T: Wide<Acc = f32> + FromScalar>(
    pool: &ThreadPool,
    key: PhiloxKey,
    mean: f64,
    std: f64,
    out: &mut ViewMut<'_>,
) -> Result<(), Fault> {
    let (mean, std) = (mean as f32, std as f32);
    chunks(pool, out, |at, out: &mut [T; CHUNK]| {
        let units = words(key, at).map(unit_f32);
        T::narrow(out, &mut Vec::new(), |out| {
            let out = out.first_chunk_mut().expect("a chunk is narrowed whole");
            simd::run(Normal { mean, std, units: &units, out });
        });
    })
}

/// Box and Muller's transform of pairs of uniform numbers.
struct Normal<'a, T> {
    mean: T,
    std: T,
    units: &'a [T; CHUNK],
    out: &'a mut [T; CHUNK],
}

impl<T: Real> Task for Normal<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Level>(self, l: L) {
        let Normal { mean, std, units, out } = self;
        let mut radius = [T::ZERO; CHUNK / 2];
        let mut angle = [T::ZERO; CHUNK / 2];
        for i in 0..CHUNK / 2 {
            // 1 − u lies in (0, 1].
            radius[i] = (T::of(-2.0) * (T::ONE - units[2 * i]).ln(l)).sqrt() * std;
            angle[i] = T::of(std::f64::consts::TAU) * units[2 * i + 1];
        }
        let mut cosine = [T::ZERO; CHUNK / 2];
        for i in 0..CHUNK / 2 {
            cosine[i] = angle[i].cos(l);
            angle[i] = angle[i].sin(l);
        }
        for i in 0..CHUNK / 2 {
            out[2 * i] = mean + radius[i] * cosine[i];
            out[2 * i + 1] = mean + radius[i] * angle[i];
        }
    }
}

/// The words of elements `at … at + 63`, of which each takes one.
fn words(key: PhiloxKey, at: usize) -> [u32; CHUNK] {
    let blocks = simd::run(Blocks(key, at as u64 / 4));
    std::array::from_fn(|i| blocks[i % 4][i / 4])
}

/// The elements `at … at + 63`, of which each is made of two words, the lower first.
fn pairs<T>(key: PhiloxKey, at: usize, out: &mut [T; CHUNK], make: impl Fn([u32; 2]) -> T) {
    for (half, out) in out.chunks_exact_mut(CHUNK / 2).enumerate() {
        let blocks = simd::run(Blocks(key, at as u64 / 2 + half as u64 * BLOCKS as u64));
        for (i, out) in out.iter_mut().enumerate() {
            let word = i % 2 * 2;
            *out = make([blocks[word][i / 2], blocks[word + 1][i / 2]]);
        }
    }
}

/// Blocks made side by side.
pub(super) const BLOCKS: usize = 16;

/// Sixteen Philox blocks in a row: word `w` of block `b` is `[w][b]`.
pub(super) struct Blocks(pub(super) PhiloxKey, pub(super) u64);

impl Task for Blocks {
    type Output = [[u32; BLOCKS]; 4];

    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "the lanes of four arrays go together")]
    fn run<L: Level>(self, _: L) -> Self::Output {
        let Blocks(PhiloxKey { seed, offset }, first) = self;
        const LOW: u64 = 0xFFFF_FFFF;
        let start = offset.wrapping_add(first);
        // Words in lanes of 64 bits, of which the upper ones are of no account: there is an instruction that multiplies the lower halves.
        let mut x = [[0u64; BLOCKS]; 4];
        for b in 0..BLOCKS {
            let n = start.wrapping_add(b as u64);
            (x[0][b], x[1][b]) = (n, n >> 32);
        }
        let mut key = [seed as u32, (seed >> 32) as u32];
        for round in 0..10 {
            if round != 0 {
                key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
            }
            for b in 0..BLOCKS {
                let p = (x[0][b] & LOW) * 0xD251_1F53;
                let q = (x[2][b] & LOW) * 0xCD9E_8D57;
                let next =
                    [(q >> 32) ^ x[1][b] ^ u64::from(key[0]), q, (p >> 32) ^ x[3][b] ^ u64::from(key[1]), p];
                (x[0][b], x[1][b], x[2][b], x[3][b]) = (next[0], next[1], next[2], next[3]);
            }
        }
        let mut words = [[0; BLOCKS]; 4];
        for w in 0..4 {
            for b in 0..BLOCKS {
                words[w][b] = x[w][b] as u32;
            }
        }
        words
    }
}
