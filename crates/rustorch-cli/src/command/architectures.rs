//! `architectures`: which models run.

use crate::args::ArchitecturesArgs;
use crate::failure::Failure;
use crate::output;
use rustorch::llm::arch::Architecture;
use serde_json::{Value, json};

pub(crate) fn run(args: &ArchitecturesArgs) -> Result<(), Failure> {
    if args.json {
        let all: Vec<Value> = Architecture::ALL
            .iter()
            .map(|a| json!({ "name": a.name, "models": a.models, "parts": a.features() }))
            .collect();
        return output::json(&all);
    }
    let rows: Vec<Vec<String>> = Architecture::ALL
        .iter()
        .map(|a| vec![a.name.into(), a.models.into(), a.features().join(", ")])
        .collect();
    output::table(&["architecture", "models", "parts"], &rows)
}
