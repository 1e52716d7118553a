//! Parser of the pattern notation: the part of regular-expression syntax that pre-tokenizers use.
//!
//! Literals, `\r \n \t`, classes `[...]` with ranges, `\s \S \d \p{L} \p{N} \p{P} \p{S} \p{M} \p{Han}`, set difference
//! `[\p{L}--a-z]` (everything after `--` is taken away), groups `(?:a|b)`, quantifiers `? * + {n} {n,m}`,
//! `(?!\S)`-style negative look-ahead of one class, and `$` for the end of the piece.
//! Patterns are constants of this crate, so a mistake in one is a bug: the parser panics, and a test parses them all.

use super::class::{Class, category};
use super::pattern::{Node, UNBOUNDED};

/// The blocks that hold Han characters, as the Kimi K2 tokenizer counts them.
const HAN: [(char, char); 9] = [
    ('\u{4E00}', '\u{9FFF}'),
    ('\u{3400}', '\u{4DBF}'),
    ('\u{20000}', '\u{2A6DF}'),
    ('\u{2A700}', '\u{2B73F}'),
    ('\u{2B740}', '\u{2B81F}'),
    ('\u{2B820}', '\u{2CEAF}'),
    ('\u{2CEB0}', '\u{2EBEF}'),
    ('\u{F900}', '\u{FAFF}'),
    ('\u{2F800}', '\u{2FA1F}'),
];

/// Parses a whole pattern into its alternatives.
pub(super) fn parse(pattern: &str) -> Vec<Vec<Node>> {
    let mut parser = Parser { chars: pattern.chars().collect(), at: 0 };
    let alternatives = parser.alternatives();
    assert!(parser.at == parser.chars.len(), "unbalanced ')' in pattern {pattern:?}");
    alternatives
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> char {
        let c = self.peek().expect("pattern ends too early");
        self.at += 1;
        c
    }

    fn eat(&mut self, text: &str) -> bool {
        let matches = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if matches {
            self.at += text.chars().count();
        }
        matches
    }

    fn alternatives(&mut self) -> Vec<Vec<Node>> {
        let mut all = vec![Vec::new()];
        while let Some(c) = self.peek() {
            match c {
                ')' => break,
                '|' => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                _ => {
                    let node = self.node();
                    all.last_mut().expect("starts with one alternative").push(node);
                }
            }
        }
        all
    }

    fn node(&mut self) -> Node {
        if self.eat("(?!") {
            let class = self.class();
            assert!(self.eat(")"), "look-ahead takes one class");
            return Node::NotFollowedBy(class);
        }
        if self.eat("$") {
            return Node::End;
        }
        if self.eat("(?:") {
            let alternatives = self.alternatives();
            assert!(self.eat(")"), "group without ')'");
            let (min, max) = self.quantifier();
            return Node::Group { alternatives, min, max };
        }
        let class = self.class();
        let (min, max) = self.quantifier();
        Node::Class { class, min, max }
    }

    fn quantifier(&mut self) -> (u32, u32) {
        match self.peek() {
            Some('?') => self.quantified(0, 1),
            Some('*') => self.quantified(0, UNBOUNDED),
            Some('+') => self.quantified(1, UNBOUNDED),
            Some('{') => {
                self.at += 1;
                let min = self.number();
                let max = if self.eat(",") { self.number() } else { min };
                assert!(self.eat("}"), "counted repetition without '}}'");
                (min, max)
            }
            _ => (1, 1),
        }
    }

    fn quantified(&mut self, min: u32, max: u32) -> (u32, u32) {
        self.at += 1;
        (min, max)
    }

    fn number(&mut self) -> u32 {
        let mut value = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            value = value * 10 + digit;
            self.at += 1;
        }
        value
    }

    fn class(&mut self) -> Class {
        let mut class = Class::default();
        if !self.eat("[") {
            let first = self.member(&mut class);
            return first.map_or(class, Class::single);
        }
        let negated = self.eat("^");
        let mut removing = false;
        while !self.eat("]") {
            if self.eat("--") {
                removing = true;
                continue;
            }
            let Some(first) = self.member(&mut class) else { continue };
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&'-');
            let last = if is_range {
                self.at += 1;
                self.member(&mut class).expect("a range ends with a character")
            } else {
                first
            };
            if removing {
                class.remove_range(first, last);
            } else {
                class.add_range(first, last);
            }
        }
        if negated {
            class.negate();
        }
        class
    }

    /// One character, or `None` when an escape added a whole set to `class`.
    fn member(&mut self, class: &mut Class) -> Option<char> {
        let c = self.next();
        if c != '\\' {
            return Some(c);
        }
        match self.next() {
            'r' => return Some('\r'),
            'n' => return Some('\n'),
            't' => return Some('\t'),
            's' => class.add_whitespace(),
            'S' => {
                class.add_whitespace();
                class.negate();
            }
            'd' => class.add_range('0', '9'),
            'p' => self.property(class),
            punctuation => return Some(punctuation),
        }
        None
    }

    fn property(&mut self, class: &mut Class) {
        assert!(self.eat("{"), "\\p without '{{'");
        let mut name = String::new();
        while !self.eat("}") {
            name.push(self.next());
        }
        match name.as_str() {
            "L" => class.add_categories(category::LETTER),
            "N" => class.add_categories(category::NUMBER),
            "P" => class.add_categories(category::PUNCTUATION),
            "S" => class.add_categories(category::SYMBOL),
            "M" => class.add_categories(category::MARK),
            "Han" => HAN.iter().for_each(|&(first, last)| class.add_range(first, last)),
            "^Han" => HAN.iter().for_each(|&(first, last)| class.remove_range(first, last)),
            _ => panic!("unknown property {name:?}"),
        }
    }
}
