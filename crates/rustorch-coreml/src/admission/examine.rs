//! The way of a program from a region to a loaded model, or to a reason why not.

use super::child::{Files, Request};
use super::launch::{self, Lost};
use super::{AdmissionOptions, Key, ModelCache, Reference, Verdict, compare, inputs, verdict};
use crate::border;
use crate::cache::CachedModel;
use crate::runtime::{ComputeUnits, Feature, LoadedModel, Runtime, Signature};
use crate::{CoreMlOptions, Package};
use rustorch_core::{DType, Graph, ValueId};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Sets of inputs: those of a run, and random variants of them.
const SETS: usize = 4;
/// How much results may differ from the CPU's, relative to the largest of its output: sums are in another order.
const TOLERANCE: f64 = 1e-4;
/// The same where some values have 16 bits.
const TOLERANCE_F16: f64 = 1e-2;

/// What all programs of a device are examined with.
pub(crate) struct Examiner {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) reference: Arc<dyn Reference>,
    pub(crate) cache: Option<ModelCache>,
    pub(crate) options: AdmissionOptions,
    pub(crate) units: ComputeUnits,
    pub(crate) allow_f16: bool,
}

/// A region to be examined.
pub(crate) struct Job<'a> {
    pub(crate) region: Graph,
    /// The bytes of each constant.
    pub(crate) constants: Vec<Vec<u8>>,
    /// Gives the inputs of a run, then what its states hold: the bytes of each, in the region's dtypes. An error if there will be none.
    pub(crate) inputs: &'a Receiver<Vec<Vec<u8>>>,
    /// Is called before they are waited for.
    pub(crate) wants_inputs: &'a dyn Fn(),
}

/// A program that may run.
pub(crate) struct Admitted {
    pub(crate) model: Box<dyn LoadedModel>,
    pub(crate) signature: Signature,
    /// Keeps the files.
    pub(crate) _cached: CachedModel,
}

/// Why a program may not.
pub(crate) struct Refused {
    pub(crate) reason: String,
    /// Whether it is kept for other processes.
    is_lasting: bool,
}

impl Refused {
    fn passing(reason: impl Into<String>) -> Refused {
        Refused { reason: reason.into(), is_lasting: false }
    }

    fn lasting(reason: impl Into<String>) -> Refused {
        Refused { reason: reason.into(), is_lasting: true }
    }
}

impl From<Lost> for Refused {
    fn from(Lost { reason, is_lasting }: Lost) -> Refused {
        Refused { reason, is_lasting }
    }
}

fn disk(path: &Path) -> impl Fn(io::Error) -> Refused + '_ {
    move |error| Refused::passing(format!("{}: {error}", path.display()))
}

