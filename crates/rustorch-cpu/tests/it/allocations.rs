//! A GEMM takes its buffers from the thread's cache.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use rustorch_core::{Backend, Buffer, DType, Layout, MatMul, Op, Shape, UnaryOp, View, ViewMut};
use rustorch_cpu::CpuBackend;
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;

/// The system's allocator, counted by thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends frees what it had after its counter is gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        count();
        // SAFETY: this function's contract.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, at: *mut u8, block: Block) {
        // SAFETY: this function's contract.
        unsafe { System.dealloc(at, block) }
    }

    unsafe fn realloc(&self, at: *mut u8, block: Block, size: usize) -> *mut u8 {
        count();
        // SAFETY: this function's contract.
        unsafe { System.realloc(at, block, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn array(cpu: &CpuBackend, dtype: DType, dims: &[usize]) -> (Buffer, DType, Layout) {
    let layout = Layout::contiguous(Shape::new(dims).unwrap());
    let bytes = dtype.bytes_for(layout.numel()).unwrap();
    let mut buffer = cpu.alloc(bytes).unwrap();
    // SAFETY: the buffer was made for the layout.
    let mut view = unsafe { ViewMut::new(&mut buffer, dtype, &layout) };
    cpu.copy_in(&vec![0; bytes], &mut view).unwrap();
    (buffer, dtype, layout)
}

/// Allocations of this thread in the first and in the second of two equal matmuls of `[m, k]` and `[k, n]`.
fn allocations(cpu: &CpuBackend, w: DType, [m, n, k]: [usize; 3], activation: Option<UnaryOp>) -> [usize; 2] {
    let dtype = if w.is_float() && w != DType::F64 { DType::F32 } else { w };
    let args = [array(cpu, dtype, &[m, k]), array(cpu, w, &[k, n]), array(cpu, dtype, &[n])];
    let mut out = array(cpu, dtype, &[m, n]);
    let op = Op::MatMul(MatMul { activation, ..MatMul::default() });
    [0, 1].map(|_| {
        // SAFETY: the buffers were made for these layouts, and written.
        let views = args.each_ref().map(|x| unsafe { View::new(&x.0, x.1, &x.2) });
        // SAFETY: as above.
        let mut to = [unsafe { ViewMut::new(&mut out.0, out.1, &out.2) }];
        let before = COUNT.get();
        // SAFETY: `Op::infer` gives such an output for these.
        unsafe { Backend::run(cpu, &op, &views, &mut to) }.unwrap();
        COUNT.get() - before
    })
}

#[test]
fn a_gemm_allocates_its_pack_buffer_once() {
    for threads in [1, 2] {
        let cpu = CpuBackend::new(threads);
        for w in [DType::F32, DType::F64, DType::BF16, DType::I64] {
            // The thread's own scratch, which every later call has that is not small.
            allocations(&cpu, w, [40, 40, 40], None);
            for size in [[8, 8, 8], [1, 300, 70], [65, 130, 600], [700, 40, 90]] {
                let activation = w.is_float().then_some(UnaryOp::Relu);
                let [first, second] = allocations(&cpu, w, size, activation);
                let most = usize::from(size != [8, 8, 8]);
                assert!(
                    first <= most && second == 0,
                    "{w} {size:?}, {threads} threads: {first}, then {second}"
                );
            }
        }
    }
}
