//! Chat templates: a conversation written the way a model was trained to read it.
//!
//! Templates are the Jinja texts that models carry (`tokenizer.chat_template` in GGUF). They are rendered with the
//! environment that Hugging Face's `apply_chat_template` gives them: trimmed blocks, loop controls, Python's string
//! methods, `raise_exception`, `strftime_now`, `tojson`.
//!
//! ```
//! use rustorch_llm::chat::{ChatTemplate, Message, RenderOptions};
//!
//! let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}\
//!                 {% if add_generation_prompt %}<|assistant|>{% endif %}";
//! let template = ChatTemplate::new(template, "<s>", "</s>")?;
//! let messages = [Message::user(" Hello ")];
//! assert_eq!(template.render(&messages, &RenderOptions::default())?, "<|user|>Hello</s><|assistant|>");
//! # Ok::<(), rustorch_llm::chat::ChatError>(())
//! ```

mod encode;
mod error;
mod python;

pub(crate) use encode::unused_character;
pub use error::ChatError;

use error::Refusal;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use minijinja_contrib::pycompat;
use serde::Serialize;
use std::time::SystemTime;

/// ChatML, the format of `<|im_start|>` and `<|im_end|>`.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Roles and contents in paragraphs, for models that were trained on no chat format.
const PLAIN: &str = "{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] }}\n\n{% endfor %}\
     {% if add_generation_prompt %}Assistant:{% endif %}";

/// Operations after which rendering stops: far more than any conversation takes, few enough to end at once when a
/// template from a file loops without end.
const FUEL: u64 = 10_000_000;

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    /// Instructions that stand above the conversation.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the person says.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }
}

/// What a template is given besides the messages.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// End with the start of the assistant's turn.
    pub add_generation_prompt: bool,
    /// More variables, such as `tools` or `enable_thinking`.
    pub variables: Vec<(String, Value)>,
    /// The time that `strftime_now` tells, in UTC; `None` is now.
    pub now: Option<SystemTime>,
}

impl Default for RenderOptions {
    /// With the start of the assistant's turn, no more variables, the present time.
    fn default() -> Self {
        RenderOptions { add_generation_prompt: true, variables: Vec::new(), now: None }
    }
}

impl RenderOptions {
    /// Adds a variable; any serializable value will do.
    ///
    /// ```
    /// use rustorch_llm::chat::RenderOptions;
    /// let options = RenderOptions::default().variable("enable_thinking", false);
    /// ```
    pub fn variable(mut self, name: impl Into<String>, value: impl Serialize) -> RenderOptions {
        self.variables.push((name.into(), Value::from(Serde(value))));
        self
    }
}

/// Where a template came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateOrigin {
    /// The text given, usually the model's own.
    Given,
    /// ChatML, since the vocabulary has its tokens.
    ChatMl,
    /// Paragraphs `User: …`, `Assistant: …`: a guess for models without a format.
    Plain,
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    origin: TemplateOrigin,
}

impl ChatTemplate {
    /// Compiles a template. `bos` and `eos` are the texts of the model's begin- and end-of-text tokens.
    ///
    /// # Errors
    /// [`ChatError::Syntax`] where the text is no template.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::with_origin(source, bos, eos, TemplateOrigin::Given)
    }

    /// The template of a model: the given one; without one ChatML if `has_token` knows `<|im_start|>` and `<|im_end|>`;
    /// else a plain format of paragraphs (`User: …`, blank line, `Assistant:`).
    ///
    /// ```
    /// use rustorch_llm::chat::{ChatTemplate, Message, RenderOptions, TemplateOrigin};
    ///
    /// let template = ChatTemplate::choose(None, |_| false, "<s>", "</s>")?;
    /// assert_eq!(template.origin(), TemplateOrigin::Plain);
    /// let prompt = template.render(&[Message::user("Hi")], &RenderOptions::default())?;
    /// assert_eq!(prompt, "User: Hi\n\nAssistant:");
    /// # Ok::<(), rustorch_llm::chat::ChatError>(())
    /// ```
    ///
    /// # Errors
    /// [`ChatError::Syntax`] where the given text is no template.
    pub fn choose(
        source: Option<&str>,
        has_token: impl Fn(&str) -> bool,
        bos: &str,
        eos: &str,
    ) -> Result<ChatTemplate, ChatError> {
        match source {
            Some(source) => ChatTemplate::new(source, bos, eos),
            None if has_token("<|im_start|>") && has_token("<|im_end|>") => {
                ChatTemplate::with_origin(CHATML, bos, eos, TemplateOrigin::ChatMl)
            }
            None => ChatTemplate::with_origin(PLAIN, bos, eos, TemplateOrigin::Plain),
        }
    }

    fn with_origin(
        source: &str,
        bos: &str,
        eos: &str,
        origin: TemplateOrigin,
    ) -> Result<ChatTemplate, ChatError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| ChatError::syntax(&error))?;
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.set_fuel(Some(FUEL));
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("length", python::length);
        environment.add_filter("count", python::length);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, "raised by the template")
                .with_source(Refusal(message)))
        });
        environment
            .add_template_owned("chat", without_generation_tags(source))
            .map_err(|error| ChatError::syntax(&error))?;
        Ok(ChatTemplate { environment, bos: bos.to_owned(), eos: eos.to_owned(), origin })
    }

    /// Where the template came from.
    pub fn origin(&self) -> TemplateOrigin {
        self.origin
    }

    /// Writes a conversation as the model reads it. To tokens it is turned by
    /// [`encode`](Self::encode), which tells control tokens of the template from those that a message spells.
    ///
    /// # Errors
    /// [`ChatError::Refused`] where the template raises an exception about the conversation; [`ChatError::Render`] where
    /// it fails.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, ChatError> {
        let now = options.now.unwrap_or_else(SystemTime::now);
        let clock = Value::from_function(move |format: String| python::strftime(&format, now));
        let fixed = [
            ("messages", Value::from(Serde(messages))),
            ("add_generation_prompt", Value::from(options.add_generation_prompt)),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
            ("strftime_now", clock),
        ];
        let given = options.variables.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let context = Value::from_pairs(fixed.into_iter().chain(given));
        let template = self.environment.get_template("chat").map_err(|error| ChatError::render(&error))?;
        template.render(context).map_err(|error| ChatError::render(&error))
    }
}

