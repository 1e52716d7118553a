//! The public functions, methods and types of the crates that users see, by their source. Files are formatted by rustfmt: what begins at the left margin
//! ends there.

use std::collections::BTreeSet;
use std::path::Path;

/// What is public.
#[derive(Default)]
pub(crate) struct Surface {
    /// Methods and associated functions of `Tensor`.
    pub(crate) methods: BTreeSet<String>,
    /// Functions by their module: `linalg::svd`.
    pub(crate) functions: BTreeSet<String>,
    /// Methods and associated functions of all types and traits.
    pub(crate) any: BTreeSet<String>,
    /// Types and traits.
    pub(crate) types: BTreeSet<String>,
}

/// Crates, and the modules under which their functions are found.
const CRATES: &[&str] = &["rustorch-core", "rustorch-tensor", "rustorch-nn"];

impl Surface {
    /// Reads the sources below the repository's root.
    pub(crate) fn read(root: &Path) -> Result<Surface, String> {
        let mut surface = Surface::default();
        for name in CRATES {
            let source = root.join("crates").join(name).join("src");
            surface.folder(&source, &mut Vec::new())?;
        }
        // Derived, and not written.
        surface.any.insert("clone".into());
        surface.any.insert("default".into());
        Ok(surface)
    }

    fn folder(&mut self, folder: &Path, module: &mut Vec<String>) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_named = !matches!(&*stem, "mod" | "lib");
            if is_named {
                module.push(stem);
            }
            if path.is_dir() {
                self.folder(&path, module)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.file(&std::fs::read_to_string(&path).map_err(failed)?, module);
            }
            if is_named {
                module.pop();
            }
        }
        Ok(())
    }

    fn file(&mut self, text: &str, module: &[String]) {
        let lines: Vec<&str> = text.lines().collect();
        let mut at = 0;
        let mut of_tensor: Vec<String> = Vec::new();
        while at < lines.len() {
            let line = lines[at];
            // An item, and its lines up to its end at the margin.
            let is_item = !line.starts_with([' ', '}', ')', '/', '#']) && !line.is_empty();
            let end = match is_item && line.ends_with('{') {
                true => {
                    lines[at..].iter().position(|line| line.starts_with('}')).map_or(lines.len(), |n| at + n)
                }
                false => at,
            };
            let body = &lines[(at + 1).min(end)..end];
            if let Some(macro_name) = line.strip_prefix("macro_rules! ") {
                if body.iter().any(|line| line.trim_start().starts_with("impl Tensor {")) {
                    of_tensor.push(macro_name.trim_end_matches(" {").to_owned());
                }
            } else if let Some(macro_name) = line.strip_suffix("! {") {
                if of_tensor.iter().any(|name| name == macro_name) {
                    self.of_macro(body);
                }
            } else if line.starts_with("impl") || line.starts_with("pub trait") {
                let (is_tensor, of_trait) = (line == "impl Tensor {", line.starts_with("pub trait"));
                let declared =
                    body.iter().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
                for name in declared.filter_map(|line| function(line.trim_start(), of_trait)) {
                    self.any.insert(name.clone());
                    if is_tensor {
                        self.methods.insert(name);
                    }
                }
            } else if let Some(name) = function(line, false) {
                for depth in 1..=2.min(module.len()) {
                    // `linalg/spectral.rs` has functions of `linalg`, `signal/windows.rs` of `signal::windows`.
                    self.functions.insert(format!("{}::{name}", module[..depth].join("::")));
                }
                self.any.insert(name);
            }
            for kind in ["pub struct ", "pub enum ", "pub trait ", "pub type "] {
                if let Some(rest) = line.strip_prefix(kind) {
                    self.types.insert(identifier(rest));
                }
            }
            at = end + 1;
        }
    }

    /// The methods that an invocation of a macro makes: what stands before an arrow, or the names of a line without one.
    fn of_macro(&mut self, body: &[&str]) {
        for line in body.iter().map(|line| line.trim()).filter(|line| !line.starts_with("//")) {
            let names = line.split("=>").next().unwrap_or("").rsplit(':').next().unwrap_or("");
            for name in names.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
                if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                    self.methods.insert(name.to_owned());
                    self.any.insert(name.to_owned());
                }
            }
        }
    }
}

/// The name of the public function that a line declares; of a trait's, which are public with it, also without the word.
fn function(line: &str, of_trait: bool) -> Option<String> {
    let rest = line.strip_prefix("pub ").or(of_trait.then_some(line))?;
    let rest = rest.strip_prefix("const ").unwrap_or(rest).strip_prefix("fn ")?;
    Some(identifier(rest.strip_prefix("r#").unwrap_or(rest)))
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}
