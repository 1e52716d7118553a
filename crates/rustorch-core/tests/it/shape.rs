//! Shapes and axes.

use rustorch_core::{Shape, resolve_axis};

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

#[test]
fn broadcasting_follows_numpy() {
    type Case<'a> = (&'a [usize], &'a [usize], Option<&'a [usize]>);
    let cases: &[Case<'_>] = &[
        (&[], &[], Some(&[])),
        (&[3], &[], Some(&[3])),
        (&[2, 1], &[3], Some(&[2, 3])),
        (&[0], &[1], Some(&[0])),
        (&[4, 1, 5], &[3, 1], Some(&[4, 3, 5])),
        (&[2], &[3], None),
        (&[0], &[2], None),
    ];
    for (a, b, want) in cases {
        let got = shape(a).broadcast(&shape(b), "add").ok();
        assert_eq!(got.as_ref().map(|s| s.dims()), *want, "{a:?} {b:?}");
    }
}

#[test]
fn axes_count_from_either_end() {
    assert_eq!(resolve_axis("sum", -1, 3).unwrap(), 2);
    assert_eq!(resolve_axis("sum", 0, 0).unwrap(), 0);
    assert!(resolve_axis("sum", 3, 3).is_err());
    assert!(resolve_axis("sum", -4, 3).is_err());
}

#[test]
fn a_shape_that_cannot_be_addressed_is_refused_even_beside_a_zero() {
    assert!(Shape::new([usize::MAX, 2].as_slice()).is_err());
    assert!(Shape::new([usize::MAX, 0, 2].as_slice()).is_err());
}
