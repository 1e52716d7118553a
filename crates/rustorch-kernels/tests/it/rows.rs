//! Results that kernels can write where they belong take one launch.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::lazy::Lazy;
use rustorch_core::{Backend, Cast, DType, Layout, Op, Shape, View, ViewMut, run_checked};
use rustorch_kernels::Engine;

/// Launches of a cast from `f32` into part of a cache of `f16`.
fn launches(place: &Layout) -> usize {
    let engine = Engine::new(Lazy::new()).unwrap();
    let layout = Layout::contiguous(place.shape().clone());
    let x = engine.alloc(4 * layout.numel()).unwrap();
    let cache = engine.alloc(2 * place.end() + 2).unwrap();
    let before = engine.driver().launches();
    // SAFETY: memory of the lazy device always holds numbers, the layouts are inside, and nobody else uses them.
    unsafe {
        let out = ViewMut::from_shared(&cache, DType::F16, place);
        let x = View::new(&x, DType::F32, &layout);
        run_checked(&engine, &Op::Cast(Cast { to: DType::F16 }), &[x], &mut [out]).unwrap();
    }
    engine.driver().launches() - before
}

#[test]
fn rows_of_whole_words_take_one_launch() {
    let cache = |len: usize| Layout::contiguous(Shape::new([2, 7, len].as_slice()).unwrap());
    let new = |cache: Layout| cache.slice(1, 3, 2, 1).unwrap();
    assert_eq!(launches(&new(cache(4))), 1);
    assert_eq!(launches(&new(cache(4)).transpose(0, 1).unwrap()), 1);
    // A row that begins or ends within a word is made elsewhere and copied.
    assert_eq!(launches(&new(cache(3))), 2);
    assert_eq!(launches(&new(cache(4)).at_offset(1).unwrap()), 2);
}
