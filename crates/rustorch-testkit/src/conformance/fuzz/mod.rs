//! Random cases: what nobody thought of writing down.
//!
//! [`Fuzz`] draws operations with parameters, dtypes, shapes, layouts and values, among them zeros of both signs, infinities,
//! NaN, subnormal numbers and the ends of ranges; puts arguments into shared memory and results into memory whose other bytes
//! must stay; and compares a backend with a reference as the suite does. A case is drawn from two numbers alone, which are
//! printed with a failure:
//!
//! | variable | what it asks for |
//! |---|---|
//! | `FUZZ_SEED` | another sequence of cases; `clock` takes the time |
//! | `FUZZ_CASES` | so many cases, however long they take |
//! | `FUZZ_SECONDS` | as many as there is time for |
//! | `FUZZ_CASE` | this one only |
//! | `CONFORMANCE_OF` | of these operations only, named with commas between them |

mod along;
mod draw;
mod foreach;
mod fourier;
mod index;
mod linalg;
mod pointwise;
mod product;
mod recurrent;
mod spatial;
mod trial;

pub use draw::Simpler;

use draw::{Draw, Rng};
use rustorch_core::{Backend, Device};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use trial::Trial;

use super::{Case, Outcome};

/// How many failures of one operation a report shows.
const SHOWN: usize = 3;

/// One way to draw a case.
type Generator = fn(&mut Draw) -> Option<Case>;

/// How often each is taken, about as there are operations in it.
const GENERATORS: &[(usize, Generator)] = &[
    (14, pointwise::unary),
    (12, pointwise::binary),
    (4, pointwise::compare),
    (3, pointwise::choose),
    (2, pointwise::clamp),
    (3, pointwise::gate),
    (4, pointwise::fused),
    (6, pointwise::cast),
    (2, linalg::decomposition),
    (2, fourier::transform),
    (5, pointwise::copy),
    (6, pointwise::create),
    (9, along::reduce),
    (3, along::scan),
    (5, along::sort),
    (3, along::softmax),
    (4, along::row_norm),
    (4, along::channel_norm),
    (8, product::matmul),
    (6, product::quant_matmul),
    (5, product::experts),
    (3, product::quant_rows),
    (1, product::quantize),
    (6, product::attention),
    (3, product::attention_backward),
    (4, product::rope),
    (9, product::conv),
    (3, index::select),
    (2, index::embedding),
    (3, index::gather),
    (5, index::scatter),
    (4, index::scatter_reduce),
    (4, index::concat),
    (3, index::pad),
    (2, index::triangle),
    (5, spatial::max_pool),
    (5, spatial::mean_pool),
    (5, spatial::interpolate),
    (2, along::added_norm),
    (2, along::softmax_backward),
    (2, along::norm_backward),
    (2, along::channel_norm_backward),
    (2, along::cross_entropy),
    (2, along::cross_entropy_backward),
    (2, along::dropout),
    (4, recurrent::recurrence),
    (2, recurrent::rnn_gates),
    (1, foreach::total_norm),
    (1, foreach::mul),
    (2, foreach::optimizer_step),
    (2, index::gather_sum),
];

/// What to draw, and how much.
#[derive(Clone, Debug)]
pub struct Fuzz {
    /// The sequence of cases.
    pub seed: u64,
    /// The most cases.
    pub cases: usize,
    /// The most time.
    pub time: Duration,
    /// So many cases in a row share operation, dtypes and number of dimensions, and so most of their kernels.
    pub burst: usize,
    /// This case only.
    pub only: Option<(u64, u64)>,
    /// These operations only.
    pub of: Option<String>,
    /// Whether the device adds in the reference's order: see [`check_reordered_cases`](super::check_reordered_cases).
    pub ordered: bool,
}

