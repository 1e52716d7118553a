//! A model file with everything in it: network, tokenizer, chat template.

use crate::chat::ChatTemplate;
use crate::model::Model;
use crate::tokenizer::{Tokenizer, Vocab};
use crate::{Error, Result};
use rustorch_formats::gguf;
use std::path::Path;

/// A language model from a GGUF file.
pub struct LanguageModel {
    file: gguf::File,
    network: Model,
    tokenizer: Tokenizer,
    chat: ChatTemplate,
}

impl LanguageModel {
    /// Opens a file (or, given one part of a split file, all its parts).
    ///
    /// # Errors
    /// If it cannot be read, is malformed, or is not a model that this library runs.
    pub fn open(path: impl AsRef<Path>) -> Result<LanguageModel> {
        LanguageModel::from_file(gguf::File::open(path)?, &mut |_, _| {})
    }

    /// Takes a file that is open already; `progress` is called with the number of tensors loaded and their total.
    ///
    /// # Errors
    /// As [`LanguageModel::open`].
    pub fn from_file(file: gguf::File, progress: &mut dyn FnMut(usize, usize)) -> Result<LanguageModel> {
        let network = Model::load(&file, progress)?;
        let tokenizer = Tokenizer::new(Vocab::from_gguf(file.metadata())?)?;
        let chat = ChatTemplate::from_gguf(file.metadata(), &tokenizer).map_err(|e| Error::Request(e.to_string()))?;
        Ok(LanguageModel { file, network, tokenizer, chat })
    }

    /// The file.
    pub fn file(&self) -> &gguf::File {
        &self.file
    }

    /// The name in the metadata, if any.
    pub fn name(&self) -> Option<&str> {
        self.file.metadata().find("general.name").ok().flatten()
    }

    /// The network.
    pub fn network(&self) -> &Model {
        &self.network
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// How conversations become text.
    pub fn chat_template(&self) -> &ChatTemplate {
        &self.chat
    }
}
