//! The program's main job: text from a model, once or in a chat.

use crate::args::RunArgs;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::{chat, device_report, input, interrupt, memory, model, output, prompt};
use rustorch::llm::LanguageModel;
use rustorch::llm::chat::Message;
use rustorch::llm::generate::{
    FinishReason, Generation, GenerationOptions, Overflow, Session, SessionOptions, Step,
};
use rustorch::llm::sampling::Sampler;
use rustorch::runtime::HybridExecutor;
use serde::Serialize;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How the scene begins.
const SCENE_PROMPT: &str = "KING RICHARD III:\n";
/// The most tokens of the scene unless told otherwise.
const SCENE_TOKENS: usize = 256;

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let backend = Backend::new(&args.device)?;
    let done = backend.executor.scope(|| {
        let model = model::load(&args.model, &backend, &args.device)?;
        let session = session(args, &model)?;
        match what(args)? {
            What::Once(prompt) => once(args, session, &prompt),
            What::Scene => scene(args, session),
            What::Chat => chat::run(args, session),
        }
    });
    if let Some(troubles) = device_report::troubles(&backend.executor) {
        output::note(troubles);
    }
    done
}

/// What the user wants.
enum What {
    /// An answer to this.
    Once(String),
    /// A scene by the embedded model; on a terminal, a chat after it.
    Scene,
    Chat,
}

fn what(args: &RunArgs) -> Result<What, Failure> {
    let piped = !std::io::stdin().is_terminal();
    let embedded = args.model.model.is_none();
    match &args.prompt {
        Some(prompt) if prompt == "-" => input::read_prompt().map(What::Once),
        Some(prompt) => Ok(What::Once(prompt.clone())),
        None if piped && (!embedded || args.ids || args.json) => input::read_prompt().map(What::Once),
        None if piped => Ok(input::offered()?.map_or(What::Scene, What::Once)),
        None if args.ids || args.json || args.raw => Err(Failure::Usage(
            "--raw, --ids and --json need a prompt: -p TEXT or text on standard input".into(),
        )),
        None if embedded => Ok(What::Scene),
        None => Ok(What::Chat),
    }
}

fn session(args: &RunArgs, model: &Arc<LanguageModel>) -> Result<Session, Failure> {
    let mut options = SessionOptions::for_model(model);
    if let Some(size) = args.ctx_size {
        memory::check_context(model, size)?;
        options.context = size;
        let trained = model.model().config().context;
        if size > trained {
            output::note(format_args!(
                "warning: the model was trained on contexts of {trained} tokens, not {size}"
            ));
        }
    }
    if args.shift {
        // Keeping the first token keeps the beginning of the text, to which attention clings.
        options.overflow = Overflow::Shift { keep: 1 };
    }
    if args.verbose > 0 {
        output::note(describe(model));
        output::note(format_args!("context: {} tokens", options.context));
    }
    Ok(Session::new(Arc::clone(model), options)?)
}

/// A line about a model, and one about the devices that compute it.
pub(crate) fn describe(model: &LanguageModel) -> String {
    let summary = model.file().summary();
    format!(
        "model: {} ({}, {} parameters, {})\n{}",
        model.name().unwrap_or("unnamed"),
        model.model().architecture().name,
        output::count(summary.parameters),
        output::bytes(summary.bytes),
        describe_devices(model),
    )
}

/// One line about the devices that compute a model.
pub(crate) fn describe_devices(model: &LanguageModel) -> String {
    format!("device: {}", HybridExecutor::with_current(|executor| device_report::layers(executor, model)))
}

/// The embedded model writes a scene, and on a terminal the chat opens.
fn scene(args: &RunArgs, mut session: Session) -> Result<(), Failure> {
    let (mut sampler, seed) = prompt::sampler(&args.sampling)?;
    let ids = prompt::encode_raw(session.model(), SCENE_PROMPT)?;
    output::stream(SCENE_PROMPT)?;
    let options = GenerationOptions { ignore_end: true, ..prompt::generation(args, Some(SCENE_TOKENS)) };
    interrupt::install();
    let done = stream(&mut session, &ids, &mut sampler, &options, false)?;
    output::line(format_args!("\n\n{}", rates(&done)))?;
    if args.verbose > 0 {
        output::note(format_args!("seed: {seed}"));
    }
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        output::note("");
        return chat::run(args, session);
    }
    match done.finish {
        FinishReason::Interrupted => Err(Failure::Interrupted),
        _ => Ok(()),
    }
}

