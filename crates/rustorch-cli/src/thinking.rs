//! What a model thinks before it answers, shown dimmed on terminals.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Puts escape sequences around what stands between `<think>` and `</think>` in a stream of text.
#[derive(Debug, Default)]
pub(crate) struct Thinking {
    inside: bool,
    /// What may be the beginning of a tag.
    held: String,
}

impl Thinking {
    /// At the beginning of an answer; `inside` where the prompt has begun the thoughts already.
    pub(crate) fn new(inside: bool) -> Thinking {
        Thinking { inside, held: String::new() }
    }

    /// The text to print.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let mut shown = String::new();
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            if let Some(at) = self.held.find(tag) {
                let (before, after) = self.held.split_at(at);
                let after = after[tag.len()..].to_owned();
                match self.inside {
                    true => shown += &format!("{}{DIM}{tag}{RESET}", self.shade(before)),
                    false => shown += &format!("{before}{DIM}{tag}{RESET}"),
                }
                self.inside = !self.inside;
                self.held = after;
                continue;
            }
            let keep = (1..tag.len()).rev().find(|&n| self.held.ends_with(&tag[..n])).unwrap_or(0);
            let certain: String = self.held.drain(..self.held.len() - keep).collect();
            return shown + &self.shade(&certain);
        }
    }

    /// What was held back.
    pub(crate) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.shade(&held)
    }

    fn shade(&self, text: &str) -> String {
        if self.inside && !text.is_empty() { format!("{DIM}{text}{RESET}") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(inside: bool, pieces: &[&str]) -> String {
        let mut thinking = Thinking::new(inside);
        let mut text: String = pieces.iter().map(|piece| thinking.push(piece)).collect();
        text += &thinking.finish();
        text.replace(DIM, "[").replace(RESET, "]")
    }

    #[test]
    fn thoughts_are_dimmed_wherever_tokens_end() {
        assert_eq!(shown(false, &["<think>", "Hm", ".</think>", "Yes"]), "[<think>][Hm][.][</think>]Yes");
        assert_eq!(shown(false, &["<th", "ink>a</thi", "nk>b"]), "[<think>][a][</think>]b");
        assert_eq!(shown(true, &["a</think>b"]), "[a][</think>]b");
        assert_eq!(shown(false, &["1 < 2", " <", "b>"]), "1 < 2 <b>");
        assert_eq!(shown(false, &["a <thin"]), "a <thin");
    }
}
