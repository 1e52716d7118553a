//! What launches make of an argument serves the next operation with that argument, and never one with another.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::lazy;
use crate::common::lazy::Lazy;
use rustorch_core::{
    Backend, BinaryOp, Buffer, DType, Fault, Layout, MatMul, Op, QuantType, RopeParams, RopeStyle, Shape,
    StreamScope, Streams, View, ViewMut, run_checked,
};
use rustorch_kernels::driver::DriverLayer;
use rustorch_kernels::{Driver, Engine};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of activations, and their length.
const ROWS: usize = 2;
const LEN: usize = 64;

fn engine(streams: usize) -> Engine<Lazy> {
    let engine = Engine::new(Lazy::new()).unwrap();
    assert_eq!(engine.set_streams(streams), streams);
    engine
}

fn shape(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// A buffer, and what lies in it.
struct Array(Buffer, DType, Layout);

impl Array {
    fn new(engine: &dyn Backend, dtype: DType, dims: &[usize]) -> Array {
        let layout = shape(dims);
        Array(engine.alloc(dtype.bytes_for(layout.numel()).unwrap()).unwrap(), dtype, layout)
    }

    fn activations(engine: &dyn Backend) -> Array {
        Array::new(engine, DType::F32, &[ROWS, LEN])
    }

    /// A weight `[LEN, LEN]`, as matmuls take it.
    fn weight(engine: &dyn Backend, value: u8) -> Array {
        let weight = Array::new(engine, DType::Quant(QuantType::Q8_0), &[LEN, LEN]);
        weight.write(engine, value);
        Array(weight.0, weight.1, weight.2.transpose(0, 1).unwrap())
    }

    fn positions(engine: &dyn Backend) -> Array {
        let positions = Array::new(engine, DType::I32, &[ROWS]);
        positions.write(engine, 1);
        positions
    }

    fn view(&self) -> View<'_> {
        // SAFETY: the layout is inside, memory of the lazy device always holds numbers, and nobody writes it meanwhile.
        unsafe { View::new(&self.0, self.1, &self.2) }
    }

    fn view_mut(&self) -> ViewMut<'_> {
        // SAFETY: the layout is inside, and nobody else uses it meanwhile.
        unsafe { ViewMut::from_shared(&self.0, self.1, &self.2) }
    }

    fn write(&self, engine: &dyn Backend, value: u8) {
        self.write_bytes(engine, &vec![value; self.0.bytes()]);
    }

    fn write_bytes(&self, engine: &dyn Backend, bytes: &[u8]) {
        let layout = shape(&[bytes.len()]);
        // SAFETY: as in `view_mut`.
        let mut view = unsafe { ViewMut::from_shared(&self.0, DType::U8, &layout) };
        engine.copy_in(bytes, &mut view).unwrap();
    }

    fn read(&self, engine: &dyn Backend) -> Vec<u8> {
        let (layout, mut bytes) = (shape(&[self.0.bytes()]), vec![0; self.0.bytes()]);
        // SAFETY: as in `view`.
        let view = unsafe { View::new(&self.0, DType::U8, &layout) };
        engine.copy_out(&view, &mut bytes).unwrap();
        bytes
    }

    /// The same numbers in memory that was never used.
    fn anew(&self, engine: &dyn Backend) -> Array {
        let copy = Array(engine.alloc(self.0.bytes()).unwrap(), self.1, self.2.clone());
        copy.write_bytes(engine, &self.read(engine));
        copy
    }
}

fn run(engine: &dyn Backend, op: &Op, args: &[&Array], out: &Array) {
    let views: Vec<View<'_>> = args.iter().map(|x| x.view()).collect();
    run_checked(engine, op, &views, &mut [out.view_mut()]).unwrap();
}

fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

fn rope() -> Op {
    let rope = RopeParams { style: RopeStyle::Halves, rotated: LEN, base: 1e4, scale: 1.0, yarn: None };
    Op::Rope(rope)
}

/// How many launches that takes.
fn launches(engine: &Engine<Lazy>, f: impl FnOnce()) -> usize {
    let before = engine.driver().launches();
    f();
    engine.driver().launches() - before
}

