//! The benchmark of devices, on the CPU and on fake devices.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch::Device;
use rustorch::benchmark::{Bound, Options, Outcome, Rate, Report, device};
use rustorch::core::{Backend, DType, DTypeKind, DTypeSet, OpType};
use rustorch_cpu::CpuBackend;
use rustorch_testkit::{FakeDevice, Point, Rule};
use std::sync::Arc;
use std::time::Duration;

/// Short: the figures do not matter here.
fn quick() -> Options {
    Options { time: Duration::from_millis(1), enough: Duration::ZERO, memory: 8 << 20 }
}

fn measure(backend: Arc<dyn Backend>) -> Report {
    device(&backend, &quick(), &mut |_| {}).unwrap()
}

#[test]
fn every_benchmark_is_measured_against_the_limits_of_the_same_run() {
    let mut told = Vec::new();
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(2));
    let report = device(&cpu, &quick(), &mut |what| told.push(what.to_owned())).unwrap();
    assert!(told.len() > 5 && told.iter().all(|line| line.starts_with("cpu (")), "{told:?}");
    assert_eq!(report.device, Device::CPU);
    let limits = &report.limits;
    assert!(limits.memory.unwrap() > 0.0 && limits.arithmetic(DType::F32).unwrap() > 0.0);
    let names: Vec<&str> = report.results.iter().map(|r| r.benchmark).collect();
    for name in ["add", "softmax", "matmul", "matvec", "attention", "to the device", "from the device"] {
        assert!(names.contains(&name), "{name}");
    }
    for result in &report.results {
        let Outcome::Measured(m) = &result.outcome else { panic!("{result:?}") };
        assert!(m.seconds > 0.0 && m.runs >= 3 && !m.size.is_empty(), "{result:?}");
        let (Rate::Flops(rate) | Rate::Bytes(rate)) = m.rate;
        assert!(
            rate > 0.0 && rate.is_finite() && m.share.unwrap() > 0.0 && m.share.unwrap() <= 1.0 + 1e-9,
            "{result:?}"
        );
        if result.benchmark == "add" && result.dtype == DType::F32 {
            // Three numbers of four bytes for each element.
            let n: f64 = m.size.parse().unwrap();
            assert_eq!(m.rate, Rate::Bytes(12.0 * n / m.seconds));
            assert_eq!(m.bound, Bound::Memory);
            let share = 12.0 * n / limits.memory.unwrap() / m.seconds;
            assert!((m.share.unwrap() - share).abs() < 1e-9 * share);
        }
        if result.benchmark == "matmul" && result.dtype == DType::F32 {
            assert_eq!(
                (m.size.as_str(), m.rate),
                ("128 x 128 x 128", Rate::Flops(2.0 * 128f64.powi(3) / m.seconds))
            );
        }
    }
}

#[test]
fn what_a_device_declines_or_fails_at_is_told_and_the_rest_measured() {
    let cpu: Arc<dyn Backend> = Arc::new(CpuBackend::new(1));
    let fake = FakeDevice::new(Device::vulkan(0), cpu).capability(|capability| {
        capability.name = "a <weak> GPU & more".into();
        for set in &mut capability.dtypes {
            *set = set.without(DType::F16).without_kind(DTypeKind::Quant);
        }
        capability.dtypes[OpType::Attention as usize] = DTypeSet::EMPTY;
    });
    fake.script(Rule::at(Point::Run).op("exp"));
    let report = measure(Arc::new(fake));
    let outcome = |name: &str, dtype: DType| {
        &report.results.iter().find(|r| r.benchmark == name && r.dtype == dtype).unwrap().outcome
    };
    assert!(matches!(outcome("add", DType::F32), Outcome::Measured(_)));
    assert!(matches!(outcome("add", DType::F16), Outcome::Declined(why) if why.contains("f16")));
    assert!(matches!(outcome("attention", DType::F32), Outcome::Declined(why) if why.contains("attention")));
    assert!(matches!(outcome("exp", DType::F32), Outcome::Failed(_)));
    assert!(matches!(outcome("to the device", DType::F32), Outcome::Measured(_)));
    assert_eq!(report.limits.arithmetic(DType::F16), None);
    // What the device is known to reach counts where a short measurement reaches less; the fake states 10¹³.
    assert!(report.limits.arithmetic(DType::F32).unwrap() >= 1e13);

    let json = report.to_json();
    assert_eq!((&json["device"], &json["name"]), (&"vulkan:0".into(), &"a <weak> GPU & more".into()));
    assert_eq!(json["results"].as_array().unwrap().len(), report.results.len());
    assert!(json["limits"]["flops_per_second"]["f32"].as_f64().unwrap() > 0.0);

    let chart = Report::chart(&[report.clone(), report.clone()]);
    assert!(chart.starts_with("<svg ") && chart.trim_end().ends_with("</svg>"));
    assert!(chart.contains("a &lt;weak&gt; GPU &amp; more") && chart.contains("declined: "));
    let measured = report.results.iter().filter(|r| matches!(r.outcome, Outcome::Measured(_))).count();
    assert_eq!(chart.matches("rx=\"2\"").count(), 2 * measured);
    // Every element is closed.
    assert_eq!(chart.matches("<text ").count(), chart.matches("</text>").count());
}
