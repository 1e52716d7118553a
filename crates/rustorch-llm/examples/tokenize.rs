//! Encodes a text file with the tokenizer of a GGUF file, and tells how fast that was.
//!
//! `cargo run --release -p rustorch-llm --example tokenize -- model.gguf text.txt [--ids]`: with `--ids`, for `benches/peers/hf_tokenizers.py`, all ids
//! without beginning-of-text.

use rustorch_formats::gguf::File;
use rustorch_llm::tokenizer::{EncodeOptions, Tokenizer, Vocab};
use std::time::Instant;

#[allow(clippy::print_stdout)] // It is a program.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tokenize MODEL.gguf TEXT [--ids]".into());
    };
    let all_ids = arguments.next().is_some_and(|option| option == "--ids");
    let start = Instant::now();
    let file = File::open(&model)?;
    let tokenizer = Tokenizer::new(Vocab::from_gguf(file.metadata())?)?;
    println!("{} tokens in the vocabulary, ready in {:.0?}", tokenizer.len(), start.elapsed());
    for warning in tokenizer.warnings() {
        println!("warning: {warning}");
    }
    let text = std::fs::read_to_string(&text)?;
    let mut best = f64::INFINITY;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        ids = tokenizer.encode(&text, EncodeOptions { add_special: !all_ids, parse_special: false });
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{} tokens, {:.1} MB/s (best of 5)", ids.len(), text.len() as f64 / best / 1e6);
    if all_ids {
        println!("seconds {best}");
        println!("{}", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    } else {
        println!("{:?} ...", &ids[..ids.len().min(16)]);
    }
    Ok(())
}
