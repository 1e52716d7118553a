//! A layout that exists has an addressable end: properties over extreme offsets, strides and sizes, against arithmetic in
//! which nothing overflows.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use proptest::prelude::*;
use rustorch_core::{DType, Dims, Layout, QuantType, Shape, ViewOp, bytes_reached};

const LARGEST: u128 = usize::MAX as u128;

/// Numbers that are small, or near what overflows alone, doubled or squared.
fn extreme() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0usize..5,
        2 => (0usize..4).prop_map(|d| usize::MAX - d),
        1 => (0usize..4).prop_map(|d| isize::MAX as usize - 1 + d),
        1 => (0usize..4).prop_map(|d| (1 << (usize::BITS / 2)) - 2 + d),
        1 => (0..usize::BITS).prop_map(|bit| 1 << bit),
        1 => any::<usize>(),
    ]
}

/// Lengths and strides, and an offset: a layout, where one can be.
fn parts() -> impl Strategy<Value = (Vec<(usize, usize)>, usize)> {
    (prop::collection::vec((extreme(), extreme()), 0..5), extreme())
}

/// A view of a layout; numbers that fit no layout make one that is refused.
#[derive(Clone, Debug)]
enum View {
    Transpose(usize, usize),
    Op(ViewOp),
    /// To this length in place of the first dimension's, with another dimension in front.
    Broadcast(usize, usize),
    /// To rows of this length; an empty layout to any other empty shape.
    Reshape(usize),
    Collapsed,
    AtOffset(usize),
}

fn view() -> impl Strategy<Value = View> {
    let axis = || 0usize..5;
    prop_oneof![
        (axis(), axis()).prop_map(|(a, b)| View::Transpose(a, b)),
        (axis(), extreme(), extreme(), extreme())
            .prop_map(|(axis, start, len, step)| View::Op(ViewOp::Slice { axis, start, len, step })),
        (axis(), extreme()).prop_map(|(axis, index)| View::Op(ViewOp::Select { axis, index })),
        (axis(), axis(), extreme())
            .prop_map(|(a, b, offset)| View::Op(ViewOp::Diagonal { offset: offset as isize, axes: [a, b] })),
        (axis(), extreme(), extreme()).prop_map(|(axis, size, step)| View::Op(ViewOp::Unfold {
            axis,
            size,
            step
        })),
        axis().prop_map(|axis| View::Op(ViewOp::Unsqueeze { axis })),
        axis().prop_map(|axis| View::Op(ViewOp::Squeeze { axis })),
        (extreme(), extreme()).prop_map(|(first, front)| View::Broadcast(first, front)),
        extreme().prop_map(View::Reshape),
        Just(View::Collapsed),
        extreme().prop_map(View::AtOffset),
    ]
}

impl View {
    fn of(&self, layout: &Layout) -> Option<Layout> {
        match *self {
            View::Transpose(a, b) => layout.transpose(a, b).ok(),
            View::Op(ref op) => op.apply(DType::U8, layout).ok().map(|(_, layout)| layout),
            View::Broadcast(first, front) => {
                let mut dims: Dims = layout.dims().into();
                if let Some(dim) = dims.first_mut() {
                    *dim = first;
                }
                dims.insert(0, front);
                layout.broadcast_to(&Shape::new(dims).ok()?, "expand").ok()
            }
            View::Reshape(row) => {
                let rows = layout.numel().checked_div(row)?;
                layout.reshape(&Shape::new([rows, row].as_slice()).ok()?).ok()?
            }
            View::Collapsed => Some(layout.collapsed()),
            View::AtOffset(offset) => layout.clone().at_offset(offset).ok(),
        }
    }
}

/// The product of the lengths but zeros.
fn product(dims: &[usize]) -> u128 {
    dims.iter().filter(|&&dim| dim != 0).fold(1, |n, &dim| n.saturating_mul(dim as u128))
}

/// One past the farthest element, a length of 0 taken for 1.
fn end(dims: &[usize], strides: &[usize], offset: usize) -> u128 {
    dims.iter().zip(strides).fold(offset as u128 + 1, |end, (&dim, &stride)| {
        end.saturating_add(dim.saturating_sub(1) as u128 * stride as u128)
    })
}

