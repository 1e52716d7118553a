//! Several streams give what one does, and wait for each other only where they must.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::lazy::Lazy;
use rustorch_core::{
    Backend, BinaryOp, Buffer, DType, Layout, Op, Shape, Softmax, StreamScope, Streams, View, ViewMut,
    run_checked,
};
use rustorch_kernels::Engine;

const LEN: usize = 24;

fn engine(streams: usize) -> Engine<Lazy> {
    let engine = Engine::new(Lazy::new()).unwrap();
    assert_eq!(engine.streams(), 1);
    assert_eq!(engine.set_streams(streams), streams);
    assert_eq!(engine.streams(), streams);
    engine
}

fn layout() -> Layout {
    Layout::contiguous(Shape::new([4, LEN / 4].as_slice()).unwrap())
}

fn write(engine: &dyn Backend, buffer: &Buffer, value: u8) {
    let layout = layout();
    // SAFETY: the layout is inside, and the test works on one buffer at a time.
    let mut view = unsafe { ViewMut::from_shared(buffer, DType::F32, &layout) };
    engine.copy_in(&[value; 4 * LEN], &mut view).unwrap();
}

fn read(engine: &dyn Backend, buffer: &Buffer) -> Vec<u8> {
    let (layout, mut bytes) = (layout(), vec![0; 4 * LEN]);
    // SAFETY: the layout is inside, and memory of the lazy device always holds numbers.
    let view = unsafe { View::new(buffer, DType::F32, &layout) };
    engine.copy_out(&view, &mut bytes).unwrap();
    bytes
}

fn fresh(engine: &dyn Backend) -> Buffer {
    engine.alloc(4 * LEN).unwrap()
}

/// Runs an operation; the result may go to an argument's place.
fn run(engine: &dyn Backend, op: &Op, args: &[&Buffer], out: &Buffer) {
    let layout = layout();
    // SAFETY: as in `read`.
    let views: Vec<View<'_>> =
        args.iter().map(|buffer| unsafe { View::new(buffer, DType::F32, &layout) }).collect();
    // SAFETY: as in `write`.
    let out = unsafe { ViewMut::from_shared(out, DType::F32, &layout) };
    run_checked(engine, op, &views, &mut [out]).unwrap();
}

const ADD: Op = Op::Binary(BinaryOp::Add);

/// Numbers that are irregular and the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// What a random program reads, run on so many streams.
fn program(seed: u64, streams: usize) -> Vec<Vec<u8>> {
    let engine = engine(streams);
    let mut dice = Dice(seed);
    let mut buffers: Vec<Buffer> = (0..5).map(|_| fresh(&engine)).collect();
    for (i, buffer) in buffers.iter().enumerate() {
        write(&engine, buffer, i as u8);
    }
    let mut seen = Vec::new();
    for step in 0..120 {
        let _scope = StreamScope::enter(dice.roll(4));
        let [x, y, z] = [(); 3].map(|()| dice.roll(buffers.len()));
        match dice.roll(12) {
            0 => write(&engine, &buffers[x], step),
            1 | 2 => seen.push(read(&engine, &buffers[x])),
            3 => {
                // The old one goes while others may still use it.
                let new = fresh(&engine);
                run(&engine, &ADD, &[&buffers[x], &buffers[y]], &new);
                buffers[x] = new;
            }
            // Temporary memory, where the result lies in an argument's place.
            4 => run(&engine, &Op::Softmax(Softmax { axis: 1, log: false }), &[&buffers[x]], &buffers[x]),
            5 if dice.roll(8) == 0 => engine.synchronize().unwrap(),
            6 if dice.roll(8) == 0 => {
                engine.set_streams(1 + dice.roll(streams));
            }
            7 if dice.roll(8) == 0 => {
                engine.set_streams(streams);
            }
            _ => run(&engine, &ADD, &[&buffers[x], &buffers[y]], &buffers[z]),
        }
    }
    seen.extend(buffers.iter().map(|buffer| read(&engine, buffer)));
    drop(buffers);
    engine.synchronize().unwrap();
    seen
}

#[test]
fn streams_give_what_one_does() {
    for seed in 0..300 {
        let expected = program(seed, 1);
        for streams in [2, 4] {
            assert_eq!(program(seed, streams), expected, "program {seed} on {streams} streams");
        }
    }
}

#[test]
fn one_stream_waits_for_nothing() {
    let engine = engine(1);
    let (x, y) = (fresh(&engine), fresh(&engine));
    write(&engine, &x, 1);
    for stream in 0..8 {
        let _scope = StreamScope::enter(stream);
        run(&engine, &ADD, &[&x, &x], &y);
        run(&engine, &ADD, &[&y, &y], &x);
    }
    read(&engine, &x);
    assert_eq!(engine.driver().waits(), 0);
}

#[test]
fn streams_wait_only_for_what_they_use() {
    let engine = engine(4);
    let weight = fresh(&engine);
    write(&engine, &weight, 1);
    let own: Vec<(Buffer, Buffer)> = (0..4)
        .map(|stream| {
            let _scope = StreamScope::enter(stream);
            let pair = (fresh(&engine), fresh(&engine));
            write(&engine, &pair.0, stream as u8);
            pair
        })
        .collect();
    let round = || {
        for (stream, (x, y)) in own.iter().enumerate() {
            let _scope = StreamScope::enter(stream);
            run(&engine, &ADD, &[x, &weight], y);
            run(&engine, &ADD, &[y, &weight], x);
        }
    };
    // The weight was written on this thread's stream, for which three others wait once.
    round();
    assert_eq!(engine.driver().waits(), 3);
    (0..5).for_each(|_| round());
    assert_eq!(engine.driver().waits(), 3, "all read it, and nobody waits again");
    // Who writes waits for all readers.
    {
        let _scope = StreamScope::enter(1);
        write(&engine, &weight, 2);
        assert_eq!(engine.driver().waits(), 6);
        run(&engine, &ADD, &[&weight, &weight], &own[1].0);
        assert_eq!(engine.driver().waits(), 6, "its own work is in order");
    }
    // After the host has waited, nobody needs to.
    engine.synchronize().unwrap();
    round();
    assert_eq!(engine.driver().waits(), 6);
    // Through another stream: 2 has waited for 1, so 3, which waits for 2, has too.
    let between = fresh(&engine);
    for (stream, from, to) in [(1, &weight, &own[1].0), (2, &own[1].0, &between), (3, &between, &own[3].0)] {
        let _scope = StreamScope::enter(stream);
        run(&engine, &ADD, &[from, from], to);
    }
    let waits = engine.driver().waits();
    let _scope = StreamScope::enter(3);
    run(&engine, &ADD, &[&own[1].0, &between], &own[3].0);
    assert_eq!(engine.driver().waits(), waits);
}

#[test]
fn there_are_as_many_streams_as_there_can_be() {
    let engine = engine(3);
    assert_eq!(engine.set_streams(1000), 16);
    assert_eq!(engine.set_streams(0), 1);
    assert_eq!(engine.streams(), 1);
}
