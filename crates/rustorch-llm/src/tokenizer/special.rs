//! Tokens that are not ordinary text: which there are, which end a generation, and finding them in a text.

use super::hash::FastMap;
use super::vocab::{SpecialIds, TokenType, Vocab};

/// What is known about a token, one bit each (a token can be normal and control when a file marks it wrongly).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes(u16);

impl Attributes {
    pub(super) const NORMAL: Attributes = Attributes(1);
    pub(super) const UNKNOWN: Attributes = Attributes(2);
    pub(super) const CONTROL: Attributes = Attributes(4);
    pub(super) const USER_DEFINED: Attributes = Attributes(8);
    pub(super) const BYTE: Attributes = Attributes(16);
    /// Spaces before the token belong to it.
    const LSTRIP: Attributes = Attributes(32);
    /// Spaces after the token belong to it.
    const RSTRIP: Attributes = Attributes(64);
    const NONE: Attributes = Attributes(0);

    /// Whether any bit of `other` is set.
    pub(super) fn any(self, other: Attributes) -> bool {
        self.0 & other.0 != 0
    }

    /// Both together.
    pub(super) const fn and(self, other: Attributes) -> Attributes {
        Attributes(self.0 | other.0)
    }

    fn of(kind: TokenType) -> Attributes {
        match kind {
            TokenType::Normal => Attributes::NORMAL,
            TokenType::Unknown => Attributes::UNKNOWN,
            TokenType::Control => Attributes::CONTROL,
            TokenType::UserDefined => Attributes::USER_DEFINED,
            TokenType::Byte => Attributes::BYTE,
            TokenType::Unused | TokenType::Undefined => Attributes::NONE,
        }
    }
}

/// Texts of end-of-turn tokens, the first present being *the* end of turn when the file names none.
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];

