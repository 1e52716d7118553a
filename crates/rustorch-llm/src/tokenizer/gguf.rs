//! Reading the vocabulary of a GGUF file.

use super::pretokenizer;
use super::{ModelKind, TokenType, TokenizerError, Vocab};
use rustorch_formats::gguf::{Array, ByteString, Metadata, StrArray, Value};

/// Models that llama.cpp calls by their own name and that are byte-pair encodings with a pre-tokenizer of that name.
const GEMMA4: &str = "gemma4";
/// Byte-pair encoding of words, without the white space between them.
const WHITESPACE: &str = "whitespace";

impl Vocab {
    /// The vocabulary in a file's metadata (`tokenizer.ggml.*`), with llama.cpp's defaults for what is left out.
    ///
    /// ```no_run
    /// use rustorch_formats::gguf::File;
    /// use rustorch_llm::tokenizer::{Tokenizer, Vocab};
    ///
    /// let file = File::open("model.gguf")?;
    /// let tokenizer = Tokenizer::new(Vocab::from_gguf(file.metadata())?)?;
    /// println!("{:?}", tokenizer.encode("Hello", Default::default()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TokenizerError::NoVocabulary`] for files that say they have none, [`TokenizerError::UnsupportedModel`] for a
    /// tokenizer that is not implemented;
    /// [`TokenizerError::Metadata`] where a key is missing or of the wrong type.
    pub fn from_gguf(metadata: &Metadata) -> Result<Vocab, TokenizerError> {
        let text = |key: &str| -> Result<String, TokenizerError> {
            Ok(metadata.find::<&ByteString>(key)?.map(|text| text.to_string()).unwrap_or_default())
        };
        let model = metadata.get::<&ByteString>("tokenizer.ggml.model")?.to_string();
        let mut pre = text("tokenizer.ggml.pre")?;
        let kind = match model.as_str() {
            "llama" => ModelKind::Spm,
            "gpt2" | WHITESPACE => ModelKind::Bpe,
            "bert" => ModelKind::Wpm,
            "t5" => ModelKind::Ugm,
            "rwkv" => ModelKind::Rwkv,
            GEMMA4 => {
                pre = GEMMA4.to_owned();
                ModelKind::Bpe
            }
            "none" | "no_vocab" => return Err(TokenizerError::NoVocabulary),
            _ => return Err(TokenizerError::UnsupportedModel(model)),
        };
        let tokens: &StrArray = metadata.get("tokenizer.ggml.tokens")?;
        let mut vocab = Vocab::new(kind, &pre, tokens.iter());
        vocab.drop_whitespace = model == WHITESPACE;
        if model == GEMMA4 {
            vocab.special = Default::default();
        }
        vocab.scores = match metadata.find::<&Array>("tokenizer.ggml.scores")? {
            Some(Array::I32(scores)) => scores.iter().map(|&score| score as f32).collect(),
            Some(_) => metadata.get::<&[f32]>("tokenizer.ggml.scores")?.to_vec(),
            None => Vec::new(),
        };
        if let Some(types) = metadata.find::<Vec<i32>>("tokenizer.ggml.token_type")? {
            vocab.types = types.into_iter().map(TokenType::from_gguf).collect();
        }
        if kind == ModelKind::Bpe
            && let Some(merges) = metadata.find::<&StrArray>("tokenizer.ggml.merges")?
        {
            vocab.merges = merges.iter().map(<[u8]>::to_vec).collect();
        }
        for (key, flag) in [
            ("tokenizer.ggml.add_bos_token", &mut vocab.add_bos),
            ("tokenizer.ggml.add_eos_token", &mut vocab.add_eos),
            ("tokenizer.ggml.add_sep_token", &mut vocab.add_sep),
            ("tokenizer.ggml.add_space_prefix", &mut vocab.add_space_prefix),
            ("tokenizer.ggml.remove_extra_whitespaces", &mut vocab.remove_extra_whitespaces),
        ] {
            if let Some(value) = metadata.find::<bool>(key)? {
                *flag = value;
            }
        }
        if let Some(lowercase) = metadata.find::<bool>("tokenizer.ggml.normalizer.lowercase")? {
            (vocab.lowercase, vocab.strip_accents) = (lowercase, lowercase);
        }
        if let Some(strip) = metadata.find::<bool>("tokenizer.ggml.normalizer.strip_accents")? {
            vocab.strip_accents = strip;
        }
        vocab.charsmap = match metadata.find::<&Array>("tokenizer.ggml.precompiled_charsmap")? {
            Some(Array::I8(bytes)) => bytes.iter().map(|&byte| byte as u8).collect(),
            Some(_) => metadata.get::<&[u8]>("tokenizer.ggml.precompiled_charsmap")?.to_vec(),
            None => Vec::new(),
        };
        // Files of Gemma 4 were converted with this flag wrong.
        vocab.add_bos |= pretokenizer::defaults(&pre).always_bos;
        vocab.model_name = text("general.name")?;
        vocab.read_special_ids(metadata);
        Ok(vocab)
    }

    /// An id outside the vocabulary leaves the default, as in llama.cpp, with a warning.
    fn read_special_ids(&mut self, metadata: &Metadata) {
        let tokens = self.tokens.len();
        let special = &mut self.special;
        for (key, slot) in [
            ("tokenizer.ggml.bos_token_id", &mut special.bos),
            ("tokenizer.ggml.eos_token_id", &mut special.eos),
            ("tokenizer.ggml.eot_token_id", &mut special.eot),
            ("tokenizer.ggml.eom_token_id", &mut special.eom),
            ("tokenizer.ggml.unknown_token_id", &mut special.unk),
            ("tokenizer.ggml.seperator_token_id", &mut special.sep),
            ("tokenizer.ggml.padding_token_id", &mut special.pad),
            ("tokenizer.ggml.fim_pad_token_id", &mut special.fim_pad),
            ("tokenizer.ggml.fim_rep_token_id", &mut special.fim_rep),
            ("tokenizer.ggml.fim_sep_token_id", &mut special.fim_sep),
        ] {
            let Some(value) = metadata.value(key) else { continue };
            match value.as_integer().and_then(|id| u32::try_from(id).ok()) {
                Some(id) if (id as usize) < tokens => *slot = Some(id),
                _ => self.warnings.push(out_of_range(key, value, tokens)),
            }
        }
    }
}

fn out_of_range(key: &str, value: &Value, tokens: usize) -> String {
    format!("{key} = {value} names no token (there are {tokens}); the default is used")
}
