//! `perplexity`: how well a model predicts a text, and how far it is from another one.

use crate::args::{PerplexityArgs, TextArgs};
use crate::backend::Backend;
use crate::failure::Failure;
use crate::{device_report, input, memory, model, output};
use rustorch::llm::LanguageModel;
use rustorch::llm::evaluate::{
    Chunks, Distribution, Estimate, EvaluateError, KlDivergence, LogProbsReader, LogProbsWriter, Perplexity,
    kl_divergence, perplexity,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Tokens of a chunk unless told otherwise.
const CONTEXT: usize = 512;

pub(crate) fn run(args: &PerplexityArgs) -> Result<(), Failure> {
    let backend = Backend::new(&args.device)?;
    let done = backend.executor.scope(|| match (&args.kl_divergence_base, args.kl_divergence) {
        (Some(base), true) => compare(args, &backend, base),
        (base, _) => score(args, &backend, base.as_deref()),
    });
    if let Some(troubles) = device_report::troubles(&backend.executor) {
        output::note(troubles);
    }
    done
}

/// The chunks of the text that the options name.
pub(crate) fn chunks(args: &TextArgs, model: &LanguageModel) -> Result<Chunks, Failure> {
    let text = match &args.file {
        // As llama.cpp reads it.
        Some(path) => input::without_newline(input::read_file(path)?),
        None => input::read_prompt()?,
    };
    let context = args.ctx_size.unwrap_or(CONTEXT);
    check(model, context)?;
    Chunks::of_text(model, &text, context, args.chunks).map_err(failure)
}

/// Refuses a length of chunks that memory does not hold, and tells of one that the model does not know.
fn check(model: &LanguageModel, context: usize) -> Result<(), Failure> {
    memory::check_context(model, context, "--ctx-size")?;
    let trained = model.model().config().context;
    if context > trained {
        output::note(format_args!(
            "warning: the model was trained on contexts of {trained} tokens, not {context}"
        ));
    }
    Ok(())
}

/// The perplexity of a text; `base` takes the log probabilities.
fn score(args: &PerplexityArgs, backend: &Backend, base: Option<&Path>) -> Result<(), Failure> {
    let model = model::load(&args.model, backend, &args.device)?;
    let chunks = chunks(&args.text, &model)?;
    let mut writer =
        base.map(|path| LogProbsWriter::create(path, &model, &chunks)).transpose().map_err(failure)?;
    let mut running = Vec::new();
    let done = perplexity(&model, &chunks, writer.as_mut(), &mut |chunk, so_far| {
        let value = so_far.estimate().value;
        output::progress(format_args!("[{chunk}]{value:.4},"));
        running.push(value);
    });
    output::progress("\n");
    let done = done.map_err(failure)?;
    if let Some(writer) = writer {
        writer.finish().map_err(failure)?;
    }
    let report = Report::new(&done, &chunks, running);
    if args.json { output::json(&report) } else { output::line(report.line()) }
}

/// What is told of a perplexity.
#[derive(Serialize)]
struct Report {
    perplexity: f64,
    uncertainty: f64,
    /// The mean negative log likelihood of a token.
    nll: f64,
    context: usize,
    chunks: usize,
    /// How many tokens were scored.
    tokens: usize,
    /// The perplexity after each chunk.
    running: Vec<f64>,
}

impl Report {
    fn new(done: &Perplexity, chunks: &Chunks, running: Vec<f64>) -> Report {
        let Estimate { value, uncertainty } = done.estimate();
        Report {
            perplexity: value,
            uncertainty,
            nll: done.nll().value,
            context: chunks.context(),
            chunks: chunks.len(),
            tokens: done.tokens(),
            running,
        }
    }

    fn line(&self) -> String {
        format!(
            "perplexity: {:.4} ± {:.4} ({} tokens scored, {} chunks of {})",
            self.perplexity, self.uncertainty, self.tokens, self.chunks, self.context
        )
    }
}

/// The divergence from the model whose log probabilities are in `base`.
fn compare(args: &PerplexityArgs, backend: &Backend, base: &Path) -> Result<(), Failure> {
    let mut base = LogProbsReader::open(base).map_err(failure)?;
    let text = &args.text;
    let given =
        [(text.file.is_some(), "-f"), (text.ctx_size.is_some(), "-c"), (text.chunks.is_some(), "--chunks")];
    for (_, name) in given.iter().filter(|(given, _)| *given) {
        output::note(format_args!("{name} has no effect: the chunks are those of the log probabilities"));
    }
    let model = model::load(&args.model, backend, &args.device)?;
    check(&model, base.chunks().context())?;
    output::note(
        "chunk             PPL         ln(PPL/PPL(base))       KL divergence           Δp RMS            same top",
    );
    let done = kl_divergence(&model, &mut base, &mut |chunk, so_far| output::note(row(chunk, so_far)));
    let statistics = Statistics::new(&done.map_err(failure)?);
    if args.json { output::json(&statistics.json()) } else { statistics.print() }
}

/// Names and keys of the quantiles that are told.
const QUANTILES: &[(&str, &str, f32)] = &[
    ("maximum", "maximum", 1.0),
    ("99.9 %", "p99_9", 0.999),
    ("99 %", "p99", 0.99),
    ("95 %", "p95", 0.95),
    ("90 %", "p90", 0.9),
    ("75 %", "p75", 0.75),
    ("median", "median", 0.5),
    ("25 %", "p25", 0.25),
    ("10 %", "p10", 0.1),
    ("5 %", "p5", 0.05),
    ("1 %", "p1", 0.01),
    ("0.1 %", "p0_1", 0.001),
    ("minimum", "minimum", 0.0),
];

/// What was measured until a chunk.
fn row(chunk: usize, so_far: &KlDivergence) -> String {
    let [ppl, ratio, mean] = [so_far.perplexity(), so_far.log_ratio(), so_far.mean()];
    let [rms, same] = [so_far.rms_probability_difference(), so_far.same_top()].map(percent);
    format!(
        "{chunk:4}  {:9.4} ± {:9.4}  {:9.5} ± {:9.5}  {:9.5} ± {:9.5}  {:6.3} ± {:6.3} %  {:6.3} ± {:6.3} %",
        ppl.value,
        ppl.uncertainty,
        ratio.value,
        ratio.uncertainty,
        mean.value,
        mean.uncertainty,
        rms.value,
        rms.uncertainty,
        same.value,
        same.uncertainty,
    )
}

fn percent(estimate: Estimate) -> Estimate {
    Estimate { value: 100.0 * estimate.value, uncertainty: 100.0 * estimate.uncertainty }
}

/// What is told of a divergence: groups of named figures.
struct Statistics(Vec<(&'static str, Vec<Figure>)>);

struct Figure {
    /// Its name for people and for programs.
    name: [&'static str; 2],
    value: f64,
    uncertainty: Option<f64>,
    is_share: bool,
}

impl Figure {
    fn estimate(name: [&'static str; 2], estimate: Estimate) -> Figure {
        Figure { name, value: estimate.value, uncertainty: Some(estimate.uncertainty), is_share: false }
    }

    fn quantiles(of: &Distribution) -> impl Iterator<Item = Figure> {
        QUANTILES.iter().map(|&(name, key, fraction)| {
            let value = of.quantile(fraction).into();
            Figure { name: [name, key], value, uncertainty: None, is_share: false }
        })
    }

    fn share(self) -> Figure {
        Figure { is_share: true, ..self }
    }
}

impl Statistics {
    fn new(done: &KlDivergence) -> Statistics {
        let perplexities = vec![
            Figure::estimate(["PPL", "perplexity"], done.perplexity()),
            Figure::estimate(["PPL(base)", "base_perplexity"], done.base_perplexity()),
            Figure {
                name: ["correlation of ln(PPL) and ln(PPL(base))", "correlation"],
                value: done.correlation(),
                uncertainty: None,
                is_share: true,
            },
            Figure::estimate(["ln(PPL/PPL(base))", "log_ratio"], done.log_ratio()),
            Figure::estimate(["PPL/PPL(base)", "ratio"], done.ratio()),
            Figure::estimate(["PPL-PPL(base)", "difference"], done.difference()),
        ];
        let mut divergence = vec![Figure::estimate(["mean", "mean"], done.mean())];
        divergence.extend(Figure::quantiles(&done.divergences()));
        let mut difference = vec![Figure::estimate(["mean", "mean"], done.probability_difference())];
        difference.extend(Figure::quantiles(&done.probability_differences()));
        difference.push(Figure::estimate(["root mean square", "rms"], done.rms_probability_difference()));
        difference.push(Figure::estimate(["same likeliest token", "same_top"], done.same_top()));
        let difference = difference.into_iter().map(Figure::share).collect();
        Statistics(vec![
            ("perplexity", perplexities),
            ("kl_divergence", divergence),
            ("probability_difference", difference),
        ])
    }

    fn print(&self) -> Result<(), Failure> {
        for (i, (title, figures)) in self.0.iter().enumerate() {
            let space = if i > 0 { "\n" } else { "" };
            output::line(format_args!("{space}{}", title.replace('_', " ")))?;
            for Figure { name: [name, _], value, uncertainty, is_share } in figures {
                let (factor, unit) = if *is_share { (100.0, " %") } else { (1.0, "") };
                let uncertainty = uncertainty.map(|u| format!(" ± {:.6}", factor * u)).unwrap_or_default();
                output::line(format_args!("  {name:41} {:11.6}{uncertainty}{unit}", factor * value))?;
            }
        }
        Ok(())
    }

    /// An object of objects; shares are fractions of 1.
    fn json(&self) -> Value {
        let group = |figures: &[Figure]| -> Map<String, Value> {
            let entry = |figure: &Figure| {
                let value = match figure.uncertainty {
                    Some(uncertainty) => json!({ "value": figure.value, "uncertainty": uncertainty }),
                    None => json!(figure.value),
                };
                (figure.name[1].to_owned(), value)
            };
            figures.iter().map(entry).collect()
        };
        self.0.iter().map(|(title, figures)| ((*title).to_owned(), Value::Object(group(figures)))).collect()
    }
}

pub(crate) fn failure(error: EvaluateError) -> Failure {
    match error {
        EvaluateError::Model(error) => error.into(),
        EvaluateError::Context { .. } | EvaluateError::TooShort { .. } | EvaluateError::Vocabulary { .. } => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::Other(error.to_string()),
    }
}
