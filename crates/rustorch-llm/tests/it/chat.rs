//! Chat templates of published models against Python's Jinja2 (`tools/oracle/chat_templates.py`).
//!
//! `RUSTORCH_CHAT_TEMPLATES=DIR` with a file `expected.json` made by that script checks more templates.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rustorch_llm::chat::{ChatError, ChatTemplate, Message, RenderOptions};
use rustorch_llm::tokenizer::{DecodeOptions, ModelKind, TokenType, Tokenizer, Vocab};
use rustorch_testkit::{Requirement, skip};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

fn messages(value: &Value) -> Vec<Message> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    value.as_array().unwrap().iter().map(|m| Message::new(text(&m["role"]), text(&m["content"]))).collect()
}

/// Checks every case of a folder; gives the number of texts that agree and what does not.
fn check(folder: &Path) -> (usize, Vec<String>) {
    let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let now = UNIX_EPOCH + Duration::from_secs(expected["now"].as_u64().unwrap());
    let (mut agreed, mut different) = (0, Vec::new());
    for case in expected["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        let mut options = RenderOptions {
            add_generation_prompt: case["prompt"].as_bool().unwrap(),
            now: Some(now),
            ..RenderOptions::default()
        };
        for (key, value) in expected["variables"][case["variables"].as_str().unwrap()].as_object().unwrap() {
            options = options.variable(key, value);
        }
        let conversation = case["conversation"].as_str().unwrap();
        let messages = messages(&expected["conversations"][conversation]);
        let found = ChatTemplate::new(&source, "<s>", "</s>")
            .and_then(|template| template.render(&messages, &options));
        let right = match (&found, &case["text"], &case["refused"]) {
            (Ok(found), Value::String(text), _) => found == text,
            (Err(ChatError::Refused(found)), _, Value::String(message)) => found == message,
            // Where Python fails, an error or a sensible text are both right.
            (Err(ChatError::Render { .. }) | Ok(_), Value::Null, Value::Null) => true,
            _ => false,
        };
        if right {
            agreed += 1;
        } else {
            different
                .push(format!("{name}, {conversation}, {}: {found:?}\nexpected {case}", case["variables"]));
        }
    }
    (agreed, different)
}

#[test]
fn templates_render_as_in_python() {
    let (agreed, different) = check(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat")));
    assert!(different.is_empty(), "{}", different.join("\n\n"));
    assert_eq!(agreed, 17 * 8);
}

#[test]
fn further_templates_render_as_in_python() {
    let Some(folder) = std::env::var_os("RUSTORCH_CHAT_TEMPLATES") else {
        return skip(Requirement::ChatTemplates, "RUSTORCH_CHAT_TEMPLATES is not set");
    };
    let (agreed, different) = check(Path::new(&folder));
    assert!(different.is_empty(), "{agreed} agree, {} differ\n{}", different.len(), different.join("\n\n"));
}

/// A byte-level vocabulary with these control tokens, in a file without a model, and what a file needs besides.
fn tokenizer_with(control: &[&str]) -> Tokenizer {
    // Printable ASCII and the characters that stand for newline and space; templates and texts here need no others.
    let plain: Vec<String> = ('!'..='~').chain(['Ċ', 'Ġ']).map(String::from).collect();
    let texts: Vec<&str> = plain.iter().map(String::as_str).chain(control.iter().copied()).collect();
    let mut vocab = Vocab::new(ModelKind::Bpe, "gpt-2", texts);
    vocab.types = vec![TokenType::Normal; plain.len()];
    vocab.types.extend(control.iter().map(|_| TokenType::Control));
    Tokenizer::new(vocab).unwrap()
}

/// The texts in a template's source that have the form of control tokens.
fn control_tokens(source: &str) -> Vec<&str> {
    let mut found = vec!["<s>", "</s>", "[INST]", "[/INST]"];
    let mut rest = source;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let length = rest[1..].find(['<', '>', ' ', '\'', '\n']).map_or(rest.len(), |n| n + 1);
        if rest[length..].starts_with('>') && length > 1 {
            found.push(&rest[..=length]);
        }
        rest = &rest[1..];
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// In no template does a person's text become a control token: with and without one in it, the template's are the same, and the text is whole.
#[test]
fn control_tokens_of_messages_are_text_in_every_template() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/chat"));
    let mut templates = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "jinja") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let control = control_tokens(&source);
        let tokenizer = tokenizer_with(&control);
        let template = ChatTemplate::new(&source, "<s>", "</s>").unwrap();
        let typed = format!("a {} b", control.join(" "));
        let encode = |text: &str| {
            let messages = [Message::user(text), Message::assistant("Well."), Message::user(text)];
            template.encode(&tokenizer, &messages, &RenderOptions::default()).unwrap()
        };
        let controls = |ids: &[u32]| -> Vec<u32> {
            ids.iter().copied().filter(|&id| tokenizer.is_control(id)).collect()
        };
        let (plain, with) = (encode("a b"), encode(&typed));
        assert!(!controls(&plain).is_empty(), "{}", path.display());
        assert_eq!(controls(&with), controls(&plain), "{}", path.display());
        let show = DecodeOptions { special: true, ..DecodeOptions::default() };
        let expected = tokenizer.decode(&plain, show).replace("a b", &typed);
        assert_eq!(tokenizer.decode(&with, show), expected, "{}", path.display());
        templates += 1;
    }
    assert_eq!(templates, 17);
}
