//! A driver of no device, as lazy as one may be: what a stream was given is done when the host waits for that stream, or when a
//! stream that is waited for has to wait for it. So work that nothing orders is done too late, which shows. Its kernels compute
//! numbers that depend on everything they read.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

use rustorch_core::{Device, Fault, current_stream};
use rustorch_kernels::{Arithmetic, Driver, Hardware, KernelSource, Language, Launch};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

pub struct Lazy {
    hardware: Hardware,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    waits: usize,
    launches: usize,
}

#[derive(Default)]
struct Stream {
    work: VecDeque<Work>,
    given: u64,
    done: u64,
}

enum Work {
    Kernel { seed: u64, read: Vec<Part>, written: Vec<Part> },
    Write { to: Part, bytes: Vec<u8> },
    Copy { from: Part, to: Part },
    Free(Arc<Cells>),
    Wait { stream: usize, until: u64 },
}

/// `None` when it is freed.
type Cells = Mutex<Option<Vec<u8>>>;

struct Part {
    cells: Arc<Cells>,
    start: usize,
    len: usize,
}

impl Part {
    fn with<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut cells = self.cells.lock().unwrap();
        let bytes = cells.as_mut().expect("memory is used after it was freed");
        f(&mut bytes[self.start..self.start + self.len])
    }
}

pub struct Memory {
    cells: Arc<Cells>,
    state: Arc<Mutex<State>>,
}

impl Memory {
    fn part(&self, start: usize, len: usize) -> Part {
        Part { cells: Arc::clone(&self.cells), start, len }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        give(&self.state, Work::Free(Arc::clone(&self.cells)));
    }
}

fn give(state: &Mutex<State>, work: Work) {
    let mut state = state.lock().unwrap();
    let streams = state.streams.len();
    let stream = &mut state.streams[current_stream(streams)];
    stream.work.push_back(work);
    stream.given += 1;
}

fn mix(hash: u64, byte: u64) -> u64 {
    (hash ^ byte).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

impl State {
    fn run(&mut self, stream: usize, until: u64) {
        while self.streams[stream].done < until {
            let work = self.streams[stream].work.pop_front().expect("it was given");
            match work {
                Work::Kernel { seed, read, written } => {
                    let hash = read.iter().fold(seed, |hash, part| {
                        part.with(|bytes| bytes.iter().fold(hash, |h, &b| mix(h, b.into())))
                    });
                    for (i, part) in written.iter().enumerate() {
                        part.with(|bytes| {
                            for (j, byte) in bytes.iter_mut().enumerate() {
                                *byte = (mix(mix(hash, i as u64), j as u64) >> 32) as u8;
                            }
                        });
                    }
                }
                Work::Write { to, bytes } => to.with(|to| to.copy_from_slice(&bytes)),
                Work::Copy { from, to } => {
                    let bytes = from.with(|bytes| bytes.to_vec());
                    to.with(|to| to.copy_from_slice(&bytes));
                }
                Work::Free(cells) => *cells.lock().unwrap() = None,
                Work::Wait { stream, until } => self.run(stream, until),
            }
            self.streams[stream].done += 1;
        }
    }
}

impl Lazy {
    pub fn new() -> Lazy {
        Lazy::seeing(1 << 30)
    }

    /// Whose kernels see so many bytes of a buffer.
    pub fn seeing(max_binding: u64) -> Lazy {
        let hardware = Hardware {
            buffers: 16,
            parameters: 4096,
            device: Device::opencl(0),
            name: "lazy".into(),
            driver: "1".into(),
            language: Language::Wgsl,
            f64: false,
            i64: false,
            subgroups: None,
            tensor_cores: false,
            software: true,
            workgroup: 256,
            workgroup_memory: 32 << 10,
            groups: 65_535,
            max_buffer: 1 << 30,
            max_binding,
            window: Some(16),
            memory: None,
            arithmetic: Arithmetic::default(),
        };
        let state = State { streams: vec![Stream::default()], ..State::default() };
        Lazy { hardware, state: Arc::new(Mutex::new(state)) }
    }

    /// How often a stream was made to wait for another one.
    pub fn waits(&self) -> usize {
        self.lock().waits
    }

    /// How many kernels it was given.
    pub fn launches(&self) -> usize {
        self.lock().launches
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Driver for Lazy {
    type Memory = Memory;
    type Kernel = u64;

    fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Fault> {
        let cells = Arc::new(Mutex::new(Some(vec![0; bytes])));
        Ok(Memory { cells, state: Arc::clone(&self.state) })
    }

    unsafe fn compile(&self, kernel: &KernelSource<'_>) -> Result<u64, Fault> {
        Ok(kernel.source.bytes().fold(7, |hash, byte| mix(hash, byte.into())))
    }

    unsafe fn launch(&self, launch: &Launch<'_, Lazy>) -> Result<(), Fault> {
        let seed = launch.parameters.iter().fold(*launch.kernel, |hash, &n| mix(hash, n.into()));
        let parts = |writes| -> Vec<Part> {
            let these = launch.buffers.iter().filter(|window| window.writes == writes);
            these.map(|window| window.memory.part(window.start as usize, window.bytes as usize)).collect()
        };
        self.lock().launches += 1;
        give(&self.state, Work::Kernel { seed, read: parts(false), written: parts(true) });
        Ok(())
    }

    fn write(&self, dst: &Memory, offset: usize, src: &[u8]) -> Result<(), Fault> {
        give(&self.state, Work::Write { to: dst.part(offset, src.len()), bytes: src.to_vec() });
        Ok(())
    }

    fn read(&self, src: &Memory, offset: usize, dst: &mut [u8]) -> Result<(), Fault> {
        let mut state = self.lock();
        let stream = current_stream(state.streams.len());
        let until = state.streams[stream].given;
        state.run(stream, until);
        src.part(offset, dst.len()).with(|bytes| dst.copy_from_slice(bytes));
        Ok(())
    }

    fn copy(&self, src: &Memory, from: usize, dst: &Memory, to: usize, bytes: usize) -> Result<(), Fault> {
        give(&self.state, Work::Copy { from: src.part(from, bytes), to: dst.part(to, bytes) });
        Ok(())
    }

    fn finish(&self) -> Result<(), Fault> {
        let mut state = self.lock();
        for stream in 0..state.streams.len() {
            let until = state.streams[stream].given;
            state.run(stream, until);
        }
        Ok(())
    }

    fn set_streams(&self, wanted: usize) -> Result<usize, Fault> {
        let mut state = self.lock();
        assert!(state.streams.iter().all(|stream| stream.work.is_empty()), "the device is at work");
        state.streams.resize_with(wanted, Stream::default);
        Ok(wanted)
    }

    fn wait(&self, stream: usize, other: usize) -> Result<(), Fault> {
        let mut state = self.lock();
        assert!(stream != other && stream == current_stream(state.streams.len()));
        let until = state.streams[other].given;
        state.streams[stream].work.push_back(Work::Wait { stream: other, until });
        state.streams[stream].given += 1;
        state.waits += 1;
        Ok(())
    }
}