/// Answers one prompt.
fn once(args: &RunArgs, mut session: Session, text: &str) -> Result<(), Failure> {
    let ids = encode(args, session.model(), text)?;
    let (mut sampler, seed) = prompt::sampler(&args.sampling)?;
    let options = prompt::generation(args, None);
    interrupt::install();
    let streamed = !args.json && !args.ids;
    let done = match streamed {
        true => stream(&mut session, &ids, &mut sampler, &options, false)?,
        false => session.generate(&ids, &mut sampler, &options, &mut |_| go_on())?,
    };
    if args.json {
        output::json(&Report::new(&done, &ids, seed))?;
    } else if args.ids {
        output::line(prompt::show_ids(&done.tokens))?;
    } else {
        output::line("")?;
    }
    if args.verbose > 0 {
        output::note(format_args!("seed: {seed}"));
    }
    if args.verbose > 0 || (streamed && output::interactive()) {
        output::note(rates(&done));
        if done.finish == FinishReason::ContextFull {
            output::note(
                "the context is full; --ctx-size makes it larger, --shift goes on without the oldest part",
            );
        }
    }
    match done.finish {
        FinishReason::Interrupted => Err(Failure::Interrupted),
        _ => Ok(()),
    }
}

/// The tokens of what the user gave: ids, plain text, or the first turn of a conversation.
fn encode(args: &RunArgs, model: &LanguageModel, text: &str) -> Result<Vec<u32>, Failure> {
    if args.ids {
        return prompt::parse_ids(text);
    }
    if args.raw {
        return prompt::encode_raw(model, text);
    }
    match (&args.system, prompt::has_template(model)) {
        (None, false) => prompt::encode_raw(model, text),
        (Some(_), false) => {
            Err(Failure::Usage("--system needs a chat template, which this model lacks".into()))
        }
        (system, true) => {
            let system = system.as_deref().map(Message::system);
            let messages: Vec<Message> = system.into_iter().chain([Message::user(text)]).collect();
            prompt::encode_chat(model, &messages)
        }
    }
}

/// Generates and prints as it goes. `prompt_note` shows on a terminal how far a long prompt is.
pub(crate) fn stream(
    session: &mut Session,
    ids: &[u32],
    sampler: &mut Sampler,
    options: &GenerationOptions,
    prompt_note: bool,
) -> Result<Generation, Failure> {
    let mut closed = None;
    let mut noted = false;
    let done = session.generate(ids, sampler, options, &mut |step| {
        match step {
            Step::Prompt { done, total } if prompt_note && done < total => {
                noted = true;
                output::status(&format!("reading {done} of {total} tokens"));
            }
            Step::Prompt { .. } if std::mem::take(&mut noted) => output::status(""),
            Step::Prompt { .. } => {}
            Step::Token { text, .. } => {
                if let Err(failure) = output::stream(text) {
                    closed = Some(failure);
                    return ControlFlow::Break(());
                }
            }
        }
        go_on()
    });
    if noted {
        output::status("");
    }
    let done = done?;
    match closed {
        Some(failure) => Err(failure),
        None => Ok(done),
    }
}

/// Stops at Ctrl-C.
fn go_on() -> ControlFlow<()> {
    if interrupt::take() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// One line with the speed of a generation.
pub(crate) fn rates(done: &Generation) -> String {
    format!(
        "prompt: {} tokens, {:.1} tokens/s · generation: {} tokens, {:.1} tokens/s",
        done.prompt_tokens,
        done.prompt_rate(),
        done.tokens.len(),
        done.generation_rate(),
    )
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    text: &'a str,
    ids: &'a [u32],
    prompt_ids: &'a [u32],
    finish: &'static str,
    seed: u64,
    prompt_tokens: usize,
    prompt_seconds: f64,
    prompt_tokens_per_second: f64,
    generated_tokens: usize,
    generation_seconds: f64,
    generation_tokens_per_second: f64,
}

impl<'a> Report<'a> {
    fn new(done: &'a Generation, prompt_ids: &'a [u32], seed: u64) -> Report<'a> {
        Report {
            text: &done.text,
            ids: &done.tokens,
            prompt_ids,
            finish: match done.finish {
                FinishReason::End => "end",
                FinishReason::Stop => "stop",
                FinishReason::Length => "length",
                FinishReason::ContextFull => "context_full",
                FinishReason::Interrupted => "interrupted",
            },
            seed,
            prompt_tokens: done.prompt_tokens,
            prompt_seconds: done.prompt_time.as_secs_f64(),
            prompt_tokens_per_second: done.prompt_rate(),
            generated_tokens: done.tokens.len(),
            generation_seconds: done.generation_time.as_secs_f64(),
            generation_tokens_per_second: done.generation_rate(),
        }
    }
}
