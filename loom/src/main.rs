//! Models of the CPU's thread pool, of the guards of storages and of blocks that threads keep for reuse, the very modules of the
//! crates, of which loom tries every order in which threads may meet (with at most two preemptions). `cargo run -- planted` runs them with all orderings relaxed and succeeds
//! if each of them finds that.

#[path = "../../crates/rustorch-runtime/src/storage/guard.rs"]
mod guard;
#[path = "../../crates/rustorch-runtime/src/storage/last_handle.rs"]
mod last_handle;
mod sync;
#[path = "../../crates/rustorch-cpu/src/thread_pool.rs"]
#[allow(dead_code, unreachable_pub, reason = "the models use a part")]
mod thread_pool;

use guard::Guard;
use last_handle::is_last;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thread_pool::ThreadPool;

/// A cell that several threads use as the module under test allows.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: loom reports every use that is not ordered after the others.
unsafe impl<T: Send> Sync for Shared<T> {}

/// Two jobs, each of two chunks that may run on either thread: what the job before has written is there, and every chunk runs.
fn pool_runs_every_chunk() {
    let pool = ThreadPool::new(2);
    let cells = [Shared(UnsafeCell::new(0)), Shared(UnsafeCell::new(0))];
    for round in 1..=2 {
        pool.run(2, |i| {
            // SAFETY: one chunk writes one cell.
            cells[i].0.with_mut(|x| unsafe { *x += 1 });
        });
        for cell in &cells {
            // SAFETY: the job is done.
            assert_eq!(cell.0.with(|x| unsafe { *x }), round);
        }
    }
}

/// Readers and writers of one storage.
fn guards_keep_writers_apart() {
    let shared = Arc::new((Guard::new(), Shared(UnsafeCell::new(0))));
    let writer = {
        let shared = Arc::clone(&shared);
        loom::thread::spawn(move || write(&shared))
    };
    shared.0.read();
    // SAFETY: no writer is in.
    assert!(shared.1.0.with(|x| unsafe { *x }) <= 1);
    shared.0.end_read();
    write(&shared);
    writer.join().expect("no panic");
    assert!(shared.0.try_read());
    // SAFETY: everybody has ended.
    assert!(shared.1.0.with(|x| unsafe { *x }) <= 2);
}

fn write((guard, value): &(Guard, Shared<i32>)) {
    guard.claim();
    if guard.try_write() {
        // SAFETY: nobody else is in.
        value.0.with_mut(|x| unsafe { *x += 1 });
        guard.end_write();
    }
    guard.end_claim();
}

/// Two threads with a handle each to one block. The last to drop its handle keeps the block in its cache, and its next user writes
/// to it as if it were fresh.
fn blocks_are_used_again_by_one_thread() {
    let block = sync::Arc::new(Shared(UnsafeCell::new(0)));
    let other = {
        let block = sync::Arc::clone(&block);
        loom::thread::spawn(move || use_and_drop(block))
    };
    use_and_drop(block);
    other.join().expect("no panic");
}

fn use_and_drop(block: sync::Arc<Shared<i32>>) {
    // SAFETY: nobody writes while there are two handles.
    assert_eq!(block.0.with(|x| unsafe { *x }), 0);
    if is_last(&block) {
        // SAFETY: there is no other handle.
        block.0.with_mut(|x| unsafe { *x = 1 });
    }
}

fn main() {
    let planted = std::env::args().nth(1).is_some_and(|word| word == "planted");
    sync::PLANTED.set(planted).expect("set once");
    let models: [(&str, fn()); 3] = [
        ("the thread pool", pool_runs_every_chunk),
        ("storage guards", guards_keep_writers_apart),
        ("blocks of thread caches", blocks_are_used_again_by_one_thread),
    ];
    let mut failed = false;
    for (name, model) in models {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 10_000;
        let found = catch_unwind(AssertUnwindSafe(|| builder.check(model))).is_err();
        println!("{name}: {}", if found { "a fault was found" } else { "no order fails" });
        failed |= found != planted;
    }
    std::process::exit(i32::from(failed));
}
