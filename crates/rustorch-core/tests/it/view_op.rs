//! Views as data: which elements each shows, in which dtype, and what is refused.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_core::{DType, Dims, Layout, QuantType, Shape, ViewOp};

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

fn packed(dims: &[usize]) -> Layout {
    Layout::contiguous(shape(dims))
}

fn slice(axis: usize, start: usize, len: usize, step: usize) -> ViewOp {
    ViewOp::Slice { axis, start, len, step }
}

/// Shape and elements of what views, one after the other, show of a layout.
fn shown(x: &Layout, ops: &[ViewOp]) -> (Vec<usize>, Vec<usize>) {
    let mut layout = x.clone();
    for op in ops {
        let (dtype, next) = op.apply(DType::F32, &layout).unwrap();
        assert_eq!(dtype, DType::F32, "{op:?}");
        layout = next;
    }
    (layout.dims().to_vec(), layout.indices().collect())
}

#[test]
fn each_view_shows_its_elements() {
    let x = packed(&[2, 3]);
    let cases: &[(&[ViewOp], &[usize], &[usize])] = &[
        (&[ViewOp::Reshape(shape(&[3, 2]))], &[3, 2], &[0, 1, 2, 3, 4, 5]),
        (&[ViewOp::Permute(Dims::from_slice(&[1, 0]))], &[3, 2], &[0, 3, 1, 4, 2, 5]),
        (&[ViewOp::Unsqueeze { axis: 1 }], &[2, 1, 3], &[0, 1, 2, 3, 4, 5]),
        (&[ViewOp::Unsqueeze { axis: 2 }, ViewOp::Squeeze { axis: 2 }], &[2, 3], &[0, 1, 2, 3, 4, 5]),
        (&[ViewOp::Transpose { axes: [0, 1] }], &[3, 2], &[0, 3, 1, 4, 2, 5]),
        (&[slice(1, 1, 2, 1)], &[2, 2], &[1, 2, 4, 5]),
        (&[slice(1, 0, 2, 2), ViewOp::Select { axis: 0, index: 1 }], &[2], &[3, 5]),
        (&[slice(0, 1, 1, 1), ViewOp::Expand(shape(&[2, 1, 3]))], &[2, 1, 3], &[3, 4, 5, 3, 4, 5]),
        (&[ViewOp::Diagonal { offset: 0, axes: [0, 1] }], &[2], &[0, 4]),
        (&[ViewOp::Diagonal { offset: 1, axes: [0, 1] }], &[2], &[1, 5]),
        (&[ViewOp::Diagonal { offset: 1, axes: [1, 0] }], &[1], &[3]),
        (&[ViewOp::Diagonal { offset: -9, axes: [0, 1] }], &[0], &[]),
        (&[ViewOp::Unfold { axis: 1, size: 2, step: 1 }], &[2, 2, 2], &[0, 1, 1, 2, 3, 4, 4, 5]),
    ];
    for (ops, dims, elements) in cases {
        assert_eq!(shown(&x, ops), (dims.to_vec(), elements.to_vec()), "{ops:?}");
    }
    // An empty plane has no diagonal to start anywhere.
    let empty = ViewOp::Diagonal { offset: 1, axes: [1, 2] };
    assert_eq!(shown(&packed(&[0, 2, 3]), &[empty]), (vec![0, 2], vec![]));
}

#[test]
fn a_reshape_adds_and_removes_dimensions_of_length_1_whatever_the_strides() {
    let turned = packed(&[4, 5]).transpose(0, 1).unwrap();
    let (_, wide) = ViewOp::Reshape(shape(&[5, 1, 4])).apply(DType::F32, &turned).unwrap();
    assert_eq!((wide.dims(), wide.strides()), (&[5, 1, 4][..], &[1, 20, 5][..]));
    let (_, back) = ViewOp::Reshape(shape(&[5, 4])).apply(DType::F32, &wide).unwrap();
    assert_eq!(back, turned);
    let flat = ViewOp::Reshape(shape(&[20]));
    let (mut dtype, mut unchanged) = (DType::F32, turned.clone());
    assert!(!flat.apply_(&mut dtype, &mut unchanged).unwrap());
    let error = flat.apply(DType::F32, &turned).unwrap_err().to_string();
    assert!(error.contains("[1, 5]") && error.contains("reshape"), "{error}");
}

#[test]
fn complex_numbers_are_pairs_of_real_ones() {
    let z = packed(&[2, 3]).slice(1, 1, 2, 1).unwrap();
    let seen = |op: ViewOp| {
        let (dtype, layout) = op.apply(DType::C64, &z).unwrap();
        (dtype, layout.dims().to_vec(), layout.indices().collect::<Vec<_>>())
    };
    assert_eq!(seen(ViewOp::AsReal), (DType::F32, vec![2, 2, 2], vec![2, 3, 4, 5, 8, 9, 10, 11]));
    assert_eq!(seen(ViewOp::Real), (DType::F32, vec![2, 2], vec![2, 4, 8, 10]));
    assert_eq!(seen(ViewOp::Imag), (DType::F32, vec![2, 2], vec![3, 5, 9, 11]));
    let (dtype, pairs) = ViewOp::AsReal.apply(DType::C128, &z).unwrap();
    assert_eq!(ViewOp::AsComplex.apply(dtype, &pairs).unwrap(), (DType::C128, z.clone()));
    assert!(ViewOp::AsComplex.apply(DType::F32, &packed(&[5]).slice(0, 1, 2, 1).unwrap()).is_err());
    assert!(ViewOp::AsComplex.apply(DType::I32, &packed(&[2])).is_err());
    for op in [ViewOp::AsReal, ViewOp::Real, ViewOp::Imag] {
        assert!(op.apply(DType::F32, &z).unwrap_err().to_string().contains(op.name()), "{op:?}");
    }
}

#[test]
fn views_that_do_not_fit_are_refused() {
    let x = packed(&[2, 3]);
    for op in [
        ViewOp::Reshape(shape(&[5])),
        ViewOp::Permute(Dims::from_slice(&[0, 0])),
        ViewOp::Permute(Dims::from_slice(&[0])),
        ViewOp::Transpose { axes: [0, 2] },
        ViewOp::Squeeze { axis: 0 },
        ViewOp::Unsqueeze { axis: 3 },
        ViewOp::Expand(shape(&[2, 4])),
        slice(1, 2, 2, 1),
        slice(1, 0, 1, 0),
        slice(2, 0, 1, 1),
        ViewOp::Select { axis: 1, index: 3 },
        ViewOp::Diagonal { offset: 0, axes: [0, 0] },
        ViewOp::Diagonal { offset: 0, axes: [0, 2] },
        ViewOp::Unfold { axis: 1, size: 4, step: 1 },
        ViewOp::Unfold { axis: 1, size: 1, step: 0 },
        ViewOp::Unfold { axis: 2, size: 1, step: 1 },
    ] {
        assert!(op.apply(DType::F32, &x).is_err(), "{op:?}");
    }
}

#[test]
fn no_view_cuts_a_block() {
    let (q8, x) = (DType::Quant(QuantType::Q8_0), packed(&[2, 64]));
    let (_, half) = slice(1, 32, 32, 1).apply(q8, &x).unwrap();
    assert_eq!(half.offset(), 32);
    for op in [slice(1, 16, 32, 1), ViewOp::Reshape(shape(&[8, 16])), ViewOp::Select { axis: 1, index: 0 }] {
        let error = op.apply(q8, &x).unwrap_err().to_string();
        assert!(error.contains(op.name()) && error.contains("blocks of 32"), "{error}");
    }
}
