//! The page about architectures contains the list that the decoder goes by. `UPDATE_DOCS=1` writes it anew.

use rustorch_llm::arch::Architecture;
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architectures.md");
const BEGIN: &str = "<!-- table: made by cargo test -p rustorch-llm --test it architecture_docs:: -->\n";
const END: &str = "<!-- end of table -->\n";

#[test]
fn the_page_has_every_architecture() {
    let mut table = String::from("\n| architecture | models | parts |\n|---|---|---|\n");
    for a in Architecture::ALL {
        writeln!(table, "| `{}` | {} | {} |", a.name, a.models, a.features().join(", ")).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where the table begins");
    let (current, after) = rest.split_once(END).expect("the page marks where the table ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(PAGE, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    }
    assert!(
        current == table,
        "docs/architectures.md is out of date: UPDATE_DOCS=1 cargo test -p rustorch-llm --test it architecture_docs::"
    );
}

#[test]
fn names_are_sorted_and_lists_are_whole() {
    let names: Vec<&str> = Architecture::ALL.iter().map(|a| a.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    for a in Architecture::ALL {
        assert!(!a.models.is_empty() && !a.kinds.is_empty(), "{}", a.name);
        assert!(a.embedding_table().is_some(), "{} has no table of embeddings", a.name);
    }
}
