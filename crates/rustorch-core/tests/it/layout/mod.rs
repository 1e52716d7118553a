//! Layouts: the elements that views reach, in which order.

mod extremes;

use rustorch_core::{Layout, Shape};

fn contiguous(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

fn indices(layout: &Layout) -> Vec<usize> {
    layout.indices().collect()
}

#[test]
fn views_reach_the_right_elements() {
    let l = contiguous(&[2, 3]);
    assert_eq!(indices(&l), [0, 1, 2, 3, 4, 5]);
    assert_eq!(indices(&l.transpose(0, 1).unwrap()), [0, 3, 1, 4, 2, 5]);
    assert_eq!(indices(&l.slice(1, 1, 2, 1).unwrap()), [1, 2, 4, 5]);
    assert_eq!(indices(&l.slice(1, 0, 2, 2).unwrap()), [0, 2, 3, 5]);
    assert_eq!(indices(&l.select(0, 1).unwrap()), [3, 4, 5]);
    let wide = contiguous(&[3]).broadcast_to(&Shape::new([2, 3].as_slice()).unwrap(), "expand").unwrap();
    assert_eq!(indices(&wide), [0, 1, 2, 0, 1, 2]);
    assert!(wide.overlaps_itself());
    assert!(!l.transpose(0, 1).unwrap().overlaps_itself());
    assert_eq!(indices(&contiguous(&[])), [0]);
    assert_eq!(indices(&contiguous(&[2, 0])), [0usize; 0]);
}

#[test]
fn reshape_keeps_order_or_asks_for_a_copy() {
    let l = contiguous(&[2, 3, 4]);
    let cases: &[(Layout, &[usize], bool)] = &[
        (l.clone(), &[6, 4], true),
        (l.transpose(0, 1).unwrap(), &[6, 4], false),
        (l.transpose(0, 1).unwrap(), &[3, 2, 2, 2], true),
        (l.slice(2, 0, 2, 1).unwrap(), &[6, 2], true),
        (l.slice(2, 0, 2, 1).unwrap(), &[12], false),
        (l.slice(1, 0, 2, 1).unwrap(), &[2, 8, 1], true),
        (l.slice(2, 0, 1, 1).unwrap(), &[6], true),
    ];
    for (from, to, view) in cases {
        let to = Shape::new(*to).unwrap();
        let got = from.reshape(&to).unwrap();
        assert_eq!(got.is_some(), *view, "{from:?} to {to}");
        if let Some(got) = got {
            assert_eq!(indices(&got), indices(from), "{from:?} to {to}");
        }
    }
    assert!(l.reshape(&Shape::new([5].as_slice()).unwrap()).is_err());
}

#[test]
fn empty_layouts_are_contiguous_whatever_their_strides() {
    let l = contiguous(&[2, 0, 5]).slice(2, 0, 2, 2).unwrap();
    assert!(l.is_contiguous());
    let to = Shape::new([0, 7].as_slice()).unwrap();
    assert_eq!(l.reshape(&to).unwrap().unwrap().dims(), [0, 7]);
}

#[test]
fn slices_outside_are_refused() {
    let l = contiguous(&[4]);
    assert!(l.slice(0, 2, 3, 1).is_err());
    assert!(l.slice(0, 0, 2, 4).is_err());
    assert!(l.slice(0, 0, 1, 0).is_err());
    assert!(l.slice(0, 4, 0, 1).is_ok());
    assert!(l.slice(0, 5, 0, 1).is_err());
    assert!(l.slice(0, 1, usize::MAX, 2).is_err());
}

#[test]
fn collapsing_keeps_the_elements() {
    let l = contiguous(&[2, 3, 4, 1]);
    for view in [l.clone(), l.transpose(0, 1).unwrap(), l.slice(2, 1, 2, 1).unwrap()] {
        assert_eq!(indices(&view.collapsed()), indices(&view));
    }
    assert_eq!(l.collapsed().dims(), [24]);
}
