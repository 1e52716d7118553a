//! `architectures`: which models run.

use crate::common::{succeed, succeed_json};

#[test]
fn text_and_json_list_the_same() {
    let text = succeed(&["architectures"]);
    let json = succeed_json(&["architectures", "--json"]);
    let all = json.as_array().unwrap();
    assert_eq!(text.lines().count(), all.len(), "{text}");
    for (line, entry) in text.lines().zip(all) {
        assert_eq!(line.split_whitespace().next(), entry["name"].as_str());
        assert!(line.contains(entry["models"].as_str().unwrap()), "{line}");
        assert!(line.contains(entry["parts"][0].as_str().unwrap()), "{line}");
    }
    let llama = all.iter().find(|entry| entry["name"] == "llama").unwrap();
    assert!(llama["parts"].as_array().unwrap().contains(&"SwiGLU".into()), "{llama}");
}
