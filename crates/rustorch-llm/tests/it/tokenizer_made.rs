//! Unigram, RWKV and whitespace tokenizers against llama.cpp, with vocabularies that `tools/oracle/tokenizer_made.py` makes.

use crate::common::{base64, tokenizer_corpus as corpus, tokenizer_digest as digest};
use rustorch_formats::gguf::{File, Writer};
use rustorch_llm::tokenizer::{EncodeOptions, ModelKind, TokenType, Tokenizer, Vocab};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Made {
    ugm: Ugm,
    rwkv: Rwkv,
    whitespace: Whitespace,
}

#[derive(Deserialize)]
struct Ugm {
    tokens: Vec<String>,
    scores: Vec<f32>,
    types: Vec<i32>,
    charsmap: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    add_space_prefix: bool,
    remove_extra_whitespaces: bool,
    plain: Value,
    special: Value,
}

#[derive(Deserialize)]
struct Rwkv {
    tokens: Vec<String>,
    /// In hexadecimal digits.
    pieces: Vec<String>,
    plain: Value,
    special: Value,
}

#[derive(Deserialize)]
struct Whitespace {
    tokens: Vec<String>,
    merges: Vec<String>,
    cases: Vec<WhitespaceCase>,
}

#[derive(Deserialize)]
struct WhitespaceCase {
    lowercase: bool,
    plain: Value,
    special: Value,
}

fn made() -> Made {
    serde_json::from_str(include_str!("../fixtures/tokenizer/made.json")).unwrap()
}

/// Compares the ids of the corpus, plain and with special tokens.
fn check(tokenizer: &Tokenizer, plain: &Value, special: &Value, what: &str) {
    for (expected, parse) in [(plain, false), (special, true)] {
        let options = EncodeOptions { add_special: parse, parse_special: parse };
        let found: Vec<Vec<u32>> = corpus().iter().map(|text| tokenizer.encode(text, options)).collect();
        assert_eq!(&digest(&found), expected, "{what}, special {parse}");
    }
}

fn unigram(made: &Ugm) -> Vocab {
    let mut vocab = Vocab::new(ModelKind::Ugm, "", made.tokens.iter().map(String::as_str));
    vocab.scores = made.scores.clone();
    vocab.types = made.types.iter().map(|&kind| TokenType::from_gguf(kind)).collect();
    vocab.charsmap = base64(&made.charsmap);
    vocab
}

#[test]
fn unigram_agrees_with_llama_cpp() {
    let made = made().ugm;
    for case in &made.cases {
        let mut vocab = unigram(&made);
        vocab.add_space_prefix = case.add_space_prefix;
        vocab.remove_extra_whitespaces = case.remove_extra_whitespaces;
        let what = format!("prefix {}, merged {}", case.add_space_prefix, case.remove_extra_whitespaces);
        check(&Tokenizer::new(vocab).unwrap(), &case.plain, &case.special, &what);
    }
}

#[test]
fn a_charsmap_that_contradicts_itself_is_an_error_or_replaces_nothing() {
    let sound = unigram(&made().ugm);
    let texts = corpus();
    for len in [1, 4, 5, sound.charsmap.len() / 2] {
        let cut = Vocab { charsmap: sound.charsmap[..len].to_vec(), ..sound.clone() };
        assert!(Tokenizer::new(cut).unwrap_err().to_string().contains("charsmap"), "{len} bytes");
    }
    for step in [3, 7, 64] {
        let mut damaged = sound.clone();
        for byte in damaged.charsmap.iter_mut().skip(4).step_by(step) {
            *byte ^= 0x5A;
        }
        let tokenizer = Tokenizer::new(damaged).unwrap();
        texts.iter().for_each(|text| {
            assert!(tokenizer.encode(text, EncodeOptions::default()).len() <= 4 * text.len() + 2)
        });
    }
}

#[test]
fn rwkv_agrees_with_llama_cpp() {
    let made = made().rwkv;
    let mut vocab = Vocab::new(ModelKind::Rwkv, "", made.tokens.iter().map(String::as_str));
    vocab.types = vec![TokenType::Normal; made.tokens.len()];
    vocab.types[0] = TokenType::Control;
    let tokenizer = Tokenizer::new(vocab).unwrap();
    assert_eq!(tokenizer.warnings(), [""; 0]);
    check(&tokenizer, &made.plain, &made.special, "rwkv");
    for (id, piece) in (0..).zip(&made.pieces) {
        let hex: String = tokenizer.piece(id).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(&hex, piece, "token {id}");
    }
    for text in corpus() {
        let ids = tokenizer.encode(&text, EncodeOptions::default());
        assert_eq!(tokenizer.decode(&ids, Default::default()), text);
    }
}

/// The vocabulary through a file, as its model and its name say what is done with white space.
#[test]
fn words_without_white_space_agree_with_llama_cpp() {
    let made = made().whitespace;
    for case in &made.cases {
        let mut writer = Writer::new();
        let mut types = vec![1i32; made.tokens.len()];
        types[..3].copy_from_slice(&[2, 3, 3]);
        writer.metadata("tokenizer.ggml.model", "whitespace").unwrap();
        writer.metadata("tokenizer.ggml.pre", "whitespace").unwrap();
        writer.metadata("tokenizer.ggml.tokens", made.tokens.clone()).unwrap();
        writer.metadata("tokenizer.ggml.merges", made.merges.clone()).unwrap();
        writer.metadata("tokenizer.ggml.token_type", types).unwrap();
        if case.lowercase {
            writer.metadata("tokenizer.ggml.normalizer.lowercase", true).unwrap();
        }
        let file = File::from_bytes(writer.to_bytes().unwrap()).unwrap();
        let tokenizer = Tokenizer::new(Vocab::from_gguf(file.metadata()).unwrap()).unwrap();
        check(&tokenizer, &case.plain, &case.special, &format!("lowercase {}", case.lowercase));
    }
}
