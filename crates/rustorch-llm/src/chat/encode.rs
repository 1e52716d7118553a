//! A conversation as tokens, in which only the template writes control tokens.

use super::{ChatError, ChatTemplate, Message, RenderOptions};
use crate::tokenizer::{EncodeOptions, Tokenizer};

/// Control tokens by which templates find an assistant's thoughts, so that they stay what they are there.
const THOUGHTS: [&str; 2] = ["<think>", "</think>"];

impl ChatTemplate {
    /// The tokens of a conversation that the model is to continue. Control tokens that the template writes are control tokens; what spells one within
    /// a message is text, so that nobody ends a turn by typing `<|im_end|>`.
    ///
    /// Such texts are broken by a character that no message has while the template is rendered and read for control tokens; then it is taken out
    /// again. So the template may trim and compare contents as always.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        options: &RenderOptions,
    ) -> Result<Vec<u32>, ChatError> {
        let mark = unused_character(messages.iter().map(|message| message.content.as_str()));
        let guarded: Vec<Message> = messages
            .iter()
            .map(|message| {
                let left: &[&str] = if message.role == "assistant" { &THOUGHTS } else { &[] };
                Message::new(&message.role, tokenizer.break_control_tokens(&message.content, mark, left))
            })
            .collect();
        let text = self.render(&guarded, options)?;
        let bos = tokenizer.special().bos.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
        // Most templates write the beginning-of-text token themselves.
        let written = !bos.is_empty() && text.as_bytes().starts_with(bos);
        let options = EncodeOptions { add_special: !written, parse_special: true };
        Ok(tokenizer.encode_without(&text, options, Some(mark)))
    }
}

/// A noncharacter or private character that none of these texts has.
pub(crate) fn unused_character<'a>(texts: impl IntoIterator<Item = &'a str>) -> char {
    let texts: Vec<&str> = texts.into_iter().collect();
    let mut candidates = ('\u{FDD0}'..='\u{FDEF}').chain('\u{F0000}'..='\u{10FFFD}');
    let is_unused = |c: &char| texts.iter().all(|text| !text.contains(*c));
    // Texts with all 131,000 of them would lose this one.
    candidates.find(is_unused).unwrap_or('\u{FDD0}')
}
