//! `plan`: which device is expected to run which operation of a model's graphs, and why not another.

use crate::common::{MODEL, fail, run_where, succeed, succeed_json};
use crate::environment::has;
use rustorch_testkit::{Requirement, skip};
use serde_json::Value;

/// The plans with only these devices.
fn plan_with(devices: &str, backend: &str) -> Value {
    let args = ["plan", "-m", MODEL, "-b", backend, "-c", "64", "-p", "9", "--json"];
    let run = run_where(&[("RUSTORCH_DEVICES", devices)], &args, b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    serde_json::from_str(&run.out).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

#[test]
fn every_operation_of_both_graphs_has_a_device() {
    let plan = plan_with("cpu", "hybrid");
    let graphs = succeed_json(&["graph", "-m", MODEL, "--json", "-p", "9", "-c", "64"]);
    assert_eq!(plan["devices"], serde_json::json!(["cpu"]));
    for (name, tokens) in [("decode", 1), ("prompt", 9)] {
        let plan = &plan["graphs"][name];
        assert_eq!(plan["tokens"], tokens);
        let counts = graphs["graphs"][name]["operations"].as_object().unwrap();
        for (op, count) in counts {
            let those = list(plan, "operations").iter().filter(|node| node["operation"] == **op);
            assert_eq!(those.count() as u64, count.as_u64().unwrap(), "{op} of {name}");
        }
        for node in list(plan, "operations") {
            assert!(node["device"] == "cpu" && node["region"].is_null(), "{node}");
            assert!(node["expected_seconds"].as_f64().unwrap() > 0.0, "{node}");
        }
        assert!(list(plan, "copies").is_empty() && list(plan, "regions").is_empty(), "{plan}");
    }
}

#[test]
fn with_the_cpu_alone_the_text_says_so() {
    let args = ["plan", "-m", MODEL, "-b", "hybrid", "-c", "64"];
    let run = run_where(&[("RUSTORCH_DISABLE_GPU", "1")], &args, b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    for part in [
        "decode on hybrid (1 token behind those in a cache of 64)\noperation",
        "prompt on hybrid (64 tokens behind those in a cache of 64)\noperation",
        "no device compiles regions: each operation is a kernel of its own",
        "Only the CPU is planned with",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let rows: Vec<Vec<&str>> = run.out.lines().map(|line| line.split_whitespace().collect()).collect();
    // Five blocks.
    assert!(rows.iter().any(|row| row.starts_with(&["cached_attention", "5", "cpu"])), "{}", run.out);
}

#[test]
fn what_a_device_declines_is_in_its_own_words_and_what_crosses_is_counted() {
    let families = [(Requirement::OpenCl, "opencl"), (Requirement::Vulkan, "vulkan")];
    let Some((_, family)) = families.into_iter().find(|(family, _)| has(family.word())) else {
        return skip(Requirement::OpenCl, "the program lists no such device");
    };
    let device = format!("{family}:0");
    // Weights in its memory: it is expected to run what reads them.
    let plan = plan_with(&format!("{device},cpu"), family);
    assert_eq!(plan["devices"], serde_json::json!([device, "cpu"]));
    let decode = &plan["graphs"]["decode"];
    let nodes = |op: &'static str| {
        list(decode, "operations").iter().filter(move |node| node["operation"] == op).collect::<Vec<_>>()
    };
    assert!(nodes("matmul").iter().all(|node| node["device"] == *device), "{decode}");
    let declined: Vec<&Value> = (list(decode, "operations").iter())
        .filter(|node| node["device"] == "cpu" && !list(node, "other_devices").is_empty())
        .collect();
    for node in &declined {
        let other = &list(node, "other_devices")[0];
        assert_eq!(other["device"], *device);
        assert!(other["says"].as_str().unwrap().starts_with("declined: "), "{node}");
    }
    // What the device leaves to the CPU goes there and comes back.
    let copies = list(decode, "copies");
    for (from, to) in [(&*device, "cpu"), ("cpu", &*device)] {
        let those = copies.iter().filter(|copy| copy["from"] == *from && copy["to"] == *to);
        let those: Vec<&Value> = those.collect();
        assert!(declined.is_empty() || !those.is_empty(), "{from} to {to}: {copies:?}");
        assert!(
            those.iter().all(|copy| copy["method"] == "copy" && copy["bytes"].as_u64() > Some(0)),
            "{those:?}"
        );
    }
    // By cost, and the others say that they were costlier or cannot.
    let plan = plan_with(&format!("{device},cpu"), "hybrid");
    for node in list(&plan["graphs"]["prompt"], "operations") {
        let others = list(node, "other_devices");
        assert_eq!(others.len(), 1, "{node}");
        let says = others[0]["says"].as_str().unwrap();
        assert!(says.starts_with("declined: ") || says == "able, but another device is cheaper", "{node}");
    }
}

#[test]
fn a_list_has_a_row_for_each_operation() {
    let args = ["plan", "-m", MODEL, "-b", "cpu", "-c", "64", "-p", "9"];
    let list = succeed(&[&args[..], &["--list"]].concat());
    let numbers: Vec<usize> = (list.lines())
        .map_while(|line| if line.starts_with("prompt") { None } else { Some(line) })
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    let plan = succeed_json(&[&args[..], &["--json"]].concat());
    let count = plan["graphs"]["decode"]["operations"].as_array().unwrap().len();
    // The last is the sum's line.
    assert_eq!(numbers, (0..count).chain([count]).collect::<Vec<_>>(), "{list}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    fail(&["plan", "-m", MODEL, "-p", "65", "-c", "64"], 2, &["does not fit into a cache of 64"]);
    fail(&["plan", "-m", MODEL, "--list", "--json"], 2, &["cannot be used with"]);
    fail(&["plan", "-m", MODEL, "--eager"], 2, &["captured graphs", "explain --eager"]);
}
