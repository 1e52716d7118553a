//! Profiles: what is measured, for whom, and what the files hold.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::{CUDA, OPENCL, builder, fake, floats, ramp, upload, upload_to};
use rustorch_core::profile::{GpuBenchmarkMetrics, SpanKind, current_sequence, host_ns};
use rustorch_core::{Backend, BinaryOp, DType, Decline, Device, MatMul, Op, OpType, UnaryOp};
use rustorch_runtime::{HybridExecutor, Placement, Profile, Profiler, TransferMethod};
use rustorch_testkit::{Act, FakeDevice, Point, Rule};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const ADD: Op = Op::Binary(BinaryOp::Add);
const NEG: Op = Op::Unary(UnaryOp::Neg);

/// A device that takes longer for matmuls than for anything else.
fn timed() -> Arc<FakeDevice> {
    Arc::new(fake(CUDA).with_timestamps(|label| {
        Duration::from_micros(match label {
            "matmul" => 2000,
            "neg" => 300,
            _ => 50,
        })
    }))
}

fn on_the_device(device: &Arc<FakeDevice>) -> HybridExecutor {
    builder(&[device]).placement(Placement::FirstSupported).build().unwrap()
}

fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

#[test]
fn every_operation_is_measured_on_the_cpu() {
    let exec = HybridExecutor::builder().threads(1).build().unwrap();
    let x = upload(&exec, &ramp(64 * 64), &[64, 64]);
    let (_, profile) = exec.profile(|| {
        for _ in 0..3 {
            exec.run(&matmul(), &[x.operand(), x.operand()]).unwrap();
        }
        exec.run(&NEG, &[x.operand()]).unwrap();
    });
    let ops: Vec<_> = profile.operations().iter().map(|o| (o.record.op.name(), o.record.class)).collect();
    let product = ("matmul", OpType::LinearAlgebra);
    assert_eq!(ops, [product, product, product, ("neg", OpType::Elementwise)]);
    for operation in profile.operations() {
        let record = &operation.record;
        assert_eq!(record.device, Some(Device::CPU));
        assert!(record.args.iter().all(|(dtype, shape)| *dtype == DType::F32 && shape.dims() == [64, 64]));
        let time = operation.device_time.unwrap();
        assert!(time > Duration::ZERO && time <= record.time, "{time:?} of {:?}", record.time);
        let run = record.run.unwrap();
        assert_eq!(time, run.duration());
        assert!(profile.interval().start_ns <= record.start_ns && record.start_ns <= run.start_ns);
        assert!(run.end_ns <= profile.interval().end_ns);
    }
    let groups = profile.by_operation();
    let counts: BTreeMap<_, _> = groups.iter().map(|group| (group.label(), group.count)).collect();
    assert_eq!(counts, BTreeMap::from([("matmul(f32, f32)".into(), 3), ("neg(f32)".into(), 1)]));
    assert!(groups.is_sorted_by(|a, b| a.time >= b.time));
    assert!((groups.iter().map(|group| group.share).sum::<f64>() - 1.0).abs() < 1e-9);
    let devices = profile.by_device();
    assert_eq!((devices.len(), devices[0].operations), (1, 4));
    assert_eq!(devices[0].compute, Some(groups.iter().map(|group| group.time).sum()));
    assert!(profile.transfers().is_empty() && profile.fallbacks().is_empty() && profile.notes().is_empty());
}

#[test]
fn a_device_that_works_by_itself_tells_its_time_later() {
    let cuda = timed();
    let exec = on_the_device(&cuda);
    let x = upload_to(&exec, &ramp(16), &[4, 4], CUDA);
    assert!(!cuda.is_measured());
    let (_, profile) = exec.profile(|| {
        assert!(cuda.is_measured());
        exec.run(&matmul(), &[x.operand(), x.operand()]).unwrap();
        exec.run(&NEG, &[x.operand()]).unwrap();
        exec.run(&matmul(), &[x.operand(), x.operand()]).unwrap();
    });
    assert!(!cuda.is_measured());
    let times: Vec<_> =
        profile.operations().iter().map(|o| (o.record.op.name(), o.device_time.unwrap())).collect();
    let (long, short) = (Duration::from_millis(2), Duration::from_micros(300));
    assert_eq!(times, [("matmul", long), ("neg", short), ("matmul", long)]);
    // One after another on the device, though all were submitted at once.
    let spans: Vec<_> = profile.spans().iter().map(|(_, span)| span).collect();
    assert_eq!(spans.len(), 3);
    for (span, operation) in spans.iter().zip(profile.operations()) {
        assert_eq!((span.sequence, span.kind), (operation.record.sequence, SpanKind::Compute));
        assert!(span.start_ns + 10 >= operation.record.run.unwrap().start_ns);
    }
    assert!(spans.is_sorted_by(|a, b| a.end_ns <= b.start_ns + 10));
    // The profile waited for the last.
    assert!(spans[2].end_ns <= profile.interval().end_ns);
    let total = profile.by_device().into_iter().find(|total| total.device == CUDA).unwrap();
    assert_eq!((total.compute, total.operations), (Some(2 * long + short), 3));
}

