//! Character classes: sets of characters as they appear between brackets in a pattern.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Major Unicode categories, one bit each.
pub(in crate::tokenizer) mod category {
    pub(crate) const LETTER: u8 = 1;
    pub(crate) const NUMBER: u8 = 2;
    pub(crate) const PUNCTUATION: u8 = 4;
    pub(crate) const SYMBOL: u8 = 8;
    pub(crate) const MARK: u8 = 16;
}

/// The vertical tab stands for every white space beyond ASCII: ASCII-only classes such as `[ \t]` must not
/// contain U+00A0 or U+3000, while `\s` must.
const OTHER_WHITESPACE: char = '\u{0B}';

/// Bit of the major category of `c` (0 for separators, controls and unassigned code points).
pub(in crate::tokenizer) fn category_of(c: char) -> u8 {
    use GeneralCategory as G;
    match get_general_category(c) {
        G::UppercaseLetter | G::LowercaseLetter | G::TitlecaseLetter | G::ModifierLetter | G::OtherLetter => {
            category::LETTER
        }
        G::DecimalNumber | G::LetterNumber | G::OtherNumber => category::NUMBER,
        G::ConnectorPunctuation
        | G::DashPunctuation
        | G::OpenPunctuation
        | G::ClosePunctuation
        | G::InitialPunctuation
        | G::FinalPunctuation
        | G::OtherPunctuation => category::PUNCTUATION,
        G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol | G::OtherSymbol => category::SYMBOL,
        G::NonspacingMark | G::SpacingMark | G::EnclosingMark => category::MARK,
        _ => 0,
    }
}

/// A set of characters: ASCII as a bitmap, the rest by category and range.
///
/// Constructed only by the pattern parser; ASCII membership is fully resolved (negation and difference included).
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    ascii: u128,
    categories: u8,
    ranges: Vec<(char, char)>,
    except: Vec<(char, char)>,
    negated: bool,
}

impl Class {
    /// The set of one character.
    pub(super) fn single(c: char) -> Class {
        let mut class = Class::default();
        class.add_range(c, c);
        class
    }

    /// ASCII members as a bitmap: bit `b` is set when the byte `b` is in the set.
    pub(super) fn ascii(&self) -> u128 {
        self.ascii
    }

    /// Adds the inclusive range `first..=last`.
    pub(super) fn add_range(&mut self, first: char, last: char) {
        for byte in 0..128u32 {
            if (first as u32..=last as u32).contains(&byte) {
                self.ascii |= 1 << byte;
            }
        }
        if last as u32 >= 0x80 {
            self.ranges.push((first, last));
        }
    }

    /// Adds every character of the categories in `mask`.
    pub(super) fn add_categories(&mut self, mask: u8) {
        self.categories |= mask;
        for byte in 0..128u8 {
            if category_of(byte as char) & mask != 0 {
                self.ascii |= 1 << byte;
            }
        }
    }

    /// Adds white space (ASCII only here: the rest is mapped to U+000B before the test).
    pub(super) fn add_whitespace(&mut self) {
        for byte in [b'\t', b'\n', 0x0B, 0x0C, b'\r', b' '] {
            self.ascii |= 1 << byte;
        }
    }

    /// Removes the inclusive range `first..=last`.
    pub(super) fn remove_range(&mut self, first: char, last: char) {
        for byte in 0..128u32 {
            if (first as u32..=last as u32).contains(&byte) {
                self.ascii &= !(1 << byte);
            }
        }
        if last as u32 >= 0x80 {
            self.except.push((first, last));
        }
    }

    /// Turns the set into its complement.
    pub(super) fn negate(&mut self) {
        self.ascii = !self.ascii;
        self.negated = !self.negated;
    }

    /// Whether `c` is in the set.
    #[inline]
    pub(super) fn contains(&self, c: char) -> bool {
        if c.is_ascii() { self.ascii >> (c as u32) & 1 == 1 } else { self.contains_wide(c) }
    }

    #[inline(never)]
    fn contains_wide(&self, c: char) -> bool {
        if c.is_whitespace() {
            return self.ascii >> (OTHER_WHITESPACE as u32) & 1 == 1;
        }
        let within = |ranges: &[(char, char)]| ranges.iter().any(|&(first, last)| first <= c && c <= last);
        let member = (self.categories != 0 && self.categories & category_of(c) != 0 || within(&self.ranges))
            && !within(&self.except);
        member != self.negated
    }
}