fn check(layout: &Layout) {
    let (dims, strides, offset) = (layout.dims(), layout.strides(), layout.offset());
    let empty = dims.contains(&0);
    assert!(product(dims) <= LARGEST, "{layout:?}");
    assert_eq!(layout.numel() as u128, if empty { 0 } else { product(dims) });
    let far = end(dims, strides, offset);
    assert!(far <= LARGEST, "{layout:?}");
    let far = if empty { offset as u128 } else { far };
    assert_eq!(layout.end() as u128, far, "{layout:?}");

    let packed = (0..dims.len()).all(|i| dims[i] == 1 || strides[i] as u128 == product(&dims[i + 1..]));
    assert_eq!(layout.is_contiguous(), empty || packed, "{layout:?}");
    for dtype in [DType::U8, DType::F32, DType::C128, DType::Quant(QuantType::Q4_0)] {
        let (len, size) = (dtype.block_len() as u128, dtype.block_bytes() as u128);
        let bytes = far.is_multiple_of(len).then(|| far / len * size).filter(|&bytes| bytes <= LARGEST);
        let bytes = if empty { Some(0) } else { bytes };
        assert_eq!(bytes_reached(dtype, layout).map(|n| n as u128), bytes, "{dtype} {layout:?}");
    }
    // Neither panics where numbers are extreme.
    layout.overlaps_itself();
    for index in layout.indices().take(40) {
        assert!((offset..layout.end()).contains(&index), "{index} of {layout:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layouts_exist_where_their_end_is_addressable((axes, offset) in parts()) {
        let (dims, strides): (Dims, Dims) = axes.into_iter().unzip();
        let shape = Shape::new(dims.clone());
        prop_assert_eq!(shape.is_ok(), product(&dims) <= LARGEST);
        let Ok(shape) = shape else { return Ok(()) };
        check(&Layout::contiguous(shape.clone()));
        let addressable = end(&dims, &strides, offset) <= LARGEST;
        let layout = Layout::new(shape.clone(), strides.clone(), offset);
        prop_assert_eq!(layout.is_ok(), addressable);
        if let Ok(at_start) = Layout::new(shape, strides, 0) {
            prop_assert_eq!(at_start.at_offset(offset).ok(), layout.as_ref().ok().cloned());
        }
        if let Ok(layout) = layout {
            check(&layout);
        }
    }

    #[test]
    fn views_stay_inside_what_they_view((axes, offset) in parts(), views in prop::collection::vec(view(), 1..12)) {
        let (dims, strides): (Dims, Dims) = axes.into_iter().unzip();
        let layout = Shape::new(dims).and_then(|shape| Layout::new(shape, strides, offset));
        let Ok(mut layout) = layout else { return Ok(()) };
        for view in views {
            let Some(seen) = view.of(&layout) else { continue };
            check(&seen);
            if !matches!(view, View::AtOffset(_)) && seen.numel() != 0 {
                prop_assert!(seen.offset() >= layout.offset() && seen.end() <= layout.end(), "{:?} of {:?}", view, layout);
            }
            layout = seen;
        }
    }
}

#[test]
fn windows_are_counted_in_a_dimension_as_long_as_numbers_go() {
    let layout = Layout::contiguous(Shape::new([0, usize::MAX].as_slice()).unwrap());
    let unfold = |size, step| ViewOp::Unfold { axis: 1, size, step }.apply(DType::F32, &layout);
    assert_eq!(unfold(1, 2).unwrap().1.dims(), [0, usize::MAX / 2 + 1, 1]);
    // One window more than there are numbers.
    let error = unfold(0, 1).unwrap_err().to_string();
    assert!(error.contains("no windows of 0"), "{error}");
}

#[test]
fn an_end_beyond_all_addresses_is_an_error() {
    let one = || Shape::new([1].as_slice()).unwrap();
    Layout::new(one(), [1].as_slice(), usize::MAX).unwrap_err();
    Layout::contiguous(one()).at_offset(usize::MAX).unwrap_err();
    assert_eq!(Layout::contiguous(one()).at_offset(usize::MAX - 1).unwrap().end(), usize::MAX);
    let two = Shape::new([2].as_slice()).unwrap();
    let error = Layout::new(two, [usize::MAX].as_slice(), 3).unwrap_err().to_string();
    assert!(error.contains("[2] with strides [18446744073709551615] at offset 3"), "{error}");
}

#[test]
fn runs_merge_only_where_their_strides_meet_without_wrapping() {
    // 2 · 2⁶³ wraps to the stride of 0 before it.
    let half = 1 << (usize::BITS - 1);
    let layout = Layout::new(Shape::new([2, 2].as_slice()).unwrap(), [0, half].as_slice(), 0).unwrap();
    assert_eq!(layout.reshape(&Shape::new([4].as_slice()).unwrap()).unwrap(), None);
    assert_eq!(layout.collapsed(), layout);
}
