//! `tokenize`: text to ids and back.

use crate::args::TokenizeArgs;
use crate::failure::Failure;
use crate::{input, model, output, prompt};
use rustorch::llm::tokenizer::{DecodeOptions, EncodeOptions, Tokenizer, Vocab};
use std::io::IsTerminal;

pub(crate) fn run(args: &TokenizeArgs) -> Result<(), Failure> {
    let file = model::open(&args.model)?;
    // Only the vocabulary is needed, so that vocabulary-only files work, too.
    let vocab = Vocab::from_gguf(file.metadata()).map_err(|e| Failure::Model(e.to_string()))?;
    let tokenizer = Tokenizer::new(vocab).map_err(|e| Failure::Model(e.to_string()))?;
    for warning in tokenizer.warnings() {
        output::note(format_args!("warning: {warning}"));
    }
    let piped = args.stdin || (args.text.is_empty() && !std::io::stdin().is_terminal());
    let text = match piped {
        true => input::read_all()?,
        false if args.text.is_empty() => {
            return Err(Failure::Usage(
                "TEXT is missing: give it as an argument or on standard input".into(),
            ));
        }
        false => args.text.join(" "),
    };
    if args.decode { decode(&tokenizer, &text, args) } else { encode(&tokenizer, &text, args) }
}

fn encode(tokenizer: &Tokenizer, text: &str, args: &TokenizeArgs) -> Result<(), Failure> {
    let options = EncodeOptions { add_special: !args.no_bos, parse_special: !args.no_special };
    let ids = tokenizer.encode(text, options);
    if args.ids {
        let list: Vec<String> = ids.iter().map(u32::to_string).collect();
        return output::line(format_args!("[{}]", list.join(", ")));
    }
    for id in ids {
        let shown = String::from_utf8_lossy(match tokenizer.is_control(id) {
            true => tokenizer.token_text(id).unwrap_or_default(),
            false => tokenizer.piece(id),
        });
        output::line(format_args!("{id:6} -> {shown:?}"))?;
    }
    Ok(())
}

fn decode(tokenizer: &Tokenizer, text: &str, args: &TokenizeArgs) -> Result<(), Failure> {
    let ids = prompt::parse_ids(text)?;
    if let Some(id) = ids.iter().find(|&&id| id as usize >= tokenizer.len()) {
        return Err(Failure::Usage(format!(
            "token id {id} is out of range: there are {} tokens",
            tokenizer.len()
        )));
    }
    let options = DecodeOptions { special: !args.no_special, ..DecodeOptions::default() };
    output::line(tokenizer.decode(&ids, options))
}
