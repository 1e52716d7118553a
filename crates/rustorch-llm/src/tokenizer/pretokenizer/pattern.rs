//! A small matcher for pre-tokenizer patterns.
//!
//! It finds what a backtracking regular-expression engine would find for the patterns in [`super::table`], in time
//! linear in the text: repeated classes backtrack, groups do not (no pattern here needs it), and an alternative that
//! began with a long run and failed is not tried again inside the same run.

use super::class::Class;
use super::parse::parse;

/// Upper bound of `*` and `+`.
pub(super) const UNBOUNDED: u32 = u32::MAX;

/// Most alternatives a pattern may have.
const MAX_ALTERNATIVES: usize = 32;

/// One element of a sequence.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// `min..=max` characters of a class, as many as possible, given back one by one if what follows fails.
    Class { class: Class, min: u32, max: u32 },
    /// `min..=max` repetitions of the first alternative that matches, never given back.
    Group { alternatives: Vec<Vec<Node>>, min: u32, max: u32 },
    /// Matches nothing, where no character of the class follows.
    NotFollowedBy(Class),
    /// Matches nothing, at the end of the piece.
    End,
}

/// A compiled pattern: alternatives tried in order at each position.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    alternatives: Vec<Vec<Node>>,
    /// For each ASCII byte, the alternatives that can start with it.
    starts: Box<[u32; 128]>,
}

/// The character at byte `at` and its length in bytes.
#[inline]
fn char_at(text: &str, at: usize) -> Option<(char, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        return Some((byte as char, 1));
    }
    text[at..].chars().next().map(|c| (c, c.len_utf8()))
}

impl Pattern {
    /// Compiles `pattern`.
    ///
    /// # Panics
    /// When the pattern is not in the notation of [`super::parse`]; patterns are constants checked by a test.
    pub(super) fn new(pattern: &str) -> Pattern {
        let alternatives = parse(pattern);
        assert!(alternatives.len() <= MAX_ALTERNATIVES, "too many alternatives in {pattern:?}");
        let mut starts = Box::new([0u32; 128]);
        for (index, alternative) in alternatives.iter().enumerate() {
            let first = first_ascii(alternative);
            for (byte, mask) in starts.iter_mut().enumerate() {
                *mask |= ((first >> byte & 1) as u32) << index;
            }
        }
        Pattern { alternatives, starts }
    }

    /// Cuts `text` into matches and the stretches between them, in order. No piece is empty.
    pub(super) fn split(&self, text: &str, piece: &mut dyn FnMut(&str)) {
        // Before this position the alternative is known to fail: it failed at the start of a run that reaches here.
        let mut dead_until = [0usize; MAX_ALTERNATIVES];
        let (mut at, mut gap) = (0, 0);
        while let Some((c, len)) = char_at(text, at) {
            match self.match_at(text, at, c, &mut dead_until) {
                Some(end) if end > at => {
                    if gap < at {
                        piece(&text[gap..at]);
                    }
                    piece(&text[at..end]);
                    at = end;
                    gap = end;
                }
                _ => at += len,
            }
        }
        if gap < text.len() {
            piece(&text[gap..]);
        }
    }

    #[inline]
    fn match_at(&self, text: &str, at: usize, c: char, dead_until: &mut [usize]) -> Option<usize> {
        let mut candidates = self.starts.get(c as usize).copied().unwrap_or(u32::MAX);
        while candidates != 0 {
            let index = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let Some(alternative) = self.alternatives.get(index) else { break };
            if at < dead_until[index] {
                continue;
            }
            if let Some(end) = match_nodes(alternative, text, at) {
                return Some(end);
            }
            if let Some(Node::Class { class, max: UNBOUNDED, .. }) = alternative.first() {
                dead_until[index] = run(class, text, at, UNBOUNDED).0;
            }
        }
        None
    }
}

