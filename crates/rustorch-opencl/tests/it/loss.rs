//! A device that is lost, and events of one that is not.

use crate::common::{drivers, kernel, launch, memory, numbers, window};
use rustorch_core::Fault;
use rustorch_core::profile::{DeviceProfiler, DeviceSpan, SequenceScope, SpanKind, host_ns};
use rustorch_kernels::{Driver, KernelSource, Launch};

const SOURCE: &str = "__kernel void run(__global uint* y) { y[get_global_id(0)] += 1; }";

#[test]
fn nothing_works_on_a_lost_device() {
    for driver in drivers() {
        let run = kernel(&driver, SOURCE, 4, 1, 0);
        let y = memory(&driver, &[0; 4]);
        launch(&driver, &run, &[window(&y, 4)], &[], 1);
        driver.lose("pulled out");
        driver.lose("pulled out again");
        let text = KernelSource {
            label: "t",
            source: SOURCE,
            entry: "run",
            workgroup: [4, 1, 1],
            buffers: 1,
            parameters: 0,
            checked: false,
        };
        let other = [window(&y, 4)];
        let faults = [
            // SAFETY: the kernel stays inside its windows, or the launch is refused.
            unsafe {
                driver.launch(&Launch {
                    kernel: &run,
                    buffers: &other,
                    parameters: &[],
                    groups: [1; 3],
                    label: "t",
                    cache: None,
                })
            }
            .unwrap_err(),
            driver.allocate(16).unwrap_err(),
            // SAFETY: the source is what its description says, or is refused.
            unsafe { driver.compile(&text) }.unwrap_err(),
            driver.write(&y, 0, &[0; 4]).unwrap_err(),
            driver.write(&y, 0, &[]).unwrap_err(),
            driver.read(&y, 0, &mut [0; 4]).unwrap_err(),
            driver.copy(&y, 0, &y, 8, 4).unwrap_err(),
            driver.finish().unwrap_err(),
            driver.start().unwrap_err(),
            driver.take_spans().unwrap_err(),
        ];
        let device = driver.hardware().device;
        for fault in faults {
            assert_eq!(fault, Fault::DeviceLost { device, message: "pulled out".to_string() });
        }
        // Another one of the same device is not.
        for other in drivers().iter().filter(|other| other.hardware().device == device) {
            assert_eq!(numbers(other, &memory(other, &[5; 4]), 4), [5; 4]);
        }
    }
}

#[test]
fn commands_are_measured_when_asked() {
    const SLOW: &str = "
    __kernel void run(__global uint* y) {
        uint a = y[get_global_id(0)];
        for (uint i = 0; i < 2000000u; i++) a = a * 1664525u + (a >> 7) + i;
        y[get_global_id(0)] = a;
    }";
    for driver in drivers() {
        let text = KernelSource {
            label: "slow",
            source: SLOW,
            entry: "run",
            workgroup: [1; 3],
            buffers: 1,
            parameters: 0,
            checked: false,
        };
        // SAFETY: the source is what its description says, or is refused.
        let run = unsafe { driver.compile(&text) }.unwrap();
        let y = memory(&driver, &[1; 64]);
        launch(&driver, &run, &[window(&y, 64)], &[], 1);
        assert_eq!(driver.take_spans().unwrap(), [], "nothing was asked for");

        driver.start().unwrap();
        let begin = host_ns();
        driver.write(&y, 0, &[7; 128]).unwrap();
        {
            let _dispatch = SequenceScope::enter(7);
            launch(&driver, &run, &[window(&y, 64)], &[], 1);
        }
        driver.copy(&y, 0, &y, 64, 32).unwrap();
        let read = numbers(&driver, &y, 64);
        let spans = driver.take_spans().unwrap();
        let end = host_ns();
        println!("{spans:#?}");
        let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.label.as_ref(), span.sequence)).collect();
        assert_eq!(
            seen,
            [
                (SpanKind::Copy, "write", 0),
                (SpanKind::Compute, "slow", 7),
                (SpanKind::Copy, "copy", 0),
                (SpanKind::Copy, "read", 0)
            ]
        );
        let time = |span: &DeviceSpan| span.end_ns - span.start_ns;
        assert!(time(&spans[1]) > 100_000, "two million steps take their time");
        assert!(spans.iter().map(time).sum::<u64>() <= end - begin, "no command took longer than all");
        assert!(spans.is_sorted_by_key(|span| span.start_ns));
        // The two clocks need not run alike to the last bit.
        let slack = 5_000_000;
        assert!(spans[0].start_ns + slack >= begin && spans[3].end_ns <= end + slack);
        assert_eq!(driver.take_spans().unwrap(), [], "they are taken once");

        driver.stop();
        assert_eq!(numbers(&driver, &y, 64), read, "memory is the same in the next queue");
        assert_eq!(driver.take_spans().unwrap(), []);
    }
}

#[test]
fn many_commands_are_measured() {
    for driver in drivers() {
        let run = kernel(&driver, SOURCE, 4, 1, 0);
        let y = memory(&driver, &[0; 4]);
        driver.start().unwrap();
        for _ in 0..3000 {
            launch(&driver, &run, &[window(&y, 4)], &[], 1);
        }
        assert_eq!(driver.take_spans().unwrap().len(), 3000);
        assert_eq!(numbers(&driver, &y, 4), [3000; 4]);
        // Starting twice is starting once, and what is not taken before measuring ends is forgotten: the read above.
        driver.start().unwrap();
        driver.stop();
        driver.start().unwrap();
        launch(&driver, &run, &[window(&y, 4)], &[], 1);
        let kinds: Vec<SpanKind> = driver.take_spans().unwrap().iter().map(|span| span.kind).collect();
        assert_eq!(kinds, [SpanKind::Compute]);
    }
}