impl Fuzz {
    /// What the environment asks for, else so many cases, however long they take: a test does the same on a busy machine.
    ///
    /// # Panics
    /// If a variable is not a number, which would be a test that does not do what it is told.
    pub fn from_env(cases: usize) -> Fuzz {
        Fuzz::from_variables(|name| std::env::var(name).ok(), cases)
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>, cases: usize) -> Fuzz {
        let number = |name: &str| {
            get(name).filter(|text| !text.is_empty()).map(|text| {
                text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is `{text}`, which is no number"))
            })
        };
        let seed = match get("FUZZ_SEED").as_deref() {
            Some("clock") => {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                since.map_or(0, |since| since.as_millis() as u64)
            }
            _ => number("FUZZ_SEED").unwrap_or(1),
        };
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let only = get("FUZZ_CASE").map(|text| {
            let numbers = text.split_once(':').and_then(|(kind, fine)| Some((hex(kind)?, hex(fine)?)));
            numbers
                .unwrap_or_else(|| panic!("FUZZ_CASE is `{text}`, not two hexadecimal numbers as in 1a:2b"))
        });
        let (count, seconds) = (number("FUZZ_CASES"), number("FUZZ_SECONDS"));
        Fuzz {
            seed,
            cases: count.map_or(if seconds.is_some() { usize::MAX } else { cases }, |n| n as usize),
            time: seconds.map_or(Duration::MAX, Duration::from_secs),
            burst: 1,
            only,
            of: get("CONFORMANCE_OF"),
            ordered: true,
        }
    }

    /// The same in bursts.
    pub fn burst(self, burst: usize) -> Fuzz {
        Fuzz { burst: burst.max(1), ..self }
    }

    /// The cases themselves, each argument in memory of its own, for tests that make something else of them. There is no limit to the time.
    pub fn drawn(&self) -> impl Iterator<Item = Case> {
        let ids = (0..u64::MAX).map(|i| self.only.unwrap_or_else(|| self.id(i)));
        let cases = ids.filter_map(|id| drawn(&mut Draw::new(id.0, id.1, Simpler::NOT)));
        let cases = cases.filter(|case| self.wants(case));
        cases.take(if self.only.is_some() { 1 } else { self.cases })
    }

    /// Whether a case is of the operations that are asked for.
    fn wants(&self, case: &Case) -> bool {
        self.of.as_ref().is_none_or(|names| names.split(',').any(|name| name == case.op.name()))
    }

    /// Draws and compares.
    pub fn run(&self, backend: &dyn Backend, reference: &dyn Backend) -> FuzzReport {
        let began = Instant::now();
        let mut found = FuzzReport {
            device: backend.device(),
            seed: self.seed,
            ops: BTreeMap::new(),
            failures: Vec::new(),
            failed: 0,
            time: Duration::ZERO,
        };
        let mut shown: BTreeMap<&'static str, usize> = BTreeMap::new();
        for i in 0..if self.only.is_some() { 1 } else { u64::MAX } {
            if found.cases() >= self.cases || began.elapsed() > self.time {
                break;
            }
            let id = self.only.unwrap_or_else(|| self.id(i));
            let Some(trial) = draw(id, Simpler::NOT).filter(|trial| self.wants(&trial.case)) else {
                continue;
            };
            let name = trial.case.op.name();
            let counts = found.ops.entry(name).or_default();
            let Some(how) = verdict(&trial, [backend, reference], self.ordered, counts) else { continue };
            found.failed += 1;
            let shown = shown.entry(name).or_default();
            *shown += 1;
            if *shown <= SHOWN {
                let (simple, how) = simplest(id, [backend, reference], self.ordered).unwrap_or((trial, how));
                found.failures.push(format!("FUZZ_CASE={:x}:{:x} {simple}: {how}", id.0, id.1));
            }
        }
        found.time = began.elapsed();
        found
    }

    /// The two numbers of case `i`.
    fn id(&self, i: u64) -> (u64, u64) {
        let mix = |a: u64, b: u64| Rng::new(Rng::new(a).next() ^ b).next();
        (mix(self.seed, i / self.burst as u64), mix(self.seed ^ 0x5EED, i))
    }
}