/// A folder that is removed with all that is in it.
struct WorkFolder(PathBuf);

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // What stays is removed by a later process.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Examiner {
    /// The model of a region, if it is admitted. Blocks for as long as that takes.
    pub(crate) fn admit(&self, job: Job<'_>) -> Result<Admitted, Refused> {
        let Some(cache) = &self.cache else {
            return Err(Refused::passing("there is no folder for compiled programs; set RUSTORCH_CACHE_DIR"));
        };
        let dtypes: Vec<DType> =
            job.region.constants().iter().map(|id| job.region.values[id.index()].dtype).collect();
        let bytes = |i: usize, range: Range<usize>| constant_bytes(&job.constants, &dtypes, i, range);
        let options = CoreMlOptions { allow_f16: self.allow_f16, ..CoreMlOptions::default() };
        let package = Package::with_options(&job.region, &bytes, &options);
        let package = package.map_err(|error| Refused::passing(error.to_string()))?;
        let digest = package.digest().map_err(|error| Refused::passing(error.to_string()))?;
        let system = self.runtime.system();
        let key = Key::new(&[&digest, &system, self.units.name(), env!("CARGO_PKG_VERSION")]);
        if let Some(known) = self.known(cache, &key, package.signature()) {
            return known;
        }
        // Said before anybody waits for inputs.
        drop((self.options.launcher)(cache.folder()).map_err(Refused::passing)?);
        (job.wants_inputs)();
        let captured = job.inputs.recv().map_err(|_| Refused::passing("the program is gone"))?;
        // One program after the other: their times would be those of both.
        let _lock = cache.lock().map_err(disk(cache.folder()))?;
        if let Some(known) = self.known(cache, &key, package.signature()) {
            return known;
        }
        cache.sweep();
        let work = WorkFolder(cache.temporary());
        fs::create_dir_all(&work.0).map_err(disk(&work.0))?;
        let mut found = Verdict {
            refused: None,
            program: summary(&job.region),
            system,
            units: self.units,
            f16: self.allow_f16,
            plan: None,
            error: None,
            seconds: None,
            seconds_without: None,
            in_place: None,
        };
        if let Err(refused) = self.examine(&job, &package, &work, &captured, &mut found) {
            if refused.is_lasting {
                found.refused = Some(refused.reason.clone());
                remember(cache, &key, &found);
            }
            return Err(refused);
        }
        remember(cache, &key, &found);
        let cached = cache.put(&key, &Files(&work.0).compiled()).map_err(disk(cache.folder()))?;
        self.load(cached, package.signature())
    }

    /// What is known of a program already; `None` if it has to be examined.
    fn known(
        &self,
        cache: &ModelCache,
        key: &Key,
        signature: &Signature,
    ) -> Option<Result<Admitted, Refused>> {
        let verdict = verdict::load(cache, key)?;
        if let Some(reason) = verdict.refused {
            return Some(Err(Refused::lasting(reason)));
        }
        // What does not load any more is compiled anew.
        let cached = cache.get(key)?;
        self.load(cached, signature).ok().map(Ok)
    }

    fn load(&self, cached: CachedModel, signature: &Signature) -> Result<Admitted, Refused> {
        let model = self.runtime.load(cached.path(), self.units, signature);
        let model = model.map_err(|error| Refused::passing(error.to_string()))?;
        Ok(Admitted { model, signature: signature.clone(), _cached: cached })
    }

    fn examine(
        &self,
        job: &Job<'_>,
        package: &Package<'_>,
        work: &WorkFolder,
        captured: &[Vec<u8>],
        found: &mut Verdict,
    ) -> Result<(), Refused> {
        let files = Files(&work.0);
        let signature = package.signature();
        let graph_dtypes = |ids: &mut dyn Iterator<Item = ValueId>| {
            ids.map(|id| job.region.values[id.index()].dtype).collect::<Vec<DType>>()
        };
        // States are given as inputs are, and what they hold behind it is compared as outputs are.
        let states = || job.region.states.iter();
        let given = job.region.inputs.iter().copied().chain(states().map(|state| state.first));
        let made =
            job.region.outputs.iter().map(|output| output.value).chain(states().map(|state| state.last));
        let (given, made) = (graph_dtypes(&mut { given }), graph_dtypes(&mut { made }));
        let inputs = || signature.inputs.iter().chain(&signature.states);
        let sets = input_sets(inputs(), &given, captured).map_err(Refused::passing)?;
        package.write(files.package()).map_err(|error| Refused::passing(error.to_string()))?;
        let request =
            Request { units: self.units, signature: signature.clone(), sets: SETS, runs: self.options.runs };
        let request = serde_json::to_vec(&request).map_err(|error| Refused::passing(error.to_string()))?;
        fs::write(files.request(), request).map_err(disk(&files.request()))?;
        for (set, values) in sets.iter().enumerate() {
            for (i, (feature, bytes)) in inputs().zip(values).enumerate() {
                let bytes = border::encode(given[i], feature.dtype, bytes).map_err(Refused::passing)?;
                fs::write(files.input(set, i), bytes).map_err(disk(&files.input(set, i)))?;
            }
        }
        let answer = launch::run(&self.options.launcher, &work.0, self.options.time_limit)?;
        found.plan = answer.plan;
        found.in_place = Some(answer.in_place.iter().all(|in_place| *in_place));
        found.seconds = median(&answer.seconds);

        let reference = self.reference.prepare(&job.region, &job.constants).map_err(Refused::passing)?;
        let is_16_bits = |value: &rustorch_core::Value| matches!(value.dtype, DType::F16 | DType::BF16);
        let has_16_bits = self.allow_f16 || job.region.values.iter().any(is_16_bits);
        let tolerance = if has_16_bits { TOLERANCE_F16 } else { TOLERANCE };
        for (set, values) in sets.iter().enumerate() {
            let expected = reference.run_on_cpu(values).map_err(Refused::passing)?;
            let outputs = signature.outputs.iter().chain(&signature.states);
            for (i, (feature, expected)) in outputs.zip(&expected).enumerate() {
                let ours = fs::read(files.output(set, i)).map_err(disk(&files.output(set, i)))?;
                let expected = border::encode(made[i], feature.dtype, expected).map_err(Refused::passing)?;
                let error = compare::difference(feature, &ours, &expected).map_err(Refused::lasting)?;
                found.error = Some(found.error.unwrap_or(0.0).max(error));
                if error > tolerance {
                    return Err(Refused::lasting(format!(
                        "{} differs from the CPU's by {error:.1e} of its largest value, more than {tolerance:.0e}",
                        feature.name
                    )));
                }
            }
        }

        let mut without = Vec::with_capacity(self.options.runs);
        // The first two warm up.
        for run in 0..self.options.runs + 2 {
            let time = reference.time_best(&sets[0]).map_err(Refused::passing)?;
            if run >= 2 {
                without.push(time.as_secs_f64());
            }
        }
        found.seconds_without = median(&without);
        let (Some(seconds), Some(without)) = (found.seconds, found.seconds_without) else {
            return Err(Refused::passing("no prediction was timed"));
        };
        let least = self.options.least_gain;
        if seconds * least > without {
            return Err(Refused::lasting(format!(
                "a prediction takes {:.3} ms, and {:.3} ms without Core ML; it must be {:.0} % faster",
                1e3 * seconds,
                1e3 * without,
                100.0 * (least - 1.0)
            )));
        }
        Ok(())
    }
}

