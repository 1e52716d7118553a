//! The vocabulary as plain data.

use super::error::TokenizerError;
use super::pretokenizer;

/// The family of tokenizer a vocabulary belongs to (`tokenizer.ggml.model`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelKind {
    /// `llama`: SentencePiece, pairs merged by token score, spaces as `▁`, bytes as `<0xXX>`.
    Spm,
    /// `gpt2`: byte-pair encoding by merge rank, inside the pieces of a pre-tokenizer.
    Bpe,
    /// `bert`: WordPiece, each word as the longest tokens that it is made of.
    Wpm,
    /// `t5`: Unigram (SentencePiece's), the most likely way to cut a normalised text into tokens.
    Ugm,
    /// `rwkv`: at each place the longest token, of any bytes.
    Rwkv,
}

/// The kind of a token (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TokenType {
    /// Ordinary text.
    #[default]
    Normal,
    /// Stands for what has no token.
    Unknown,
    /// Steers the model and is not text.
    Control,
    /// Added to the vocabulary by the model's maker; recognised in any text.
    UserDefined,
    /// Reserved.
    Unused,
    /// One byte, `<0xXX>`.
    Byte,
    /// Anything else found in a file.
    Undefined,
}

impl TokenType {
    /// The type with the number that GGUF files use (1 normal … 6 byte).
    pub fn from_gguf(value: i32) -> TokenType {
        match value {
            1 => TokenType::Normal,
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => TokenType::Undefined,
        }
    }
}

/// Ids of the tokens with a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Beginning of text.
    pub bos: Option<u32>,
    /// End of text.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// End of a message.
    pub eom: Option<u32>,
    /// What has no token.
    pub unk: Option<u32>,
    /// Separator: between two texts, and for WPM after every text.
    pub sep: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Fill in the middle: padding, repository and file separator (they end a generation).
    pub fim_pad: Option<u32>,
    /// See [`SpecialIds::fim_pad`].
    pub fim_rep: Option<u32>,
    /// See [`SpecialIds::fim_pad`].
    pub fim_sep: Option<u32>,
}

/// A vocabulary: everything that a tokenizer is made of, as plain data.
///
/// [`Vocab::new`] gives the defaults that llama.cpp uses for files that leave things out; the fields can then be set.
///
/// ```
/// use rustorch_llm::tokenizer::{ModelKind, TokenType, Tokenizer, Vocab};
///
/// let mut vocab = Vocab::new(ModelKind::Spm, "", ["<unk>", "<s>", "</s>", "▁", "h", "i", "hi", "▁hi"]);
/// vocab.scores = vec![0.0, 0.0, 0.0, -4.0, -5.0, -6.0, -2.0, -1.0];
/// vocab.types = vec![TokenType::Unknown, TokenType::Control, TokenType::Control];
/// vocab.types.resize(8, TokenType::Normal);
/// let tokenizer = Tokenizer::new(vocab)?;
/// assert_eq!(tokenizer.encode("hi hi", Default::default()), [1, 7, 7]);
/// # Ok::<(), rustorch_llm::tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vocab {
    /// The family.
    pub kind: ModelKind,
    /// Name of the pre-tokenizer (`tokenizer.ggml.pre`); of meaning for BPE alone.
    pub pre: String,
    /// Text of each token, nearly always UTF-8; for BPE in byte characters (`Ġ` is a space).
    pub tokens: Vec<Vec<u8>>,
    /// Score of each token; empty means 0 for all.
    pub scores: Vec<f32>,
    /// Type of each token; empty means normal for all.
    pub types: Vec<TokenType>,
    /// Merges in order of rank, each `left right` with one space between.
    pub merges: Vec<Vec<u8>>,
    /// Tokens with a role.
    pub special: SpecialIds,
    /// Whether `bos` starts every text.
    pub add_bos: bool,
    /// Whether `eos` ends every text.
    pub add_eos: bool,
    /// Whether `sep` stands between two texts that a model is given together.
    pub add_sep: bool,
    /// Whether SPM and Unigram put a space before a text.
    pub add_space_prefix: bool,
    /// Whether BPE leaves white space out: what is between is encoded word by word.
    pub drop_whitespace: bool,
    /// Whether WPM, and BPE that leaves white space out, read letters as lower-case ones.
    pub lowercase: bool,
    /// Whether WPM reads letters without their accents.
    pub strip_accents: bool,
    /// Whether Unigram reads several spaces as one; the others do not act on it (llama.cpp's SPM and BPE do not either).
    pub remove_extra_whitespaces: bool,
    /// Unigram's normalisation as SentencePiece compiles it (`tokenizer.ggml.precompiled_charsmap`); empty for none.
    pub charsmap: Vec<u8>,
    /// Name of the model (`general.name`): some models are told apart by it.
    pub model_name: String,
    /// What was doubtful when the vocabulary was read; passed on to [`Tokenizer::warnings`](super::Tokenizer::warnings).
    pub warnings: Vec<String>,
}

