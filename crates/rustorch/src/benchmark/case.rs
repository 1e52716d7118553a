//! The benchmarks: a table, to which an operation is a line.

use super::measure::{Bench, Case, Timing};
use super::report::{Bound, Limits, Measurement, Outcome, Rate, Result as CaseResult};
use rustorch_core::{
    Attention, BinaryOp, Conv, ConvParams, CopyOp, CostModel, DType, Dims, Fill, MatMul, MaxPool, Op,
    PoolWindow, QuantType, Result, Shape, Softmax, UnaryOp,
};
use std::time::Instant;

/// A benchmark that comes in sizes.
pub(super) struct Family {
    pub(super) name: &'static str,
    dtype: DType,
    /// Whether its rate is in operations rather than bytes.
    arithmetic: bool,
    /// From small to large; what the number means is the maker's business.
    sizes: &'static [usize],
    make: fn(&Bench<'_>, DType, usize) -> Result<Case>,
}

const Q4_0: DType = DType::Quant(QuantType::Q4_0);
/// Elements.
const LENGTHS: &[usize] = &[1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26];
/// Rows and columns of matrices.
const SIDES: &[usize] = &[128, 256, 512, 1024, 2048, 4096, 8192];
/// Rows and columns of weights.
const WEIGHTS: &[usize] = &[512, 1024, 2048, 4096, 8192];
/// Positions of a text.
const CONTEXTS: &[usize] = &[128, 256, 512, 1024, 2048, 4096];
/// Images at a time.
const BATCHES: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128];

/// All of them, in the order in which they are reported.
pub(super) const FAMILIES: &[Family] = &[
    Family { name: "add", dtype: DType::F32, arithmetic: false, sizes: LENGTHS, make: add },
    Family { name: "add", dtype: DType::F16, arithmetic: false, sizes: LENGTHS, make: add },
    Family { name: "exp", dtype: DType::F32, arithmetic: false, sizes: LENGTHS, make: exp },
    Family { name: "softmax", dtype: DType::F32, arithmetic: false, sizes: LENGTHS, make: softmax },
    Family { name: "matmul", dtype: DType::F32, arithmetic: true, sizes: SIDES, make: square },
    Family { name: "matmul", dtype: DType::F16, arithmetic: true, sizes: SIDES, make: square },
    Family { name: "matmul 64 rows", dtype: Q4_0, arithmetic: true, sizes: WEIGHTS, make: batch },
    Family { name: "matvec", dtype: Q4_0, arithmetic: false, sizes: WEIGHTS, make: vector },
    Family { name: "attention", dtype: DType::F32, arithmetic: true, sizes: CONTEXTS, make: attention },
    Family { name: "conv2d", dtype: DType::F32, arithmetic: true, sizes: BATCHES, make: conv2d },
    Family { name: "conv2d", dtype: DType::F16, arithmetic: true, sizes: BATCHES, make: conv2d },
    Family { name: "pooling", dtype: DType::F32, arithmetic: false, sizes: BATCHES, make: pooling },
];

/// What the limits are found by: memory.
const STREAMS: &[Family] = &[
    Family { name: "copy", dtype: DType::F32, arithmetic: false, sizes: LENGTHS, make: copy },
    Family { name: "add", dtype: DType::F32, arithmetic: false, sizes: LENGTHS, make: add },
    Family { name: "fill", dtype: DType::F32, arithmetic: false, sizes: LENGTHS, make: fill },
];

/// What the limits are found by: arithmetic.
const PRODUCTS: &[Family] = &[
    Family { name: "matmul", dtype: DType::F32, arithmetic: true, sizes: SIDES, make: square },
    Family { name: "matmul", dtype: DType::F16, arithmetic: true, sizes: SIDES, make: square },
    Family { name: "matmul 512 rows", dtype: Q4_0, arithmetic: true, sizes: WEIGHTS, make: many },
];

fn add(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    let args = vec![bench.random(&[n], dtype)?, bench.random(&[n], dtype)?];
    Ok(Case { size: n.to_string(), op: Op::Binary(BinaryOp::Add), args })
}

fn exp(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    Ok(Case { size: n.to_string(), op: Op::Unary(UnaryOp::Exp), args: vec![bench.random(&[n], dtype)?] })
}

