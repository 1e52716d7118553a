//! `coreml`: what was found out of programs for Core ML.

use crate::args::{CoremlCommand, CoremlProgramsArgs};
use crate::failure::Failure;
use crate::output;
use rustorch::coreml::admission::{Key, ModelCache, Verdict, forget, verdicts};
use rustorch::devices::model_cache;
use serde::Serialize;
use std::collections::BTreeMap;

/// A program as `--json` prints it.
#[derive(Serialize)]
struct Row {
    key: String,
    #[serde(flatten)]
    verdict: Verdict,
    /// Of the compiled program; null where there is none.
    compiled_bytes: Option<u64>,
}

pub(crate) fn run(args: &CoremlProgramsArgs) -> Result<(), Failure> {
    let cache = model_cache().ok_or_else(|| {
        Failure::Other("there is no folder for caches on this system; set RUSTORCH_CACHE_DIR".into())
    })?;
    match &args.what {
        CoremlCommand::List { json } => list(&cache, *json),
        CoremlCommand::Forget { keys, all } => forget_programs(&cache, keys, *all),
    }
}

fn list(cache: &ModelCache, json: bool) -> Result<(), Failure> {
    let sizes: BTreeMap<Key, u64> =
        cache.entries().into_iter().map(|entry| (entry.key, entry.bytes)).collect();
    let rows: Vec<Row> = verdicts(cache)
        .into_iter()
        .map(|(key, verdict)| Row { compiled_bytes: sizes.get(&key).copied(), key: key.to_string(), verdict })
        .collect();
    if json {
        return output::json(&rows);
    }
    if rows.is_empty() {
        return output::line(format_args!("No program was examined ({}).", cache.folder().display()));
    }
    for row in rows {
        let Verdict { refused, program, system, units, f16, plan, seconds, seconds_without, .. } =
            &row.verdict;
        let precision = if *f16 { "f16" } else { "f32" };
        let outcome = if refused.is_some() { "refused" } else { "admitted" };
        output::line(format_args!("{} {outcome}: {program}", row.key))?;
        output::line(format_args!("    asked for: compute units {units}, {precision}, on {system}"))?;
        if let Some(reason) = refused {
            output::line(format_args!("    refused: {reason}"))?;
        }
        if let (Some(with), Some(without)) = (seconds, seconds_without) {
            let (with, without) = (1e3 * with, 1e3 * without);
            output::line(format_args!("    {with:.3} ms a run, {without:.3} ms without Core ML"))?;
        }
        if let Some(plan) = plan {
            output::line(format_args!(
                "    Core ML's plan prefers: {plan} (of its own estimate of the cost)"
            ))?;
        }
        if let Some(bytes) = row.compiled_bytes {
            output::line(format_args!("    compiled: {}", output::bytes(bytes)))?;
        }
    }
    Ok(())
}

fn forget_programs(cache: &ModelCache, keys: &[String], all: bool) -> Result<(), Failure> {
    let known: Vec<Key> = verdicts(cache).into_iter().map(|(key, _)| key).collect();
    let chosen = match all {
        true => known,
        false => {
            let chosen = keys.iter().map(|text| {
                let found = known.iter().find(|key| key.to_string() == *text);
                found.cloned().ok_or_else(|| {
                    Failure::Usage(format!(
                        "no program {text} was examined; `rustorch-cli coreml list` prints the keys of those that were"
                    ))
                })
            });
            chosen.collect::<Result<Vec<_>, _>>()?
        }
    };
    for key in &chosen {
        forget(cache, key)
            .map_err(|error| Failure::Other(format!("{}: {error}", cache.folder().display())))?;
    }
    let programs = if chosen.len() == 1 { "program" } else { "programs" };
    output::line(format_args!("Forgot {} {programs}.", chosen.len()))
}
