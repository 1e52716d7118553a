//! einsum and other products; distances.

use crate::common::Case;
use rustorch_tensor::{DType, Result, Tensor, TensordotDims};

pub(super) fn run(case: &Case, op: &str) -> Result<Vec<Tensor>> {
    let factor = |key| case.scalar(key).unwrap();
    Ok(vec![match (op, case.inputs.as_slice()) {
        ("einsum", operands) => Tensor::einsum(case.attrs["equation"].as_str().unwrap(), operands)?,
        ("tensordot", [a, b]) => a.tensordot(
            b,
            match case.int("count") {
                Some(count) => TensordotDims::Count(count as usize),
                None => TensordotDims::Pairs(case.ints("left"), case.ints("right")),
            },
        )?,
        ("addmm", [x, a, b]) => x.addmm(a, b, factor("beta"), factor("alpha"))?,
        ("baddbmm", [x, a, b]) => x.baddbmm(a, b, factor("beta"), factor("alpha"))?,
        ("trace", [x]) => x.trace()?,
        ("cross", [a, b]) => a.cross(b, case.int("dim").unwrap_or(-1) as isize)?,
        ("kron", [a, b]) => a.kron(b)?,
        ("cdist", [a, b]) => a.cdist(b, case.float("p").unwrap_or(f64::INFINITY))?,
        (other, _) => panic!("{other}"),
    }])
}

#[test]
fn the_cheapest_order_is_taken() {
    // From the left, the first pair alone would have 2⁴⁰ elements.
    let zeros = |dims: [usize; 2]| Tensor::zeros(dims, DType::F32).unwrap();
    let n = 1 << 20;
    let y = Tensor::einsum("ia,aj,jb->ib", &[zeros([n, 1]), zeros([1, n]), zeros([n, 1])]).unwrap();
    assert_eq!(y.dims(), [n, 1]);
    // And of so many operands that not all orders are compared.
    let many: Vec<Tensor> = (0..9).map(|i| zeros(if i % 2 == 0 { [n, 1] } else { [1, n] })).collect();
    let y = Tensor::einsum("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", &many).unwrap();
    assert_eq!(y.dims(), [n, 1]);
}

#[test]
fn rows_in_chunks_give_the_same_distances() {
    let x = Tensor::arange(0, 6 * 700, 1).unwrap().to_dtype(DType::F32).unwrap().sin().unwrap();
    let x = x.reshape([2, 700, 3]).unwrap();
    // 2 · 700 · 700 · 3 differences are more than are held at once.
    let all = x.cdist(&x, 1.0).unwrap();
    let some = x.narrow(1, 690, 10).unwrap().cdist(&x, 1.0).unwrap();
    assert!(all.narrow(1, 690, 10).unwrap().allclose(&some, 0.0, 0.0, false).unwrap());
    assert_eq!(all.dims(), [2, 700, 700]);
}

#[test]
fn messages_say_what_does_not_fit() {
    let x = Tensor::zeros([2, 3], DType::F32).unwrap();
    let whole = Tensor::zeros([2, 2], DType::I64).unwrap();
    for (error, parts) in [
        (Tensor::einsum("ij,jk", &[&x]).unwrap_err(), &["einsum", "\"ij,jk\"", "names 2", "1 are given"][..]),
        (Tensor::einsum("ijk", &[&x]).unwrap_err(), &["operand 0", "[2, 3]", "3 letters"]),
        (Tensor::einsum("ij->k", &[&x]).unwrap_err(), &["no operand has `k`"]),
        (Tensor::einsum("ij,jk", &[&x, &x]).unwrap_err(), &["`j` is 3 long, and 2"]),
        (Tensor::einsum::<Tensor>("", &[]).unwrap_err(), &["one operand at least"]),
        (whole.addmm(&whole, &whole, 1, 0.5).unwrap_err(), &["addmm", "i64", "0.5"]),
        (x.cdist(&x, f64::NAN).unwrap_err(), &["cdist", "NaN"]),
        (x.cross(&x, 0).unwrap_err(), &["cross", "3 long"]),
    ] {
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "`{text}` does not say `{part}`");
        }
    }
}
