//! A query and a text as one input, and its score.

use crate::chat::unused_character;
use crate::model::Pooling;
use crate::tokenizer::{EncodeOptions, ModelKind, Tokenizer};
use crate::{LanguageModel, Result};

/// How the model was trained to see a query and a text, if not as two texts with separators between.
const TEMPLATE: &str = "tokenizer.chat_template.rerank";

impl LanguageModel {
    /// How well a text answers a query, by the model's classifier: its first score, as llama.cpp's server has it.
    ///
    /// # Errors
    /// As [`embed`](Self::embed) with [`Pooling::Rank`].
    pub fn relevance(&self, query: &str, text: &str) -> Result<f32> {
        let scores = self.pooled(&self.encode_pair(query, text)?, Pooling::Rank)?;
        Ok(scores.to_vec::<f32>()?[0])
    }

    /// The tokens of a query and a text as a reranker reads them: by the file's template (`tokenizer.chat_template.rerank`) if it has one, else
    /// one after the other, with the end-of-text and separator tokens behind each that the file asks for, as `llama-embedding` joins them. Control
    /// tokens that either of the two spells are text.
    ///
    /// # Errors
    /// If the model has no tokenizer, or the template is no text.
    pub fn encode_pair(&self, query: &str, text: &str) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        Ok(match self.file().metadata().find::<&str>(TEMPLATE)? {
            Some(template) => by_template(tokenizer, template, query, text),
            None => joined(tokenizer, query, text),
        })
    }
}

/// The template with the two texts in it. As it stands: it writes all control tokens itself.
fn by_template(tokenizer: &Tokenizer, template: &str, query: &str, text: &str) -> Vec<u32> {
    let mark = unused_character([template, query, text]);
    let [query, text] = [query, text].map(|text| tokenizer.break_control_tokens(text, mark, &[]));
    // One after the other, so that nothing is replaced within what has been put in.
    let with_text = |part: &str| part.replace("{document}", &text);
    let parts: Vec<String> = template.split("{query}").map(with_text).collect();
    let options = EncodeOptions { add_special: false, parse_special: true };
    tokenizer.encode_without(&parts.join(&query), options, Some(mark))
}

fn joined(tokenizer: &Tokenizer, query: &str, text: &str) -> Vec<u32> {
    let special = tokenizer.special();
    let plain = EncodeOptions { add_special: false, parse_special: false };
    let end = special.eos.filter(|_| tokenizer.adds_eos());
    let mut ids: Vec<u32> = special.bos.filter(|_| tokenizer.adds_bos()).into_iter().collect();
    ids.extend(tokenizer.encode(query, plain));
    ids.extend(end);
    ids.extend(special.sep.filter(|_| tokenizer.adds_sep()));
    ids.extend(tokenizer.encode(text, plain));
    ids.extend(end);
    // WordPiece puts one behind every text.
    ids.extend(special.sep.filter(|_| tokenizer.kind() == ModelKind::Wpm));
    ids
}
