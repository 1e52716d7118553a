//! `docs/gradients.md` says what the code does.

use rustorch_core::UnaryOp;
use rustorch_tensor::autograd::apply;
use rustorch_tensor::{Result, Tensor};
use rustorch_testkit::conformance::{self, Case};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gradients.md");
const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->";

/// What is recorded of a case whose arguments all require gradients.
enum Recorded {
    /// The tensors that are saved.
    Saved(BTreeSet<String>),
    Nothing,
    Refused(String),
}

fn record(case: &Case) -> Result<Option<Recorded>> {
    let mut args = Vec::new();
    let mut is_leaf = false;
    for arg in &case.args {
        let packed = arg.packed();
        let x = Tensor::from_bytes(&packed.bytes, arg.dtype, arg.layout.shape().clone())?;
        if x.dtype().is_float() || x.dtype().is_complex() {
            x.requires_grad_(true)?;
            is_leaf = true;
        }
        args.push(x);
    }
    if !is_leaf {
        return Ok(None);
    }
    let results = match apply(&case.op, &args.iter().collect::<Vec<_>>()) {
        Ok(results) => results,
        Err(error) => {
            let text = error.to_string();
            let reason =
                text.strip_prefix("autograd: ").and_then(|text| text.split(", and a gradient").next());
            let reason = reason.and_then(|reason| reason.strip_prefix(case.op.name()));
            return Ok(reason.map(|reason| Recorded::Refused(reason.trim_start().to_owned())));
        }
    };
    let Some(result) = results.iter().find(|result| result.requires_grad()) else {
        return Ok(Some(Recorded::Nothing));
    };
    let graph = result.graph().expect("it requires a gradient");
    Ok(Some(Recorded::Saved(graph.nodes().iter().flat_map(|node| node.saved.clone()).collect())))
}

fn table() -> String {
    let mut rows: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>, bool)> = BTreeMap::new();
    for case in [conformance::cases(), conformance::cpu_cases()].concat() {
        let Some(recorded) = record(&case).unwrap() else { continue };
        let (saved, refused, exists) = rows.entry(case.op.name().to_owned()).or_default();
        match recorded {
            Recorded::Saved(names) => {
                saved.extend(names);
                *exists = true;
            }
            Recorded::Nothing => {}
            Recorded::Refused(reason) => _ = refused.insert(reason),
        }
    }
    let mut text =
        String::from("| operation | gradient | saved, where all arguments need gradients |\n|---|---|---|\n");
    for (name, (saved, refused, exists)) in rows {
        let saved = saved.into_iter().collect::<Vec<_>>().join(", ");
        let refused = refused.into_iter().collect::<Vec<_>>().join("; ");
        let gradient = match (exists, refused.is_empty()) {
            (true, true) if is_flat(&name) => "zero".to_owned(),
            (true, true) => "yes".to_owned(),
            (true, false) => format!("yes; refused where it {refused}"),
            (false, true) => "none".to_owned(),
            (false, false) => format!("refused: {refused}"),
        };
        writeln!(text, "| `{name}` | {gradient} | {saved} |").unwrap();
    }
    text
}

/// Functions that are constant wherever they have a derivative.
fn is_flat(name: &str) -> bool {
    use UnaryOp::*;
    [Sign, Floor, Ceil, Round, Trunc].iter().any(|op| op.name() == name)
}

#[test]
fn the_page_is_what_the_code_does() {
    let page = std::fs::read_to_string(PAGE).expect("docs/gradients.md exists");
    let (before, rest) = page.split_once(BEGIN).expect("it has a table");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    let right = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &right).unwrap();
    }
    assert!(
        page == right || std::env::var_os("UPDATE_DOCS").is_some(),
        "docs/gradients.md is out of date: UPDATE_DOCS=1 cargo test -p rustorch-tensor --test it gradient_docs::"
    );
}
