//! `export`: a model for other runtimes.

use crate::args::{AttentionKind, CoremlArgs, ExportArgs, ExportFormat, Precision, Weights};
use crate::failure::Failure;
use crate::{memory, model, output};
use rustorch::Numerics;
use rustorch::coreml::{AttentionForm, CoreMlOptions, QuantWeights};
use rustorch::files::save_mlpackage_functions;
use rustorch::llm::LanguageModel;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    match &args.format {
        ExportFormat::Coreml(args) => coreml(args),
    }
}

fn coreml(args: &CoremlArgs) -> Result<(), Failure> {
    // Before a large model is read.
    if args.output.symlink_metadata().is_ok() {
        let message = format!("{} exists; remove it or name another folder", args.output.display());
        return Err(Failure::Usage(message));
    }
    let prompts: BTreeSet<usize> = args.prompt.iter().copied().collect();
    if prompts.contains(&1) {
        return Err(Failure::Usage("--prompt 1 is what `decode` does; name larger numbers".to_owned()));
    }
    if let Some(prompt) = prompts.iter().find(|&&prompt| prompt > args.context) {
        let message = format!("--prompt {prompt} is larger than --context {}", args.context);
        return Err(Failure::Usage(message));
    }
    let file = model::open(&args.model)?;
    let mut model =
        LanguageModel::from_file(file, &mut |_, _| {}).map_err(|error| Failure::Model(error.to_string()))?;
    // ggml's roundings have no form in Core ML.
    model.set_numerics(Numerics::F32);
    memory::check_context(&model, args.context, "--context")?;
    let tokens: Vec<usize> = [1].into_iter().chain(prompts).collect();
    let programs = model.model().capture_static(args.context, &tokens).map_err(|error| {
        Failure::Model(format!("this model has no graph that is right for every position: {error}"))
    })?;
    let name = |&tokens: &usize| if tokens == 1 { "decode".to_owned() } else { format!("prompt_{tokens}") };
    let names: Vec<String> = tokens.iter().map(name).collect();
    let metadata = [
        ("rustorch.architecture", model.model().architecture().name.to_owned()),
        ("rustorch.context", args.context.to_string()),
    ];
    let below = [("token", model.model().config().vocabulary), ("position", args.context)];
    // Beyond 2³² there is nothing to refuse: inputs are `int32`.
    let below = below.map(|(name, below)| (name.to_owned(), u32::try_from(below).unwrap_or(u32::MAX)));
    let options = CoreMlOptions {
        allow_f16: args.precision == Precision::F16,
        quant_weights: match args.weights {
            Weights::Blocks => QuantWeights::Blocks,
            Weights::F16 => QuantWeights::F16,
        },
        attention: match args.attention {
            AttentionKind::Auto => AttentionForm::Auto,
            AttentionKind::Composed => AttentionForm::Composed,
            AttentionKind::Fused => AttentionForm::Fused,
        },
        inputs: vec!["token".to_owned(), "position".to_owned()],
        outputs: vec!["logits".to_owned()],
        description: format!(
            "{}: logits after tokens, at positions from 0 to {}; behind these they are NaN",
            model.name().unwrap_or("a language model"),
            args.context - 1
        ),
        metadata: metadata
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        below: below.into(),
    };
    let functions: Vec<_> =
        names.iter().zip(&programs).map(|(name, program)| (name.as_str(), program, &options)).collect();
    save_mlpackage_functions(&args.output, &functions).map_err(|error| Failure::Other(error.to_string()))?;
    output::line(format_args!(
        "{}: {}, {} states of f16",
        args.output.display(),
        names.join(", "),
        programs[0].states().len()
    ))
}
