//! Tokenizers against llama.cpp on difficult texts (`tools/oracle/tokenizer.py`): real vocabularies, and every
//! pre-tokenizer name with a vocabulary whose tokens show where a text was split.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::{fnv, shared, tokenizer, tokenizer_corpus as corpus, tokenizer_digest as digest};
use rustorch_llm::tokenizer::{EncodeOptions, ModelKind, Tokenizer, Vocab};
use serde_json::Value;

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };
const SPECIAL: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/tokenizer/expected.json")).unwrap()
}

fn encode(tokenizer: &Tokenizer, texts: &[String], options: EncodeOptions) -> Vec<Vec<u32>> {
    texts.iter().map(|text| tokenizer.encode(text, options)).collect()
}

/// With `RUSTORCH_TOKENIZER_LINES`, the file of all ids that the script writes on demand, shows the first difference.
fn first_difference(key: &str, which: usize, texts: &[String], found: &[Vec<u32>]) -> String {
    let Some(path) = std::env::var_os("RUSTORCH_TOKENIZER_LINES") else { return String::new() };
    let lines: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let expected: Vec<Vec<u32>> = serde_json::from_value(lines[key][which].clone()).unwrap();
    let wrong = expected.iter().zip(found).filter(|(a, b)| a != b).count();
    let at = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(0);
    format!(
        "{wrong} texts differ, first {:?}\n  found {:?}\n  not   {:?}",
        texts[at], found[at], expected[at]
    )
}

