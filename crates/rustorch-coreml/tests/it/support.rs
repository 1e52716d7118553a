//! The table of operations agrees with what is emitted, and `docs/coreml.md` with the table.

use crate::cases;
use rustorch_core::{
    DType, DTypeKind, Device, Graph, Layout, Node, OpKind, Shape, Source, TensorMeta, Value, packed_bytes,
};
use rustorch_coreml::support::{self, Row, Support, support};
use rustorch_coreml::{CoreMlOptions, Error, Package};
use rustorch_testkit::conformance::{self, Case};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::ops::Range;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coreml.md");
const BEGIN: &str = "<!-- operations -->\n";
const END: &str = "<!-- end of operations -->\n";

/// A graph of one operation, whose first arguments are inputs and the others constants, and the constants' dtypes.
fn graph(case: &Case, inputs: usize) -> (Graph, Vec<DType>) {
    let (mut graph, mut dtypes, mut args) = (Graph::default(), Vec::new(), Vec::new());
    for (i, arg) in case.args.iter().enumerate() {
        let source = if i < inputs && !arg.dtype.is_quant() {
            Source::Input(graph.inputs.len() as u32)
        } else {
            dtypes.push(arg.dtype);
            Source::Constant(dtypes.len() as u32 - 1)
        };
        // Contiguous arguments as they are, the others as views of all of their memory.
        let is_whole = arg.layout.is_contiguous() && arg.layout.offset() == 0;
        let shape = if is_whole || arg.layout.numel() == 0 {
            arg.layout.shape().clone()
        } else {
            let block = arg.dtype.block_len();
            let count = arg.bytes.len() / packed_bytes(arg.dtype, block) * block;
            Shape::new([count].as_slice()).unwrap()
        };
        let value = graph.add_value(Value { source, dtype: arg.dtype, shape, device: Device::CPU });
        if let Source::Input(_) = source {
            graph.inputs.push(value);
        }
        let mut operand = graph.whole(value);
        // A view of nothing may begin anywhere.
        if arg.layout.numel() > 0 {
            operand.layout = arg.layout.clone();
        }
        args.push(operand);
    }
    let metas: Vec<TensorMeta<'_>> = case
        .args
        .iter()
        .map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device: Device::CPU })
        .collect();
    let results: Vec<_> = case.op.infer(&metas).unwrap().into_iter().enumerate().collect();
    let results: Vec<_> = results
        .into_iter()
        .map(|(index, meta)| {
            let source = Source::Result { node: 0, index: index as u32 };
            graph.add_value(Value { source, dtype: meta.dtype, shape: meta.shape, device: Device::CPU })
        })
        .collect();
    let first = results[0];
    graph.nodes.push(Node::new(case.op.clone(), args, results));
    let output = graph.whole(first);
    graph.outputs.push(output);
    (graph, dtypes)
}

/// Reasons for which any operation may decline: dtypes and shapes that no program has, integers without bounds, views without a form.
const GENERAL: &[&str] = &[
    "is not built: programs have",
    "has no elements",
    "more than 5 dimensions",
    "not known to fit i32",
    "is no slice, and has too many elements",
    "begins or ends within a block",
];

/// The specification of what is emitted, or why the node declines. `None` of a graph that is not valid alone: its random numbers are not drawn.
fn emit(graph: &Graph, dtypes: &[DType], allow_f16: bool) -> Option<Result<i32, String>> {
    let zeros = |i: usize, range: Range<usize>| Ok(vec![0; packed_bytes(dtypes[i], range.len())]);
    let options = CoreMlOptions { allow_f16, ..CoreMlOptions::default() };
    match Package::with_options(graph, &zeros, &options) {
        Ok(package) => Some(Ok(package.specification_version())),
        Err(Error::Declined(declined)) => {
            let of_node = declined.iter().find(|declined| declined.place.starts_with("node"));
            Some(Err(of_node.unwrap_or(&declined[0]).reason.clone()))
        }
        Err(Error::Graph(error)) if error.to_string().contains("a key that is not drawn") => None,
        Err(error) => panic!("{error}"),
    }
}