#[test]
fn a_device_that_does_not_tell_is_not_guessed_at() {
    let cuda = Arc::new(fake(CUDA));
    let exec = on_the_device(&cuda);
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    let (_, profile) = exec.profile(|| exec.run(&NEG, &[x.operand()]).unwrap());
    let operation = &profile.operations()[0];
    assert_eq!((operation.device_time, operation.time()), (None, operation.record.time));
    let total = profile.by_device().into_iter().find(|total| total.device == CUDA).unwrap();
    assert_eq!(total.compute, None);
    let text = profile.to_string();
    assert!(text.contains("~ as the caller saw it") && text.contains(" ~"), "{text}");
    assert_eq!(profile.to_json(false)["devices"][0]["compute_ns"], Value::Null);
}

#[test]
fn transfers_and_fallbacks_are_told_with_their_cause() {
    let cuda = timed();
    let exec = on_the_device(&cuda);
    cuda.script(Rule::at(Point::Supports).op("neg").act(Act::Decline(Decline::DType(DType::F32))));
    let (value, profile) = exec.profile(|| {
        let x = upload_to(&exec, &ramp(256), &[256], CUDA);
        let y = exec.run(&NEG, &[x.operand()]).unwrap();
        assert_eq!(y[0].storage.device(), CUDA);
        floats(&exec, &y[0].operand())
    });
    assert_eq!(value[0], 3.0);
    let moves: Vec<_> = profile.transfers().iter().map(|t| (t.from, t.to, t.method, t.bytes)).collect();
    let (copy, cpu) = (TransferMethod::Copy, Device::CPU);
    assert_eq!(
        moves,
        [(cpu, CUDA, copy, 1024), (CUDA, cpu, copy, 1024), (cpu, CUDA, copy, 1024), (CUDA, cpu, copy, 1024)]
    );
    // The upload, the operation's two and the download are three causes; the device names the same.
    let neg = profile.operations()[0].record.sequence;
    let causes: Vec<u64> = profile.transfers().iter().map(|t| t.sequence).collect();
    assert_eq!((causes[1], causes[2]), (neg, neg));
    assert_eq!(causes.iter().collect::<BTreeSet<_>>().len(), 3);
    let copies = profile.spans().iter().filter(|(device, _)| *device == CUDA);
    let copies: Vec<_> = copies.map(|(_, span)| (span.label.as_ref(), span.kind, span.sequence)).collect();
    let names = ["copy in", "copy out", "copy in", "copy out"];
    let expected: Vec<_> =
        names.iter().zip(&causes).map(|(name, cause)| (*name, SpanKind::Copy, *cause)).collect();
    assert_eq!(copies, expected);
    assert_eq!(profile.moved_bytes(), 4096);
    let fallbacks = profile.fallbacks();
    assert_eq!(fallbacks.len(), 1);
    let fallback = &fallbacks[0];
    assert_eq!(
        (fallback.op.name(), fallback.device, fallback.ran_on, fallback.count),
        ("neg", CUDA, Some(cpu), 1)
    );
    assert!(fallback.reason.contains("f32 is not supported"), "{}", fallback.reason);
    let text = profile.to_string();
    for part in ["cuda:0 → cpu", "cpu → cuda:0", "2.0 KiB", "declined: dtype f32", "1 operation in "] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn memory_is_followed() {
    let cuda = timed();
    let exec = on_the_device(&cuda);
    let x = upload_to(&exec, &ramp(1 << 14), &[1 << 14], CUDA);
    let before = exec.memory().stats(CUDA).unwrap().allocated;
    let (_, profile) = exec.profile(|| {
        let y = exec.run(&NEG, &[x.operand()]).unwrap();
        let z = exec.run(&NEG, &[y[0].operand()]).unwrap();
        drop((y, z));
    });
    let samples: Vec<u64> =
        profile.memory().iter().filter(|s| s.device == CUDA).map(|s| s.allocated).collect();
    let step = 1 << 16;
    assert_eq!(samples, [before, before + step, before + 2 * step, before]);
    assert!(profile.memory().is_sorted_by_key(|s| s.at_ns));
    assert!(profile.memory().iter().all(|s| s.reserved >= s.allocated));
    let total = profile.by_device().into_iter().find(|total| total.device == CUDA).unwrap();
    assert_eq!(total.peak_allocated, before + 2 * step);
}

#[test]
fn scopes_nest_and_see_their_thread_while_profilers_see_all() {
    let cuda = timed();
    let exec = on_the_device(&cuda);
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    let names =
        |profile: &Profile| profile.operations().iter().map(|o| o.record.op.name()).collect::<Vec<_>>();
    let all = Profiler::start(&exec);
    let (inner, outer) = exec.profile(|| {
        exec.run(&NEG, &[x.operand()]).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| exec.run(&Op::Unary(UnaryOp::Abs), &[x.operand()]).unwrap());
        });
        exec.profile(|| exec.run(&ADD, &[x.operand(), x.operand()]).unwrap()).1
    });
    // The inner one's end did not stop the others.
    assert!(cuda.is_measured());
    let all = all.finish();
    assert_eq!(names(&inner), ["add"]);
    assert_eq!(names(&outer), ["neg", "add"]);
    assert_eq!(names(&all), ["neg", "abs", "add"]);
    for profile in [&inner, &outer, &all] {
        assert_eq!(profile.spans().len(), profile.operations().len());
        assert!(profile.operations().iter().all(|o| o.device_time.is_some()));
    }
    let threads: BTreeSet<u32> = all.operations().iter().map(|o| o.record.thread).collect();
    assert_eq!(threads.len(), 2);
    // A number of their own for each, and none outside.
    let sequences: BTreeSet<u64> = all.operations().iter().map(|o| o.record.sequence).collect();
    assert_eq!((sequences.len(), sequences.contains(&0), current_sequence()), (3, false, 0));
    // `explain` is the same collection seen otherwise.
    let ((), explanation) = exec.explain(|| _ = exec.run(&NEG, &[x.operand()]).unwrap());
    assert_eq!(explanation.records().len(), 1);
    assert!(!cuda.is_measured());
}

