//! The support table as Markdown.

use super::rows;
use crate::Hardware;
use crate::table::{Blocks, Row};
use rustorch_core::{DType, OpType};
use std::fmt::Write;

/// The table as Markdown: for each class of operations the dtypes on the first device, and what the others add to them.
///
/// # Panics
/// If no device is given.
pub fn markdown(devices: &[Hardware]) -> String {
    let mut text = String::new();
    for class in OpType::ALL {
        let rows: Vec<&Row> = rows().filter(|row| row.class == *class).collect();
        if rows.is_empty() {
            let who = match class {
                OpType::Custom => {
                    "What their WGSL computes, see `CustomOp`; without WGSL, the CPU computes these for every device."
                }
                _ => "None: the CPU computes these for every device.",
            };
            let _ = write!(text, "### {}\n\n{who}\n\n", title(*class));
            continue;
        }
        let _ = write!(text, "### {}\n\n| Operation |", title(*class));
        for device in devices {
            let _ = write!(text, " {} |", device.name);
        }
        text.push_str(" Remarks |\n|---|");
        text.push_str(&"---|".repeat(devices.len()));
        text.push_str("---|\n");
        for row in rows {
            let ops: Vec<String> = row.ops.iter().map(|op| format!("`{op}`")).collect();
            let _ = write!(text, "| {} |", ops.join(" "));
            let first: Vec<DType> = row.dtypes.list(&devices[0]).collect();
            let _ = write!(text, " {} |", names(&first, row.dtypes.blocks));
            for device in &devices[1..] {
                let more: Vec<DType> =
                    row.dtypes.list(device).filter(|dtype| !first.contains(dtype)).collect();
                match more.is_empty() {
                    true => text.push_str(" |"),
                    false => {
                        let _ = write!(text, " + {} |", names(&more, Blocks::None));
                    }
                }
            }
            match row.remark {
                "" => text.push_str(" |\n"),
                remark => {
                    let _ = writeln!(text, " {remark} |");
                }
            }
        }
        text.push('\n');
    }
    text
}

/// A class as a heading.
fn title(class: OpType) -> String {
    let mut title = String::new();
    for (i, c) in format!("{class:?}").chars().enumerate() {
        match c.is_uppercase() && i != 0 {
            true => title.extend([' ', c.to_ascii_lowercase()]),
            false => title.push(c),
        }
    }
    title
}

fn names(dtypes: &[DType], blocks: Blocks) -> String {
    let mut names: Vec<String> = dtypes
        .iter()
        .filter(|dtype| blocks != Blocks::All || !dtype.is_quant())
        .map(|dtype| dtype.to_string())
        .collect();
    if blocks == Blocks::All {
        names.push("every block type".into());
    }
    names.join(" ")
}
