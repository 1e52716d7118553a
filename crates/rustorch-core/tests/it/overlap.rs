//! Which views of one memory share elements, against the elements themselves.
#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use proptest::prelude::*;
use rustorch_core::{DType, Dims, Layout, Overlap, Shape, ViewOp};
use std::collections::BTreeSet;

fn grid() -> Layout {
    Layout::contiguous(Shape::new([4, 5, 6].as_slice()).unwrap())
}

/// A view of the grid: slices and selections, then perhaps others.
fn view() -> impl Strategy<Value = Layout> {
    let part = prop_oneof![
        4 => (0usize..3, 0usize..6, 1usize..5, 1usize..4)
            .prop_map(|(axis, start, len, step)| ViewOp::Slice { axis, start, len, step }),
        2 => (0usize..3, 0usize..6).prop_map(|(axis, index)| ViewOp::Select { axis, index }),
        1 => Just(ViewOp::Permute(Dims::from_slice(&[1, 0, 2]))),
        1 => Just(ViewOp::Diagonal { offset: 1, axes: [0, 1] }),
        1 => Just(ViewOp::Unfold { axis: 1, size: 2, step: 1 }),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| {
        parts
            .iter()
            .fold(grid(), |layout, part| part.apply(DType::F32, &layout).map_or(layout, |(_, next)| next))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_of_two_views_holds_of_their_elements(a in view(), b in view()) {
        let (left, right): (Vec<usize>, Vec<usize>) = (a.indices().collect(), b.indices().collect());
        let shared = left.iter().collect::<BTreeSet<_>>().intersection(&right.iter().collect()).count();
        prop_assert_eq!(a.overlap(&b), b.overlap(&a));
        match a.overlap(&b) {
            Overlap::None => prop_assert_eq!(shared, 0),
            Overlap::Exact => prop_assert_eq!((a.dims(), left), (b.dims(), right)),
            Overlap::Partial => {}
        }
    }
}

#[test]
fn parts_along_the_same_dimensions_are_told_apart() {
    let x = grid();
    let (rows, columns) = (x.slice(0, 1, 3, 1).unwrap(), x.slice(2, 0, 3, 1).unwrap());
    for (a, b, overlap) in [
        (x.select(2, 0).unwrap(), x.select(2, 1).unwrap(), Overlap::None),
        (x.slice(2, 0, 3, 2).unwrap(), x.slice(2, 1, 3, 2).unwrap(), Overlap::None),
        (columns.clone(), x.slice(2, 3, 3, 1).unwrap(), Overlap::None),
        (columns.clone(), x.slice(2, 5, 1, 1).unwrap(), Overlap::None),
        (columns.clone(), x.slice(2, 2, 3, 1).unwrap(), Overlap::Partial),
        (rows.clone(), x.select(0, 0).unwrap(), Overlap::None),
        (rows.clone(), x.slice(0, 0, 3, 1).unwrap(), Overlap::Partial),
        (rows.clone(), rows.clone(), Overlap::Exact),
        (rows.clone(), rows.slice(0, 0, 2, 1).unwrap(), Overlap::Partial),
        (x.slice(0, 0, 0, 1).unwrap(), x.clone(), Overlap::None),
    ] {
        assert_eq!((a.overlap(&b), b.overlap(&a)), (overlap, overlap), "{a:?} {b:?}");
    }
}