/// The operand that a row speaks of, or else the result.
fn subject(graph: &Graph, op: OpKind) -> (DType, Layout) {
    let node = &graph.nodes[0];
    if let Some(operand) = node.args.get(usize::from(op == OpKind::Where)) {
        return (operand.dtype, operand.layout.clone());
    }
    let value = &graph.values[node.results[0].value.index()];
    (value.dtype, Layout::contiguous(value.shape.clone()))
}

/// That what became of a node is what the table says.
fn agrees(row: &Row, dtype: DType, rank: usize, emitted: &Result<i32, String>) -> Result<(), String> {
    let named = row.dtypes.is_empty() || row.dtypes.contains(&dtype.kind());
    match emitted {
        Ok(version) if !named || rank < row.rank.0 || rank > row.rank.1 => {
            Err(format!("is emitted (specification {version}), and the table says no"))
        }
        Ok(version) if *version < row.specification.number() => {
            Err(format!("needs specification {version}, the table says more"))
        }
        Ok(_) => Ok(()),
        Err(reason) if reason.contains("bug of rustorch-coreml") => Err(reason.clone()),
        Err(reason) if GENERAL.iter().any(|general| reason.contains(general)) => Ok(()),
        Err(reason) if row.conditions.iter().any(|one| reason.starts_with(&one.to_string())) => Ok(()),
        Err(reason) if !named && reason.contains("has no form; cast to") => Ok(()),
        Err(reason) => Err(format!("declines for what the table does not say: {reason}")),
    }
}

