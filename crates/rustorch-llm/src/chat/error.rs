//! What can go wrong with a chat template.

use thiserror::Error;

/// Why a chat template cannot be used, or a conversation not rendered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The template's text is no valid template.
    #[error("the model's chat template cannot be parsed (line {line}): {message}")]
    Syntax {
        /// What is wrong.
        message: String,
        /// Line of the template, from 1; 0 where unknown.
        line: usize,
    },
    /// The template refuses the conversation (`raise_exception`), for example because roles do not alternate.
    #[error("the model's chat template refuses this conversation: {0}")]
    Refused(String),
    /// The template failed while rendering.
    #[error("the model's chat template failed (line {line}): {message}")]
    Render {
        /// What went wrong.
        message: String,
        /// Line of the template, from 1; 0 where unknown.
        line: usize,
    },
}

/// What `raise_exception` carries through the template engine.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct Refusal(pub(super) String);

impl ChatError {
    pub(super) fn syntax(error: &minijinja::Error) -> ChatError {
        ChatError::Syntax { message: error.to_string(), line: error.line().unwrap_or(0) }
    }

    pub(super) fn render(error: &minijinja::Error) -> ChatError {
        let mut source: Option<&dyn std::error::Error> = Some(error);
        while let Some(cause) = source {
            if let Some(Refusal(message)) = cause.downcast_ref() {
                return ChatError::Refused(message.clone());
            }
            source = cause.source();
        }
        ChatError::Render { message: error.to_string(), line: error.line().unwrap_or(0) }
    }
}