/// The case of two numbers and its places; `None` where what was drawn does not fit together.
fn draw((kind, fine): (u64, u64), simpler: Simpler) -> Option<Trial> {
    let mut draw = Draw::new(kind, fine, simpler);
    let case = drawn(&mut draw)?;
    Some(Trial::around(case, &mut draw))
}

/// A case; `None` where what was drawn does not fit together.
fn drawn(draw: &mut Draw) -> Option<Case> {
    let all: usize = GENERATORS.iter().map(|(often, _)| often).sum();
    let mut at = draw.kind.below(all);
    let (_, generator) = GENERATORS.iter().find(|(often, _)| {
        let found = at < *often;
        at = at.wrapping_sub(if found { 0 } else { *often });
        found
    })?;
    generator(draw)
}

/// What is wrong with a case, if anything. A panic is a failure, too.
fn verdict(
    trial: &Trial,
    [backend, reference]: [&dyn Backend; 2],
    ordered: bool,
    counts: &mut Counts,
) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| trial.check(backend, reference, ordered)));
    match outcome {
        Ok(Outcome::Agreed) => counts.agreed += 1,
        Ok(Outcome::Declined(_)) => counts.declined += 1,
        Ok(Outcome::Unknown(fault)) => return Some(format!("the reference fails: {fault}")),
        Ok(Outcome::Failed(fault)) => return Some(fault.to_string()),
        Ok(Outcome::Different(how)) => return Some(how),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            return Some(format!("panics: {}", text.unwrap_or_default()));
        }
    }
    None
}

/// The simplest case of these numbers that fails, and how.
fn simplest(id: (u64, u64), backends: [&dyn Backend; 2], ordered: bool) -> Option<(Trial, String)> {
    let try_it = |simpler: Simpler| {
        let trial = draw(id, simpler)?;
        let how = verdict(&trial, backends, ordered, &mut Counts::default())?;
        Some((trial, how))
    };
    let mut best = (Simpler::NOT, None);
    for step in [
        |s: Simpler| Simpler { packed: true, ..s },
        |s: Simpler| Simpler { fresh: true, ..s },
        |s: Simpler| Simpler { tame: true, ..s },
    ] {
        let simpler = step(best.0);
        if let Some(failure) = try_it(simpler) {
            best = (simpler, Some(failure));
        }
    }
    for largest in [1, 2, 3, 4, 5, 7, 9, 13, 17, 24, 33, 48, 65, 100, 130, 200, 257] {
        let simpler = Simpler { largest, ..best.0 };
        if let Some(failure) = try_it(simpler) {
            best = (simpler, Some(failure));
            break;
        }
    }
    best.1
}

/// What became of the cases of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases with the reference's result.
    pub agreed: usize,
    /// Cases that the device declined.
    pub declined: usize,
}

/// What was found on a device.
#[derive(Clone, Debug)]
pub struct FuzzReport {
    /// The device.
    pub device: Device,
    /// The seed of the cases.
    pub seed: u64,
    /// What became of each operation's cases that did not fail.
    pub ops: BTreeMap<&'static str, Counts>,
    /// Some failures of each operation: the case, made as simple as it can be, and what was wrong.
    pub failures: Vec<String>,
    /// How many there were.
    pub failed: usize,
    /// How long it took.
    pub time: Duration,
}

impl FuzzReport {
    /// Cases with the reference's result.
    pub fn agreed(&self) -> usize {
        self.ops.values().map(|counts| counts.agreed).sum()
    }

    /// Cases in all.
    pub fn cases(&self) -> usize {
        self.agreed() + self.ops.values().map(|counts| counts.declined).sum::<usize>() + self.failed
    }
}

impl fmt::Display for FuzzReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops = self.ops.values().filter(|counts| counts.agreed > 0).count();
        writeln!(
            f,
            "{}: FUZZ_SEED={}: {} cases of {ops} operations agree, {} declined, {} fail, in {:.1?}",
            self.device,
            self.seed,
            self.agreed(),
            self.cases() - self.agreed() - self.failed,
            self.failed,
            self.time
        )?;
        self.failures.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
