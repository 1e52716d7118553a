//! Chat templates of published models against Python's Jinja2 (`tools/oracle/chat_templates.py`).
//!
//! `RUSTORCH_CHAT_TEMPLATES=DIR` with a file `expected.json` made by that script checks more templates.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rustorch_llm::chat::{ChatError, ChatTemplate, Message, RenderOptions};
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
