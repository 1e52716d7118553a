//! llama.cpp's own tokenizer cases for real vocabularies.
//!
//! `ggml-vocab-*.gguf.inp` holds texts separated by a marker, `.out` one line of ids per text, without begin-of-text
//! and with control tokens not recognised (llama.cpp, `tests/test-tokenizer-0.cpp`).

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::{shared, tokenizer};
use rustorch_llm::tokenizer::{DecodeOptions, EncodeOptions, Tokenizer};

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };

type Case = (String, Vec<u32>);

fn cases(name: &str) -> Option<(Tokenizer, Vec<Case>)> {
    let tokenizer = tokenizer(name)?;
    let read = |suffix: &str| {
        let path = shared(&format!("vocab/ggml-vocab-{name}.gguf.{suffix}")).unwrap();
        std::fs::read_to_string(path).unwrap()
    };
    let (texts, ids) = (read("inp"), read("out"));
    let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
    let ids: Vec<Vec<u32>> =
        ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    // A last empty text may or may not have a line of its own.
    assert!(texts.len() - ids.len() <= 1 && ids.len() > 40, "{} texts, {} lines", texts.len(), ids.len());
    Some((tokenizer, texts.into_iter().map(str::to_owned).zip(ids).collect()))
}

fn check(name: &str) {
    let Some((tokenizer, cases)) = cases(name) else { return };
    // Falcon's vocabulary really lacks some bytes.
    let doubts: Vec<_> = tokenizer.warnings().iter().filter(|text| !text.contains("byte values")).collect();
    assert!(doubts.is_empty() && (name == "falcon" || tokenizer.warnings().is_empty()), "{name}: {doubts:?}");
    for (text, expected) in &cases {
        let ids = tokenizer.encode(text, PLAIN);
        assert_eq!(&ids, expected, "{name}: {text:?}");
        assert_eq!(&tokenizer.decode(&ids, DecodeOptions::default()), text, "{name}");
        let mut stream = tokenizer.stream(false);
        let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
        streamed += &stream.finish();
        let options = DecodeOptions { strip_space_prefix: false, ..DecodeOptions::default() };
        assert_eq!(streamed, tokenizer.decode(&ids, options), "{name}");
    }
}

#[test]
fn llama_spm() {
    check("llama-spm");
}

#[test]
fn phi_3() {
    check("phi-3");
}

#[test]
fn llama_bpe() {
    check("llama-bpe");
}

#[test]
fn qwen2() {
    check("qwen2");
}

#[test]
fn gpt_2() {
    check("gpt-2");
}

#[test]
fn falcon() {
    check("falcon");
}

#[test]
fn deepseek_llm() {
    check("deepseek-llm");
}

#[test]
fn bert_bge() {
    let Some((bert, cases)) = cases("bert-bge") else { return };
    assert_eq!(bert.warnings(), [""; 0]);
    for (text, expected) in &cases {
        assert_eq!(&bert.encode(text, PLAIN), expected, "{text:?}");
    }
    let special = EncodeOptions { add_special: true, parse_special: true };
    assert_eq!(bert.encode("Hello world", special), [101, 7592, 2088, 102]);
    assert_eq!(bert.encode("héllo [MASK]", special), [101, 7592, 103, 102]);
    let spaced = bert.decode(&[7592, 1010, 2088], DecodeOptions::default());
    assert_eq!(spaced, " hello , world");
    let clean = DecodeOptions { clean_up_spaces: true, ..DecodeOptions::default() };
    assert_eq!(bert.decode(&[7592, 1010, 2088], clean), " hello, world");
}

#[test]
fn special_tokens_are_added_and_parsed() {
    let parse = EncodeOptions { add_special: true, parse_special: true };
    if let Some(llama3) = tokenizer("llama-bpe") {
        assert_eq!(llama3.encode("<|eot_id|>Hi", parse), [128_000, 128_009, 13_347]);
        assert!(llama3.encode("<|eot_id|>", PLAIN).len() > 1);
        assert!(llama3.is_eog(128_009) && llama3.is_eog(128_001) && !llama3.is_eog(13_347));
        assert_eq!(llama3.decode(&[128_000, 13_347], DecodeOptions::default()), "Hi");
        let shown = DecodeOptions { special: true, ..DecodeOptions::default() };
        assert_eq!(llama3.decode(&[128_000, 13_347], shown), "<|begin_of_text|>Hi");
    }
    if let Some(llama2) = tokenizer("llama-spm") {
        // The space comes after each special token.
        assert_eq!(llama2.encode("", parse), [1]);
        assert_eq!(llama2.encode("Hi</s>Hi", parse), [1, 6324, 2, 6324]);
        assert_eq!(llama2.decode(&[1, 6324, 2, 6324], DecodeOptions::default()), "Hi Hi");
        assert!(llama2.is_eog(2) && !llama2.is_eog(1));
        assert_eq!(llama2.piece(6324), b" Hi");
        assert_eq!(llama2.piece(13), b"\n");
        assert_eq!(llama2.piece(u32::MAX), b"");
    }
    if let Some(phi3) = tokenizer("phi-3") {
        let user = phi3.token("<|user|>").unwrap();
        let end = phi3.token("<|end|>").unwrap();
        // Phi-3's control tokens take the white space after them.
        assert_eq!(phi3.encode("<|user|>\n Hi<|end|>\n", parse), [1, user, 6324, end]);
        assert!(phi3.is_eog(end));
    }
    if let Some(qwen2) = tokenizer("qwen2") {
        let (start, end) = (qwen2.token("<|im_start|>").unwrap(), qwen2.token("<|im_end|>").unwrap());
        assert_eq!(qwen2.encode("<|im_start|>user<|im_end|>\n", parse), [start, 872, end, 198]);
        assert!(qwen2.is_eog(end) && !qwen2.is_eog(start));
        assert!(qwen2.eog_tokens().contains(&end));
    }
}

#[test]
fn long_texts_without_boundaries_stay_fast() {
    // Anything quadratic takes hours on these, in all.
    const LEN: usize = 1 << 17;
    for name in ["llama-spm", "llama-bpe", "gpt-2", "deepseek-llm", "falcon", "qwen2"] {
        let Some(tokenizer) = tokenizer(name) else { return };
        for unit in ["a", " ", "ab", "\n", " \n", "é", "1", "<", "</s", "🦙", "."] {
            let text = unit.repeat(LEN / unit.len());
            let ids = tokenizer.encode(&text, PLAIN);
            assert_eq!(tokenizer.decode(&ids, DecodeOptions::default()), text, "{name}: {unit:?}");
        }
    }
}
