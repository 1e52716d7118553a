//! Chains of operations against the layouts that they stand for.

use crate::layout::{MAX_RANK, Step, chain};
use proptest::prelude::*;
use rustorch_core::{Layout, Shape};

/// What a chain makes of a value whose elements are their own indices: its shape and elements.
fn run(steps: &[Step], dims: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut dims = dims.to_vec();
    let mut x: Vec<usize> = (0..dims.iter().product()).collect();
    for step in steps {
        assert!(dims.len() <= MAX_RANK, "{steps:?}");
        let layout = Layout::contiguous(Shape::new(dims.as_slice()).unwrap());
        let layout = match step {
            Step::Reshape(to) => Layout::contiguous(Shape::new(to.as_slice()).unwrap()),
            Step::Slice(slices) => {
                assert_eq!(slices.len(), dims.len());
                let slice = |layout: Layout, (axis, &(start, len, step)): (usize, &(usize, usize, usize))| {
                    layout.slice(axis, start, len, step).unwrap()
                };
                slices.iter().enumerate().fold(layout, slice)
            }
            Step::Transpose(order) => layout.permute(order).unwrap(),
            Step::Tile(repeats) => {
                let to: Vec<usize> = dims.iter().zip(repeats).map(|(dim, n)| dim * n).collect();
                layout.broadcast_to(&Shape::new(to.as_slice()).unwrap(), "tile").unwrap()
            }
            Step::Gather(indices) => {
                assert_eq!(dims.len(), 1);
                x = indices.iter().map(|&i| x[i]).collect();
                Layout::contiguous(Shape::new([indices.len()].as_slice()).unwrap())
            }
        };
        assert_eq!(layout.numel(), layout.dims().iter().product::<usize>());
        x = elements(&layout).into_iter().map(|i| x[i]).collect();
        dims = layout.dims().to_vec();
    }
    (dims, x)
}

/// The index of each element of a layout, in order.
fn elements(layout: &Layout) -> Vec<usize> {
    let mut all = vec![layout.offset()];
    for (&dim, &stride) in layout.dims().iter().zip(layout.strides()) {
        all = all.iter().flat_map(|&at| (0..dim).map(move |i| at + i * stride)).collect();
    }
    all
}

fn check(dims: &[usize], layout: &Layout) -> Vec<Step> {
    let steps = chain(dims, layout, 1 << 20).unwrap();
    let (shape, got) = run(&steps, dims);
    let wanted = if layout.ndim() == 0 { &[1] } else { layout.dims() };
    assert_eq!(shape, wanted, "{dims:?} {layout:?}: {steps:?}");
    assert_eq!(got, elements(layout), "{dims:?} {layout:?}: {steps:?}");
    steps
}

fn layout(dims: &[usize], strides: &[usize], offset: usize) -> Layout {
    Layout::new(Shape::new(dims).unwrap(), strides, offset).unwrap()
}

#[test]
fn common_views_are_short() {
    assert_eq!(check(&[4, 6], &layout(&[4, 6], &[6, 1], 0)), []);
    assert_eq!(check(&[4, 6], &layout(&[6, 4], &[1, 6], 0)), [Step::Transpose(vec![1, 0])]);
    assert_eq!(check(&[4, 6], &layout(&[2, 6], &[6, 1], 6)), [Step::Slice(vec![(1, 2, 1), (0, 6, 1)])]);
    assert_eq!(check(&[4, 6], &layout(&[4, 3], &[6, 2], 1)).len(), 3);
    assert_eq!(check(&[5, 7], &layout(&[3, 7], &[14, 1], 0)), [Step::Slice(vec![(0, 3, 2), (0, 7, 1)])]);
    assert_eq!(
        check(&[3], &layout(&[2, 3], &[0, 1], 0)),
        [Step::Reshape(vec![1, 3]), Step::Tile(vec![2, 1])]
    );
}

#[test]
fn overlapping_windows_are_gathered_up_to_a_limit() {
    let windows = layout(&[4, 3], &[2, 1], 0);
    assert!(check(&[9], &windows).contains(&Step::Gather(vec![0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8])));
    assert_eq!(chain(&[9], &windows, 11), None);
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(2000) })]

    /// Views made by slicing, permuting and expanding.
    #[test]
    fn views_are_their_chains(
        dims in prop::collection::vec(1usize..6, 1..=4),
        seeds in prop::collection::vec(0usize..1000, 20),
    ) {
        let mut view = Layout::contiguous(Shape::new(dims.as_slice()).unwrap());
        let mut seed = seeds.into_iter();
        let mut next = |n: usize| seed.next().unwrap_or(0) % n.max(1);
        for (axis, &len) in dims.iter().enumerate() {
            let (start, step) = (next(len), 1 + next(3));
            let most = (len - start).div_ceil(step);
            view = view.slice(axis, start, 1 + next(most), step).unwrap();
        }
        for _ in 0..2 {
            view = view.transpose(next(dims.len()), next(dims.len())).unwrap();
        }
        if next(2) == 1 {
            let mut shape = vec![2];
            shape.extend(view.dims());
            view = view.broadcast_to(&Shape::new(shape.as_slice()).unwrap(), "expand").unwrap();
        }
        check(&dims, &view);
    }

    /// Any strides at all.
    #[test]
    fn strides_are_their_chains(
        dims in prop::collection::vec(1usize..5, 1..=5),
        axes in prop::collection::vec((1usize..4, 0usize..9), 0..=5),
        offset in 0usize..5,
    ) {
        let elements: usize = dims.iter().product();
        let (shape, strides): (Vec<usize>, Vec<usize>) = axes.into_iter().unzip();
        let view = layout(&shape, &strides, offset);
        prop_assume!(view.end() <= elements);
        check(&dims, &view);
    }
}
