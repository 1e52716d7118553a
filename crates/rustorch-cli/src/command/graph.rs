//! `graph`: the operations by which a model reads a prompt and decodes a token, as captured graphs.

use crate::args::GraphArgs;
use crate::failure::Failure;
use crate::{memory, model, output};
use rustorch::Program;
use rustorch::core::{Graph, ValueId};
use rustorch::files::save_program;
use rustorch::llm::LanguageModel;
use rustorch::llm::model::KvCache;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(crate) fn run(args: &GraphArgs) -> Result<(), Failure> {
    let file = model::open(&args.model)?;
    let model =
        LanguageModel::from_file(file, &mut |_, _| {}).map_err(|error| Failure::Model(error.to_string()))?;
    memory::check_context(&model, args.ctx_size, "--ctx-size")?;
    check_prompt(args.prompt, args.ctx_size)?;
    let cache = model.model().new_cache(args.ctx_size)?;
    let capture = |tokens: usize| capture(&model, &cache, tokens);
    let one = || capture(args.prompt.unwrap_or(1));
    if args.list {
        return output::stream(&one()?.graph().to_string());
    }
    if let Some(path) = &args.dot {
        let program = one()?;
        return output::file(path, |out| out.write_all(program.graph().to_dot().as_bytes()));
    }
    if let Some(path) = &args.save {
        return save_program(path, &one()?).map_err(|error| Failure::Other(error.to_string()));
    }
    let report = |tokens: usize| {
        let started = Instant::now();
        let program = capture(tokens)?;
        Ok::<_, Failure>(Report::of(&program, tokens, started.elapsed()))
    };
    let prompt = args.prompt.unwrap_or(PROMPT.min(args.ctx_size));
    let reports = [("decode", report(1)?), ("prompt", report(prompt)?)];
    if args.json {
        let graphs: BTreeMap<&str, Value> =
            reports.iter().map(|(name, report)| (*name, report.json())).collect();
        return output::json(&json!({ "model": model.name(), "context": args.ctx_size, "graphs": graphs }));
    }
    for (name, report) in &reports {
        let tokens = report.tokens;
        let plural = if tokens == 1 { "token" } else { "tokens" };
        output::line(format_args!(
            "{name} ({tokens} {plural} behind those in a cache of {})",
            args.ctx_size
        ))?;
        report.print()?;
    }
    Ok(())
}

/// Tokens of the prompt whose graph is shown unless told otherwise.
pub(super) const PROMPT: usize = 512;

/// Refuses a prompt that a cache of so many tokens does not hold.
pub(super) fn check_prompt(prompt: Option<usize>, context: usize) -> Result<(), Failure> {
    match prompt.filter(|prompt| *prompt > context) {
        None => Ok(()),
        Some(prompt) => Err(Failure::Usage(format!(
            "a prompt of {prompt} tokens does not fit into a cache of {context}; make --ctx-size larger"
        ))),
    }
}

/// The graph by which a model reads so many tokens.
pub(super) fn capture(model: &LanguageModel, cache: &KvCache, tokens: usize) -> Result<Program, Failure> {
    model.model().capture(cache, tokens).map_err(|error| {
        Failure::Model(format!("this model has no graph that is right for every position: {error}"))
    })
}

/// What a graph is made of.
struct Report {
    tokens: usize,
    /// How long capture, checks and passes took.
    took: Duration,
    operations: BTreeMap<&'static str, usize>,
    /// How many there are, and their bytes.
    constants: (usize, u64),
    states: (usize, u64),
    /// The bytes of temporaries.
    temporaries: Option<usize>,
}

impl Report {
    fn of(program: &Program, tokens: usize, took: Duration) -> Report {
        let graph = program.graph();
        let mut operations = BTreeMap::new();
        for node in &graph.nodes {
            *operations.entry(node.op.name()).or_default() += 1;
        }
        let states: Vec<ValueId> = graph.states.iter().map(|state| state.first).collect();
        Report {
            tokens,
            took,
            operations,
            constants: sizes(graph, &graph.constants()),
            states: sizes(graph, &states),
            temporaries: program.arena_bytes(),
        }
    }

    /// The operations, the most frequent first.
    fn sorted(&self) -> Vec<(&'static str, usize)> {
        let mut sorted: Vec<_> = self.operations.iter().map(|(name, count)| (*name, *count)).collect();
        sorted.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        sorted
    }

    fn print(&self) -> Result<(), Failure> {
        let sorted = self.sorted();
        let rows: Vec<Vec<String>> =
            sorted.iter().map(|(name, count)| vec![(*name).to_owned(), count.to_string()]).collect();
        output::table(&["operation", "count"], &rows)?;
        let total: usize = self.operations.values().sum();
        let size = |(count, bytes): (usize, u64)| format!("{count} ({})", output::bytes(bytes));
        let temporaries =
            self.temporaries.map_or("where they are needed".to_owned(), |bytes| output::bytes(bytes as u64));
        output::line(format_args!(
            "{total} operations; constants: {}; states: {}; temporaries: {temporaries}; captured in {:.1} ms\n",
            size(self.constants),
            size(self.states),
            self.took.as_secs_f64() * 1e3,
        ))
    }

    fn json(&self) -> Value {
        json!({
            "tokens": self.tokens,
            "capture_seconds": self.took.as_secs_f64(),
            "operations": self.operations,
            "constants": { "count": self.constants.0, "bytes": self.constants.1 },
            "states": { "count": self.states.0, "bytes": self.states.1 },
            "temporary_bytes": self.temporaries,
        })
    }
}

fn sizes(graph: &Graph, ids: &[ValueId]) -> (usize, u64) {
    (ids.len(), ids.iter().map(|id| graph.values[id.index()].bytes() as u64).sum())
}
