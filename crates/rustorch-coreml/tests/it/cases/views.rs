//! Views: operands that are not all of a value.

use super::{Case, booleans, values};
use rustorch_tensor::{Result, Tensor};

/// Twice a view of an input.
fn view(name: &str, dims: &[usize], f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Case {
    Case::new(&format!("view_{name}"), &[values(dims, 1)], |x| Ok(vec![f(&x[0])?.mul(2)?]))
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        view("transpose", &[2, 3, 4], |x| x.transpose(0, 2)),
        view("permute", &[2, 3, 4, 5], |x| x.permute([2, 0, 3, 1])),
        view("slice", &[5, 6], |x| x.slice(0, 1..4, 1)?.slice(1, 2.., 1)),
        view("steps", &[5, 7], |x| x.slice(0, .., 2)?.slice(1, 1.., 3)),
        view("select", &[3, 4, 5], |x| x.select(1, 2)),
        view("select_all", &[3, 4], |x| x.select(1, 2)?.select(0, 1)),
        view("reshape", &[3, 4, 2], |x| x.reshape([2, 12])),
        view("reshape_of_slice", &[4, 6], |x| x.slice(0, 1..3, 1)?.reshape([3, 4])),
        view("transpose_of_slice", &[6, 4, 3], |x| x.slice(0, 1..4, 1)?.transpose(0, 2)),
        view("expand", &[3, 1], |x| x.expand([2, 3, 4])),
        view("expand_of_slice", &[3, 4], |x| x.slice(1, 1..2, 1)?.expand([3, 5])),
        view("unfold", &[9], |x| x.unfold(0, 3, 2)),
        view("unfold_2d", &[2, 7], |x| x.unfold(1, 4, 1)),
        view("diagonal", &[4, 4], |x| x.diagonal(0, 0, 1)),
        view("scalar", &[], |x| x.expand([2, 3])),
        Case::new("view_output", &[values(&[3, 4], 1)], |x| Ok(vec![x[0].t()?, x[0].clone()])),
        Case::new("view_bool", &[booleans(&[3, 4], 1)], |x| Ok(vec![x[0].t()?.logical_not()?])),
        Case::new("view_bool_unfold", &[booleans(&[7], 1)], |x| {
            Ok(vec![x[0].unfold(0, 3, 2)?.logical_not()?])
        }),
        Case::new("view_of_a_constant", &[values(&[4, 3], 1)], |x| {
            Ok(vec![x[0].add(&values(&[3, 8], 2).slice(1, 2..6, 1)?.t()?)?])
        }),
    ]
}