/// Texts of the other tokens that end a generation.
const END_OF_GENERATION: &[&str] = &[
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "<|eom_id|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];

const FIM_PAD: &[&str] = &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"];
const FIM_REPOSITORY: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FIM_FILE: &[&str] = &["<|file_sep|>"];
/// Fill-in-the-middle marks: control tokens even when the file says otherwise.
const FIM_MARKS: [&[&str]; 3] = [
    &[
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<｜fim▁begin｜>",
        "<PRE>",
        "▁<PRE>",
        "<|code_prefix|>",
        "<|prefix|>",
    ],
    &[
        "<|fim_suffix|>",
        "<fim-suffix>",
        "<fim_suffix>",
        "<｜fim▁hole｜>",
        "<SUF>",
        "▁<SUF>",
        "<|code_suffix|>",
        "<|suffix|>",
    ],
    &[
        "<|fim_middle|>",
        "<fim-middle>",
        "<fim_middle>",
        "<｜fim▁end｜>",
        "<MID>",
        "▁<MID>",
        "<|code_middle|>",
        "<|middle|>",
    ],
];
/// gpt-oss: always shown.
const ALWAYS_SHOWN: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Attributes and roles of every token, as llama.cpp infers them from types and texts.
#[derive(Debug)]
pub(super) struct Roles {
    pub(super) attributes: Vec<Attributes>,
    pub(super) special: SpecialIds,
    /// Sorted.
    pub(super) end_of_generation: Vec<u32>,
}

impl Roles {
    pub(super) fn of(vocab: &Vocab) -> Roles {
        let by_text: FastMap<&[u8], u32> =
            vocab.tokens.iter().enumerate().map(|(id, text)| (text.as_slice(), id as u32)).collect();
        let find = |text: &str| by_text.get(text.as_bytes()).copied();
        let first = |texts: &[&str]| texts.iter().find_map(|text| find(text));
        let mut attributes: Vec<Attributes> = (0..vocab.tokens.len())
            .map(|id| Attributes::of(vocab.types.get(id).copied().unwrap_or_default()))
            .collect();
        let mut special = vocab.special.clone();
        let mut control = |id: u32| {
            let attribute = &mut attributes[id as usize];
            *attribute = attribute.and(Attributes::CONTROL);
        };

        for texts in FIM_MARKS {
            first(texts).into_iter().for_each(&mut control);
        }
        for (role, texts) in [
            (&mut special.eot, END_OF_TURN),
            (&mut special.eom, &["<|eom_id|>"]),
            (&mut special.fim_pad, FIM_PAD),
            (&mut special.fim_rep, FIM_REPOSITORY),
            (&mut special.fim_sep, FIM_FILE),
        ] {
            if role.is_none() {
                *role = first(texts);
                role.iter().copied().for_each(&mut control);
            }
        }
        let mut ends =
            vec![special.fim_pad, special.fim_rep, special.fim_sep, special.eos, special.eot, special.eom];
        for text in END_OF_TURN.iter().chain(END_OF_GENERATION) {
            let id = find(text);
            id.into_iter().for_each(&mut control);
            ends.push(id);
        }
        let mut ends: Vec<u32> = ends.into_iter().flatten().collect();
        ends.sort_unstable();
        ends.dedup();
        for id in ALWAYS_SHOWN.iter().filter_map(|text| find(text)) {
            attributes[id as usize] = Attributes::USER_DEFINED;
        }

        // Where a model has its own end tokens, a general one means something else.
        let has = |ends: &[u32], text: &str| find(text).is_some_and(|id| ends.contains(&id));
        let call = has(&ends, "<|call|>") || has(&ends, "<|calls|>");
        if call && (has(&ends, "<|return|>") || has(&ends, "<|flush|>")) {
            take_back(&mut ends, &mut attributes, find("<|end|>"), Attributes::USER_DEFINED);
        }
        if has(&ends, "<|tool_response>") || has(&ends, "<|plamo:eos|>") {
            take_back(&mut ends, &mut attributes, find("</s>"), Attributes::NORMAL);
        }
        strip_by_model(vocab, &mut attributes, find);
        Roles { attributes, special, end_of_generation: ends }
    }
}

fn take_back(ends: &mut Vec<u32>, attributes: &mut [Attributes], id: Option<u32>, kind: Attributes) {
    let Some(id) = id.filter(|id| ends.contains(id)) else { return };
    ends.retain(|end| *end != id);
    attributes[id as usize] = kind;
}

/// GGUF files do not say which tokens take the spaces beside them; llama.cpp goes by the model's name.
fn strip_by_model(vocab: &Vocab, attributes: &mut [Attributes], find: impl Fn(&str) -> Option<u32>) {
    let name = vocab.model_name.to_lowercase();
    let mut add = |text: &str, flag: Attributes| {
        if let Some(id) = find(text) {
            attributes[id as usize] = attributes[id as usize].and(flag);
        }
    };
    if ["jina-v2-de", "jina-v2-es", "jina-v2-code"].iter().any(|pre| vocab.pre.contains(pre)) {
        add("<mask>", Attributes::LSTRIP);
    } else if name.contains("phi-3") || name.contains("phi3") {
        add("</s>", Attributes::RSTRIP);
        let kinds = Attributes::CONTROL.and(Attributes::USER_DEFINED).and(Attributes::UNKNOWN);
        for attribute in attributes.iter_mut().filter(|attribute| attribute.any(kinds)) {
            *attribute = attribute.and(Attributes::RSTRIP);
        }
        for id in ["<unk>", "<s>", "<|endoftext|>"].into_iter().filter_map(&find) {
            attributes[id as usize].0 &= !Attributes::RSTRIP.0;
        }
    } else if name.contains("modern-bert") {
        add("[MASK]", Attributes::LSTRIP);
    }
}

/// A stretch of a text: a token found in it, or text to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Token(u32),
    Text(&'t str),
}

/// Finds special tokens in texts, longest first.
#[derive(Debug)]
pub(super) struct SpecialMatcher {
    /// In order of precedence: longer texts first, then smaller ids.
    tokens: Vec<SpecialToken>,
    by_text: FastMap<Box<[u8]>, u32>,
    /// Lengths of the texts that start with each byte, without repetition.
    lengths: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct SpecialToken {
    id: u32,
    attributes: Attributes,
}

/// An interval of the text that is spoken for: a token, or spaces that a token took.
struct Claim {
    start: usize,
    end: usize,
    token: Option<u32>,
}

impl SpecialMatcher {
    pub(super) fn new(vocab: &Vocab, attributes: &[Attributes]) -> SpecialMatcher {
        let kinds = Attributes::CONTROL.and(Attributes::USER_DEFINED).and(Attributes::UNKNOWN);
        let mut tokens: Vec<SpecialToken> = (0..vocab.tokens.len() as u32)
            .map(|id| SpecialToken { id, attributes: attributes[id as usize] })
            .filter(|token| token.attributes.any(kinds) && !vocab.tokens[token.id as usize].is_empty())
            .collect();
        tokens.sort_by_key(|token| std::cmp::Reverse(vocab.tokens[token.id as usize].len()));
        let mut by_text: FastMap<Box<[u8]>, u32> = FastMap::default();
        let mut lengths = vec![Vec::new(); 256];
        for (rank, token) in tokens.iter().enumerate() {
            let text = vocab.tokens[token.id as usize].as_slice();
            by_text.entry(text.into()).or_insert(rank as u32);
            let lengths: &mut Vec<usize> = &mut lengths[usize::from(text[0])];
            if lengths.last() != Some(&text.len()) {
                lengths.push(text.len());
            }
        }
        SpecialMatcher { tokens, by_text, lengths }
    }

    /// Cuts `text` at the special tokens in it. Control and unknown tokens count only with `parse_special`.
    pub(super) fn partition<'t>(&self, text: &'t str, parse_special: bool) -> Vec<Fragment<'t>> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut found = self.occurrences(text.as_bytes(), parse_special);
        if found.is_empty() {
            return vec![Fragment::Text(text)];
        }
        found.sort_unstable();
        let bytes = text.as_bytes();
        let mut taken = vec![false; bytes.len()];
        let mut claims = Vec::new();
        for (rank, start, len) in found {
            let end = start + len;
            if taken[start..end].contains(&true) {
                continue;
            }
            let token = &self.tokens[rank as usize];
            taken[start..end].fill(true);
            claims.push(Claim { start, end, token: Some(token.id) });
            let is_space = |byte: u8| matches!(byte, b' ' | 0x09..=0x0D);
            if token.attributes.any(Attributes::LSTRIP) {
                let spaces = (0..start).rev().take_while(|&at| !taken[at] && is_space(bytes[at])).count();
                taken[start - spaces..start].fill(true);
                claims.push(Claim { start: start - spaces, end: start, token: None });
            }
            if token.attributes.any(Attributes::RSTRIP) {
                let spaces = (end..bytes.len()).take_while(|&at| !taken[at] && is_space(bytes[at])).count();
                taken[end..end + spaces].fill(true);
                claims.push(Claim { start: end, end: end + spaces, token: None });
            }
        }
        claims.sort_unstable_by_key(|claim| (claim.start, claim.end));
        let mut fragments = Vec::new();
        let mut at = 0;
        for claim in &claims {
            if at < claim.start {
                fragments.push(Fragment::Text(&text[at..claim.start]));
            }
            fragments.extend(claim.token.map(Fragment::Token));
            at = claim.end;
        }
        if at < text.len() {
            fragments.push(Fragment::Text(&text[at..]));
        }
        fragments
    }

    /// Where control and unknown tokens stand, overlapping ones too, by position, with their texts.
    pub(super) fn control_tokens<'t>(&self, text: &'t str) -> impl Iterator<Item = (usize, &'t str)> {
        let steering = Attributes::CONTROL.and(Attributes::UNKNOWN);
        let found = self.occurrences(text.as_bytes(), true).into_iter();
        let control = found.filter(move |(rank, ..)| self.tokens[*rank as usize].attributes.any(steering));
        // A token's bytes need not begin or end between characters; then no character can break it.
        control.filter_map(|(_, start, len)| Some((start, text.get(start..start + len)?)))
    }

    /// Every place where a special token stands, as (precedence, start, length), by start.
    fn occurrences(&self, text: &[u8], parse_special: bool) -> Vec<(u32, usize, usize)> {
        let mut found = Vec::new();
        for (start, first) in text.iter().enumerate() {
            for &len in &self.lengths[usize::from(*first)] {
                let Some(candidate) = text.get(start..start + len) else { continue };
                let Some(&rank) = self.by_text.get(candidate) else { continue };
                let steering = Attributes::CONTROL.and(Attributes::UNKNOWN);
                if parse_special || !self.tokens[rank as usize].attributes.any(steering) {
                    found.push((rank, start, len));
                }
            }
        }
        found
    }
}
