//! The program's main job: text from a model, once or in a chat.

use crate::args::RunArgs;
use crate::backend::Backend;
use crate::failure::Failure;
use crate::thinking::Thinking;
use crate::{chat, device_report, input, interrupt, memory, model, output, prompt, sampling, without_effect};
use rustorch::llm::LanguageModel;
use rustorch::llm::chat::Message;
use rustorch::llm::generate::{
    FinishReason, Generation, GenerationOptions, MakeRoom, Session, SessionOptions, Step, without_older_half,
};
use rustorch::llm::sampling::Sampler;
use rustorch::llm::tokenizer::DecodeOptions;
use rustorch::runtime::HybridExecutor;
use serde::Serialize;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    let is_piped = !std::io::stdin().is_terminal();
    let given = match (&args.prompt, &args.prompt_file) {
        (Some(prompt), _) if prompt == "-" => return input::read_prompt().map(What::Once),
        (Some(prompt), _) => Some(prompt.clone()),
        (None, Some(file)) => Some(input::read_file(file)?),
        (None, None) => None,
    };
    if let Some(prompt) = given {
        let more = if is_piped { input::piped()? } else { None };
        return Ok(What::Once(more.map_or(prompt.clone(), |more| format!("{prompt}\n\n{more}"))));
    }
    let without_prompt = || {
        Failure::Usage("there is no prompt: give it by -p TEXT, -f FILE or as text on standard input".into())
    };
    match args.model.is_embedded() && !args.ids && !args.json {
        true if is_piped => Ok(input::offered()?.map_or(What::Scene, What::Once)),
        true if !args.raw => Ok(What::Scene),
        _ if is_piped => input::piped()?.map(What::Once).ok_or_else(without_prompt),
        _ if args.ids || args.json || args.raw => Err(Failure::Usage(
            "--raw, --ids and --json need a prompt: -p TEXT or text on standard input".into(),
        )),
        _ => Ok(What::Chat),
    }
}

fn session(args: &RunArgs, model: &Arc<LanguageModel>) -> Result<Session, Failure> {
    let mut options = SessionOptions::for_model(model);
    if let Some(size) = args.ctx_size {
        options.context = context_size(model, size)?;
    }
    if args.verbose > 0 {
        output::note(describe(model));
        output::note(format_args!("context: {} tokens", options.context));
    }
    Ok(Session::new(Arc::clone(model), options)?)
}

/// The context that `--ctx-size` or `/ctx` asks for: 0 is the model's own.
pub(crate) fn context_size(model: &LanguageModel, asked: usize) -> Result<usize, Failure> {
    let trained = model.model().config().context;
    let size = if asked == 0 { trained } else { asked };
    memory::check_context(model, size, "--ctx-size")?;
    if size > trained {
        output::note(format_args!(
            "warning: the model was trained on contexts of {trained} tokens, not {size}"
        ));
    }
    Ok(size)
}

