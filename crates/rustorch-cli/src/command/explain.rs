//! `explain`: which device ran which operation, for how long and why.

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::{backend, model, output, prompt};
use rustorch::core::Verdict;
use rustorch::llm::LanguageModel;
use rustorch::llm::generate::{Session, SessionOptions};
use rustorch::runtime::Record;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let executor = backend::executor(&args.device)?;
    // Without a tokenizer the prompt does not matter; any token serves.
    let model = executor.scope(|| model::load(args.model.model.as_deref()))?;
    let ids = match model.tokenizer() {
        Ok(_) => prompt::encode_raw(&model, &args.prompt)?,
        Err(_) => vec![0],
    };
    let (read, phase) = executor.explain(|| work(&model, &ids, args.n_predict));
    read?;
    if args.all {
        output::stream(&phase.to_string())?;
        return Ok(());
    }
    summary(phase.records())?;
    output::line(format_args!(
        "\n{} operations for {} prompt tokens and {} generated; {} moved between devices",
        phase.records().len(),
        ids.len(),
        args.n_predict,
        output::bytes(phase.moved_bytes()),
    ))
}

/// Reads the prompt and generates the likeliest tokens.
fn work(model: &Arc<LanguageModel>, ids: &[u32], n: usize) -> Result<(), Failure> {
    let context = ids.len() + n + 1;
    let mut session =
        Session::new(Arc::clone(model), SessionOptions { context, ..SessionOptions::for_model(model) })?;
    session.feed(ids)?;
    for _ in 0..n {
        let logits = session.logits()?;
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
        session.feed(&[best as u32])?;
    }
    Ok(())
}

/// One line for each kind of operation on each device, the slowest first.
fn summary(records: &[Record]) -> Result<(), Failure> {
    type Key = (&'static str, String, String);
    let mut groups: BTreeMap<Key, (usize, Duration, u64)> = BTreeMap::new();
    for record in records {
        let dtypes: Vec<&str> = record.args.iter().map(|(dtype, _)| dtype.name()).collect();
        let device = record.device.map_or("none".into(), |d| d.to_string());
        let why: Vec<String> = record
            .considered
            .iter()
            .filter(|(_, verdict)| *verdict != Verdict::Ran)
            .map(|(device, verdict)| format!("{device} {verdict}"))
            .collect();
        let place = if why.is_empty() { device } else { format!("{device} ({})", why.join("; ")) };
        let group = groups.entry((record.op, dtypes.join(", "), place)).or_default();
        group.0 += 1;
        group.1 += record.time;
        group.2 += record.moved_bytes;
    }
    let total: Duration = records.iter().map(|r| r.time).sum();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (_, time, _))| std::cmp::Reverse(*time));
    let rows: Vec<Vec<String>> = groups
        .into_iter()
        .map(|((op, dtypes, place), (count, time, moved))| {
            let share = 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-12);
            vec![
                format!("{op}({dtypes})"),
                count.to_string(),
                format!("{:.3} ms", time.as_secs_f64() * 1e3),
                format!("{share:.1} %"),
                output::bytes(moved),
                place,
            ]
        })
        .collect();
    output::table(&["operation", "calls", "time", "share", "moved", "device"], &rows)
}
