//! `devices --watch`, `devices --json` and `bench devices`.

use crate::common::terminal;
use crate::common::{self, fail, succeed, succeed_json};
use crate::environment;
use serde_json::Value;

#[test]
fn devices_tell_how_busy_they_are() {
    let rows = succeed_json(&["devices", "--json"]);
    let metrics = &rows[0]["metrics"];
    if cfg!(target_os = "linux") {
        let (used, total) =
            (metrics["memory_used_bytes"].as_u64().unwrap(), metrics["memory_total_bytes"].as_u64().unwrap());
        assert!(0 < used && used <= total);
        assert!((0.0..=100.0).contains(&metrics["utilization_percent"].as_f64().unwrap()));
    }
    for row in rows.as_array().unwrap().iter().filter(|row| row["present"] == false) {
        assert!(row.get("metrics").is_none());
    }
}

#[test]
fn devices_are_measured_when_asked() {
    let rows = succeed_json(&["devices", "--measure", "--json"]);
    assert_eq!(rows[0]["device"], "cpu");
    assert!(rows[0]["flops_per_second"].as_f64().unwrap() > 0.0);
    fail(&["devices", "--measure", "--watch"], 2, &["--watch"]);
}

#[test]
fn watching_prints_a_line_for_each_interval_when_piped() {
    let text = succeed(&["devices", "--watch", "--interval", "0.1", "--count", "3"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    let seconds: Vec<f64> =
        lines.iter().map(|line| line.split_once(" s  cpu: ").unwrap().0.parse().unwrap()).collect();
    assert!(seconds.is_sorted() && seconds[0] >= 0.1 && !text.contains('\x1b'), "{text}");
    let json = succeed(&["devices", "--watch", "--json", "--interval", "0.05", "--count", "2"]);
    let moments: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(moments.len(), 2);
    assert_eq!(moments[1]["devices"][0]["device"], "cpu");
    assert!(moments[1]["seconds"].as_f64() > moments[0]["seconds"].as_f64());
    fail(&["devices", "--count", "2"], 2, &["--watch"]);
    fail(&["devices", "--watch", "--interval", "0"], 2, &["0.01"]);
    fail(&["devices", "--watch", "--count", "0"], 2, &["--count"]);
}

#[cfg(unix)]
#[test]
fn watching_redraws_on_a_terminal_until_control_c() {
    let mut terminal = terminal::Terminal::start(&["devices", "--watch", "--interval", "0.1"]);
    terminal.expect("temperature");
    let first = terminal.until("Ctrl-C ends");
    assert!(first.contains("cpu"), "{first}");
    // Again, the head included: it is drawn over the one before.
    terminal.expect("temperature");
    terminal.expect("Ctrl-C ends");
    terminal.send("\x03");
    assert_eq!(terminal.exit_code(), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_watching_in_a_pipe_without_an_error() {
    use std::io::{BufRead, BufReader};
    let mut command = common::program();
    command.args(["devices", "--watch", "--interval", "60"]).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("cpu: "), "{first}");
    // SAFETY: the child is ours, and is waited for only below.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn bench_devices_measures_and_draws() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("chart.svg");
    let chart = path.to_str().unwrap();
    // One besides the CPU is enough.
    let devices = if environment::has("vulkan") { "cpu,vulkan:0" } else { "cpu" };
    let args = ["bench", "devices", "-b", devices, "--time", "1", "--json", "--chart", chart, "-t", "2"];
    let reports = succeed_json(&args);
    let cpu = &reports[0];
    assert_eq!(cpu["device"], "cpu");
    assert!(cpu["limits"]["memory_bytes_per_second"].as_f64().unwrap() > 1e8);
    let results = cpu["results"].as_array().unwrap();
    let mut names = Vec::new();
    for result in results {
        names.push(format!(
            "{} {}",
            result["benchmark"].as_str().unwrap(),
            result["dtype"].as_str().unwrap()
        ));
        assert!(result["seconds"].as_f64().unwrap() > 0.0, "{result}");
        assert!(result["share_of_limit"].as_f64().unwrap() > 0.0, "{result}");
        let rates = ["flops_per_second", "bytes_per_second"];
        assert_eq!(rates.iter().filter(|rate| result[**rate].as_f64().is_some()).count(), 1, "{result}");
    }
    for name in [
        "add f32",
        "softmax f32",
        "matmul f32",
        "matmul f16",
        "matvec Q4_0",
        "attention f32",
        "to the device f32",
    ] {
        assert!(names.iter().any(|n| n == name), "{name}: {names:?}");
    }
    let svg = std::fs::read_to_string(&path).unwrap();
    // A bar for each measurement of each device.
    let all = reports.as_array().unwrap().iter().flat_map(|report| report["results"].as_array().unwrap());
    let measured = all.filter(|result| result["seconds"].as_f64().is_some()).count();
    assert_eq!(svg.matches("rx=\"2\"").count(), measured);
    fail(&["bench", "devices", "-b", "cuda:7"], 4, &["cuda:7", "cpu"]);
    fail(&["bench", "devices", "-b", "gpu"], 2, &["gpu"]);
}
