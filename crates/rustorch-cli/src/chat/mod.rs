//! The chat on a terminal.

mod commands;
mod completion;
mod conversation;

use crate::args::RunArgs;
use crate::command::generate::{self, stream};
use crate::failure::Failure;
use crate::{interrupt, output, prompt};
use commands::{Command, HELP, Param};
use completion::Completion;
use conversation::Conversation;
use rustorch::llm::chat::{Message, TemplateOrigin};
use rustorch::llm::generate::{FinishReason, Generation, GenerationOptions, Session};
use rustorch::llm::sampling::Sampler;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use std::path::{Path, PathBuf};

type LineEditor = Editor<Completion, DefaultHistory>;

/// Opens the chat and returns when the user leaves it.
pub(crate) fn run(args: &RunArgs, session: Session) -> Result<(), Failure> {
    interrupt::install();
    let mut chat = Chat::new(args, session)?;
    let mut editor = LineEditor::new().map_err(failure)?;
    editor.set_helper(Some(Completion::new()));
    let history = history_file();
    if let Some(file) = &history {
        // No history yet is no error.
        let _ = editor.load_history(file);
    }
    output::note(generate::describe(chat.session.model()));
    output::note("chat: /help lists the commands, Ctrl-C stops an answer, /exit or Ctrl-D leaves");
    loop {
        match editor.readline("> ") {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                // An entry that cannot be kept is only missing from the history.
                let _ = editor.add_history_entry(line.as_str());
                if chat.handle(line.trim())? {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => output::note("/exit or Ctrl-D leaves"),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failure(error)),
        }
    }
    if let Some(file) = &history {
        save_history(&mut editor, file);
    }
    Ok(())
}

fn failure(error: ReadlineError) -> Failure {
    Failure::Other(format!("cannot read from the terminal: {error}"))
}

/// Where the lines typed are kept: the user's state directory.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?)
            .join(".local/state"),
    };
    Some(state.join("rustorch").join("history"))
}

fn save_history(editor: &mut LineEditor, file: &Path) {
    let saved = file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
    if let Err(error) = saved.and_then(|()| editor.append_history(file)) {
        output::note(format_args!("the history was not saved in {}: {error}", file.display()));
    }
}

/// Whether an answer, be it cut short, is in the conversation.
enum Answered {
    Yes,
    No,
}

/// A running chat.
struct Chat {
    session: Session,
    conversation: Conversation,
    sampler: Sampler,
    seed: u64,
    params: crate::args::SamplingArgs,
    options: GenerationOptions,
    last: Option<Generation>,
    generated: usize,
}

impl Chat {
    fn new(args: &RunArgs, session: Session) -> Result<Chat, Failure> {
        let mut options = prompt::generation(args, None);
        let model = session.model();
        if model.chat_template()?.origin() == TemplateOrigin::Plain {
            output::note("the model has no chat template; plain \"User:\" and \"Assistant:\" lines are used");
            options.stop.push("\nUser:".into());
        }
        let (sampler, seed) = prompt::sampler(&args.sampling)?;
        Ok(Chat {
            session,
            conversation: Conversation::new(args.system.clone()),
            sampler,
            seed,
            params: args.sampling.clone(),
            options,
            last: None,
            generated: 0,
        })
    }

    /// Does what a line asks for; `true` if it asks to leave. What fails is told, and the chat goes on.
    fn handle(&mut self, line: &str) -> Result<bool, Failure> {
        let done = match Command::parse(line) {
            // A doubled slash says one.
            Ok(None) if line.starts_with("//") => self.say(&line[1..]),
            Ok(None) => self.say(line),
            Ok(Some(Command::Exit)) => return Ok(true),
            Ok(Some(command)) => self.obey(command),
            Err(message) => Err(Failure::Usage(message)),
        };
        match done {
            Ok(()) => Ok(false),
            Err(Failure::OutputClosed) => Err(Failure::OutputClosed),
            Err(failure) => {
                output::error(failure);
                Ok(false)
            }
        }
    }