fn copy(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    Ok(Case { size: n.to_string(), op: Op::Copy(CopyOp), args: vec![bench.random(&[n], dtype)?] })
}

fn fill(_: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    let fill = Fill { shape: Shape::new([n].as_slice())?, dtype, value: 0.5.into() };
    Ok(Case { size: n.to_string(), op: Op::Fill(fill), args: vec![] })
}

fn softmax(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    const ROW: usize = 1024;
    let op = Op::Softmax(Softmax { axis: 1, log: false });
    Ok(Case { size: format!("{} x {ROW}", n / ROW), op, args: vec![bench.random(&[n / ROW, ROW], dtype)?] })
}

fn square(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    let args = vec![bench.random(&[n, n], dtype)?, bench.random(&[n, n], dtype)?];
    Ok(Case { size: format!("{n} x {n} x {n}"), op: Op::MatMul(MatMul::default()), args })
}

/// Rows times a square weight, as models multiply.
fn weight(bench: &Bench<'_>, dtype: DType, rows: usize, n: usize) -> Result<Case> {
    let args = vec![bench.random(&[rows, n], DType::F32)?, bench.random(&[n, n], dtype)?.transposed()?];
    Ok(Case { size: format!("{rows} x {n} x {n}"), op: Op::MatMul(MatMul::default()), args })
}

fn vector(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    weight(bench, dtype, 1, n)
}

fn batch(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    weight(bench, dtype, 64, n)
}

fn many(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    weight(bench, dtype, 512, n)
}

fn attention(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    const HEADS: usize = 8;
    const WIDTH: usize = 64;
    let part = || bench.random(&[HEADS, n, WIDTH], dtype);
    let op = Op::Attention(Attention::new(0.125));
    Ok(Case { size: format!("{HEADS} heads, {n} x {WIDTH}"), op, args: vec![part()?, part()?, part()?] })
}

/// A layer from the middle of a ResNet.
fn conv2d(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    const CHANNELS: usize = 64;
    const SIDE: usize = 56;
    let mut params = ConvParams::new(2);
    params.padding.fill((1, 1));
    let args = vec![
        bench.random(&[n, CHANNELS, SIDE, SIDE], dtype)?,
        bench.random(&[CHANNELS, CHANNELS, 3, 3], dtype)?,
    ];
    let op = Op::from(Conv { params, activation: None });
    Ok(Case { size: format!("{n} x {CHANNELS} x {SIDE} x {SIDE}, 3 x 3"), op, args })
}

/// The maximum pooling at the beginning of a ResNet.
fn pooling(bench: &Bench<'_>, dtype: DType, n: usize) -> Result<Case> {
    const CHANNELS: usize = 64;
    const SIDE: usize = 112;
    let each = |k: usize| Dims::from_elem(k, 2);
    let window = PoolWindow { kernel: each(3), stride: each(2), padding: each(1), ceil_mode: false };
    let op = Op::from(MaxPool { window, dilation: each(1) });
    let args = vec![bench.random(&[n, CHANNELS, SIDE, SIDE], dtype)?];
    Ok(Case { size: format!("{n} x {CHANNELS} x {SIDE} x {SIDE}, 3 x 3"), op, args })
}

/// A case large enough, or why there is none.
enum Sized {
    Case(Box<Case>),
    Declined(String),
}

/// The smallest size of which one run takes long enough, or the largest that memory allows.
fn sized(bench: &Bench<'_>, family: &Family) -> Result<Sized> {
    let capability = bench.backend.capability();
    let memory = capability.memory.map_or(u64::MAX, |bytes| bytes / 4).min(bench.options.memory);
    let buffer = capability.max_buffer.unwrap_or(u64::MAX);
    let mut found: Option<Case> = None;
    for &size in family.sizes {
        // Before it is made: all operands together stay below what one buffer may hold, which is on the safe side.
        if let Some(smaller) = &found {
            let growth = next_growth(family, size);
            let bytes = smaller.work()?.bytes.saturating_mul(growth);
            if bytes > memory || bytes > buffer {
                break;
            }
        }
        let case = (family.make)(bench, family.dtype, size)?;
        if let Some(reason) = bench.declines(&case) {
            match found {
                // It takes smaller ones.
                Some(_) => break,
                None => return Ok(Sized::Declined(reason)),
            }
        }
        let time = bench.once(&case)?;
        found = Some(case);
        if time >= bench.options.enough {
            break;
        }
    }
    Ok(Sized::Case(Box::new(found.expect("every family has a size, and the first is made"))))
}

