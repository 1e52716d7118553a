//! `rerank`: documents by how well they answer a query.

use crate::args::RerankArgs;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::model::{self, progress_bar};
use crate::{input, output};
use serde_json::json;

pub(crate) fn run(args: &RerankArgs) -> Result<(), Failure> {
    let documents = input::lines_or(&args.documents, args.file.as_deref(), "DOCUMENT")?;
    let backend = Backend::new(&args.device)?;
    let (model, mut scores) = backend.executor.scope(|| {
        let model = model::load(&args.model, &backend, &args.device)?;
        let bar = progress_bar("ranking {bar:32} {pos}/{len} documents");
        bar.set_length(documents.len() as u64);
        let score = |(index, document): (usize, &String)| {
            let score = model.relevance(&args.query, document)?;
            bar.inc(1);
            Ok::<_, Failure>((index, score))
        };
        let scores = documents.iter().enumerate().map(score).collect::<Result<Vec<_>, _>>();
        bar.finish_and_clear();
        scores.map(|scores| (model, scores))
    })?;
    // Of equals the first stays the first.
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    scores.truncate(args.top_n.unwrap_or(usize::MAX));
    if args.json {
        let results = scores.iter().map(|(index, score)| json!({ "index": index, "relevance_score": score }));
        return output::json(&json!({
            "object": "list",
            "model": model.name().unwrap_or("unnamed"),
            "results": results.collect::<Vec<_>>(),
        }));
    }
    for (index, score) in scores {
        output::line(format_args!("{score:10.6}  {}", output::escaped(&documents[index])))?;
    }
    Ok(())
}