#[test]
fn a_panic_ends_the_profile_and_a_lost_device_is_noted() {
    let cuda = timed();
    let exec = on_the_device(&cuda);
    let x = upload_to(&exec, &ramp(4), &[4], CUDA);
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exec.profile(|| panic!("on purpose"))));
    assert!(panicked.is_err() && !cuda.is_measured());
    // Nobody watches any more: small work on the CPU is not planned, hence not counted.
    let small = upload(&exec, &[1.0f32], &[1]);
    let ran = exec.counts(Device::CPU).unwrap().ran;
    let alone = exec.with_policy(Placement::CpuOnly).unwrap();
    alone.run(&NEG, &[small.operand()]).unwrap();
    assert_eq!(exec.counts(Device::CPU).unwrap().ran, ran);

    cuda.script(Rule::at(Point::Run).act(Act::Lose));
    let (result, profile) = exec.profile(|| exec.run(&NEG, &[x.operand()]));
    assert!(result.is_err());
    assert!(profile.operations().iter().all(|o| o.record.device.is_none()));
}

#[test]
fn metrics_are_what_the_device_says_or_nothing() {
    let says = GpuBenchmarkMetrics { power_watts: Some(99.0), ..GpuBenchmarkMetrics::default() };
    let device = fake(CUDA).with_metrics(says);
    assert_eq!(device.extensions().metrics(), says);
    assert_eq!(fake(OPENCL).extensions().metrics(), GpuBenchmarkMetrics::default());
    assert_eq!(fake(OPENCL).extensions().pci_address(), None);
}

/// A profile with everything in it: two devices, a fallback, transfers, threads.
fn rich() -> Profile {
    let cuda = timed();
    let exec = on_the_device(&cuda);
    cuda.script(Rule::at(Point::Supports).op("add").act(Act::Decline(Decline::Op("add"))));
    let profiler = Profiler::start(&exec);
    let x = upload_to(&exec, &ramp(1024), &[32, 32], CUDA);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                for op in [&matmul(), &ADD] {
                    exec.run(op, &[x.operand(), x.operand()]).unwrap();
                }
            });
        }
    });
    exec.run(&NEG, &[x.operand()]).unwrap();
    profiler.finish()
}

