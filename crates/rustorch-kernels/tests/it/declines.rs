//! What no kernel does is declined with the reason.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use crate::common::lazy::Lazy;
use rustorch_core::{
    Attention, AttentionBackward, Backend, DType, Device, Dropout, Layout, Op, PhiloxKey, Shape, TensorMeta,
};
use rustorch_kernels::Engine;

/// What an engine says of an operation on `f32` tensors of these shapes.
fn decline(op: &Op, shapes: &[&[usize]]) -> Option<String> {
    let engine = Engine::new(Lazy::new()).unwrap();
    let layouts: Vec<Layout> =
        shapes.iter().map(|&dims| Layout::contiguous(Shape::new(dims).unwrap())).collect();
    let metas: Vec<TensorMeta<'_>> =
        layouts.iter().map(|layout| TensorMeta { dtype: DType::F32, layout, device: Device::CPU }).collect();
    engine.supports(op, &metas).err().map(|decline| decline.to_string())
}

#[test]
fn dropout_inside_attention() {
    let key = PhiloxKey { seed: 1, offset: 0 };
    let (q, out, lse): (&[usize], &[usize], &[usize]) = (&[2, 3, 8], &[2, 3, 8], &[2, 3]);
    for (dropout, says) in
        [(None, None), (Some(Dropout { p: 0.5, key }), Some("parameter: dropout inside attention"))]
    {
        let attention = Attention { lse: true, dropout, ..Attention::new(0.3) };
        let backward = AttentionBackward { attention: attention.clone(), q: true, k: true, v: true };
        assert_eq!(decline(&Op::Attention(attention), &[q, q, q]).as_deref(), says);
        let args = [out, q, q, q, out, lse];
        assert_eq!(decline(&Op::AttentionBackward(backward), &args).as_deref(), says);
    }
}
