//! `bench`: prompt processing and generation, measured as llama-bench does.

use super::bench_devices;
use crate::args::{BenchArgs, BenchCommand};
use crate::backend::Backend;
use crate::failure::Failure;
use crate::{device_report, model, output};
use rustorch::core::Philox;
use rustorch::llm::LanguageModel;
use rustorch::llm::generate::{Session, SessionOptions};
use rustorch::runtime::{HybridExecutor, Profile};
use serde::{Serialize, Serializer};
use std::sync::Arc;
use std::time::Instant;

/// One measurement.
#[derive(Serialize)]
struct Measurement {
    /// `pp512`: a prompt of 512 tokens; `tg128`: 128 tokens generated one by one; `@ d4096`: behind 4,096 others.
    test: String,
    tokens: usize,
    /// Tokens per second of each repetition.
    samples: Vec<f64>,
    median: f64,
    mean: f64,
    deviation: f64,
    /// Where the time of one more repetition goes.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "profile_to_json")]
    profile: Option<Profile>,
}

fn profile_to_json<S: Serializer>(profile: &Option<Profile>, to: S) -> Result<S::Ok, S::Error> {
    profile.as_ref().map(|profile| profile.to_json(false)).serialize(to)
}

#[derive(Serialize)]
struct Report {
    model: String,
    architecture: &'static str,
    parameters: u64,
    bytes: u64,
    backend: String,
    devices: Vec<String>,
    measurements: Vec<Measurement>,
}

pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    if let Some(BenchCommand::Devices(args)) = &args.what {
        return bench_devices::run(args);
    }
    if args.n_prompt.iter().chain(&args.n_gen).all(|&n| n == 0) {
        return Err(Failure::Usage("there is nothing to measure: give -p or -n a length above 0".into()));
    }
    let backend = Backend::new(&args.device)?;
    let executor = &backend.executor;
    let done = executor.scope(|| {
        let model = model::load(&args.model, &backend, &args.device)?;
        let mut measurements = Vec::new();
        for &depth in &args.n_depth {
            for &n in args.n_prompt.iter().filter(|&&n| n > 0) {
                let run = |session: &mut Session, tokens: &[u32]| {
                    session.feed(tokens)?;
                    Ok(())
                };
                measurements.push(measure(&model, ("pp", n, depth), args, run)?);
            }
            for &n in args.n_gen.iter().filter(|&&n| n > 0) {
                // Token by token, without sampling: what llama-bench calls generation.
                let run = |session: &mut Session, tokens: &[u32]| {
                    for &token in tokens {
                        session.feed(&[token])?;
                    }
                    Ok(())
                };
                measurements.push(measure(&model, ("tg", n, depth), args, run)?);
            }
        }
        let summary = model.file().summary();
        let devices = executor.memory().devices().into_iter().map(|d| {
            let name = executor.backend(d).map(|b| b.capability().name.clone()).unwrap_or_default();
            format!("{d} ({name})")
        });
        let report = Report {
            model: model.name().unwrap_or("unnamed").into(),
            architecture: model.model().architecture().name,
            parameters: summary.parameters,
            bytes: summary.bytes,
            backend: args.device.backend.to_string(),
            devices: devices.collect(),
            measurements,
        };
        if args.json { output::json(&report) } else { print(&report) }
    });
    if let Some(troubles) = device_report::troubles(executor) {
        output::note(troubles);
    }
    done
}

fn print(report: &Report) -> Result<(), Failure> {
    output::line(format_args!(
        "{} ({}), {} parameters, {}; on {}",
        report.model,
        report.architecture,
        output::count(report.parameters),
        output::bytes(report.bytes),
        report.devices.join(", "),
    ))?;
    let row = |m: &Measurement| {
        vec![
            m.test.clone(),
            format!("{:.2}", m.median),
            format!("{:.2}", m.mean),
            format!("{:.2}", m.deviation),
        ]
    };
    let rows: Vec<Vec<String>> = report.measurements.iter().map(row).collect();
    output::table(&["test", "tokens/s (median)", "mean", "±"], &rows)?;
    for m in &report.measurements {
        if let Some(profile) = &m.profile {
            output::line(format_args!("\n{}", m.test))?;
            output::stream(&profile.to_string())?;
        }
    }
    Ok(())
}

/// Runs a test, which reads `n` tokens behind `depth` others, once to warm up, then as often as the arguments say.
fn measure(
    model: &Arc<LanguageModel>,
    (kind, n, depth): (&str, usize, usize),
    args: &BenchArgs,
    run: impl Fn(&mut Session, &[u32]) -> Result<(), Failure>,
) -> Result<Measurement, Failure> {
    let test = if depth == 0 { format!("{kind}{n}") } else { format!("{kind}{n} @ d{depth}") };
    let tokens = tokens(model, depth + n);
    let options = SessionOptions { context: depth + n, ..SessionOptions::for_model(model) };
    let mut session = Session::new(Arc::clone(model), options)?;
    let repetitions = args.repetitions;
    let mut samples = Vec::with_capacity(repetitions);
    output::status(&format!("{test}: warming up"));
    let rewind = |session: &mut Session| -> Result<(), Failure> {
        session.truncate(depth);
        // Also where no token is left to read: a recurrent state is then recomputed up to here.
        let kept = session.tokens().len();
        session.feed(&tokens[kept..depth])?;
        Ok(())
    };
    let mut once = || -> Result<f64, Failure> {
        rewind(&mut session)?;
        let start = Instant::now();
        run(&mut session, &tokens[depth..])?;
        Ok(start.elapsed().as_secs_f64())
    };
    once()?;
    while samples.len() < repetitions {
        output::status(&format!("{test}: {} of {repetitions}", samples.len() + 1));
        samples.push(n as f64 / once()?);
    }
    let mut profile = None;
    if args.profile {
        output::status(&format!("{test}: profiling"));
        rewind(&mut session)?;
        let (done, found) = HybridExecutor::current().profile(|| run(&mut session, &tokens[depth..]));
        done?;
        profile = Some(found);
    }
    output::status("");
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median =
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Ok(Measurement { test, tokens: n, samples, median, mean, deviation: variance.sqrt(), profile })
}

/// Tokens without meaning: speed does not depend on which they are.
fn tokens(model: &LanguageModel, n: usize) -> Vec<u32> {
    let mut random = Philox::new(1);
    let vocabulary = model.model().config().vocabulary as u32;
    (0..n).map(|_| random.next_u32() % vocabulary).collect()
}
