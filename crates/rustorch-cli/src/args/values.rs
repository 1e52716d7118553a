//! What the values of options mean.

use rustorch::llm::embedding::Normalization;
use std::path::PathBuf;

pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 at least".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

/// A time between two readings.
pub(super) fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("must be from 0.01 to 86400".into()),
        Err(e) => Err(format!("{e}")),
    }
}

/// Bytes, with the units K, M, G and T of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim().trim_end_matches(['b', 'B']).trim_end_matches('i');
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("is a number with K, M, G or T behind it, such as 6G".into()),
    };
    let value: f64 =
        digits.parse().map_err(|_| "is a number with K, M, G or T behind it, such as 6G".to_owned())?;
    match value {
        x if x >= 0.0 && x.is_finite() => Ok((x * (1u64 << unit) as f64) as u64),
        _ => Err("must not be negative".into()),
    }
}

/// A number of threads that systems can start; more than there are cores gains nothing anyway.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    match positive(text)? {
        n @ ..=1024 => Ok(n),
        _ => Err("must be 1024 at most".into()),
    }
}

/// A count that -1, as llama.cpp has it, makes unlimited.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    match text.parse::<i128>() {
        Ok(-1) => Ok(usize::MAX),
        Ok(n) => usize::try_from(n).map_err(|_| "must be 0 or more, or -1 for no limit".into()),
        Err(e) => Err(format!("{e}")),
    }
}

/// A count of candidates; 0 and, as llama.cpp has it, -1 are all.
pub(crate) fn candidates(text: &str) -> Result<usize, String> {
    limit(text).map(|n| if n == usize::MAX { 0 } else { n })
}

/// The seed of random choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seed {
    /// Another one each time.
    Random,
    Fixed(u64),
}

/// A seed; -1, as llama.cpp has it, is another one each time.
pub(crate) fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed::Random),
        _ => text.parse().map(Seed::Fixed).map_err(|e| format!("{e}")),
    }
}

/// A number of layers; `all` and, as llama.cpp has them, `auto` and -1 are all that fit.
pub(super) fn layers(text: &str) -> Result<usize, String> {
    match text {
        "all" | "auto" => Ok(usize::MAX),
        _ => limit(text).map_err(|_| "must be a number of layers, or `all`".into()),
    }
}

/// How long vectors are made, by llama.cpp's numbers.
pub(super) fn normalization(text: &str) -> Result<Normalization, String> {
    let number = text.parse().map_err(|e| format!("{e}"))?;
    Normalization::from_number(number).ok_or_else(|| "must be -1 or more".into())
}

/// A model file as the only argument: what could also be a command that does not exist has to be a file.
pub(super) fn model_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_path =
        text.contains(['/', '\\']) || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
    if is_path || path.exists() {
        return Ok(path);
    }
    Err("is neither a command nor a model file; --help lists the commands, and -p gives a prompt".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_one_is_no_limit() {
        assert_eq!(limit("-1"), Ok(usize::MAX));
        assert_eq!(limit("0"), Ok(0));
        assert_eq!(candidates("-1"), Ok(0));
        assert_eq!(candidates("7"), Ok(7));
        assert_eq!(seed("-1"), Ok(Seed::Random));
        assert_eq!(seed("18446744073709551615"), Ok(Seed::Fixed(u64::MAX)));
        assert_eq!((layers("all"), layers("auto")), (Ok(usize::MAX), Ok(usize::MAX)));
        assert!(layers("some").unwrap_err().contains("number of layers"));
        for text in ["-2", "x", "", "1.5"] {
            assert!(limit(text).is_err() && seed(text).is_err() && layers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_looks_like_a_path_is_a_model_file() {
        assert!(model_file("no/such/file").is_ok() && model_file("missing.GGUF").is_ok());
        assert!(model_file("inspct").is_err());
    }
}
