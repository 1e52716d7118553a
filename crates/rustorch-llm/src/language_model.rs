//! A model file with everything in it: model, tokenizer, chat template.

use crate::chat::{ChatTemplate, Message, RenderOptions};
use crate::model::{Model, Offload, Offloaded};
use crate::tokenizer::{Tokenizer, TokenizerError, Vocab};
use crate::{Error, Result};
use rustorch_core::Numerics;
use rustorch_formats::gguf;
use std::path::Path;

/// A language model from a GGUF file.
pub struct LanguageModel {
    file: gguf::File,
    model: Model,
    /// The tokenizer and the template that goes with it, or why there is none.
    text: std::result::Result<(Tokenizer, ChatTemplate), String>,
}

impl LanguageModel {
    /// Reads a file (or, given one part of a split file, all its parts) into memory.
    ///
    /// # Errors
    /// If it cannot be read, is malformed, or is not a model that this library runs.
    pub fn open(path: impl AsRef<Path>) -> Result<LanguageModel> {
        LanguageModel::from_file(gguf::File::open(path)?, &mut |_, _| {})
    }

    /// As [`open`](Self::open), but maps the file: the operating system reads it where it is used, and shares it between
    /// processes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// As of [`gguf::File::open_mapped`]: nobody overwrites or truncates the file while the model or a tensor of it lives.
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<LanguageModel> {
        // SAFETY: the caller's promise is the same.
        let file = unsafe { gguf::File::open_mapped(path)? };
        LanguageModel::from_file(file, &mut |_, _| {})
    }

    /// Takes a file that is open already; `progress` is called with the number of tensors loaded and their total.
    ///
    /// # Errors
    /// As [`LanguageModel::open`].
    pub fn from_file(file: gguf::File, progress: &mut dyn FnMut(usize, usize)) -> Result<LanguageModel> {
        let model = Model::load(&file, progress)?;
        let text = match Vocab::from_gguf(file.metadata()) {
            Ok(vocab) => {
                let tokenizer = Tokenizer::new(vocab)?;
                let chat = chat_template(&file, &tokenizer)?;
                Ok((tokenizer, chat))
            }
            Err(no_text @ (TokenizerError::UnsupportedModel(_) | TokenizerError::NoVocabulary)) => {
                Err(no_text.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        Ok(LanguageModel { file, model, text })
    }

    /// The file.
    pub fn file(&self) -> &gguf::File {
        &self.file
    }

    /// The name in the metadata, if any.
    pub fn name(&self) -> Option<&str> {
        self.file.metadata().find("general.name").ok().flatten()
    }

    /// The model: its configuration, weights and decoder.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Sets how matmuls with weights and attention round; see [`Model::set_numerics`].
    pub fn set_numerics(&mut self, numerics: Numerics) {
        self.model.set_numerics(numerics);
    }

    /// Sets whether single tokens are decoded by the plain decoder alone; see [`Model::set_eager`].
    pub fn set_eager(&mut self, is_eager: bool) {
        self.model.set_eager(is_eager);
    }

    /// Puts weights onto a device; see [`Model::offload`].
    ///
    /// # Errors
    /// As there.
    pub fn offload(&mut self, offload: &Offload) -> Result<Offloaded> {
        self.model.offload(offload)
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`] if the file has none, or one of a kind that is not implemented.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        Ok(&self.text()?.0)
    }

    /// How conversations become text.
    ///
    /// # Errors
    /// As [`tokenizer`](Self::tokenizer).
    pub fn chat_template(&self) -> Result<&ChatTemplate> {
        Ok(&self.text()?.1)
    }

    /// The tokens of a conversation that the model is to continue; see [`ChatTemplate::encode`].
    ///
    /// # Errors
    /// As [`tokenizer`](Self::tokenizer), and if the template refuses the conversation or fails.
    pub fn encode_chat(&self, messages: &[Message], options: &RenderOptions) -> Result<Vec<u32>> {
        let (tokenizer, template) = self.text()?;
        Ok(template.encode(tokenizer, messages, options)?)
    }

    fn text(&self) -> Result<&(Tokenizer, ChatTemplate)> {
        self.text.as_ref().map_err(|why| Error::NoTokenizer(why.clone()))
    }
}

/// The file's chat template, or the one that its vocabulary suggests.
fn chat_template(file: &gguf::File, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
    let source: Option<&str> = file.metadata().find("tokenizer.chat_template")?;
    let special = tokenizer.special();
    let text = |id: Option<u32>| {
        let bytes = id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let has_token = |text: &str| tokenizer.token(text).is_some();
    Ok(ChatTemplate::choose(source, has_token, &text(special.bos), &text(special.eos))?)
}
