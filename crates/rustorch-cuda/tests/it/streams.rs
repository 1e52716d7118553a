//! Several streams, and several GPUs, of the fake driver: which events are made, who waits for them, and what is copied how.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use crate::common::fakes::with_fake;
use rustorch_core::profile::{DeviceProfiler, SpanKind};
use rustorch_core::{Backend, DType, Device, Fault, Shape, StreamScope, Streams};
use rustorch_cuda::{Cuda, Kernel, Memory};
use rustorch_kernels::{BufferBinding, Driver, Engine, KernelSource, Launch};
use rustorch_runtime::{HybridExecutor, TransferMethod};
use std::sync::Arc;

fn open(gpu: usize) -> Cuda {
    rustorch_cuda::discover().devices[gpu].open_with(None).unwrap()
}

fn step(driver: &Cuda) -> Kernel {
    let text = KernelSource {
        label: "step",
        source: "step",
        entry: "step",
        workgroup: [64, 1, 1],
        buffers: 1,
        parameters: 0,
        checked: false,
    };
    // SAFETY: the source is what its description says, or is refused.
    unsafe { driver.compile(&text) }.unwrap()
}

fn run(driver: &Cuda, kernel: &Kernel, memory: &Memory) {
    let buffers = [BufferBinding { memory, start: 0, bytes: 256, writes: true }];
    // SAFETY: the kernel stays inside its windows, or the launch is refused.
    unsafe {
        driver.launch(&Launch {
            kernel,
            buffers: &buffers,
            parameters: &[],
            groups: [1; 3],
            label: "op",
            cache: None,
        })
    }
    .unwrap();
}

fn number(driver: &Cuda, memory: &Memory) -> u32 {
    let mut bytes = [0; 4];
    driver.read(memory, 0, &mut bytes).unwrap();
    u32::from_ne_bytes(bytes)
}

/// What the fake was called with since the last look.
struct Log(usize);

impl Log {
    fn take(&mut self) -> Vec<String> {
        let all = std::fs::read_to_string(std::env::var("FAKE_LOG").unwrap()).unwrap_or_default();
        let new: Vec<String> = all.lines().skip(self.0).map(str::to_string).collect();
        self.0 += new.len();
        new
    }
}

/// Runs `body` with a log.
fn logged(name: &str, variables: &[(&str, &str)], body: fn()) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut all = vec![("FAKE_LOG", log.to_str().unwrap()), ("FAKE_COUNT", "2")];
    all.extend(variables);
    with_fake(name, &all, body);
}

#[test]
fn a_stream_waits_by_an_event() {
    logged("streams::a_stream_waits_by_an_event", &[], || {
        let (driver, mut log) = (open(0), Log(0));
        let step = step(&driver);
        assert_eq!(driver.set_streams(3).unwrap(), 3);
        let y = {
            let _one = StreamScope::enter(1);
            let y = driver.allocate(256).unwrap();
            driver.write(&y, 0, &[1; 256]).unwrap();
            // That of the ring for copies.
            assert_eq!(log.take(), ["record 1 0"]);
            run(&driver, &step, &y);
            y
        };
        let _two = StreamScope::enter(2);
        driver.wait(2, 1).unwrap();
        assert_eq!(log.take(), ["record 1 0", "wait 2 1"]);
        run(&driver, &step, &y);
        {
            // What is given later is not waited for.
            let _one = StreamScope::enter(1);
            let other = driver.allocate(256).unwrap();
            driver.write(&other, 0, &[2; 256]).unwrap();
            log.take();
            driver.wait(0, 2).unwrap();
            driver.wait(1, 2).unwrap();
            assert_eq!(log.take(), ["record 2 0", "wait 0 2", "record 2 0", "wait 1 2"]);
            drop(other);
        }
        assert_eq!(number(&driver, &y), 0x0101_0101 * 9);
        // Memory goes in the stream of whoever drops it, after what others do with it.
        driver.wait(2, 1).unwrap();
        drop(y);
        driver.finish().unwrap();
        driver.set_streams(1).unwrap();
        let _zero = StreamScope::enter(5);
        let y = driver.allocate(256).unwrap();
        log.take();
        run(&driver, &step, &y);
        driver.copy(&y, 0, &y, 128, 64).unwrap();
        driver.finish().unwrap();
        assert_eq!(log.take(), [] as [&str; 0], "one stream needs no events");
    });
}