#[test]
fn matmuls_of_one_argument_round_it_once() {
    let engine = engine(1);
    let (x, out) = (Array::activations(&engine), Array::activations(&engine));
    x.write(&engine, 1);
    let weights = [1, 2, 3].map(|value| Array::weight(&engine, value));
    let count = |x: &Array, out: &Array| {
        launches(&engine, || weights.iter().for_each(|w| run(&engine, &matmul(), &[x, w], out)))
    };
    assert_eq!(count(&x, &out), 4);
    assert_eq!(count(&x, &out), 3, "it is quantized already");
    x.write(&engine, 1);
    assert_eq!(count(&x, &out), 4, "it was written, if only what was there");
    let other = x.anew(&engine);
    assert_eq!(count(&other, &out), 4);
    drop(other);
    let reborn = x.anew(&engine);
    assert_eq!(count(&reborn, &out), 4, "other memory, though it may be in the same place");
    let row = Array(x.anew(&engine).0, DType::F32, shape(&[1, LEN]));
    let short = Array(Array::activations(&engine).0, DType::F32, shape(&[1, LEN]));
    assert_eq!(count(&row, &short), 4);
    assert_eq!(count(&row, &short), 3);
    let next = Array(row.0, DType::F32, shape(&[1, LEN]).at_offset(LEN).unwrap());
    let run_next = |w| run(&engine, &matmul(), &[&next, w], &short);
    assert_eq!(launches(&engine, || weights.iter().for_each(run_next)), 4, "another row of the same memory");
}

#[test]
fn angles_of_positions_are_computed_once() {
    let engine = engine(1);
    let (x, out, positions) =
        (Array::activations(&engine), Array::activations(&engine), Array::positions(&engine));
    x.write(&engine, 1);
    let turn = || launches(&engine, || run(&engine, &rope(), &[&x, &positions], &out));
    assert_eq!([turn(), turn(), turn()], [2, 1, 1]);
    x.write(&engine, 2);
    assert_eq!(turn(), 1, "they are of the positions alone");
    positions.write(&engine, 2);
    assert_eq!([turn(), turn()], [2, 1]);
}

/// The angles of parts are made in one memory, one part after the other: what is there at last is the last part's alone.
#[test]
fn angles_of_parts_are_not_taken_for_each_others() {
    const MANY: usize = 16;
    let engine = Engine::new(Lazy::seeing(1 << 10)).unwrap();
    let [x, out] = [(); 2].map(|()| Array::new(&engine, DType::F32, &[MANY, LEN]));
    let positions = Array::new(&engine, DType::I32, &[MANY]);
    x.write(&engine, 1);
    positions.write_bytes(&engine, &(0..4 * MANY as u8).collect::<Vec<_>>());
    let turn = || {
        out.write(&engine, 0);
        let count = launches(&engine, || run(&engine, &rope(), &[&x, &positions], &out));
        (count, out.read(&engine))
    };
    let (count, expected) = turn();
    assert!(count > 4, "it is cut: {count} launches");
    assert!(turn() == (count, expected.clone()), "a part has found another's angles");
    // Those of the last rows alone are fewer than what the parts need, and of no other part.
    let (last, few) =
        (shape(&[2, LEN]).at_offset((MANY - 2) * LEN).unwrap(), shape(&[2]).at_offset(MANY - 2).unwrap());
    let short = Array::new(&engine, DType::F32, &[2, LEN]);
    // SAFETY: as in `Array::view`.
    let views = unsafe { [View::new(&x.0, x.1, &last), View::new(&positions.0, positions.1, &few)] };
    run_checked(&engine, &rope(), &views, &mut [short.view_mut()]).unwrap();
    assert!(turn() == (count, expected));
}

/// Parts that have the same positions find the same angles.
#[test]
fn angles_of_parts_with_the_same_positions_are_kept() {
    let engine = Engine::new(Lazy::seeing(1 << 10)).unwrap();
    let [x, out] = [(); 2].map(|()| Array::new(&engine, DType::F32, &[6, ROWS, LEN]));
    let positions = Array::positions(&engine);
    x.write(&engine, 1);
    let turn = || launches(&engine, || run(&engine, &rope(), &[&x, &positions], &out));
    let first = turn();
    let expected = out.read(&engine);
    assert_eq!(turn(), first / 2, "only the rotations are left");
    assert!(out.read(&engine) == expected);
}

/// What one stream has rounded, another rounds again: it would have to wait.
#[test]
fn streams_have_their_own() {
    let engine = engine(2);
    let (x, weight) = (Array::activations(&engine), Array::weight(&engine, 1));
    x.write(&engine, 1);
    let out = Array::activations(&engine);
    for (stream, expected) in [(0, 2), (1, 2), (0, 1), (1, 1)] {
        let _scope = StreamScope::enter(stream);
        let count = launches(&engine, || run(&engine, &matmul(), &[&x, &weight], &out));
        assert_eq!(count, expected, "on stream {stream}");
    }
}

