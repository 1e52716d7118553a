//! `cargo xtask torch-coverage`: PyTorch's operations and ours, name by name. `docs/pytorch.md` is made of it.
//!
//! A name of PyTorch's `op_db` is *ours* if a public function or method has it, *composed* if a row of [`COMPOSED`] says how to write it, or *left
//! out* for the reason in [`LEFT_OUT`]. Rows that name what does not exist are errors.

mod composed;
mod left_out;
mod surface;

pub(crate) use composed::COMPOSED;
use left_out::LEFT_OUT;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
pub(crate) use surface::Surface;

/// Made by `tools/oracle/torch_op_db.py`.
const OP_DB: &str = include_str!("op_db.txt");

/// The share of names, in percent, that has to be ours or composed.
const LEAST: usize = 85;

/// The page.
pub(crate) const PAGE: &str = "docs/pytorch.md";

/// The file in which the rows' expressions are compiled.
pub(crate) const COMPILED: &str = "crates/rustorch-tensor/tests/it/torch_compositions.rs";

/// What there is of PyTorch's operations.
pub(crate) struct Coverage {
    /// PyTorch's name, and ours.
    pub(crate) ours: BTreeMap<&'static str, String>,
    /// PyTorch's name, and an expression.
    composed: BTreeMap<&'static str, &'static str>,
}

impl Coverage {
    fn names() -> impl Iterator<Item = &'static str> {
        OP_DB.lines().filter(|line| !line.starts_with('#'))
    }

    /// How many names there are, and how many are ours or composed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (Coverage::names().count(), self.ours.len() + self.composed.len())
    }

    /// Compares the names with the sources below the repository's root.
    ///
    /// # Errors
    /// What is wrong, a line for each: a name without a place or with several, a row of what does not exist, too few names.
    pub(crate) fn read(root: &Path) -> Result<Coverage, String> {
        Coverage::of(&Surface::read(root)?, COMPOSED)
    }

    /// Compares the names with what is public, and with rows.
    pub(crate) fn of(
        surface: &Surface,
        composed: &[(&'static str, &'static str)],
    ) -> Result<Coverage, String> {
        let names: BTreeSet<&str> = Coverage::names().collect();
        let mut wrong = Vec::new();
        let mut coverage = Coverage { ours: BTreeMap::new(), composed: BTreeMap::new() };
        for &(name, expression) in composed {
            if coverage.composed.insert(name, expression).is_some() {
                wrong.push(format!("{name} is composed twice"));
            }
            for unknown in unknown(expression, surface) {
                wrong.push(format!("{name}: there is no {unknown}"));
            }
        }
        let left_out: Vec<&str> = LEFT_OUT.iter().flat_map(|(_, names)| *names).copied().collect();
        let rows: Vec<&str> = coverage.composed.keys().copied().chain(left_out.iter().copied()).collect();
        wrong.extend(
            rows.iter().filter(|name| !names.contains(*name)).map(|name| format!("PyTorch has no {name}")),
        );
        for &name in &names {
            let places = rows.iter().filter(|row| **row == name).count();
            match (ours(name, surface), places) {
                (Some(here), 0) => {
                    coverage.ours.insert(name, here);
                }
                (None, 1) => {}
                (None, 0) => wrong.push(format!("{name} is neither ours, nor composed, nor left out")),
                (Some(here), _) => wrong.push(format!("{name} is {here}, and has a row")),
                (None, _) => wrong.push(format!("{name} is composed and left out")),
            }
        }
        let (all, covered) = coverage.counts();
        if covered * 100 < all * LEAST {
            wrong.push(format!("{covered} of {all} are ours or composed, less than {LEAST} %"));
        }
        if wrong.is_empty() { Ok(coverage) } else { Err(wrong.join("\n")) }
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let version = OP_DB.lines().next().unwrap_or("").trim_start_matches("# torch ");
        let (all, covered) = self.counts();
        let mut page = format!(
            "# PyTorch's operations\n\n\
             Where PyTorch's operations are in RusTorch. The list is that of PyTorch's own tests (`op_db` of PyTorch {version}), without operations of sparse and \
             of quantized tensors: {all} names, of which {covered} ({} %) are here, {} by their own names.\n\n\
             <!-- made by cargo xtask torch-coverage -->\n\n\
             Methods are those of `Tensor`; `linalg`, `fft`, `signal` and `distributions` are modules of `rustorch`, `functional` is one of `rustorch::nn`. \
             Arguments are PyTorch's, in its order; what it has as optional keywords are the fields of an options type, or further methods (`sum` over dimensions, `sum_all`). \
             Every method returns a `Result`.\n",
            covered * 100 / all,
            self.ours.len()
        );
        page.push_str("\n## By the same name\n\n| PyTorch | here |\n|---|---|\n");
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, here) in &self.ours {
            let group = here.rsplit_once("::").map_or("", |(group, _)| group);
            groups.entry(group).or_default().push(name);
        }
        for (group, names) in groups {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(page, "| {} | `{group}::..` |", names.join(" "));
        }
        page.push_str("\n## Composed, or by another name\n\n| PyTorch | here |\n|---|---|\n");
        for (name, expression) in &self.composed {
            let _ = writeln!(page, "| `{name}` | `{expression}` |");
        }
        page.push_str("\n## Left out\n\n| PyTorch | why |\n|---|---|\n");
        for (reason, names) in LEFT_OUT {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(page, "| {} | {reason} |", names.join(" "));
        }
        page
    }
}

