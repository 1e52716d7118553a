//! `explain`: which device ran which operation, for how long and why.

use crate::args::ExplainArgs;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::{model, output, prompt};
use rustorch::llm::LanguageModel;
use rustorch::llm::generate::{Session, SessionOptions};
use serde_json::json;
use std::sync::Arc;

pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let backend = Backend::new(&args.device)?;
    let executor = &backend.executor;
    // Without a tokenizer the prompt does not matter; any token serves.
    let model = executor.scope(|| model::load(&args.model, &backend, &args.device))?;
    let ids = match model.tokenizer() {
        Ok(_) => prompt::encode_raw(&model, &args.prompt)?,
        Err(_) => vec![0],
    };
    let (read, profile) = executor.profile(|| work(&model, &ids, args.n_predict));
    read?;
    if let Some(path) = &args.trace {
        output::file(path, |out| profile.write_chrome_trace(out))?;
    }
    if args.json {
        return output::json(&json!({
            "model": model.name().unwrap_or("unnamed"),
            "backend": args.device.backend.to_string(),
            "prompt_tokens": ids.len(),
            "generated_tokens": args.n_predict,
            "profile": profile.to_json(args.all),
        }));
    }
    if args.all {
        return output::stream(&profile.explanation().to_string());
    }
    output::stream(&profile.to_string())?;
    output::line(format_args!("{} prompt tokens were read and {} generated", ids.len(), args.n_predict,))
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