#[test]
fn the_trace_is_what_perfetto_reads() {
    let profile = rich();
    let mut bytes = Vec::new();
    profile.write_chrome_trace(&mut bytes).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    let mut slices: BTreeMap<u64, Vec<(f64, f64, String)>> = BTreeMap::new();
    let (mut starts, mut ends, mut counters) = (BTreeMap::new(), BTreeMap::new(), 0);
    let mut last = f64::MIN;
    let duration = profile.duration().as_nanos() as f64 / 1e3;
    for event in &events {
        assert_eq!(event["pid"], 1, "one process");
        let tid = event["tid"].as_u64().unwrap();
        if event["ph"] == "M" {
            assert_eq!(last, f64::MIN, "names come first");
            if event["name"] == "thread_name" {
                tracks.insert(tid, text(&event["args"], "name"));
            }
            continue;
        }
        let ts = number(event, "ts");
        assert!(ts >= last && (0.0..=duration).contains(&ts), "{event}");
        last = ts;
        match event["ph"].as_str().unwrap() {
            "X" => {
                let dur = number(event, "dur");
                assert!(dur >= 0.0 && ts + dur <= duration + 0.01, "{event}");
                assert!(!text(event, "name").is_empty() && !text(event, "cat").is_empty());
                assert!(event["args"].is_object());
                slices.entry(tid).or_default().push((ts, ts + dur, text(event, "name")));
            }
            "C" => {
                assert!(text(event, "name").starts_with("memory "));
                let args = event["args"].as_object().unwrap();
                assert!(args.len() == 2 && args.values().all(|value| value.as_u64().is_some()), "{event}");
                counters += 1;
            }
            "s" => assert!(starts.insert(event["id"].as_u64().unwrap(), (tid, ts)).is_none()),
            "f" => assert!(ends.insert(event["id"].as_u64().unwrap(), (tid, ts)).is_none()),
            other => panic!("unexpected {other}"),
        }
    }
    // Slices of a track nest: each ends before the one that holds it.
    for (tid, slices) in &slices {
        assert!(tracks.contains_key(tid), "track {tid} has a name");
        let mut open: Vec<f64> = Vec::new();
        for (start, end, name) in slices {
            while open.last().is_some_and(|&until| until <= start + 0.0005) {
                open.pop();
            }
            if let Some(&until) = open.last() {
                assert!(*end <= until + 0.0005, "{name} sticks out on {}", tracks[tid]);
            }
            open.push(*end);
        }
    }
    let names: Vec<&str> = tracks.values().map(String::as_str).collect();
    for wanted in ["cuda:0 (fake cuda:0)", "cpu (", "transfers", "thread "] {
        assert!(names.iter().any(|name| name.starts_with(wanted)), "{wanted}: {names:?}");
    }
    let on = |track: &str| {
        let tids: Vec<u64> =
            tracks.iter().filter(|(_, name)| name.starts_with(track)).map(|(tid, _)| *tid).collect();
        let mut found: Vec<String> = tids
            .iter()
            .filter_map(|tid| slices.get(tid))
            .flatten()
            .map(|(_, _, name)| name.clone())
            .collect();
        found.sort();
        found
    };
    assert_eq!(on("cpu ("), ["add", "add"]);
    let device: Vec<String> = on("cuda:0").into_iter().filter(|name| !name.starts_with("copy")).collect();
    assert_eq!(device, ["matmul", "matmul", "neg"]);
    assert_eq!(on("transfers").len(), profile.transfers().len());
    assert!(on("transfers").contains(&"cpu → cuda:0".to_owned()));
    assert!(counters >= 4);
    // Arrows lead from a call to what it caused, and not back in time.
    for (id, (tid, ts)) in &starts {
        let (to, at) = ends[id];
        assert!(to != *tid && at + 0.02 >= *ts);
    }
    assert_eq!(starts.len(), 5);
    assert_eq!(starts.keys().collect::<Vec<_>>(), ends.keys().collect::<Vec<_>>());
}

#[test]
fn json_holds_the_same_figures() {
    let profile = rich();
    let json: Value = serde_json::from_str(&profile.to_json(true).to_string()).unwrap();
    assert_eq!(json["duration_ns"], profile.duration().as_nanos() as u64);
    assert_eq!(json["operations"].as_array().unwrap().len(), 5);
    let sum: u64 =
        json["operations"].as_array().unwrap().iter().map(|o| o["device_ns"].as_u64().unwrap()).sum();
    let total: u64 = json["summary"].as_array().unwrap().iter().map(|g| g["time_ns"].as_u64().unwrap()).sum();
    assert_eq!(sum, total);
    assert_eq!(json["summary"][0]["op"], "matmul");
    assert_eq!(json["summary"][0]["time_ns"], 4_000_000);
    assert_eq!(json["fallbacks"][0]["count"], 2);
    assert_eq!(json["moves"].as_array().unwrap().len(), profile.transfers().len());
    let bytes: u64 = json["transfers"].as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
    assert_eq!(json["moved_bytes"], bytes);
    let brief = profile.to_json(false);
    assert!(brief.get("operations").is_none() && brief["memory"].as_array().unwrap().len() >= 4);
    assert!(host_ns() >= profile.interval().end_ns);
}
