//! `imatrix`: statistics of the activations that a text gives a model, for `quantize --imatrix`.

use super::perplexity::{self, chunks};
use crate::args::ImatrixArgs;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::model::{self, progress_bar};
use crate::{device_report, output};
use rustorch::llm::imatrix::{ActivationStatistics, CollectOptions, ImatrixError, collect};

pub(crate) fn run(args: &ImatrixArgs) -> Result<(), Failure> {
    let backend = Backend::new(&args.device)?;
    let done = backend.executor.scope(|| measure(args, &backend));
    if let Some(troubles) = device_report::troubles(&backend.executor) {
        output::note(troubles);
    }
    done
}

fn measure(args: &ImatrixArgs, backend: &Backend) -> Result<(), Failure> {
    let earlier: Vec<ActivationStatistics> =
        args.in_file.iter().map(ActivationStatistics::open).collect::<Result<_, _>>().map_err(failure)?;
    let model = model::load(&args.model, backend, &args.device)?;
    let chunks = chunks(&args.text, &model)?;
    let mut statistics = ActivationStatistics::new(chunks.context());
    for earlier in &earlier {
        statistics.merge(earlier).map_err(failure)?;
    }
    let bar = progress_bar("running {bar:32} {pos}/{len} chunks");
    bar.set_length(chunks.len() as u64);
    let options = CollectOptions { output: args.process_output };
    let done =
        collect(&model, &chunks, &options, &mut statistics, &mut |chunk| bar.set_position(chunk as u64));
    bar.finish_and_clear();
    done.map_err(failure)?;
    statistics.add_dataset(match &args.text.file {
        Some(path) => path.display().to_string(),
        None => "standard input".into(),
    });
    statistics.write(&args.output).map_err(failure)?;
    for (name, sums) in statistics.iter() {
        let without = sums.counts.iter().filter(|&&count| count == 0).count();
        if without > 0 {
            output::note(format_args!(
                "warning: no token came to {without} of {} experts of {name}; a longer text may reach them",
                sums.counts.len()
            ));
        }
    }
    output::line(format_args!(
        "{}: {} weights, {} chunks of {} tokens",
        args.output.display(),
        statistics.iter().len(),
        statistics.chunk_count(),
        statistics.chunk_size(),
    ))
}

pub(super) fn failure(error: ImatrixError) -> Failure {
    match error {
        ImatrixError::Evaluate(error) => perplexity::failure(error),
        ImatrixError::File(_) | ImatrixError::Format { .. } => Failure::Model(error.to_string()),
        _ => Failure::Usage(error.to_string()),
    }
}
