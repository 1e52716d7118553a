//! `architectures`: which models run.

use crate::args::ArchitecturesArgs;
use crate::failure::Failure;
use crate::output;
use rustorch::llm::arch::Architecture;
use serde_json::{Value, json};

pub(crate) fn run(args: &ArchitecturesArgs) -> Result<(), Failure> {
    let all = Architecture::ALL;
    if args.json {
        let entries: Vec<Value> = all
            .iter()
            .map(|a| json!({ "name": a.name, "models": a.models, "parts": a.features() }))
            .collect();
        return output::json(&entries);
    }
    let width = all.iter().map(|a| a.name.len()).max().unwrap_or(0);
    for a in all {
        output::line(format_args!("{:<width$}  {}: {}", a.name, a.models, a.features().join(", ")))?;
    }
    Ok(())
}