impl Vocab {
    /// A vocabulary of `tokens` with the defaults of its kind and pre-tokenizer: for SPM ids 0, 1, 2 are unknown, begin
    /// and end, `bos` and a space are put before the text; for BPE id 11 is begin and end; for WPM ids 100, 101, 102 are
    /// unknown, begin and separator; for Unigram ids 1 and 2 are end and unknown, and `eos` is put after the text. Default ids
    /// outside the vocabulary are left out.
    pub fn new<T: Into<Vec<u8>>>(kind: ModelKind, pre: &str, tokens: impl IntoIterator<Item = T>) -> Vocab {
        let tokens: Vec<Vec<u8>> = tokens.into_iter().map(Into::into).collect();
        let present = |id: u32| Some(id).filter(|&id| (id as usize) < tokens.len());
        let defaults = pretokenizer::defaults(pre);
        let special = match kind {
            ModelKind::Spm => {
                SpecialIds { bos: present(1), eos: present(2), unk: present(0), ..Default::default() }
            }
            ModelKind::Bpe => SpecialIds {
                bos: present(11).filter(|_| defaults.has_bos),
                eos: present(11),
                ..Default::default()
            },
            ModelKind::Wpm => SpecialIds {
                bos: present(101),
                unk: present(100),
                sep: present(102),
                pad: present(0),
                ..Default::default()
            },
            ModelKind::Ugm => {
                SpecialIds { eos: present(1), unk: present(2), pad: present(0), ..Default::default() }
            }
            ModelKind::Rwkv => SpecialIds::default(),
        };
        Vocab {
            kind,
            pre: pre.to_owned(),
            scores: Vec::new(),
            types: Vec::new(),
            merges: Vec::new(),
            special,
            add_bos: match kind {
                ModelKind::Spm | ModelKind::Wpm => true,
                ModelKind::Bpe => defaults.add_bos,
                ModelKind::Ugm | ModelKind::Rwkv => false,
            },
            add_eos: kind == ModelKind::Ugm,
            add_sep: kind == ModelKind::Wpm || (kind == ModelKind::Bpe && defaults.add_sep),
            add_space_prefix: kind == ModelKind::Spm,
            drop_whitespace: false,
            lowercase: pre != "whitespace",
            strip_accents: true,
            remove_extra_whitespaces: false,
            charsmap: Vec::new(),
            model_name: String::new(),
            warnings: Vec::new(),
            tokens,
        }
    }

    /// Checks sizes and ids.
    pub(super) fn validate(&self) -> Result<(), TokenizerError> {
        let tokens = self.tokens.len();
        match tokens {
            0 => return Err(TokenizerError::Empty),
            _ if i32::try_from(tokens).is_err() => return Err(TokenizerError::TooLarge(tokens)),
            _ => {}
        }
        for (what, found) in [("scores", self.scores.len()), ("token types", self.types.len())] {
            if found != 0 && found < tokens {
                return Err(TokenizerError::TooFew { what, tokens, found });
            }
        }
        let special = &self.special;
        for (what, id) in [
            ("bos", special.bos),
            ("eos", special.eos),
            ("eot", special.eot),
            ("eom", special.eom),
            ("unk", special.unk),
            ("sep", special.sep),
            ("pad", special.pad),
            ("fim_pad", special.fim_pad),
            ("fim_rep", special.fim_rep),
            ("fim_sep", special.fim_sep),
        ] {
            if let Some(id) = id
                && id as usize >= tokens
            {
                return Err(TokenizerError::SpecialOutOfRange { what, id, tokens });
            }
        }
        Ok(())
    }

    /// The score of a token (0 when the file has none).
    pub(super) fn score(&self, id: u32) -> f32 {
        self.scores.get(id as usize).copied().unwrap_or(0.0)
    }
}
