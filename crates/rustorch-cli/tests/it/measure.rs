//! `bench`, `devices` and `explain`.

use crate::common::{self, fail, succeed, succeed_json};

#[test]
fn bench_measures_every_length_and_repetition() {
    let report = succeed_json(&["bench", "-p", "8,16", "-n", "4", "-r", "3", "--json", "-t", "1"]);
    assert_eq!((&report["architecture"], &report["backend"]), (&"llama".into(), &"auto".into()));
    assert_eq!(report["parameters"], 2_361_408);
    assert_eq!(report["devices"].as_array().unwrap().len(), 1);
    let measurements = report["measurements"].as_array().unwrap();
    let tests: Vec<&str> = measurements.iter().map(|m| m["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["pp8", "pp16", "tg4"]);
    for measurement in measurements {
        let mut samples: Vec<f64> =
            measurement["samples"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert_eq!(samples.len(), 3);
        assert!(samples.iter().all(|&x| x > 0.0));
        samples.sort_by(f64::total_cmp);
        assert_eq!(measurement["median"], samples[1]);
        let mean = measurement["mean"].as_f64().unwrap();
        assert!((mean - samples.iter().sum::<f64>() / 3.0).abs() < 1e-9 * mean);
        assert!(measurement["deviation"].as_f64().unwrap() >= 0.0);
    }
}

#[test]
fn bench_prints_a_table() {
    let text = succeed(&["bench", "-p", "8", "-n", "2", "-r", "1"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("rustorch-shakespeare") && lines[0].contains("2.36 M parameters"), "{text}");
    assert!(lines[1].starts_with("test  tokens/s (median)"), "{text}");
    assert!(lines[2].starts_with("pp8 ") && lines[3].starts_with("tg2 ") && lines.len() == 4, "{text}");
    assert!(!succeed(&["bench", "-p", "0", "-n", "2", "-r", "1"]).contains("pp"));
    let deep = succeed(&["bench", "-p", "4", "-n", "2", "-d", "0,16", "-r", "2"]);
    let tests: Vec<&str> = deep.lines().skip(2).map(|line| line[..10].trim_end()).collect();
    assert_eq!(tests, ["pp4", "tg2", "pp4 @ d16", "tg2 @ d16"]);
    fail(&["bench", "-p", "0", "-n", "0"], 2, &["nothing to measure"]);
    fail(&["bench", "-r", "0"], 2, &["--repetitions"]);
    fail(&["bench", "-p", "8,x"], 2, &["--n-prompt"]);
}

#[test]
fn bench_shows_where_the_time_goes() {
    let text = succeed(&["bench", "-p", "8", "-n", "2", "-r", "1", "--profile", "-b", "cpu"]);
    for part in ["\npp8\noperation ", "\ntg2\noperation ", "\nmatmul(f32, Q8_0) "] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let report =
        succeed_json(&["bench", "-p", "8", "-n", "0", "-r", "1", "--profile", "--json", "-b", "cpu"]);
    let profile = &report["measurements"][0]["profile"];
    assert!(profile.as_object().is_some_and(|profile| !profile.is_empty()), "{report}");
    let plain = succeed_json(&["bench", "-p", "8", "-n", "0", "-r", "1", "--json", "-b", "cpu"]);
    assert!(plain["measurements"][0].get("profile").is_none(), "{plain}");
}

#[test]
fn devices_lists_every_kind_and_says_why_one_is_missing() {
    let text = succeed(&["devices"]);
    let rows = succeed_json(&["devices", "--json"]);
    let rows = rows.as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["device"].as_str().unwrap()).collect();
    // A device has its number, a kind without one has not; of a kind there may be several.
    let mut families: Vec<&str> =
        names.iter().map(|name| name.split_once(':').map_or(*name, |(family, _)| family)).collect();
    families.dedup();
    assert_eq!(families, ["cpu", "cuda", "metal", "vulkan", "dx12", "opencl", "coreml"]);
    assert_eq!(rows[0]["present"], true);
    for rate in ["flops_per_second", "bytes_per_second"] {
        assert!(rows[0][rate].as_f64().unwrap() > 1e6, "{rate}");
    }
    for (row, line) in rows.iter().zip(text.lines()) {
        assert!(line.starts_with(row["device"].as_str().unwrap()), "{line}");
        if row["present"] == false {
            let reason = row["reason"].as_str().unwrap();
            assert!(!reason.is_empty() && line.contains(reason), "{line}");
        }
    }
}

#[test]
fn explain_sums_the_operations_up() {
    let text = succeed(&["explain", "-p", "ROMEO:", "-n", "2"]);
    let line = |start: &str| {
        text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"))
    };
    assert!(line("operation").ends_with("device"));
    // Three passes; in each, seven matmuls in each of five blocks and the logits.
    let matmul: Vec<&str> = line("matmul(f32, Q8_0)").split_whitespace().collect();
    assert_eq!(matmul[2], (3 * (5 * 7 + 1)).to_string(), "{text}");
    assert!(line("attention").ends_with("cpu"));
    let operations = text.split("\n\n").next().unwrap();
    let shares: f64 = operations
        .lines()
        .filter_map(|line| line.split_once(" %"))
        .map(|(before, _)| before.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((shares - 100.0).abs() < 1.5, "{shares}: {text}");
    let total = text.lines().find(|line| line.starts_with("cpu ")).unwrap();
    let dispatched = text.lines().find_map(|line| line.split_once(" operations in ")).unwrap().0;
    assert_eq!(total.split_whitespace().nth(1), Some(dispatched), "{text}");
    assert!(text.contains("3 prompt tokens were read and 2 generated"), "{text}");
}

#[test]
fn explain_gives_json_and_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let file = path.to_str().unwrap();
    let report = succeed_json(&["explain", "-p", "ROMEO:", "-n", "1", "--json", "--trace", file]);
    assert_eq!((&report["prompt_tokens"], &report["generated_tokens"]), (&3.into(), &1.into()));
    let profile = &report["profile"];
    let count = |op: &str| {
        let groups = profile["summary"].as_array().unwrap().iter();
        groups.filter(|g| g["op"] == op).map(|g| g["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(count("matmul"), 2 * (5 * 7 + 1));
    assert_eq!(profile["devices"][0]["device"], "cpu");
    assert!(profile["devices"][0]["compute_ns"].as_u64().unwrap() > 0);
    assert!(profile["devices"][0]["peak_allocated_bytes"].as_u64().unwrap() > 0);
    assert!(profile.get("operations").is_none());

    let events: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let events = events.as_array().unwrap();
    let runs = |category: &str, name: &str| {
        events.iter().filter(|e| e["ph"] == "X" && e["cat"] == category && e["name"] == name).count() as u64
    };
    assert_eq!(runs("dispatch", "matmul"), count("matmul"));
    assert_eq!(runs("compute", "matmul"), count("matmul"));
    assert!(events.iter().any(|e| e["ph"] == "C" && e["name"] == "memory cpu"));

    let all = succeed_json(&["explain", "-p", "ROMEO:", "-n", "0", "--json", "--all"]);
    let operations = all["profile"]["operations"].as_array().unwrap();
    // The logits' weight, seen transposed.
    assert!(operations.iter().any(|o| o["args"][1] == "Q8_0[192, 2048]" && o["device"] == "cpu"));
    let nowhere = dir.path().join("no/such/folder.json");
    let run = common::run(&["explain", "-n", "0", "--trace", nowhere.to_str().unwrap()]);
    assert!(run.code == 1 && run.err.contains("cannot write") && run.err.contains("folder.json"), "{run:?}");
}

#[test]
fn explain_lists_every_operation_on_request() {
    let text = succeed(&["explain", "-p", "ROMEO:", "-n", "0", "--all"]);
    let matmuls = text.lines().filter(|line| line.starts_with("matmul")).count();
    assert_eq!(matmuls, 5 * 7 + 1, "{text}");
    assert!(text.lines().any(|line| line.contains("Q8_0[2048, 192]") && line.contains("cpu")), "{text}");
}
