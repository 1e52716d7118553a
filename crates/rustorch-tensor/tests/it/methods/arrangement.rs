//! Moving, repeating and selecting elements; grids, diagonals, differences.

use crate::common::Case;
use rustorch_tensor::{MeshgridIndexing, Result, Tensor};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let size = |key: &str| case.int(key).unwrap() as usize;
    let place = |key: &str| case.int(key).unwrap() as isize;
    let inputs = case.inputs.as_slice();
    Ok(vec![match (op, inputs) {
        ("movedim", [x]) => x.movedim(case.ints("source"), case.ints("destination"))?,
        ("tile", [x]) => x.tile(case.ints("dims").iter().map(|&n| n as usize).collect::<Vec<_>>())?,
        ("rot90", [x]) => x.rot90(case.int("times").unwrap(), case.ints("dims").try_into().unwrap())?,
        ("meshgrid", tensors) => {
            let is_xy = case.attrs["indexing"] == "xy";
            let indexing = if is_xy { MeshgridIndexing::Xy } else { MeshgridIndexing::Ij };
            return Tensor::meshgrid(tensors, indexing);
        }
        ("diag", [x]) => x.diag(place("diagonal"))?,
        ("tril_indices", _) => {
            Tensor::tril_indices(size("rows"), size("columns"), case.int("offset").unwrap())?
        }
        ("triu_indices", _) => {
            Tensor::triu_indices(size("rows"), size("columns"), case.int("offset").unwrap())?
        }
        ("diff", [x, joined @ ..]) => {
            let names = case.attrs["with"].as_array().cloned().unwrap_or_default();
            let of = |name: &str| names.iter().position(|n| n == name).map(|i| &joined[i]);
            x.diff(size("n"), case.dim(), of("prepend"), of("append"))?
        }
        ("take", [x, index]) => x.take(index)?,
        ("index_fill", [x, index]) => x.index_fill(case.dim(), index, case.scalar("value").unwrap())?,
        ("index_fill", [x, index, value]) => x.index_fill(case.dim(), index, value)?,
        ("one_hot", [x]) => x.one_hot(case.int("classes").map(|n| n as usize))?,
        ("masked_scatter", [x, mask, source]) => x.masked_scatter(mask, source)?,
        (other, _) => panic!("{other}"),
    }])
}

#[test]
fn grids_are_views() {
    let x = Tensor::new([1.0f32, 2.0]).unwrap();
    let grid = Tensor::meshgrid(&[&x, &x], MeshgridIndexing::Ij).unwrap();
    assert!(grid.iter().all(|part| part.shares_memory(&x)));
    assert!(x.unsqueeze(0).unwrap().movedim([0], [1]).unwrap().shares_memory(&x));
}

#[test]
fn messages_tell_the_index_that_was_given() {
    let (x, far) = (Tensor::new([1i32, 2]).unwrap(), Tensor::new([-5i64]).unwrap());
    let none = Tensor::zeros([0], rustorch_tensor::DType::I32).unwrap();
    let mask = Tensor::new([true, true]).unwrap();
    for (error, text) in [
        (x.take(&far), "take: index -5 is out of range for a dimension of length 2"),
        (x.index_fill(0, &far, 1), "index_fill: index -5 is out of range for a dimension of length 2"),
        (far.one_hot(Some(4)), "one_hot: index -5 is out of range for a dimension of length 4"),
        (
            x.masked_scatter(&mask, &none),
            "masked_scatter: the mask is true in more places than the 0 elements of the source",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), text);
    }
    let huge = Tensor::tril_indices(usize::MAX, 2, 0).unwrap_err().to_string();
    assert!(huge.contains("elements"), "{huge}");
    assert!(x.diag(isize::MIN).is_err() && x.diag(isize::MAX).is_err());
}