/// How many times the bytes of the size before: sides of matrices count twice.
fn next_growth(family: &Family, size: usize) -> u64 {
    let position = family.sizes.iter().position(|&s| s == size).unwrap_or(0);
    let ratio = (size / family.sizes[position.saturating_sub(1)]).max(1) as u64;
    if family.sizes == SIDES || family.sizes == WEIGHTS { ratio * ratio } else { ratio }
}

/// The best rate of a family, over its sizes up to the one that is large enough; none if it does not run.
fn best(bench: &Bench<'_>, family: &Family) -> Option<f64> {
    let Ok(Sized::Case(case)) = sized(bench, family) else { return None };
    let (seconds, _) = bench.time(&case).ok()?;
    let work = case.work().ok()?;
    Some(if family.arithmetic { work.flops as f64 } else { work.bytes as f64 } / seconds)
}

/// What the device can do at best.
pub(super) fn limits(bench: &Bench<'_>) -> Limits {
    // What an earlier measurement found may be better than what this one sees on a busy machine.
    let cost = bench.backend.cost();
    let known = |rate: f64| Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0);
    let streams = STREAMS.iter().filter_map(|family| best(bench, family));
    let memory = streams.chain(cost.and_then(|cost| known(cost.bandwidth))).max_by(f64::total_cmp);
    let arithmetic = PRODUCTS.iter().filter_map(|family| {
        // What the calibration says of `f32` says nothing of matmuls of another kind.
        let calibrated = match family.dtype {
            DType::F32 => cost.and_then(|cost| known(cost.flops)),
            dtype => {
                let rate = |cost: &CostModel| {
                    cost.rates.iter().find(|rate| rate.dtype == dtype).map(|rate| rate.flops)
                };
                cost.and_then(rate).and_then(known)
            }
        };
        let best = best(bench, family).into_iter().chain(calibrated).max_by(f64::total_cmp)?;
        Some((family.dtype, best))
    });
    let arithmetic = arithmetic.collect();
    Limits { memory, arithmetic, to_device: None, from_device: None }
}

/// A family's measurement before it is known what the device can do at best.
pub(super) enum Raw {
    Timed { size: String, seconds: f64, runs: usize, flops: f64, bytes: f64, product: bool },
    Not(Outcome),
}

/// Measures one family, and raises the limits where it was faster.
pub(super) fn measure(bench: &Bench<'_>, family: &Family, limits: &mut Limits) -> Raw {
    match timed(bench, family, limits) {
        Ok(raw) => raw,
        Err(error) => Raw::Not(Outcome::Failed(error.to_string())),
    }
}

fn timed(bench: &Bench<'_>, family: &Family, limits: &mut Limits) -> Result<Raw> {
    let case = match sized(bench, family)? {
        Sized::Case(case) => case,
        Sized::Declined(reason) => return Ok(Raw::Not(Outcome::Declined(reason))),
    };
    let (seconds, runs) = bench.time(&case)?;
    let work = case.work()?;
    let (flops, bytes) = (work.flops as f64, work.bytes as f64);
    // Of matmuls, convolutions and attention the operations count; of the others they are of many kinds, and memory decides.
    let product = matches!(case.op, Op::MatMul(_) | Op::Conv(_) | Op::Attention(_));
    let better = |limit: &mut f64, seen: f64| *limit = limit.max(seen);
    if let Some(limit) = &mut limits.memory {
        better(limit, bytes / seconds);
    }
    if let Some((_, limit)) =
        limits.arithmetic.iter_mut().find(|(dtype, _)| product && *dtype == family.dtype)
    {
        better(limit, flops / seconds);
    }
    Ok(Raw::Timed { size: case.size, seconds, runs, flops, bytes, product })
}