#[test]
fn vocabularies_agree_with_llama_cpp() {
    let (texts, expected) = (corpus(), expected());
    let mut wrong = Vec::new();
    for (name, expected) in expected["vocabs"].as_object().unwrap() {
        let Some(tokenizer) = tokenizer(name) else { return };
        for (which, (key, options)) in [("plain", PLAIN), ("special", SPECIAL)].into_iter().enumerate() {
            let found = encode(&tokenizer, &texts, options);
            if digest(&found) != expected[key] {
                wrong.push(format!("{name}, {key}: {}", first_difference(name, which, &texts, &found)));
            }
        }
        let shakespeare = std::fs::read_to_string(shared("text/tinyshakespeare.txt").unwrap()).unwrap();
        let found = digest(&[tokenizer.encode(&shakespeare, PLAIN)]);
        if found != expected["shakespeare"] {
            wrong.push(format!("{name}, shakespeare: {found} instead of {}", expected["shakespeare"]));
        }
        let tokens = 0..tokenizer.len() as u32;
        assert_eq!(tokens.len() as u64, expected["tokens"].as_u64().unwrap());
        let pieces = tokens.clone().flat_map(|id| tokenizer.piece(id).iter().copied().chain([0xFF, 0xFE]));
        if fnv(pieces) != expected["pieces"].as_str().unwrap() {
            wrong.push(format!("{name}: pieces"));
        }
        let ends: Vec<u32> = tokens.filter(|&id| tokenizer.is_eog(id)).collect();
        if serde_json::json!(ends) != expected["eog"] {
            wrong.push(format!("{name}: {ends:?} end a generation, not {}", expected["eog"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All bytes and all pairs of bytes, every pair merging.
fn pairs_vocab() -> Vocab {
    let mut others = (0x100..).map(|c| char::from_u32(c).unwrap());
    let bytes: Vec<char> =
        (0..=255u8)
            .map(|b| {
                if matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..) {
                    b as char
                } else {
                    others.next().unwrap()
                }
            })
            .collect();
    let pairs = |between: &str| -> Vec<String> {
        bytes.iter().flat_map(|a| bytes.iter().map(move |b| format!("{a}{between}{b}"))).collect()
    };
    let tokens = bytes.iter().map(char::to_string).chain(pairs(""));
    let mut vocab = Vocab::new(ModelKind::Bpe, "", tokens);
    vocab.merges = pairs(" ").into_iter().map(String::into_bytes).collect();
    vocab
}

#[test]
fn pre_tokenizers_agree_with_llama_cpp() {
    let pairs = pairs_vocab();
    let (texts, expected) = (corpus(), expected());
    let expected = expected["pres"].as_object().unwrap();
    assert!(expected.len() > 70);
    let mut wrong = Vec::new();
    for (name, expected) in expected {
        let tokenizer = Tokenizer::new(Vocab { pre: name.clone(), ..pairs.clone() }).unwrap();
        let found = encode(&tokenizer, &texts, PLAIN);
        if digest(&found) != *expected {
            wrong.push(format!("{name}: {}", first_difference(&format!("pre:{name}"), 0, &texts, &found)));
        }
    }
    assert!(wrong.is_empty(), "{} names\n{}", wrong.len(), wrong.join("\n"));
}

/// The code points of text below U+32000, in order.
fn code_points() -> impl Iterator<Item = char> + Clone {
    (1..0x32000).filter_map(char::from_u32)
}

#[test]
fn word_pieces_of_every_code_point_agree_with_llama_cpp() {
    let expected = expected();
    let special = (0..104).map(|i| format!("[unused{i}]"));
    let tokens = special.chain(code_points().map(|c| format!("▁{c}"))).chain(code_points().map(String::from));
    let vocab = Vocab::new(ModelKind::Wpm, "", tokens);
    // First and last code points of those that the oracle's Unicode has.
    let ranges = expected["wpm"]["ranges"].as_str().unwrap().split(' ');
    let ranges: Vec<u32> = ranges.map(|end| end.parse().unwrap()).collect();
    let assigned = ranges.chunks_exact(2).flat_map(|range| range[0]..=range[1]).filter_map(char::from_u32);
    let texts: Vec<String> = assigned.map(|c| format!("a{c}a")).collect();
    assert!(texts.len() > 140_000);
    let mut wrong = Vec::new();
    for (name, lowercase, strip_accents) in [("lowercase", true, false), ("strip_accents", false, true)] {
        let tokenizer = Tokenizer::new(Vocab { lowercase, strip_accents, ..vocab.clone() }).unwrap();
        let found = encode(&tokenizer, &texts, PLAIN);
        if digest(&found) != expected["wpm"][name] {
            wrong.push(format!("{name}: {}", first_difference(&format!("wpm:{name}"), 0, &texts, &found)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names in the source of llama.cpp and what each implies: `tools/oracle/pretokenizer_names.py`.
#[test]
fn every_pre_tokenizer_of_llama_cpp_is_known() {
    let names: Value =
        serde_json::from_str(include_str!("../fixtures/tokenizer/pretokenizers.json")).unwrap();
    let (names, expected) = (names.as_object().unwrap(), expected());
    assert!(names.len() > 85);
    for (name, implied) in names {
        let vocab = Vocab::new(ModelKind::Bpe, name, ["a", "b"]);
        let found = serde_json::json!({ "add_bos": vocab.add_bos, "add_eos": vocab.add_eos, "add_sep": vocab.add_sep });
        assert_eq!(&found, implied, "{name}");
        let tokenizer = Tokenizer::new(vocab).unwrap();
        assert!(!tokenizer.warnings().iter().any(|w| w.contains("pre-tokenizer")), "{name}");
        // This one is compared where white space is left out before it: `tokenizer_made`.
        let is_compared = expected["pres"].get(name).is_some() || name == "whitespace";
        assert!(is_compared, "{name} is not compared with llama.cpp");
    }
}

#[test]
fn an_unknown_pre_tokenizer_is_told() {
    let vocab = Vocab::new(ModelKind::Bpe, "no-such-thing", ["a", "b"]);
    let tokenizer = Tokenizer::new(vocab).unwrap();
    let warning = &tokenizer.warnings()[0];
    assert!(warning.contains("'no-such-thing'") && warning.contains("llama-bpe"), "{warning}");
}
