//! Launches are timed by the device.

use super::common::*;
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, SequenceScope, SpanKind, host_ns};
use rustorch_kernels::Driver;
use rustorch_testkit::{Requirement, skip};

#[test]
fn each_launch_has_a_span_while_profiling() {
    on_each(|driver| {
        let source = "
            struct P { turns: u32, a: u32, b: u32, c: u32 }
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @group(0) @binding(1) var<uniform> p: P;
            @compute @workgroup_size(64)
            fn main(@builtin(global_invocation_id) at: vec3<u32>) {
                var v = x[at.x];
                for (var i = 0u; i < p.turns; i++) { v = v * 1664525u + 1013904223u + (v >> 7u); }
                x[at.x] = v;
            }";
        let kernel = compile(driver, "turns", source, 1, 16);
        let memory = upload(driver, &[1; 4096]);
        let turn = |turns| {
            launch(driver, &kernel, &[whole(&memory, 4 * 4096, true)], &[turns, 0, 0, 0], 4096).unwrap();
        };
        turn(1);
        assert_eq!(driver.take_spans().unwrap(), []);
        if !driver.has_timestamps() {
            assert!(matches!(driver.start(), Err(Fault::Backend { .. })));
            return skip(Requirement::Feature, "it has no timestamps");
        }
        driver.start().unwrap();
        let before = host_ns();
        // More than a batch's worth, of launches and of spans.
        for i in 0..700 {
            let _scope = SequenceScope::enter(1000 + i);
            turn(if i == 77 { 20_000 } else { 1 });
        }
        let many = upload(driver, &[0; 1024]);
        for i in 0..300 {
            driver.write(&many, i * 4, &bytes(&[i as u32])).unwrap();
        }
        assert_eq!(download(driver, &many, 300), (0..300).collect::<Vec<_>>());
        let _ = download(driver, &memory, 4);
        let spans = driver.take_spans().unwrap();
        let after = host_ns();
        turn(1);
        driver.stop();
        turn(1);
        assert_eq!(driver.take_spans().unwrap(), []);

        let (launches, copies): (Vec<_>, Vec<_>) = spans.iter().partition(|s| s.kind == SpanKind::Compute);
        assert!(launches.iter().all(|span| span.label == "turns"));
        assert!(launches.iter().map(|span| span.sequence).eq(1000..1700));
        assert!(copies.iter().all(|span| span.sequence == 0));
        for (label, count) in [("write", 301), ("read", 2)] {
            let found = copies.iter().filter(|span| span.label == label).count();
            assert!(found == count || copies.is_empty(), "{found} spans of {label}");
        }
        for pair in launches.windows(2) {
            assert!(pair[0].start_ns <= pair[0].end_ns);
            assert!(pair[0].end_ns <= pair[1].start_ns, "launches of one memory overlap: {pair:?}");
        }
        // The clocks are read together within a submission, which takes long on a busy machine only.
        let tolerance = 100_000_000;
        assert!(launches[0].start_ns + tolerance >= before, "{before} {:?}", launches[0]);
        assert!(launches[699].end_ns <= after + tolerance, "{after} {:?}", launches[699]);
        // A second of a CPU or a millisecond of a GPU, against next to nothing.
        let mut times: Vec<u64> = launches.iter().map(|span| span.end_ns - span.start_ns).collect();
        let long = times[77];
        times.sort_unstable();
        assert!(long > times[350], "{long} {times:?}");
        println!("{} launches, {} copies, longest {long} ns", launches.len(), copies.len());
    });
}
