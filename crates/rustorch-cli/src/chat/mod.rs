//! The chat on a terminal.

mod commands;
mod completion;
mod conversation;
mod lines;
mod params;

use crate::args::{RunArgs, SamplingArgs, Switch};
use crate::command::generate::{self, stream};
use crate::failure::Failure;
use crate::{input, interrupt, output, prompt, sampling, without_effect};
use commands::{Command, HELP};
use conversation::Conversation;
use lines::{Entry, Lines};
use rustorch::llm::chat::{Message, TemplateOrigin};
use rustorch::llm::generate::{
    FinishReason, Generation, GenerationOptions, Session, SessionOptions, without_older_half,
};
use rustorch::llm::model::Checkpoints;
use rustorch::llm::sampling::Sampler;
use std::sync::Arc;

/// Opens the chat and returns when the user leaves it.
pub(crate) fn run(args: &RunArgs, session: Session) -> Result<(), Failure> {
    interrupt::install();
    let mut chat = Chat::new(args, session)?;
    let mut lines = Lines::new()?;
    output::note(generate::describe(chat.session.model()));
    output::note("chat: /help lists the commands, Ctrl-C stops an answer, /exit or Ctrl-D leaves");
    loop {
        match lines.next()? {
            Entry::Line(line) if line.trim().is_empty() => {}
            Entry::Line(line) => {
                if chat.handle(line.trim())? {
                    return Ok(());
                }
            }
            Entry::Message(text) => tell(chat.say(&text))?,
            Entry::Interrupted => output::note("/exit or Ctrl-D leaves"),
            Entry::End => return Ok(()),
        }
    }
}

/// Tells a failure, after which the chat goes on, unless nobody reads any more.
fn tell(done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Err(Failure::OutputClosed) => Err(Failure::OutputClosed),
        Err(failure) => {
            output::error(failure);
            Ok(())
        }
        Ok(()) => Ok(()),
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
    params: SamplingArgs,
    options: GenerationOptions,
    think: Option<Switch>,
    /// Whether a full context drops the oldest turns.
    shift: bool,
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
        let sampler = sampling::sampler(&args.sampling, model)?;
        without_effect::report(args, model, sampler.config());
        if args.verbose > 0 {
            sampling::describe(&args.sampling, model, &sampler);
        }
        Ok(Chat {
            session,
            conversation: Conversation::new(args.system()?),
            sampler,
            params: args.sampling.clone(),
            options,
            think: args.think,
            shift: args.shift,
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
        tell(done).map(|()| false)
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
        let Chat { session, conversation, sampler, options, think, shift, .. } = self;
        let model = Arc::clone(session.model());
        let context = session.options().context;
        let encode = |conversation: &Conversation| prompt::encode_chat(&model, &conversation.seen(), *think);
        let dropped_before = conversation.dropped();
        let mut ids = encode(conversation)?;
        // A quarter of the context is left for the answer, so that it is not read anew for every few tokens.
        let enough = context - context.div_ceil(4);
        if *shift && ids.len() >= context {
            while ids.len() > enough && conversation.drop_oldest() {
                ids = encode(conversation)?;
            }
        }
        let mut prompt_len = ids.len();
        if prompt_len > context {
            return Err(Failure::Usage(format!(
                "the conversation takes {prompt_len} tokens, and the context holds {context}: /ctx makes it larger, /undo and /clear \
                 take turns back, --shift drops the oldest by itself"
            )));
        }
        let mut make_room = |tokens: &[u32]| {
            if !*shift {
                return None;
            }
            let answer = &tokens[prompt_len..];
            while conversation.drop_oldest() {
                // What could be encoded before can be without its first turn, or the answer ends here.
                let ids = encode(conversation).ok()?;
                if ids.len() + answer.len() <= enough {
                    prompt_len = ids.len();
                    return Some([&ids[..], answer].concat());
                }
            }
            without_older_half(tokens, prompt_len)
        };
        // A Ctrl-C from before does not count.
        interrupt::take();
        let done = stream(session, &ids, sampler, options, &mut make_room, true)?;
        let dropped = conversation.dropped() - dropped_before;
        if done.finish == FinishReason::Interrupted && done.tokens.is_empty() {
            output::note("(stopped before the answer began)");
            return Ok(Answered::No);
        }
        output::line("")?;
        match done.finish {
            FinishReason::Interrupted => output::note("(stopped)"),
            FinishReason::ContextFull => output::note(
                "(cut: the context is full; /ctx makes it larger, /clear begins anew, --shift drops the oldest turns)",
            ),
            FinishReason::Length => output::note("(cut at the limit; /params n-predict changes it)"),
            FinishReason::End | FinishReason::Stop => {}
        }
        if dropped > 0 {
            output::note(format_args!(
                "(the context was full: the model does not see the oldest {dropped} messages any more)"
            ));
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
            Command::ShowSystem => {
                output::note(self.conversation.system.as_deref().unwrap_or("(no system prompt)"));
                Ok(())
            }
            Command::System(text) => {
                output::note(match text {
                    Some(_) => "system prompt set; it holds for the whole conversation from now on",
                    None => "there is no system prompt any more",
                });
                self.conversation.system = text;
                Ok(())
            }
            Command::Clear => {
                self.conversation.clear();
                self.session.truncate(0);
                output::note("conversation cleared");
                Ok(())
            }
            Command::Undo => {
                if !self.conversation.undo() {
                    return Err(Failure::Usage("there is no turn to take back".into()));
                }
                output::note(format_args!(
                    "taken back; {} messages are left",
                    self.conversation.messages.len()
                ));
                Ok(())
            }
            Command::Read(file) => self.say(input::read_file(&file)?.trim_end()),
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
            Command::Context(None) => {
                output::note(self.describe_context());
                Ok(())
            }
            Command::Context(Some(size)) => self.resize(size),
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

    /// Sets the size of the context; what it held is read again with the next answer.
    fn resize(&mut self, size: usize) -> Result<(), Failure> {
        let model = Arc::clone(self.session.model());
        let context = generate::context_size(&model, size)?;
        let options = SessionOptions { context, ..*self.session.options() };
        self.session = Session::new(model, options)?;
        self.conversation.give_all();
        output::note(self.describe_context());
        Ok(())
    }

    fn describe_context(&self) -> String {
        let (used, size) = (self.session.tokens().len(), self.session.options().context);
        format!("context: {used} of {size} tokens, {}", output::bytes(self.session.cache().bytes() as u64))
    }

    fn stats(&self) {
        output::note(generate::describe_devices(self.session.model()));
        output::note(self.describe_context());
        if let Some(checkpoints) = self.session.cache().checkpoints() {
            output::note(describe_checkpoints(checkpoints));
        }
        let dropped = match self.conversation.dropped() {
            0 => String::new(),
            n => format!(", the oldest {n} of which the model does not see"),
        };
        output::note(format_args!(
            "messages: {}{dropped}; tokens generated: {}",
            self.conversation.messages.len(),
            self.generated
        ));
        if let Some(last) = &self.last {
            output::note(format_args!("last answer: {}", generate::rates(last)));
            output::note(format_args!("reused from the cache: {} tokens", last.reused_tokens));
        }
    }
}

/// A line about the copies of states that a chat goes back to.
fn describe_checkpoints(checkpoints: Checkpoints) -> String {
    let Checkpoints { count, most, every, bytes } = checkpoints;
    format!(
        "checkpoints: {count} of {most} at most, one before each message and every {every} tokens, {}",
        output::bytes(bytes as u64)
    )
}