/// A function of the rows' expressions, which a test compiles.
pub(crate) fn compiled() -> String {
    let mut text = format!("{HEAD}\n");
    for (name, expression) in COMPOSED {
        if let Some(code) = code(expression) {
            let _ = writeln!(text, "    // {name}\n    let _ = {code};");
        }
    }
    text.push_str("    Ok(())\n}\n");
    text
}

/// What stands before the expressions.
const HEAD: &str = include_str!("compositions_head.txt");

/// An expression without the remark behind it; `None` of layers, and of calls whose arguments are left out.
fn code(expression: &str) -> Option<String> {
    if ["nn::", "masked."].iter().any(|start| expression.starts_with(start)) || expression.contains("..)") {
        return None;
    }
    if let Some((code, rest)) = expression.split_once(" of ").filter(|(_, rest)| rest.contains(" = ")) {
        return Some(format!("{{ let {rest}; {code} }}"));
    }
    let remarks = [" of ", ", of which ", ", since ", ", each ", ", and ", ", in "];
    let end = remarks.iter().filter_map(|remark| expression.find(remark)).min();
    let code = &expression[..end.unwrap_or(expression.len())];
    Some(if code.contains(';') { format!("{{ {code} }}") } else { code.into() })
}

/// Names that something else has here: `Tensor::polar` makes complex numbers, `Tensor::unfold` windows along one dimension.
const OTHERS: &[&str] = &["linalg.polar", "nn.functional.unfold"];

/// The public function or method of the name, by its path.
fn ours(name: &str, surface: &Surface) -> Option<String> {
    if OTHERS.contains(&name) {
        return None;
    }
    let function = |path: String| surface.functions.contains(&path).then_some(path);
    let method = |name: &str| surface.methods.contains(name).then(|| format!("Tensor::{name}"));
    if let Some(name) = name.strip_prefix("nn.functional.") {
        return method(name).or_else(|| function(format!("functional::{name}")));
    }
    match name.rsplit_once('.') {
        Some(("special", name)) => method(name),
        Some((module, name)) => function(format!("{}::{name}", module.replace('.', "::")))
            .or_else(|| method(name).filter(|_| module == "linalg")),
        None => method(name).or_else(|| function(format!("linalg::{name}"))),
    }
}

/// The functions, methods and types of an expression that do not exist.
fn unknown(expression: &str, surface: &Surface) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let before = rest[..start].chars().next_back();
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |n| start + n);
        let (name, after) = (&rest[start..end], &rest[end..]);
        let is_type = name.chars().any(|c| c.is_ascii_lowercase())
            && name.starts_with(|c: char| c.is_ascii_uppercase());
        if after.starts_with('(') && before == Some('.') {
            // Of a tensor, unless another type or a trait has it.
            if !surface.methods.contains(name) && !surface.any.contains(name) {
                found.push(format!("method {name}"));
            }
        } else if after.starts_with('(') && before == Some(':') && !surface.any.contains(name) {
            found.push(format!("function {name}"));
        } else if is_type
            && before != Some(':')
            && !after.starts_with('(')
            && !surface.types.contains(name)
            && after.starts_with("::")
        {
            found.push(format!("type {name}"));
        } else if is_type
            && before == Some(':')
            && expression.starts_with("nn::")
            && !surface.types.contains(name)
        {
            found.push(format!("module {name}"));
        }
        rest = after;
        // What stands before the next name counts.
        if rest.is_empty() {
            break;
        }
    }
    found
}
