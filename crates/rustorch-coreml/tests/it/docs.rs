//! `docs/coreml.md` lists the operations that cases are accepted for: all of them, and no other.

use crate::cases;
use rustorch_core::Op;
use std::collections::BTreeSet;

#[test]
fn the_guide_lists_the_operations_of_the_cases() {
    let guide = include_str!("../../../../docs/coreml.md");
    let table = guide.split_once("<!-- operations -->").unwrap().1;
    let table = table.split_once("<!-- end of operations -->").unwrap().0;
    // The first column.
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let listed: BTreeSet<&str> =
        rows.flat_map(|(names, _)| names.split('`')).filter(|name| !name.trim().is_empty()).collect();
    let mut emitted = BTreeSet::new();
    for case in cases::all() {
        for node in &case.program.graph().nodes {
            match &node.op {
                Op::FusedPointwise(fused) => {
                    emitted.extend(fused.steps().iter().map(|step| step.op().name()))
                }
                op => _ = emitted.insert(op.name()),
            }
        }
    }
    assert_eq!(listed, emitted);
}
