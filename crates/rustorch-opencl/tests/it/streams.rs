//! Several streams of one device, worked on by several threads.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch_core::{
    Backend, BinaryOp, Buffer, DType, Device, Fault, IndexSelect, Layout, Op, Shape, StreamScope, Streams,
    View, ViewMut, current_stream, run_checked,
};
use rustorch_kernels::driver::DriverLayer;
use rustorch_kernels::{Driver, Engine};
use rustorch_opencl::OpenCl;
use rustorch_runtime::{ContextOptions, DeviceManager, HybridExecutor, Output, Placement};
use rustorch_testkit::{Requirement, skip};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A driver that counts how often a stream is made to wait for another one, and forgets to on demand.
struct Watched {
    driver: OpenCl,
    waits: Arc<AtomicUsize>,
}

impl DriverLayer for Watched {
    type Inner = OpenCl;

    fn inner(&self) -> &OpenCl {
        &self.driver
    }

    fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.driver.wait(stream, other)
    }
}

/// The first device of the machine. Says so where there is none.
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn engine() -> Option<(Engine<Watched>, Arc<AtomicUsize>)> {
    let found = rustorch_opencl::discover();
    let Some(candidate) = found.devices.first() else {
        skip(Requirement::OpenCl, found.missing.join("; "));
        return None;
    };
    let waits = Arc::default();
    let driver = Watched { driver: candidate.open().unwrap(), waits: Arc::clone(&waits) };
    Some((Engine::new(driver).unwrap(), waits))
}

const ADD: Op = Op::Binary(BinaryOp::Add);
const LEN: usize = 4 << 10;

fn add(exec: &HybridExecutor, x: &Output, y: &Output) -> Output {
    exec.run(&ADD, &[x.operand(), y.operand()]).unwrap().pop().unwrap()
}

fn add_to(exec: &HybridExecutor, x: &Output, y: &Output, to: &Output) {
    exec.run_into(&ADD, &[x.operand(), y.operand()], &[to.operand()]).unwrap();
}

/// All numbers of a result, which must be one.
fn number(exec: &HybridExecutor, x: &Output) -> u32 {
    let mut bytes = vec![0; 4 * LEN];
    exec.download(&x.operand(), &mut bytes).unwrap();
    let (words, _) = bytes.as_chunks::<4>();
    let first = i32::from_ne_bytes(words[0]);
    let other = words.iter().position(|word| i32::from_ne_bytes(*word) != first);
    assert_eq!(other, None, "{first} and others");
    first as u32
}

/// Threads work on results of their own, on some that they hand to each other, and on one that all change in place.
fn hammer(manager: &DeviceManager, device: Device, streams: usize, threads: usize) {
    const ROUNDS: u32 = 25;
    let options = ContextOptions { streams: Some(streams), ..ContextOptions::default() };
    let context = manager.context(device, options).unwrap();
    assert_eq!(context.streams(), streams);
    let exec = &context.executor().with_policy(Placement::Require(device)).unwrap();
    let shape = Shape::new([LEN].as_slice()).unwrap();
    let upload = |value: u32| {
        let bytes: Vec<u8> = (0..LEN).flat_map(|_| value.to_ne_bytes()).collect();
        exec.upload(&bytes, DType::I32, &shape, device).unwrap()
    };
    let one = upload(1);
    let shared = Mutex::new(upload(0));
    let handed: Vec<Mutex<Option<(Output, u32)>>> = (0..threads).map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (one, shared, handed, upload) = (&one, &shared, &handed, &upload);
            scope.spawn(move || {
                let mut expected = thread as u32;
                let mut own = upload(expected);
                for round in 0..ROUNDS {
                    // Fresh memory each time, and memory that is let go of while it is still read.
                    let twice = add(exec, &own, &own);
                    own = add(exec, &twice, one);
                    expected = expected.wrapping_mul(2).wrapping_add(1);
                    if round % 3 == 0 {
                        let shared = shared.lock().unwrap();
                        add_to(exec, &shared, one, &shared);
                    }
                    // What another thread has made last, on another stream.
                    *handed[thread].lock().unwrap() = Some((add(exec, &own, one), expected.wrapping_add(1)));
                    let theirs = handed[(thread + 1) % threads].lock().unwrap().take();
                    if let Some((theirs, number)) = theirs {
                        own = add(exec, &own, &theirs);
                        expected = expected.wrapping_add(number);
                    }
                    if round % 8 == 7 {
                        assert_eq!(number(exec, &own), expected, "thread {thread} in round {round}");
                    }
                }
                assert_eq!(number(exec, &own), expected, "thread {thread}");
            });
        }
    });
    let shared = shared.into_inner().unwrap();
    assert_eq!(number(exec, &shared), ROUNDS.div_ceil(3) * threads as u32);
    context.synchronize().unwrap();
}