#[test]
fn what_runs_at_once_is_measured_at_once() {
    logged("streams::what_runs_at_once_is_measured_at_once", &[], || {
        let driver = open(0);
        let step = step(&driver);
        driver.set_streams(2).unwrap();
        let memories: Vec<Memory> = (0..2)
            .map(|stream| {
                let _scope = StreamScope::enter(stream);
                driver.allocate(256).unwrap()
            })
            .collect();
        driver.start().unwrap();
        for _ in 0..3 {
            for (stream, memory) in memories.iter().enumerate() {
                let _scope = StreamScope::enter(stream);
                run(&driver, &step, memory);
            }
        }
        let spans = driver.take_spans().unwrap();
        assert_eq!(spans.len(), 6);
        for span in &spans {
            // The fake's streams take turns at being waited for, so events of both stand in their own order.
            assert_eq!((span.kind, span.end_ns - span.start_ns), (SpanKind::Compute, 2000));
        }
        // Every other one is of the same stream, which is in order; the second stream comes after all of the first.
        let starts: Vec<u64> = spans.iter().map(|span| span.start_ns).collect();
        assert!(
            starts[0] < starts[2] && starts[2] < starts[4] && starts[1] < starts[3] && starts[3] < starts[5]
        );
        assert!(starts[4] < starts[1] || starts[5] < starts[0], "{starts:?}");
    });
}

fn copies_between() -> Vec<String> {
    let (first, second, mut log) = (open(0), open(1), Log(0));
    let bytes: Vec<u8> = (0..=255).collect();
    let (x, y) = (first.allocate(256).unwrap(), second.allocate(256).unwrap());
    first.write(&x, 0, &bytes).unwrap();
    first.finish().unwrap();
    second.write(&y, 0, &[0xff; 256]).unwrap();
    log.take();
    second.copy_from_peer((&x, 64), (&y, 16), 32).unwrap().unwrap();
    second.copy_from_peer((&x, 0), (&y, 0), 16).unwrap().unwrap();
    second.copy_from_peer((&x, 0), (&y, 0), 0).unwrap().unwrap();
    let mut read = [0; 64];
    second.read(&y, 0, &mut read).unwrap();
    assert_eq!((&read[..16], &read[16..48], &read[48..]), (&bytes[..16], &bytes[64..96], &[0xff; 16][..]));
    let outside = second.copy_from_peer((&x, 240), (&y, 0), 32).unwrap();
    assert!(matches!(outside, Err(Fault::Invalid(_))));
    log.take().into_iter().filter(|line| !line.starts_with("record")).collect()
}

#[test]
fn gpus_copy_from_each_other() {
    logged("streams::gpus_copy_from_each_other", &[], || {
        // Access is given once.
        assert_eq!(copies_between(), ["pool access 0 1", "peer 0 1", "peer 0 1"]);
    });
}

#[test]
fn gpus_without_pools_copy_from_each_other() {
    logged("streams::gpus_without_pools_copy_from_each_other", &[("FAKE_POOL", "0")], || {
        assert_eq!(copies_between(), ["context access 0 1", "peer 0 1", "peer 0 1"]);
    });
}

#[test]
fn the_driver_stages_where_gpus_do_not_reach_each_other() {
    logged("streams::the_driver_stages_where_gpus_do_not_reach_each_other", &[("FAKE_PEER", "0")], || {
        assert_eq!(copies_between(), ["peer 0 1", "peer 0 1"]);
    });
}

/// Moves data from GPU to GPU by the executor, and tells by which method.
fn moved() -> TransferMethod {
    let mut builder = HybridExecutor::builder().threads(1);
    for gpu in 0..2 {
        let engine = Engine::new(open(gpu)).unwrap();
        engine.set_streams(2 + gpu);
        builder = builder.backend(Arc::new(engine) as Arc<dyn Backend>);
    }
    let exec = builder.build().unwrap();
    let (from, to) = (Device::cuda(0), Device::cuda(1));
    let bytes: Vec<u8> = (0..40_000_u32).map(|i| ((i * i) >> 7) as u8).collect();
    let shape = Shape::new([10_000].as_slice()).unwrap();
    let x = exec.upload(&bytes, DType::F32, &shape, from).unwrap();
    let transfers = exec.transfers();
    assert_eq!(transfers.method(from, to), None);
    for stream in 0..3 {
        // On another stream than that which made the data, on each of the devices.
        let _scope = StreamScope::enter(stream);
        let y = exec.transfer(&x.operand(), to).unwrap();
        let _scope = StreamScope::enter(stream + 1);
        let mut read = vec![0; bytes.len()];
        exec.download(&y.operand(), &mut read).unwrap();
        assert!(read == bytes);
    }
    let method = transfers.method(from, to).unwrap();
    let count = transfers.count(from, to, method);
    assert_eq!((count.count, count.bytes), (3, 120_000));
    assert!(count.bandwidth().is_some_and(|rate| rate > 0.0));
    assert_eq!(transfers.between(from, to).count, 3);
    method
}

#[test]
fn the_executor_copies_directly() {
    logged("streams::the_executor_copies_directly", &[], || assert_eq!(moved(), TransferMethod::Peer));
}

#[test]
fn the_executor_stages_where_copying_fails() {
    logged("streams::the_executor_stages_where_copying_fails", &[("FAKE_PEER_COPY", "801")], || {
        assert_eq!(moved(), TransferMethod::Staging);
    });
}