/// ASCII bytes with which a sequence can start.
fn first_ascii(nodes: &[Node]) -> u128 {
    let mut first = 0;
    for node in nodes {
        let min = match node {
            Node::Class { class, min, .. } => {
                first |= class.ascii();
                *min
            }
            Node::Group { alternatives, min, .. } => {
                first |= alternatives.iter().fold(0, |all, nodes| all | first_ascii(nodes));
                *min
            }
            Node::NotFollowedBy(_) | Node::End => 0,
        };
        if min > 0 {
            return first;
        }
    }
    // The sequence can be empty, or ends with a look-ahead.
    u128::MAX
}

/// End of the run of at most `max` characters of `class` from `at`, and how many there are.
#[inline]
fn run(class: &Class, text: &str, mut at: usize, max: u32) -> (usize, u32) {
    let mut count = 0;
    while count < max {
        match char_at(text, at) {
            Some((c, len)) if class.contains(c) => at += len,
            _ => break,
        }
        count += 1;
    }
    (at, count)
}

/// End of a match of the whole sequence from `at`.
fn match_nodes(nodes: &[Node], text: &str, mut at: usize) -> Option<usize> {
    for (index, node) in nodes.iter().enumerate() {
        match node {
            Node::Class { class, min, max } => {
                let (mut end, mut count) = run(class, text, at, *max);
                if count < *min {
                    return None;
                }
                let rest = &nodes[index + 1..];
                if rest.is_empty() || *min == *max {
                    at = end;
                    continue;
                }
                loop {
                    if let Some(matched) = match_nodes(rest, text, end) {
                        return Some(matched);
                    }
                    if count == *min {
                        return None;
                    }
                    count -= 1;
                    end -= text[..end].chars().next_back().map_or(1, char::len_utf8);
                }
            }
            Node::Group { alternatives, min, max } => {
                let mut count = 0;
                while count < *max {
                    let found = alternatives.iter().find_map(|nodes| match_nodes(nodes, text, at));
                    match found {
                        Some(end) if end > at => at = end,
                        _ => break,
                    }
                    count += 1;
                }
                if count < *min {
                    return None;
                }
            }
            Node::NotFollowedBy(class) => {
                if char_at(text, at).is_some_and(|(c, _)| class.contains(c)) {
                    return None;
                }
            }
            Node::End => {
                if at < text.len() {
                    return None;
                }
            }
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pattern: &str, text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        Pattern::new(pattern).split(text, &mut |piece| pieces.push(piece.to_owned()));
        pieces
    }

    #[test]
    fn runs_give_back_characters() {
        assert_eq!(split(r"\s*[\r\n]+|\s+(?!\S)|\s+", " \n  \n  x"), [" \n  \n", " ", " ", "x"]);
        assert_eq!(split(r"[\p{L}--a-z]*[\p{L}--A-Z]+", "HTTPServer42"), ["HTTPServer", "42"]);
    }

    #[test]
    fn unmatched_stretches_stay_whole() {
        assert_eq!(split(r"\p{N}", "ab12cd"), ["ab", "1", "2", "cd"]);
        assert_eq!(split(r"\s+$", "a  b  "), ["a  b", "  "]);
    }

    #[test]
    fn difference_and_negation() {
        assert_eq!(split(r"[\p{L}\p{^Han}]+", "ab漢字cd"), ["ab", "漢字", "cd"]);
        assert_eq!(split(r"[^\s\p{L}]+", "ab12 \u{3000}!é"), ["ab", "12", " \u{3000}", "!", "é"]);
    }

    #[test]
    fn wide_white_space_is_white_space_only() {
        // U+3000 is in the range, yet counts as white space.
        assert_eq!(split("[\u{3000}-\u{3002}]+", "\u{3000}\u{3001}"), ["\u{3000}", "\u{3001}"]);
    }

    #[test]
    fn long_failing_runs_stay_linear() {
        // Quadratic matching would take minutes here.
        let text = " ".repeat(1 << 20) + "x";
        assert_eq!(split(r"\s+$", &text).len(), 1);
        assert!(split(r"\s*[\r\n]+|\s{512}(?!\S)|\s{1}", &text).len() > 1000);
    }
}