#[test]
fn threads_and_streams_see_what_others_have_written() {
    let Some((engine, waits)) = engine() else { return };
    let device = engine.device();
    let exec = HybridExecutor::builder().backend(Arc::new(engine)).threads(1).build().unwrap();
    let manager = DeviceManager::new(exec);
    for (streams, threads) in [(1, 4), (2, 4), (3, 5), (4, 8)] {
        let before = waits.load(Ordering::Relaxed);
        hammer(&manager, device, streams, threads);
        let made = waits.load(Ordering::Relaxed) - before;
        assert_eq!(made > 0, streams > 1, "{made} waits among {streams} streams");
    }
    assert_eq!(manager.executor().backend(device).unwrap().extensions().stream_count(), 1);
}

/// Memory of numbers, on a device.
fn memory(engine: &dyn Backend, dtype: DType, bytes: &[u8]) -> Buffer {
    let layout = layout(bytes.len() / dtype.block_bytes());
    let buffer = engine.alloc(bytes.len()).unwrap();
    // SAFETY: the layout is inside, and the memory is nobody else's.
    let mut view = unsafe { ViewMut::from_shared(&buffer, dtype, &layout) };
    engine.copy_in(bytes, &mut view).unwrap();
    buffer
}

fn layout(len: usize) -> Layout {
    Layout::contiguous(Shape::new([len].as_slice()).unwrap())
}

fn run(engine: &dyn Backend, op: &Op, args: &[(&Buffer, DType)], out: &Buffer) {
    let layout = layout(4);
    // SAFETY: every memory has four elements, and nobody else works here.
    let views: Vec<View<'_>> =
        args.iter().map(|(buffer, dtype)| unsafe { View::new(buffer, *dtype, &layout) }).collect();
    // SAFETY: as above.
    let out = unsafe { ViewMut::from_shared(out, DType::F32, &layout) };
    run_checked(engine, op, &views, &mut [out]).unwrap();
}

fn read(engine: &dyn Backend, buffer: &Buffer) -> Result<[u8; 16], Fault> {
    let (layout, mut bytes) = (layout(4), [0; 16]);
    // SAFETY: as in `run`.
    let view = unsafe { View::new(buffer, DType::F32, &layout) };
    engine.copy_out(&view, &mut bytes).map(|()| bytes)
}

#[test]
fn a_mistake_is_told_to_those_who_would_read_what_follows_it() {
    let Some((engine, _)) = engine() else { return };
    assert_eq!(engine.set_streams(3), 3);
    let numbers: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let indices = |last: i64| [0, 1, 2, last].iter().flat_map(|i: &i64| i.to_ne_bytes()).collect::<Vec<u8>>();
    let x = memory(&engine, DType::F32, &numbers);
    let good = memory(&engine, DType::I64, &indices(0));
    let bad = memory(&engine, DType::I64, &indices(9));
    engine.synchronize().unwrap();
    let [y, z, other] = [(); 3].map(|()| memory(&engine, DType::F32, &numbers));
    let select = Op::IndexSelect(IndexSelect { axis: 0 });
    let on = |stream| StreamScope::enter(stream);
    {
        let _one = on(1);
        assert_eq!(current_stream(engine.streams()), 1);
        run(&engine, &select, &[(&x, DType::F32), (&bad, DType::I64)], &y);
    }
    {
        // Nothing here comes after the mistake.
        let _two = on(2);
        run(&engine, &select, &[(&x, DType::F32), (&good, DType::I64)], &other);
        assert_eq!(read(&engine, &other).unwrap()[..12], numbers[..12]);
    }
    {
        let _zero = on(0);
        run(&engine, &ADD, &[(&y, DType::F32), (&x, DType::F32)], &z);
        match read(&engine, &z) {
            Err(Fault::Invalid(error)) => assert!(error.to_string().contains("index_select"), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(read(&engine, &x).is_ok(), "it is told once");
    }
    {
        let _one = on(1);
        run(&engine, &select, &[(&x, DType::F32), (&good, DType::I64)], &y);
        assert_eq!(read(&engine, &y).unwrap()[..12], numbers[..12]);
        run(&engine, &select, &[(&x, DType::F32), (&bad, DType::I64)], &y);
    }
    // Who waits for everything learns of everything.
    assert!(matches!(engine.synchronize(), Err(Fault::Invalid(_))));
    engine.synchronize().unwrap();
    // Streams that are no more keep nothing back.
    {
        let _one = on(1);
        run(&engine, &select, &[(&x, DType::F32), (&bad, DType::I64)], &y);
    }
    assert_eq!(engine.set_streams(1), 1);
    assert!(matches!(read(&engine, &x), Err(Fault::Invalid(_))));
    assert!(read(&engine, &x).is_ok());
}
