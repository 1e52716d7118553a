//! A conversation, in memory and on disk.

use crate::failure::Failure;
use rustorch::llm::chat::Message;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// A system prompt and the messages that followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) system: Option<String>,
    pub(super) messages: Vec<Message>,
    /// How many of the oldest messages the model is not given any more, for want of room.
    dropped: usize,
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
        Conversation { system, messages: Vec::new(), dropped: 0 }
    }

    /// All messages, the system prompt first.
    pub(super) fn all(&self) -> Vec<Message> {
        self.system.iter().map(Message::system).chain(self.messages.iter().cloned()).collect()
    }

    /// The messages that the model is given, the system prompt first.
    pub(super) fn seen(&self) -> Vec<Message> {
        let messages = self.messages.iter().skip(self.dropped).cloned();
        self.system.iter().map(Message::system).chain(messages).collect()
    }

    /// How many of the oldest messages the model is not given any more.
    pub(super) fn dropped(&self) -> usize {
        self.dropped
    }

    /// Drops the oldest turn that the model is given: up to the next question. `false` if there is only one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let is_question = |message: &Message| message.role == "user";
        let next = self.messages.iter().skip(self.dropped + 1).position(is_question);
        if let Some(next) = next {
            self.dropped += next + 1;
        }
        next.is_some()
    }

    /// Forgets all messages.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.dropped = 0;
    }

    /// Takes the last question back, with all that followed; `false` if there is none.
    pub(super) fn undo(&mut self) -> bool {
        let question = self.messages.iter().rposition(|message| message.role == "user");
        if let Some(at) = question {
            self.messages.truncate(at);
            self.give_all();
        }
        question.is_some()
    }

    /// The model is given all messages again: where there is more room now.
    pub(super) fn give_all(&mut self) {
        self.dropped = 0;
    }

    /// Writes the conversation to a file, which is replaced only when all is written, and only if it is a saved conversation.
    pub(super) fn save(&self, path: &Path) -> Result<(), Failure> {
        let fail = |why: String| Failure::Other(format!("cannot save {}: {why}", path.display()));
        if path.exists() && Conversation::load(path).is_err() {
            return Err(fail("it exists and is no saved conversation; choose another name".into()));
        }
        let saved = Saved {
            system: self.system.clone(),
            messages: self
                .messages
                .iter()
                .map(|m| SavedMessage { role: m.role.clone(), content: m.content.clone() })
                .collect(),
        };
        let text = serde_json::to_string_pretty(&saved)? + "\n";
        // Links stay, and what they point to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        atomic_write(&target, text.as_bytes()).map_err(|e| fail(e.to_string()))
    }

    /// Reads a conversation that [`save`](Self::save) wrote.
    pub(super) fn load(path: &Path) -> Result<Conversation, Failure> {
        let fail = |why: String| Failure::Other(format!("cannot load {}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        let saved: Saved =
            serde_json::from_str(&text).map_err(|e| fail(format!("it is no saved conversation: {e}")))?;
        let messages = saved.messages.into_iter().map(|m| Message::new(m.role, m.content)).collect();
        Ok(Conversation { system: saved.system, messages, dropped: 0 })
    }
}

/// Replaces a file at once, or not at all: nothing else is left behind.
fn atomic_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = Path::new(&name);
    let written = fs::File::create_new(partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(partial, path)
    });
    if written.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists) {
        // What could not be made is not there.
        let _ = fs::remove_file(partial);
    }
    written
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
            assert!(error.contains("talk.json") && error.contains("no saved conversation"), "{error}");
        }
    }

    #[test]
    fn only_saved_conversations_are_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("notes.txt");
        fs::write(&file, "Buy milk.").unwrap();
        let mut conversation = Conversation::new(None);
        let error = conversation.save(&file).unwrap_err().to_string();
        assert!(error.contains("no saved conversation"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "Buy milk.");
        let file = dir.path().join("talk.json");
        conversation.save(&file).unwrap();
        conversation.messages.push(Message::user("Who?"));
        conversation.save(&file).unwrap();
        assert_eq!(Conversation::load(&file).unwrap().all(), conversation.all());
        assert!(conversation.save(&dir.path().join("no/such/folder")).is_err());
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["notes.txt", "talk.json"]);
    }

    #[test]
    fn the_oldest_turns_go_first_and_the_last_question_stays() {
        let mut conversation = Conversation::new(Some("Be brief.".into()));
        for text in ["1", "2", "3"] {
            conversation.messages.extend([Message::user(text), Message::assistant("!")]);
        }
        assert!(conversation.drop_oldest());
        assert_eq!(conversation.dropped(), 2);
        let seen: Vec<String> = conversation.seen().into_iter().map(|m| m.content).collect();
        assert_eq!(seen, ["Be brief.", "2", "!", "3", "!"]);
        assert!(conversation.drop_oldest() && !conversation.drop_oldest());
        assert_eq!((conversation.dropped(), conversation.all().len()), (4, 7));
        assert!(conversation.undo() && conversation.messages.len() == 4 && conversation.dropped() == 0);
    }
}