/// What a family's measurement is, compared with the limits.
pub(super) fn rated(family: &Family, raw: Raw, limits: &Limits) -> CaseResult {
    let outcome = match raw {
        Raw::Not(outcome) => outcome,
        Raw::Timed { size, seconds, runs, flops, bytes, product } => {
            let arithmetic = limits.arithmetic(family.dtype).filter(|_| product).map(|rate| flops / rate);
            let memory = limits.memory.map(|rate| bytes / rate);
            let bound = match (arithmetic, memory) {
                (Some(a), Some(m)) if a > m => Bound::Arithmetic,
                (Some(_), None) => Bound::Arithmetic,
                _ => Bound::Memory,
            };
            let least = arithmetic.into_iter().chain(memory).max_by(f64::total_cmp);
            let rate =
                if family.arithmetic { Rate::Flops(flops / seconds) } else { Rate::Bytes(bytes / seconds) };
            let share = least.map(|least| least / seconds);
            Outcome::Measured(Measurement { size, seconds, runs, rate, share, bound })
        }
    };
    CaseResult { benchmark: family.name, dtype: family.dtype, outcome }
}

/// Copies to and from the device, small and large; and the limits with those of the link.
pub(super) fn transfers(bench: &Bench<'_>, mut limits: Limits) -> (Vec<CaseResult>, Limits) {
    let large = (64 << 20)
        .min(bench.options.memory / 4)
        .min(bench.backend.capability().max_buffer.unwrap_or(u64::MAX));
    // Of the CPU's own memory, a small piece stays in its caches: that would be no transfer.
    let small = (!bench.device.is_cpu()).then_some(64 << 10);
    let sizes = small.into_iter().chain([large as usize & !3]);
    let mut measured: Vec<(&'static str, usize, Result<Timing>)> = Vec::new();
    for bytes in sizes {
        measured.push(("to the device", bytes, upload(bench, bytes)));
        measured.push(("from the device", bytes, download(bench, bytes)));
    }
    let cost = bench.backend.cost();
    let limit = |wanted: &str| {
        let seen = measured.iter().filter(|(name, ..)| *name == wanted).filter_map(|(_, bytes, result)| {
            result.as_ref().ok().map(|(seconds, _)| *bytes as f64 / seconds)
        });
        // The CPU's link is its memory, of which a copy reads one byte for each that it writes.
        let known = if bench.device.is_cpu() {
            limits.memory.map(|rate| rate / 2.0)
        } else {
            let link = |cost: &CostModel| match wanted {
                "to the device" => cost.upload.bandwidth,
                _ => cost.download.bandwidth,
            };
            cost.map(link).filter(|rate| rate.is_finite())
        };
        seen.chain(known).max_by(f64::total_cmp)
    };
    (limits.to_device, limits.from_device) = (limit("to the device"), limit("from the device"));
    let results = measured.into_iter().map(|(benchmark, bytes, result)| {
        let limit = if benchmark == "to the device" { limits.to_device } else { limits.from_device };
        let outcome = match result {
            Ok((seconds, runs)) => {
                let rate = bytes as f64 / seconds;
                let size = if bytes < 1 << 20 {
                    format!("{} KiB", bytes >> 10)
                } else {
                    format!("{} MiB", bytes >> 20)
                };
                let share = limit.map(|limit| rate / limit);
                Outcome::Measured(Measurement {
                    size,
                    seconds,
                    runs,
                    rate: Rate::Bytes(rate),
                    share,
                    bound: Bound::Link,
                })
            }
            Err(error) => Outcome::Failed(error.to_string()),
        };
        CaseResult { benchmark, dtype: DType::F32, outcome }
    });
    (results.collect(), limits)
}

fn upload(bench: &Bench<'_>, bytes: usize) -> Result<Timing> {
    let data = vec![1u8; bytes];
    let shape = Shape::new([bytes / 4].as_slice())?;
    bench.median(&mut |n| {
        let started = Instant::now();
        for _ in 0..n {
            bench.executor.upload(&data, DType::F32, &shape, bench.device)?;
        }
        bench.executor.synchronize(bench.device)?;
        Ok(started.elapsed())
    })
}

fn download(bench: &Bench<'_>, bytes: usize) -> Result<Timing> {
    let mut data = vec![1u8; bytes];
    let there =
        bench.executor.upload(&data, DType::F32, &Shape::new([bytes / 4].as_slice())?, bench.device)?;
    bench.executor.synchronize(bench.device)?;
    bench.median(&mut |n| {
        let started = Instant::now();
        for _ in 0..n {
            bench.executor.download(&there.operand(), &mut data)?;
        }
        Ok(started.elapsed())
    })
}
