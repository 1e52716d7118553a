//! Launches are timed by the device.

use crate::common::*;

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

        driver.profile(true).unwrap();
        let count = if driver.has_timestamps() { 150 } else { 0 };
        for i in 0..150 {
            turn(if i == 77 { 20_000 } else { 1 });
        }
        driver.profile(false).unwrap();
        turn(1);
        let spans = driver.take_spans().unwrap();
        assert_eq!(spans.len(), count);
        assert_eq!(driver.take_spans().unwrap(), []);
        for pair in spans.windows(2) {
            assert!(pair[0].start_ns <= pair[0].end_ns);
            assert!(pair[0].start_ns <= pair[1].start_ns, "{pair:?}");
        }
        assert!(spans.iter().all(|span| span.label == "test"));
        if let Some(long) = spans.get(77) {
            // A second of a processor or a millisecond of a GPU, against next to nothing.
            let mut others: Vec<u64> = spans.iter().map(|span| span.end_ns - span.start_ns).collect();
            others.sort_unstable();
            assert!(long.end_ns - long.start_ns > others[others.len() / 2], "{long:?}");
        }
    });
}