/// The inputs of a run and variants of them, in the region's dtypes.
fn input_sets<'a>(
    features: impl Iterator<Item = &'a Feature> + Clone,
    given: &[DType],
    captured: &[Vec<u8>],
) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let mut sets = vec![captured.to_vec()];
    for set in 1..SETS {
        let values =
            features.clone().zip(given).zip(captured).enumerate().map(|(i, ((feature, dtype), bytes))| {
                let encoded = border::encode(*dtype, feature.dtype, bytes)?;
                let drawn = inputs::variant(feature, &encoded, (set * 1000 + i) as u64);
                let mut values = vec![0; bytes.len()];
                border::decode(feature.dtype, *dtype, &drawn, &mut values);
                Ok::<_, String>(values)
            });
        sets.push(values.collect::<Result<_, _>>()?);
    }
    Ok(sets)
}

/// The bytes of elements of a constant.
fn constant_bytes(
    constants: &[Vec<u8>],
    dtypes: &[DType],
    i: usize,
    range: Range<usize>,
) -> io::Result<Vec<u8>> {
    let found = constants.get(i).zip(dtypes.get(i)).and_then(|(constant, dtype)| {
        let (start, end) = dtype.bytes_for(range.start).zip(dtype.bytes_for(range.end))?;
        constant.get(start..end)
    });
    found.map(<[u8]>::to_vec).ok_or_else(|| io::Error::other("the constant has no such elements"))
}

/// Keeps a verdict for other processes, if the disk allows it.
fn remember(cache: &ModelCache, key: &Key, verdict: &Verdict) {
    if let Err(error) = verdict::store(cache, key, verdict) {
        tracing::warn!(
            "{}: {error}; the program is examined again by the next process",
            cache.folder().display()
        );
    }
}

/// The operations of a region in a line, the most frequent first.
fn summary(region: &Graph) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &region.nodes {
        *counts.entry(node.op.name()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let shown: Vec<String> = counts.iter().take(4).map(|(name, count)| format!("{count} {name}")).collect();
    let more = if counts.len() > 4 { ", .." } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
