//! Pre-tokenization: cutting text into the pieces inside which byte-pair merges happen.
//!
//! A pre-tokenizer is a row of [`table`]: names, splitting steps and flags. Steps are patterns in a small regular
//! expression notation ([`parse`]), matched in linear time ([`pattern`]) over Unicode categories ([`class`]).

mod class;
mod parse;
mod pattern;
mod table;

pub(super) use class::{category, category_of};
use pattern::Pattern;
use table::{SPECS, Spec};

/// A compiled pre-tokenizer.
#[derive(Clone, Debug)]
pub(super) struct PreTokenizer {
    steps: Vec<Step>,
    spec: &'static Spec,
}

#[derive(Clone, Debug)]
enum Step {
    Pattern(Pattern),
    NumbersFromRight,
    DigitTriples,
}

impl PreTokenizer {
    /// The pre-tokenizer called `name` in `tokenizer.ggml.pre`, or `None` for a name that is not known.
    pub(super) fn named(name: &str) -> Option<PreTokenizer> {
        let spec = SPECS.iter().find(|spec| spec.names.contains(&name))?;
        let steps = spec
            .steps
            .iter()
            .map(|step| match step {
                table::Step::Pattern(pattern) => Step::Pattern(Pattern::new(pattern)),
                table::Step::NumbersFromRight => Step::NumbersFromRight,
                table::Step::DigitTriples => Step::DigitTriples,
            })
            .collect();
        Some(PreTokenizer { steps, spec })
    }

    /// Calls `piece` with each piece of `text`, in order; together the pieces are the text, and none is empty.
    pub(super) fn split(&self, text: &str, piece: &mut dyn FnMut(&str)) {
        if !text.is_empty() {
            split(&self.steps, text, piece);
        }
    }

    /// See [`Spec::ignore_merges`].
    pub(super) fn ignore_merges(&self) -> bool {
        self.spec.ignore_merges
    }

    /// See [`Spec::raw_utf8`].
    pub(super) fn raw_utf8(&self) -> bool {
        self.spec.raw_utf8
    }

    /// See [`Spec::escape_spaces`].
    pub(super) fn escape_spaces(&self) -> bool {
        self.spec.escape_spaces
    }

    /// See [`Spec::newline_tokens`].
    pub(super) fn newline_tokens(&self) -> bool {
        self.spec.newline_tokens
    }

    /// See [`Spec::clean_spaces`].
    pub(super) fn clean_spaces(&self) -> bool {
        self.spec.clean_spaces
    }
}

/// What a name of `tokenizer.ggml.pre` implies when the file does not say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) add_bos: bool,
    pub(super) has_bos: bool,
    /// The token is added whatever the file says.
    pub(super) always_bos: bool,
    /// The separator stands between two texts.
    pub(super) add_sep: bool,
}

/// Defaults implied by `name` (those of an unknown name are the default pre-tokenizer's).
pub(super) fn defaults(name: &str) -> Defaults {
    let spec = SPECS.iter().find(|spec| spec.names.contains(&name)).unwrap_or(&SPECS[0]);
    let no_bos = spec.no_default_bos || name == "chatglm-bpe";
    let add_sep = matches!(name, "jina-v1-en" | "jina-v2-code" | "roberta-bpe");
    Defaults { add_bos: spec.add_bos, has_bos: !no_bos, always_bos: spec.newline_tokens, add_sep }
}

/// Every name of `tokenizer.ggml.pre` that has a pre-tokenizer here.
pub(super) fn known_names() -> impl Iterator<Item = &'static str> {
    SPECS.iter().flat_map(|spec| spec.names.iter().copied())
}

fn split(steps: &[Step], text: &str, piece: &mut dyn FnMut(&str)) {
    let Some((first, rest)) = steps.split_first() else { return piece(text) };
    let mut next = |part: &str| split(rest, part, piece);
    match first {
        Step::Pattern(pattern) => pattern.split(text, &mut next),
        Step::NumbersFromRight => numbers_from_right(text, &mut next),
        Step::DigitTriples => digit_triples(text, &mut next),
    }
}

