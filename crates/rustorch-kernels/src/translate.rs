//! From WGSL to the languages of other drivers.

use crate::Language;
use crate::wgsl::Wgsl;

/// A kernel in another language.
pub struct Translated {
    /// The text.
    pub source: String,
    /// The name of its entry point.
    pub entry: String,
}

/// Translates a kernel to a driver's language.
///
/// # Errors
/// If the text is not valid WGSL, or uses what the language cannot express; the message says where.
pub fn translate(wgsl: &Wgsl, language: Language) -> Result<Translated, String> {
    if language == Language::Wgsl {
        return Ok(Translated { source: wgsl.code.clone(), entry: "main".into() });
    }
    Err(format!("there is no translation to {language:?}"))
}
