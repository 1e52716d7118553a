//! The page about devices contains the table that the code goes by. `UPDATE_DOCS=1` writes it anew.

use crate::common::paper as common;
use rustorch_kernels::{Hardware, family};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/devices.md");
const BEGIN: &str = "<!-- table: made by cargo test -p rustorch-kernels --test it docs:: -->\n";
const END: &str = "<!-- end of table -->\n";

#[test]
fn the_page_has_the_table() {
    let named = |name: &str, i64: bool, f64: bool| Hardware { name: name.into(), i64, f64, ..common::weak() };
    let devices = [
        named("Every device", false, false),
        named("with 64-bit integers", true, false),
        named("with 64-bit integers and floats", true, true),
    ];
    let table = family::markdown(&devices);
    let page = std::fs::read_to_string(PAGE).expect("docs/devices.md exists");
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where the table begins");
    let (current, after) = rest.split_once(END).expect("the page marks where the table ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{before}{BEGIN}\n{table}{END}{after}"))
            .expect("the page can be written");
        return;
    }
    assert!(
        current == format!("\n{table}"),
        "docs/devices.md is out of date: UPDATE_DOCS=1 cargo test -p rustorch-kernels --test it docs::"
    );
}