/// Ends pieces so that each number is cut into triples from its right end. Text before a number joins the number's
/// first group (as in llama.cpp, whose later steps separate them again).
fn numbers_from_right(text: &str, piece: &mut dyn FnMut(&str)) {
    let mut start = 0;
    let mut digits: Vec<usize> = Vec::new();
    let end_of_text = std::iter::once((text.len(), '\0'));
    for (at, c) in text.char_indices().chain(end_of_text) {
        if at < text.len() && category_of(c) == category::NUMBER {
            digits.push(at);
            continue;
        }
        // `digits` holds where each digit of the number that ended here starts.
        let first = digits.len() % 3;
        if !digits.is_empty() {
            let cuts = digits.iter().copied().skip(if first == 0 { 3 } else { first }).step_by(3);
            for end in cuts.chain([at]) {
                piece(&text[start..end]);
                start = end;
            }
            digits.clear();
        }
    }
    if start < text.len() {
        piece(&text[start..]);
    }
}

/// Starts a piece at every position from which the ASCII digits to the end of the number come in threes.
fn digit_triples(text: &str, piece: &mut dyn FnMut(&str)) {
    let bytes = text.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = bytes[at..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| at + n);
        let mut cut = at + (end - at) % 3;
        while cut < end {
            if cut > start {
                piece(&text[start..cut]);
                start = cut;
            }
            cut += 3;
        }
        at = end;
    }
    if start < text.len() {
        piece(&text[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(name: &str, text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        PreTokenizer::named(name).unwrap().split(text, &mut |piece| pieces.push(piece.to_owned()));
        pieces
    }

    #[test]
    fn every_pattern_parses_and_keeps_the_text() {
        let text = "I'Ve got 1234567 ünï-códe\u{301}\u{3000}漢字🦙 a\tb\r\n\r\n   x = [y]!!  <sentinel:12>IMGIMGABZ  ";
        for name in known_names() {
            let pieces = split(name, text);
            assert_eq!(pieces.concat(), text, "{name}");
            assert!(pieces.iter().all(|piece| !piece.is_empty()), "{name}");
            assert!(split(name, "").is_empty(), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = known_names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn families_split_as_their_models_do() {
        assert_eq!(split("llama-bpe", "It's 12345\n  ok"), ["It", "'s", " ", "123", "45", "\n", " ", " ok"]);
        assert_eq!(split("qwen2", "v1.25!\n\n"), ["v", "1", ".", "2", "5", "!\n\n"]);
        assert_eq!(split("gpt-2", "a  b 12"), ["a", " ", " b", " 12"]);
        assert_eq!(split("gpt-4o", "HelloWorld's"), ["Hello", "World's"]);
        assert_eq!(split("tekken", "HelloWorld"), ["Hello", "World"]);
        assert_eq!(split("starcoder", "x12"), ["x", "1", "2"]);
        assert_eq!(split("kimi-k2", "漢字ab's"), ["漢字", "ab's"]);
        assert_eq!(split("gemma4", "a b\n\nc"), ["a b", "\n\n", "c"]);
        assert_eq!(split("bloom", "one two, three"), ["one", " two", ",", " three"]);
    }

    #[test]
    fn numbers_group_from_the_right() {
        assert_eq!(split("superbpe", "pay 1234567 now"), ["pay ", "1", "234", "567", " now"]);
        assert_eq!(split("afmoe", "1234567"), ["1", "234", "567"]);
        assert_eq!(split("afmoe", "ab123456"), ["ab", "123", "456"]);
        assert_eq!(split("tiny_aya", "12345"), ["12", "345"]);
        assert_eq!(split("deepseek-v3", "12345"), ["123", "45"]);
    }
}
