//! From what a person gives to tokens.

use crate::args::{RunArgs, Switch};
use crate::failure::Failure;
use rustorch::llm::LanguageModel;
use rustorch::llm::chat::{Message, RenderOptions, TemplateOrigin};
use rustorch::llm::generate::GenerationOptions;
use rustorch::llm::tokenizer::EncodeOptions;

/// Token ids, separated by spaces, commas or brackets.
pub(crate) fn parse_ids(text: &str) -> Result<Vec<u32>, Failure> {
    let ids: Vec<u32> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']'))
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_err(|_| Failure::Usage(format!("`{part}` is not a token id"))))
        .collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Err(Failure::Usage("no token ids were given".into()));
    }
    Ok(ids)
}

/// Token ids as `--ids` prints them.
pub(crate) fn show_ids(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// The tokens of plain text, with beginning-of-text where the model wants it.
pub(crate) fn encode_raw(model: &LanguageModel, text: &str) -> Result<Vec<u32>, Failure> {
    let options = EncodeOptions { add_special: true, parse_special: true };
    let ids = model.tokenizer()?.encode(text, options);
    if ids.is_empty() {
        return Err(Failure::Usage("the prompt is empty".into()));
    }
    Ok(ids)
}

/// The tokens of a conversation that the model is to continue.
pub(crate) fn encode_chat(
    model: &LanguageModel,
    messages: &[Message],
    think: Option<Switch>,
) -> Result<Vec<u32>, Failure> {
    Ok(model.encode_chat(messages, &render_options(think))?)
}

/// What the template is told: whether to think, under the name that Qwen's, GLM's, SmolLM's and most others know.
fn render_options(think: Option<Switch>) -> RenderOptions {
    let options = RenderOptions::default();
    match think {
        Some(think) => options.variable("enable_thinking", think == Switch::On),
        None => options,
    }
}

/// Whether the model's chat template can be told to think or not.
pub(crate) fn can_switch_thinking(model: &LanguageModel) -> bool {
    let Ok(template) = model.chat_template() else { return false };
    let render = |think| template.render(&[Message::user("?")], &render_options(Some(think)));
    render(Switch::On) != render(Switch::Off)
}

/// Whether the file says how its conversations are written.
pub(crate) fn has_template(model: &LanguageModel) -> bool {
    model.chat_template().is_ok_and(|t| t.origin() != TemplateOrigin::Plain)
}

/// What ends a generation.
pub(crate) fn generation(args: &RunArgs, max_tokens: Option<usize>) -> GenerationOptions {
    GenerationOptions {
        max_tokens: args.n_predict.or(max_tokens),
        stop: args.stop.clone(),
        show_special: args.special,
        ignore_end: args.ignore_eos,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_every_usual_notation() {
        for text in ["1 2 30", "1,2,30", "[1, 2, 30]\n"] {
            assert_eq!(parse_ids(text).unwrap(), [1, 2, 30]);
        }
        for text in ["", "1 x", "-1", "5000000000", "1.5"] {
            assert!(matches!(parse_ids(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
