//! The program's main job: text from a model, once or in a chat.

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::{backend, chat, interrupt, model, output, prompt};
use rustorch::llm::LanguageModel;
use rustorch::llm::chat::Message;
use rustorch::llm::generate::{
    Finish, Generation, GenerationOptions, Overflow, Session, SessionOptions, Step,
};
use rustorch::llm::sampling::Sampler;
use serde::Serialize;
use std::io::{IsTerminal, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What the embedded model begins with when nobody gives it anything.
const DEMO_PROMPT: &str = "KING RICHARD III:\n";
/// The most tokens that the embedded model writes unless told otherwise.
const DEMO_TOKENS: usize = 256;

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let executor = backend::executor(&args.device)?;
    executor.scope(|| {
        let model = model::load(args.model.model.as_deref())?;
        let session = session(args, &model)?;
        interrupt::install();
        let piped = !std::io::stdin().is_terminal();
        let embedded = args.model.model.is_none();
        match &args.prompt {
            Some(prompt) if prompt == "-" => once(args, session, &read_stdin()?),
            Some(prompt) => once(args, session, prompt),
            // The demonstration never waits for input: whoever starts it from a script may not give any.
            None if embedded && !args.ids && !args.json => demo(args, session, piped),
            None if piped => once(args, session, &read_stdin()?),
            None if args.ids || args.json => {
                Err(Failure::Usage("--ids and --json need a prompt: -p or text on standard input".into()))
            }
            None => chat::run(args, session),
        }
    })
}

fn session(args: &RunArgs, model: &Arc<LanguageModel>) -> Result<Session, Failure> {
    let mut options = SessionOptions::for_model(model);
    if let Some(size) = args.ctx_size {
        options.context = size;
        let trained = model.network().hyperparameters().context;
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
    if args.verbose {
        describe(model, &options);
    }
    Ok(Session::new(Arc::clone(model), options)?)
}

fn describe(model: &LanguageModel, options: &SessionOptions) {
    let summary = model.file().summary();
    output::note(format_args!(
        "model: {} ({}, {} parameters, {})",
        model.name().unwrap_or("unnamed"),
        model.network().architecture().name,
        output::count(summary.parameters),
        output::bytes(summary.bytes),
    ));
    output::note(format_args!("context: {} tokens", options.context));
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    // The newline that `echo` adds is not meant.
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Without any argument: the embedded model writes a scene, and on a terminal the chat opens.
fn demo(args: &RunArgs, mut session: Session, piped: bool) -> Result<(), Failure> {
    let (mut sampler, seed) = prompt::sampler(&args.sampling)?;
    let ids = prompt::encode_raw(session.model(), DEMO_PROMPT)?;
    output::stream(DEMO_PROMPT)?;
    let options = GenerationOptions { ignore_end: true, ..prompt::generation(args, Some(DEMO_TOKENS)) };
    let done = stream(&mut session, &ids, &mut sampler, &options, false)?;
    output::line("")?;
    output::line("")?;
    output::line(rates(&done))?;
    if args.verbose {
        output::note(format_args!("seed {seed}"));
    }
    if piped || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    output::note("");
    chat::run(args, session)
}

/// Answers one prompt.
fn once(args: &RunArgs, mut session: Session, text: &str) -> Result<(), Failure> {
    let model = Arc::clone(session.model());
    let ids = match (args.ids, args.raw || !prompt::has_template(&model)) {
        (true, _) => prompt::parse_ids(text)?,
        (false, true) => prompt::encode_raw(&model, text)?,
        (false, false) => {
            let system = args.system.as_deref().map(Message::system);
            prompt::encode_chat(&model, &system.into_iter().chain([Message::user(text)]).collect::<Vec<_>>())?
        }
    };
    let (mut sampler, seed) = prompt::sampler(&args.sampling)?;
    let options = prompt::generation(args, None);
    let quiet = args.json || args.ids;
    let done = match quiet {
        true => session.generate(&ids, &mut sampler, &options, &mut |_| go_on())?,
        false => stream(&mut session, &ids, &mut sampler, &options, false)?,
    };
    if args.json {
        output::json(&Report::new(&done, &ids, seed))?;
    } else if args.ids {
        output::line(prompt::show_ids(&done.tokens))?;
    } else {
        output::line("")?;
    }
    if args.verbose || (!quiet && std::io::stderr().is_terminal()) {
        output::note(format_args!("\n{}", rates(&done)));
    }
    match done.finish {
        Finish::Interrupted => Err(Failure::Interrupted),
        Finish::ContextFull if !quiet => {
            output::note(
                "note: the context is full; --ctx-size makes it larger, --shift goes on without the oldest part",
            );
            Ok(())
        }
        _ => Ok(()),
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
    let clear_note = |noted: &mut bool| {
        if std::mem::take(noted) {
            eprint_raw("\r\x1b[K");
        }
    };
    let done = session.generate(ids, sampler, options, &mut |step| {
        match step {
            Step::Prompt { done, total } if prompt_note && done < total => {
                noted = true;
                eprint_raw(&format!("\rreading {done}/{total} tokens"));
            }
            Step::Prompt { .. } => clear_note(&mut noted),
            Step::Token { text, .. } => {
                if let Err(failure) = output::stream(text) {
                    closed = Some(failure);
                    return ControlFlow::Break(());
                }
            }
        }
        go_on()
    })?;
    clear_note(&mut noted);
    match closed {
        Some(failure) => Err(failure),
        None => Ok(done),
    }
}

fn eprint_raw(text: &str) {
    use std::io::Write;
    // A note for the person at the terminal; where it cannot be shown nothing is lost.
    let _ = std::io::stderr().write_all(text.as_bytes());
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
                Finish::End => "end",
                Finish::Stop => "stop",
                Finish::Length => "length",
                Finish::ContextFull => "context_full",
                Finish::Interrupted => "interrupted",
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