#[test]
fn the_emitter_does_what_the_table_says() {
    let mut wrong = BTreeSet::new();
    // What the oracle has accepted is emitted.
    let mut emitted = asked();
    let mut seen = HashMap::new();
    let all = [
        conformance::cases(),
        conformance::cpu_cases(),
        conformance::attention_cases(),
        conformance::regression_cases(),
    ];
    for case in all.into_iter().flatten() {
        let op = case.op.kind();
        // Three of each operation, family of dtypes, rank and arrangement: there are thousands.
        let is_contiguous = case.args.iter().all(|arg| arg.layout.is_contiguous());
        let arg = case.args.get(usize::from(op == OpKind::Where));
        let form = arg.map(|arg| (arg.dtype.kind(), arg.layout.ndim(), arg.layout.numel().min(1)));
        let count: &mut usize = seen.entry((op, case.args.len(), is_contiguous, form)).or_default();
        *count += 1;
        if *count > 3 {
            continue;
        }
        // All arguments given, and all but the first constants.
        for inputs in if case.args.len() > 1 { vec![case.args.len(), 1] } else { vec![case.args.len()] } {
            for allow_f16 in [false, true] {
                let (graph, dtypes) = graph(&case, inputs);
                let Some(made) = emit(&graph, &dtypes, allow_f16) else { continue };
                let (dtype, layout) = subject(&graph, op);
                let problem = match support(op) {
                    Support::Form(row) => {
                        if made.is_ok() {
                            emitted.insert((op, dtype.kind()));
                        }
                        agrees(&row, dtype, layout.ndim(), &made).err()
                    }
                    Support::Missing { reason, .. } => match made {
                        Err(said) if said == reason => None,
                        other => Some(format!("{other:?} in place of {reason:?}")),
                    },
                    other => panic!("{other:?}"),
                };
                if let Some(problem) = problem {
                    wrong.insert(format!("{op} of {dtype:?} {:?}: {problem}", layout.dims()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What the table claims is emitted for something.
    let claimed = OpKind::ALL.iter().filter_map(|&op| match support(op) {
        Support::Form(row) => Some((op, row)),
        _ => None,
    });
    let mut nothing = Vec::new();
    for (op, row) in claimed {
        nothing.extend(
            row.dtypes.iter().filter(|&&kind| !emitted.contains(&(op, kind))).map(|kind| (op, *kind)),
        );
    }
    assert_eq!(nothing, [], "are claimed, and no case is emitted");
    let with_cases: BTreeSet<OpKind> = seen.keys().map(|(op, ..)| *op).collect();
    assert!(with_cases.len() > 150, "{} operations have cases", with_cases.len());
}

/// Which operations and families of dtypes the oracle is asked about.
fn asked() -> BTreeSet<(OpKind, DTypeKind)> {
    let mut asked = BTreeSet::new();
    for case in cases::all() {
        for node in &case.program.graph().nodes {
            let op = node.op.kind();
            let dtype = match node.args.get(usize::from(op == OpKind::Where)) {
                Some(operand) => operand.dtype,
                None => case.program.graph().values[node.results[0].value.index()].dtype,
            };
            asked.insert((op, dtype.kind()));
            if let rustorch_core::Op::FusedPointwise(fused) = &node.op {
                asked.extend(fused.steps().iter().map(|step| (step.op().kind(), dtype.kind())));
            }
        }
    }
    asked
}

#[test]
fn the_oracle_is_asked_about_every_row() {
    let asked = asked();
    let mut missing = Vec::new();
    for &op in OpKind::ALL {
        let has_any = asked.iter().any(|(other, _)| *other == op);
        match support(op) {
            Support::Form(row) if row.dtypes.is_empty() => assert!(has_any, "{op}"),
            Support::Form(row) => missing.extend(
                row.dtypes.iter().filter(|&&kind| !asked.contains(&(op, kind))).map(|kind| (op, *kind)),
            ),
            _ => assert!(!has_any, "{op} has no form, and a case"),
        }
    }
    assert_eq!(missing, [], "are in the table, and in no case that the oracle has accepted");
}

fn link(source: Option<support::Source>) -> String {
    source.map_or_else(String::new, |source| format!(" ([coremltools, {}]({}))", source.date, source.url))
}

/// The names of operations that share what the table says of them, sorted by the first of each.
fn grouped<T: PartialEq>(of: impl Fn(Support) -> Option<T>) -> Vec<(Vec<&'static str>, T)> {
    let mut groups: Vec<(Vec<&'static str>, T)> = Vec::new();
    for &op in OpKind::ALL {
        let Some(what) = of(support(op)) else { continue };
        match groups.iter_mut().find(|(_, other)| *other == what) {
            Some((names, _)) => names.push(op.name()),
            None => groups.push((vec![op.name()], what)),
        }
    }
    groups
}

fn names(names: &[&str]) -> String {
    let distinct: BTreeMap<&str, ()> = names.iter().map(|&name| (name, ())).collect();
    distinct.into_keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
}

fn tables() -> String {
    let mut text =
        String::from("\n| Operations | dtypes | dimensions | if | specification |\n|---|---|---|---|---|\n");
    let rows = grouped(|support| match support {
        Support::Form(row) => Some(row),
        _ => None,
    });
    for (ops, row) in rows {
        let dtypes = row.dtypes.iter().map(|kind| match kind {
            DTypeKind::Float => "floats",
            DTypeKind::Int => "integers",
            DTypeKind::Bool => "booleans",
            DTypeKind::Quant => "blocks",
            DTypeKind::Complex => "complex numbers",
        });
        let dtypes = match dtypes.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "those of its steps".to_owned(),
            some => some,
        };
        let conditions =
            row.conditions.iter().map(|one| format!("{}{}", one.requirement(), link(one.source())));
        let conditions = conditions.collect::<Vec<_>>().join("; ");
        let (least, most) = row.rank;
        let rank = if least == most { format!("{least}") } else { format!("{least}–{most}") };
        let (names, source) = (names(&ops), link(row.source));
        writeln!(
            text,
            "| {names} | {dtypes}{source} | {rank} | {conditions} | {} |",
            row.specification.number()
        )
        .unwrap();
    }
    text.push_str("\n| No form | reason |\n|---|---|\n");
    let missing = grouped(|support| match support {
        Support::Missing { reason, source } => Some((reason, source)),
        _ => None,
    });
    for (ops, (reason, source)) in missing {
        writeln!(text, "| {} | {reason}{} |", names(&ops), link(source)).unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn the_guide_shows_the_table() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let right = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &right).unwrap();
        return;
    }
    assert!(
        page == right,
        "docs/coreml.md is out of date: UPDATE_DOCS=1 cargo test -p rustorch-coreml --test it support::"
    );
}