    /// Adds what the user says and lets the model answer.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.conversation.messages.push(Message::user(text));
        let answered = self.answer();
        if !matches!(answered, Ok(Answered::Yes)) {
            // What was not answered is not part of the conversation: the user can say it again.
            self.conversation.messages.pop();
        }
        answered.map(|_| ())
    }

    /// Takes the last answer back and lets the model answer again.
    fn regenerate(&mut self) -> Result<(), Failure> {
        let messages = &mut self.conversation.messages;
        let taken = messages.pop_if(|message| message.role == "assistant");
        if messages.last().is_none_or(|message| message.role != "user") {
            messages.extend(taken);
            return Err(Failure::Usage("there is no answer yet to generate again".into()));
        }
        let answered = self.answer();
        if !matches!(answered, Ok(Answered::Yes)) {
            self.conversation.messages.extend(taken);
        }
        answered.map(|_| ())
    }

    /// Lets the model answer the conversation as it stands.
    fn answer(&mut self) -> Result<Answered, Failure> {
        let ids = prompt::encode_chat(self.session.model(), &self.conversation.all())?;
        // A Ctrl-C from before does not count.
        interrupt::take();
        let done = stream(&mut self.session, &ids, &mut self.sampler, &self.options, true)?;
        if done.finish == FinishReason::Interrupted && done.tokens.is_empty() {
            output::note("(stopped before the answer began)");
            return Ok(Answered::No);
        }
        output::line("")?;
        match done.finish {
            FinishReason::Interrupted => output::note("(stopped)"),
            FinishReason::ContextFull => {
                output::note("(the context is full: /clear begins anew; --shift drops the oldest part)")
            }
            FinishReason::Length => output::note("(cut at the limit; /params n-predict changes it)"),
            FinishReason::End | FinishReason::Stop => {}
        }
        output::line("")?;
        self.conversation.messages.push(Message::assistant(done.text.trim()));
        self.generated += done.tokens.len();
        self.last = Some(done);
        Ok(Answered::Yes)
    }

    fn obey(&mut self, command: Command) -> Result<(), Failure> {
        match command {
            // `handle` leaves before it comes here.
            Command::Exit => Ok(()),
            Command::Help => {
                output::note(HELP);
                Ok(())
            }
            Command::System(None) => {
                output::note(self.conversation.system.as_deref().unwrap_or("(no system prompt)"));
                Ok(())
            }
            Command::System(Some(text)) => {
                self.conversation.system = Some(text);
                output::note("system prompt set; it holds for the whole conversation from now on");
                Ok(())
            }
            Command::Clear => {
                self.conversation.messages.clear();
                self.session.truncate(0);
                output::note("conversation cleared");
                Ok(())
            }
            Command::Regenerate => self.regenerate(),
            Command::Save(file) => {
                self.conversation.save(&file)?;
                output::note(format_args!(
                    "{} messages saved in {}",
                    self.conversation.messages.len(),
                    file.display()
                ));
                Ok(())
            }
            Command::Load(file) => {
                self.conversation = Conversation::load(&file)?;
                self.show();
                Ok(())
            }
            Command::Stats => {
                self.stats();
                Ok(())
            }
            Command::Params(None) => {
                self.show_params();
                Ok(())
            }
            Command::Params(Some((param, value))) => {
                self.set(param, &value)?;
                output::note(format_args!("{} is {} now", param.name(), self.get(param)));
                Ok(())
            }
        }
    }

    /// Shows a conversation that was loaded.
    fn show(&self) {
        for message in self.conversation.all() {
            match message.role.as_str() {
                "user" => output::note(format_args!("> {}", message.content)),
                "assistant" => output::note(&message.content),
                role => output::note(format_args!("({role}: {})", message.content)),
            }
        }
    }

    fn stats(&self) {
        output::note(generate::describe_devices(self.session.model()));
        let (used, size) = (self.session.tokens().len(), self.session.options().context);
        output::note(format_args!(
            "context: {used} of {size} tokens, {}",
            output::bytes(self.session.cache().bytes() as u64)
        ));
        output::note(format_args!(
            "messages: {}; tokens generated: {}",
            self.conversation.messages.len(),
            self.generated
        ));
        if let Some(last) = &self.last {
            output::note(format_args!("last answer: {}", generate::rates(last)));
            output::note(format_args!("reused from the cache: {} tokens", last.reused_tokens));
        }
    }

    fn show_params(&self) {
        for &param in Param::ALL {
            output::note(format_args!("{:16} {}", param.name(), self.get(param)));
        }
    }

    fn get(&self, param: Param) -> String {
        let p = &self.params;
        match param {
            Param::Temp => p.temp.to_string(),
            Param::TopK => p.top_k.to_string(),
            Param::TopP => p.top_p.to_string(),
            Param::MinP => p.min_p.to_string(),
            Param::RepeatPenalty => p.repeat_penalty.to_string(),
            Param::RepeatLastN => p.repeat_last_n.to_string(),
            Param::Seed => self.seed.to_string(),
            Param::NPredict => self.options.max_tokens.map_or("unlimited".into(), |n| n.to_string()),
        }
    }

    /// Changes one parameter; a value that makes no sense changes nothing.
    fn set(&mut self, param: Param, value: &str) -> Result<(), Failure> {
        fn read<T: std::str::FromStr>(param: Param, value: &str) -> Result<T, Failure> {
            value.parse().map_err(|_| Failure::Usage(format!("`{value}` is no value for {}", param.name())))
        }
        let mut params = self.params.clone();
        match param {
            Param::Temp => params.temp = read(param, value)?,
            Param::TopK => params.top_k = read(param, value)?,
            Param::TopP => params.top_p = read(param, value)?,
            Param::MinP => params.min_p = read(param, value)?,
            Param::RepeatPenalty => params.repeat_penalty = read(param, value)?,
            Param::RepeatLastN => params.repeat_last_n = read(param, value)?,
            Param::Seed => params.seed = Some(read(param, value)?),
            Param::NPredict => {
                self.options.max_tokens = if value == "unlimited" { None } else { Some(read(param, value)?) };
                return Ok(());
            }
        }
        (self.sampler, self.seed) = prompt::sampler(&params)?;
        self.params = params;
        Ok(())
    }
}