/// A line about a model, and one about the devices that compute it.
pub(crate) fn describe(model: &LanguageModel) -> String {
    let summary = model.file().summary();
    format!(
        "model: {} ({}, {} parameters, {})\n{}",
        output::escaped(model.name().unwrap_or("unnamed")),
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
    let mut sampler = sampler(args, session.model())?;
    let opens_chat = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !opens_chat && args.system()?.is_some() {
        without_effect::note("--system", "the scene is no conversation; -p gives a message");
    }
    let ids = prompt::encode_raw(session.model(), SCENE_PROMPT)?;
    output::stream(SCENE_PROMPT)?;
    let options = GenerationOptions { ignore_end: true, ..prompt::generation(args, Some(SCENE_TOKENS)) };
    interrupt::install();
    let done = answer(&mut session, &ids, &mut sampler, &options, args.shift, true)?;
    output::line("")?;
    output::note(format_args!("\n{}", rates(&done)));
    if opens_chat {
        output::note("");
        return chat::run(args, session);
    }
    ended(&done, &session)
}

/// Answers one prompt.
fn once(args: &RunArgs, mut session: Session, text: &str) -> Result<(), Failure> {
    let ids = encode(args, session.model(), text)?;
    let mut sampler = sampler(args, session.model())?;
    let options = prompt::generation(args, None);
    interrupt::install();
    let streamed = !args.json && !args.ids;
    let done = answer(&mut session, &ids, &mut sampler, &options, args.shift, streamed)?;
    if args.json {
        output::json(&Report::new(&done, &ids, sampler.config().seed))?;
    } else if args.ids {
        output::line(prompt::show_ids(&done.tokens))?;
    } else {
        output::line("")?;
    }
    if args.verbose > 0 || (streamed && output::interactive()) {
        output::note(rates(&done));
    }
    if done.dropped_tokens > 0 {
        output::note(format_args!(
            "(the context was full; the oldest {} tokens were dropped)",
            done.dropped_tokens
        ));
    }
    if let (FinishReason::Length, Some(limit)) = (done.finish, args.n_predict) {
        output::note(format_args!("(cut: -n {limit} tokens)"));
    }
    ended(&done, &session)
}

/// The sampler that the options ask for; what of them has no effect is told, and with `-v` what they amount to.
fn sampler(args: &RunArgs, model: &LanguageModel) -> Result<Sampler, Failure> {
    let sampler = sampling::sampler(&args.sampling, model)?;
    without_effect::report(args, model, sampler.config());
    if args.verbose > 0 {
        sampling::describe(&args.sampling, model, &sampler);
    }
    Ok(sampler)
}

/// Whether the program succeeded with an answer that ended so.
fn ended(done: &Generation, session: &Session) -> Result<(), Failure> {
    match done.finish {
        FinishReason::Interrupted => Err(Failure::Interrupted),
        FinishReason::ContextFull => Err(Failure::ContextFull(session.options().context)),
        FinishReason::End | FinishReason::Stop | FinishReason::Length => Ok(()),
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
    match (args.system()?, prompt::has_template(model)) {
        (None, false) => prompt::encode_raw(model, text),
        (Some(_), false) => {
            Err(Failure::Usage("--system needs a chat template, which this model lacks".into()))
        }
        (system, true) => {
            let system = system.as_deref().map(Message::system);
            let messages: Vec<Message> = system.into_iter().chain([Message::user(text)]).collect();
            prompt::encode_chat(model, &messages, args.think)
        }
    }
}

/// Answers a prompt; with `shift`, a full context drops the older half of the answer.
fn answer(
    session: &mut Session,
    ids: &[u32],
    sampler: &mut Sampler,
    options: &GenerationOptions,
    shift: bool,
    shown: bool,
) -> Result<Generation, Failure> {
    // A prompt that leaves little room does not stay whole; its first token does, to which attention clings.
    let keep = if ids.len() <= session.options().context / 2 { ids.len() } else { 1 };
    let mut make_room = |tokens: &[u32]| if shift { without_older_half(tokens, keep) } else { None };
    stream(session, ids, sampler, options, &mut make_room, shown)
}

/// Generates, printing as it goes where the answer is to be `shown`. On a terminal it says how far a prompt is that takes long.
pub(crate) fn stream(
    session: &mut Session,
    ids: &[u32],
    sampler: &mut Sampler,
    options: &GenerationOptions,
    make_room: &mut MakeRoom<'_>,
    shown: bool,
) -> Result<Generation, Failure> {
    let mut thinking = output::has_styles(&std::io::stdout()).then(|| thoughts(session.model(), ids));
    let mut closed = None;
    let mut progress = Progress::new();
    let mut print = |text: &str| match output::stream(text) {
        Ok(()) => go_on(),
        Err(failure) => {
            closed = Some(failure);
            ControlFlow::Break(())
        }
    };
    let done = session.generate_with_room(
        ids,
        sampler,
        options,
        &mut |step| match step {
            Step::Prompt { done, total } => {
                progress.show(done, total);
                go_on()
            }
            Step::Token { text, .. } => {
                progress.end();
                match &mut thinking {
                    _ if !shown => go_on(),
                    Some(thinking) => print(&thinking.push(text)),
                    None => print(text),
                }
            }
        },
        make_room,
    );
    progress.end();
    let done = done?;
    if let (true, Some(thinking)) = (shown, &mut thinking) {
        // That nobody reads any more is known below.
        let _ = print(&thinking.finish());
    }
    match closed {
        Some(failure) => Err(failure),
        None => Ok(done),
    }
}

/// What dims thoughts in an answer to this prompt, which may end with their beginning.
fn thoughts(model: &LanguageModel, ids: &[u32]) -> Thinking {
    let last = &ids[ids.len().saturating_sub(4)..];
    let show = DecodeOptions { special: true, ..DecodeOptions::default() };
    Thinking::new(model.tokenizer().is_ok_and(|t| t.decode(last, show).trim_end().ends_with("<think>")))
}

/// How far a prompt is, told on a terminal once it takes more than a second.
struct Progress {
    start: Instant,
    is_shown: bool,
    has_ended: bool,
}

impl Progress {
    fn new() -> Progress {
        Progress { start: Instant::now(), is_shown: false, has_ended: false }
    }

    fn show(&mut self, done: usize, total: usize) {
        // While an answer stands on the line, it stays.
        if !self.has_ended && done < total && self.start.elapsed() > Duration::from_secs(1) {
            self.is_shown = true;
            output::status(&format!("reading {done} of {total} tokens"));
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        if std::mem::take(&mut self.is_shown) {
            output::status("");
        }
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
    dropped_tokens: usize,
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
            dropped_tokens: done.dropped_tokens,
        }
    }
}
