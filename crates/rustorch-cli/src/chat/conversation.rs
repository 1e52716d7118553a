//! A conversation, in memory and on disk.

use crate::failure::Failure;
use rustorch::llm::chat::Message;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// A system prompt and the messages that followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) system: Option<String>,
    pub(super) messages: Vec<Message>,
}

/// The form on disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    messages: Vec<SavedMessage>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedMessage {
    role: String,
    content: String,
}

impl Conversation {
    pub(super) fn new(system: Option<String>) -> Conversation {
        Conversation { system, messages: Vec::new() }
    }

    /// All messages, the system prompt first.
    pub(super) fn all(&self) -> Vec<Message> {
        self.system.iter().map(Message::system).chain(self.messages.iter().cloned()).collect()
    }

    /// Writes the conversation to a file, which is replaced only when all is written.
    pub(super) fn save(&self, path: &Path) -> Result<(), Failure> {
        let saved = Saved {
            system: self.system.clone(),
            messages: self
                .messages
                .iter()
                .map(|m| SavedMessage { role: m.role.clone(), content: m.content.clone() })
                .collect(),
        };
        let text = serde_json::to_string_pretty(&saved)?;
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let written = fs::write(&partial, text + "\n").and_then(|()| fs::rename(&partial, path));
        written.map_err(|e| Failure::Other(format!("cannot save {}: {e}", path.display())))
    }

    /// Reads a conversation that [`save`](Self::save) wrote.
    pub(super) fn load(path: &Path) -> Result<Conversation, Failure> {
        let fail = |why: String| Failure::Other(format!("cannot load {}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        let saved: Saved = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
        let messages = saved.messages.into_iter().map(|m| Message::new(m.role, m.content)).collect();
        Ok(Conversation { system: saved.system, messages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("talk.json");
        let mut conversation = Conversation::new(Some("Speak as a king.".into()));
        conversation.messages.push(Message::user("Who comes?\n\"Quoted\" — ünïcode"));
        conversation.messages.push(Message::assistant("A friend."));
        conversation.save(&file).unwrap();
        let again = Conversation::load(&file).unwrap();
        assert_eq!(again.all(), conversation.all());
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("talk.json");
        assert!(Conversation::load(&file).is_err());
        for text in ["", "[]", "{\"messages\": 3}", "{\"messages\": [], \"extra\": 1}"] {
            fs::write(&file, text).unwrap();
            let error = Conversation::load(&file).unwrap_err().to_string();
            assert!(error.contains("talk.json"), "{error}");
        }
    }
}
