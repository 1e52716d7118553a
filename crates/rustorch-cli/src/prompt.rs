//! From what a person gives to tokens.

use crate::args::{RunArgs, SamplingArgs};
use crate::failure::Failure;
use rustorch::llm::LanguageModel;
use rustorch::llm::chat::{Message, RenderOptions, TemplateOrigin};
use rustorch::llm::generate::GenerationOptions;
use rustorch::llm::sampling::{Sampler, SamplerConfig};
use rustorch::llm::tokenizer::EncodeOptions;
use std::time::{SystemTime, UNIX_EPOCH};

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
pub(crate) fn encode_chat(model: &LanguageModel, messages: &[Message]) -> Result<Vec<u32>, Failure> {
    let template = model.chat_template()?;
    let text = template.render(messages, &RenderOptions::default()).map_err(rustorch::llm::Error::from)?;
    let tokenizer = model.tokenizer()?;
    let bos = tokenizer.special().bos.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
    // Most templates write the beginning-of-text token themselves.
    let written = !bos.is_empty() && text.as_bytes().starts_with(bos);
    Ok(tokenizer.encode(&text, EncodeOptions { add_special: !written, parse_special: true }))
}

/// Whether the file says how its conversations are written.
pub(crate) fn has_template(model: &LanguageModel) -> bool {
    model.chat_template().is_ok_and(|t| t.origin() != TemplateOrigin::Plain)
}

/// The sampler that the options describe, and its seed.
pub(crate) fn sampler(args: &SamplingArgs) -> Result<(Sampler, u64), Failure> {
    let seed = args.seed.unwrap_or_else(random_seed);
    let config = SamplerConfig {
        temperature: args.temp,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repeat_penalty: args.repeat_penalty,
        repeat_last_n: args.repeat_last_n,
        seed,
        ..SamplerConfig::default()
    };
    let sampler = Sampler::new(config).map_err(|e| Failure::Usage(e.to_string()))?;
    Ok((sampler, seed))
}

/// A seed from the clock.
fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().rotate_left(32) ^ u64::from(now.subsec_nanos())
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
