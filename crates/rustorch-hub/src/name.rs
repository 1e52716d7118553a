//! Which files of a repository are meant.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The model that a user names: `OWNER/REPOSITORY`, with `:QUANT` where a certain file is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    repository: String,
    quant: Option<String>,
}

/// What is taken where the user names no type, the best first, as llama.cpp has it.
const PREFERRED: [&str; 2] = ["Q4_K_M", "Q8_0"];
/// Files beside a model that are none: projectors of images, importances, and the drafts of speculative decoding.
const OTHERS: [&str; 6] = ["mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"];

impl FromStr for ModelName {
    type Err = Error;

    fn from_str(text: &str) -> Result<ModelName> {
        let (repository, quant) = match text.split_once(':') {
            Some((repository, quant)) => (repository, Some(quant.to_owned())),
            None => (text, None),
        };
        let is_word = |part: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && !part.starts_with('.') && !part.contains("..") && part.chars().all(is_allowed)
        };
        let is_sound = repository.split('/').count() == 2
            && repository.split('/').all(is_word)
            && quant.as_deref().is_none_or(is_word);
        match is_sound {
            true => Ok(ModelName { repository: repository.to_owned(), quant }),
            false => Err(Error::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.quant {
            Some(quant) => write!(f, "{}:{quant}", self.repository),
            None => f.write_str(&self.repository),
        }
    }
}

impl ModelName {
    /// `OWNER/REPOSITORY`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The type of the file, if a certain one is meant.
    pub fn quant(&self) -> Option<&str> {
        self.quant.as_deref()
    }

    /// Of a repository's files those that are meant: one, or all parts of a split one. The rules are llama.cpp's: the first whose name has the type
    /// and behind it `.` or `-`, whatever the case; if none is named, Q4_K_M, else Q8_0, else the first GGUF file.
    pub(crate) fn choose(&self, files: &[String]) -> Result<Vec<String>> {
        let models: Vec<&String> = files.iter().filter(|file| is_model(file)).collect();
        let begins = |file: &&&String| part(file).is_none_or(|part| part.number == 1);
        let of_type = |quant: &str| models.iter().filter(begins).find(|file| has_type(file, quant));
        let chosen = match &self.quant {
            Some(quant) => of_type(quant),
            None => PREFERRED.iter().find_map(|quant| of_type(quant)).or_else(|| models.iter().find(begins)),
        };
        let Some(chosen) = chosen else {
            let files = models.into_iter().cloned().collect();
            return Err(Error::NoFile { name: self.clone(), files });
        };
        let Some(first) = part(chosen) else { return Ok(vec![(*chosen).clone()]) };
        let parts = (1..=first.count)
            .map(|number| format!("{}-{number:05}-of-{:05}.gguf", first.prefix, first.count));
        parts
            .map(|file| match files.contains(&file) {
                true => Ok(file),
                false => Err(Error::NoPart { name: self.clone(), file }),
            })
            .collect()
    }
}

/// Whether a file is a model.
fn is_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.ends_with(".gguf") && !OTHERS.iter().any(|other| name.contains(other))
}

/// Whether a path has this type in it, and `.` or `-` behind.
fn has_type(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_lowercase(), quant.to_ascii_lowercase());
    path.match_indices(&quant).any(|(at, _)| path[at + quant.len()..].starts_with(['.', '-']))
}

/// Which part of a split file a name is of.
struct Part<'a> {
    prefix: &'a str,
    number: usize,
    count: usize,
}

/// `PREFIX-00001-of-00003.gguf`.
fn part(path: &str) -> Option<Part<'_>> {
    let (rest, count) = path.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let of_five = |digits: &str| match digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    };
    Some(Part { prefix, number: of_five(number)?, count: of_five(count)? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a step that fails fails the test")]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let name: ModelName = "org/model-GGUF:q8_0".parse().unwrap();
        assert_eq!((name.repository(), name.quant()), ("org/model-GGUF", Some("q8_0")));
        assert_eq!(name.to_string(), "org/model-GGUF:q8_0");
        assert_eq!("org/model".parse::<ModelName>().unwrap().quant(), None);
        for text in [
            "",
            "model",
            "a/b/c",
            "../b",
            "a/..",
            "a/b:",
            "a/b:../c",
            "https://huggingface.co/a",
            "a/b c",
            "a/b?x",
        ] {
            assert!(matches!(text.parse::<ModelName>(), Err(Error::Name(_))), "{text}");
        }
    }

    /// The rules of `find_best_model` and `get_split_files` in llama.cpp's `common/download.cpp`.
    #[test]
    fn files_are_chosen_as_llama_cpp_does() {
        let choose = |name: &str, files: &[&str]| {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            name.parse::<ModelName>().unwrap().choose(&files)
        };
        let files = [
            "README.md",
            "m-F16.gguf",
            "m-Q4_K_M.gguf",
            "m-Q4_K_S.gguf",
            "m-Q8_0.gguf",
            "mmproj-m-Q8_0.gguf",
        ];
        assert_eq!(choose("a/b", &files).unwrap(), ["m-Q4_K_M.gguf"]);
        assert_eq!(choose("a/b:q8_0", &files).unwrap(), ["m-Q8_0.gguf"]);
        assert_eq!(
            choose("a/b:Q4_K", &files[..4]).unwrap_err().to_string(),
            "a/b:Q4_K has no such GGUF file; there are m-F16.gguf, m-Q4_K_M.gguf, m-Q4_K_S.gguf"
        );
        assert_eq!(choose("a/b", &files[4..]).unwrap(), ["m-Q8_0.gguf"]);
        assert_eq!(choose("a/b", &["x/m-F32.gguf", "m-F16.gguf"]).unwrap(), ["x/m-F32.gguf"]);
        assert!(
            choose("a/b", &["mmproj-m.gguf", "x.bin"]).unwrap_err().to_string().ends_with("has no GGUF file")
        );
        let parts =
            ["Q4_K_M/m-Q4_K_M-00002-of-00002.gguf", "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0.gguf"];
        assert_eq!(choose("a/b", &parts).unwrap(), [parts[1], parts[0]]);
        let missing = choose("a/b", &parts[1..]).unwrap_err().to_string();
        assert!(missing.contains("lacks Q4_K_M/m-Q4_K_M-00002-of-00002.gguf"), "{missing}");
    }
}