/// Numbers that are irregular and the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// What a random program of matmuls, rotations and writes leaves, on so many streams. `anew` has each operation find its
/// arguments in new memory, for which nothing was ever kept.
fn program(seed: u64, streams: usize, anew: bool) -> (Vec<Vec<u8>>, usize) {
    let engine = engine(streams);
    let mut dice = Dice(seed);
    let weights = [5, 6].map(|value| Array::weight(&engine, value));
    let positions = Array::positions(&engine);
    let mut arrays: Vec<Array> = (0..4).map(|_| Array::activations(&engine)).collect();
    for (i, x) in arrays.iter().enumerate() {
        x.write(&engine, i as u8);
    }
    let before = engine.driver().launches();
    let mut seen = Vec::new();
    for step in 0..100u8 {
        let _scope = StreamScope::enter(dice.roll(3));
        let [x, y, w] = [arrays.len(), arrays.len(), 2].map(|sides| dice.roll(sides));
        let z = (y + 1 + dice.roll(arrays.len() - 1)) % arrays.len();
        let apply = |op: &Op, args: &[&Array], out: &Array| match anew {
            true => {
                let copies: Vec<Array> = args.iter().map(|x| x.anew(&engine)).collect();
                run(&engine, op, &copies.iter().collect::<Vec<_>>(), out);
            }
            false => run(&engine, op, args, out),
        };
        match dice.roll(9) {
            0 => arrays[x].write(&engine, step),
            1 => positions.write(&engine, step),
            // In place, by way of other memory than to new arguments.
            2 => run(&engine, &Op::Binary(BinaryOp::Add), &[&arrays[y], &arrays[z]], &arrays[y]),
            // The old one goes, and its memory may come back.
            3 => {
                let fresh = Array::activations(&engine);
                apply(&matmul(), &[&arrays[x], &weights[w]], &fresh);
                arrays[x] = fresh;
            }
            4 => seen.push(arrays[x].read(&engine)),
            5 => apply(&rope(), &[&arrays[y], &positions], &arrays[z]),
            _ => apply(&matmul(), &[&arrays[y], &weights[w]], &arrays[z]),
        }
    }
    let count = engine.driver().launches() - before;
    seen.extend(arrays.iter().map(|x| x.read(&engine)));
    (seen, count)
}

#[test]
fn nothing_stale_is_ever_used() {
    let (mut fewer, mut all) = (0, 0);
    for seed in 0..200 {
        let (expected, most) = program(seed, 1, true);
        for streams in [1, 2, 3] {
            let (seen, count) = program(seed, streams, false);
            assert!(seen == expected, "program {seed} on {streams} streams");
            if streams == 1 {
                fewer += count;
                all += most;
            }
        }
    }
    assert!(fewer < all, "nothing was kept: {fewer} launches of {all}");
}

/// Threads of one stream take what is kept from each other, and none of them sees another's.
#[test]
fn threads_do_not_disturb_each_other() {
    let engine = engine(1);
    let weights = [5, 6].map(|value| Array::weight(&engine, value));
    let work = |thread: u8| -> Vec<Vec<u8>> {
        let (x, out) = (Array::activations(&engine), Array::activations(&engine));
        let round = |i: u8| {
            x.write(&engine, thread.wrapping_mul(16).wrapping_add(i));
            weights.each_ref().map(|w| {
                run(&engine, &matmul(), &[&x, w], &out);
                out.read(&engine)
            })
        };
        (0..16).flat_map(round).collect()
    };
    let expected: Vec<Vec<Vec<u8>>> = (0..4).map(work).collect();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
            for (thread, expected) in threads.into_iter().zip(&expected) {
                assert!(thread.join().unwrap() == *expected);
            }
        });
    }
}

/// A driver that has no room for once, on demand.
struct Full {
    driver: Lazy,
    refuses: AtomicBool,
}

impl DriverLayer for Full {
    type Inner = Lazy;

    fn inner(&self) -> &Lazy {
        &self.driver
    }

    fn allocate(&self, bytes: usize) -> Result<lazy::Memory, Fault> {
        match self.refuses.swap(false, Ordering::Relaxed) {
            true => Err(Fault::OutOfMemory { device: self.driver.hardware().device, requested: bytes }),
            false => self.driver.allocate(bytes),
        }
    }
}

#[test]
fn what_is_kept_gives_way_to_new_memory() {
    let driver = Full { driver: Lazy::new(), refuses: AtomicBool::new(false) };
    let engine = Engine::new(driver).unwrap();
    let (x, out) = (Array::activations(&engine), Array::activations(&engine));
    x.write(&engine, 1);
    let weight = Array::weight(&engine, 1);
    let refuse = || engine.driver().refuses.store(true, Ordering::Relaxed);
    let launches_of_matmul = || {
        let before = engine.driver().driver.launches();
        run(&engine, &matmul(), &[&x, &weight], &out);
        engine.driver().driver.launches() - before
    };
    refuse();
    assert!(matches!(engine.alloc(64), Err(Fault::OutOfMemory { .. })), "there was nothing to give way");
    assert_eq!([launches_of_matmul(), launches_of_matmul()], [2, 1]);
    refuse();
    engine.alloc(64).unwrap();
    assert_eq!([launches_of_matmul(), launches_of_matmul()], [2, 1], "what was kept is still there");
}