/// `{% generation %}` … `{% endgeneration %}` mark what training learns from and print nothing themselves.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(end) = rest[start..].find("%}").map(|length| start + length) else { break };
        let inside = &rest[start + 2..end];
        let replacement = match inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => inside.replace("generation", "if true"),
            "endgeneration" => inside.replace("endgeneration", "endif"),
            _ => inside.to_owned(),
        };
        out.push_str(&rest[..start + 2]);
        out.push_str(&replacement);
        out.push_str("%}");
        rest = &rest[end + 2..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, ChatError> {
        let template = ChatTemplate::new(source, "<s>", "</s>")?;
        template.render(&[Message::user("Hi"), Message::assistant("Hello")], &RenderOptions::default())
    }

    #[test]
    fn errors_are_typed() {
        assert!(matches!(render("{% if %}"), Err(ChatError::Syntax { line: 1, .. })));
        assert_eq!(
            render("a\n{{ raise_exception('no ' + messages[0].role) }}"),
            Err(ChatError::Refused("no user".into()))
        );
        let unknown = render("a\n{{ messages | no_such_filter }}");
        assert!(matches!(unknown, Err(ChatError::Syntax { .. } | ChatError::Render { .. })), "{unknown:?}");
        assert!(matches!(render("{{ messages[0].a.b }}"), Err(ChatError::Render { line: 1, .. })));
    }

    #[test]
    fn endless_templates_end() {
        let nested = "{% for a in range(90000) %}{% for b in range(90000) %}{% set c = a * b %}{% endfor %}{% endfor %}";
        assert!(matches!(render(nested), Err(ChatError::Render { .. })));
    }

    #[test]
    fn generation_marks_print_nothing() {
        let source =
            "{% for m in messages %}\n{%- generation -%}\n {{ m.content }}{% endgeneration %}{% endfor %}";
        assert_eq!(render(source).unwrap(), "HiHello");
    }

    #[test]
    fn fallbacks_follow_the_vocabulary() {
        let options = RenderOptions::default();
        let chatml = ChatTemplate::choose(None, |token| token.starts_with("<|im_"), "", "").unwrap();
        assert_eq!(chatml.origin(), TemplateOrigin::ChatMl);
        assert_eq!(
            chatml.render(&[Message::system("Be brief."), Message::user("Hi")], &options).unwrap(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
        let only_start = ChatTemplate::choose(None, |token| token == "<|im_start|>", "", "").unwrap();
        assert_eq!(only_start.origin(), TemplateOrigin::Plain);
        let given = ChatTemplate::choose(Some("{{ bos_token }}"), |_| true, "<s>", "").unwrap();
        assert_eq!(given.render(&[], &options).unwrap(), "<s>");
    }

    #[test]
    fn the_clock_can_be_set() {
        let template = ChatTemplate::new("{{ strftime_now('%d %b %Y') }}", "", "").unwrap();
        let options = RenderOptions { now: Some(SystemTime::UNIX_EPOCH), ..RenderOptions::default() };
        assert_eq!(template.render(&[], &options).unwrap(), "01 Jan 1970");
    }

    #[test]
    fn variables_reach_the_template() {
        let template =
            ChatTemplate::new("{{ tools | tojson }}{% if thinking %}!{% endif %}", "", "").unwrap();
        let options = RenderOptions::default()
            .variable("tools", serde_json::json!([{"name": "f"}]))
            .variable("thinking", true);
        assert_eq!(template.render(&[], &options).unwrap(), r#"[{"name": "f"}]!"#);
    }
}
