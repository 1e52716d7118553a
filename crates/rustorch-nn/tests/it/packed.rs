//! Sequences of several lengths: packing, padding and their inverses. What recurrent networks make of them is compared in `modules`.

use rustorch_nn::utils::rnn::{
    PaddingSide, pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence, unpack_sequence,
    unpad_sequence,
};
use rustorch_nn::{GRU, LSTM};
use rustorch_tensor::{DType, Result, Tensor};

fn ints(x: &Tensor) -> Vec<i64> {
    x.to_vec::<i64>().unwrap()
}

/// ```python
/// from torch.nn.utils.rnn import *
/// a, b, c = torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6])
/// pack_sequence([a, b, c])                            # data [1, 4, 6, 2, 5, 3], batch_sizes [3, 2, 1]
/// p = pack_sequence([c, a, b], enforce_sorted=False)  # the same, sorted_indices [1, 2, 0], unsorted_indices [2, 0, 1]
/// pad_packed_sequence(p, padding_value=9, total_length=4)
/// # [[6, 1, 4], [9, 2, 5], [9, 3, 9], [9, 9, 9]], lengths [1, 3, 2]
/// pad_sequence([a, b, c], batch_first=True)                      # [[1, 2, 3], [4, 5, 0], [6, 0, 0]]
/// pad_sequence([a, b, c], padding_value=7, padding_side="left")  # [[1, 7, 7], [2, 4, 7], [3, 5, 6]]
/// ```
#[test]
fn packing_and_padding() -> Result<()> {
    let [a, b, c] = [Tensor::new([1i64, 2, 3])?, Tensor::new([4i64, 5])?, Tensor::new([6i64])?];
    let packed = pack_sequence(&[a.clone(), b.clone(), c.clone()], true)?;
    assert_eq!(ints(packed.data()), [1, 4, 6, 2, 5, 3]);
    assert_eq!((packed.batch_sizes(), packed.sorted_indices()), (&[3, 2, 1][..], None));
    let packed = pack_sequence(&[c.clone(), a.clone(), b.clone()], false)?;
    assert_eq!(ints(packed.data()), [1, 4, 6, 2, 5, 3]);
    assert_eq!(packed.sorted_indices(), Some(&[1, 2, 0][..]));
    assert_eq!(packed.unsorted_indices(), Some(vec![2, 0, 1]));
    let (padded, lengths) = pad_packed_sequence(&packed, false, 9.0, Some(4))?;
    assert_eq!((ints(&padded), lengths), (vec![6, 1, 4, 9, 2, 5, 9, 3, 9, 9, 9, 9], vec![1, 3, 2]));
    let all = [a.clone(), b.clone(), c.clone()];
    assert_eq!(ints(&pad_sequence(&all, true, 0.0, PaddingSide::Right)?), [1, 2, 3, 4, 5, 0, 6, 0, 0]);
    assert_eq!(ints(&pad_sequence(&all, false, 7.0, PaddingSide::Left)?), [1, 7, 7, 2, 4, 7, 3, 5, 6]);
    let unpacked: Vec<_> = unpack_sequence(&packed)?.iter().map(ints).collect();
    assert_eq!(unpacked, [vec![6], vec![1, 2, 3], vec![4, 5]]);
    let unpadded = unpad_sequence(&padded, &[1, 3, 2], false)?;
    assert_eq!(unpadded.iter().map(ints).collect::<Vec<_>>(), unpacked);
    Ok(())
}

/// Gradients come back to where the elements were, and padding has none.
#[test]
fn gradients_pass() -> Result<()> {
    let x = Tensor::ones([3, 2, 1], DType::F64)?;
    x.requires_grad_(true)?;
    let packed = pack_padded_sequence(&x, &[1, 3], false, false)?.map(|data| data.mul(2.0))?;
    pad_packed_sequence(&packed, false, 5.0, Some(4))?.0.sum_all()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [2.0, 2.0, 0.0, 2.0, 0.0, 2.0]);
    Ok(())
}

#[track_caller]
fn refused<T>(result: Result<T>, parts: &[&str]) {
    let text = result.err().unwrap().to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let x = Tensor::zeros([3, 2, 4], DType::F32)?;
    let pack = |lengths: &[usize], sorted| pack_padded_sequence(&x, lengths, false, sorted);
    refused(pack(&[1, 3], true), &["pack_padded_sequence", "enforce_sorted", "[1, 3]"]);
    refused(pack(&[3], true), &["2 lengths", "[3]"]);
    refused(pack(&[3, 0], true), &["from 1 to 3", "[3, 0]"]);
    refused(pack(&[4, 1], true), &["from 1 to 3", "[4, 1]"]);
    refused(
        pack_padded_sequence(&Tensor::zeros([3], DType::F32)?, &[1], true, true),
        &["[n, steps, ..]", "[3]"],
    );
    refused(pad_sequence(&[], true, 0.0, PaddingSide::Right), &["pad_sequence", "one sequence"]);
    let packed = pack(&[3, 1], true)?;
    refused(pad_packed_sequence(&packed, true, 0.0, Some(2)), &["total_length 2", "3"]);
    refused(packed.map(|data| data.narrow(0, 0, 1)), &["PackedSequence", "[4, 4]", "[1, 4]"]);
    refused(GRU::new(3, 2)?.forward_packed(&packed, None), &["GRU", "[steps, 3]", "[4, 4]"]);
    let state = Tensor::zeros([1, 3, 2], DType::F32)?;
    let lstm = LSTM::new(4, 2)?;
    refused(lstm.forward_packed(&packed, Some((&state, &state))), &["LSTM", "[1, 2, 2]", "[1, 3, 2]"]);
    Ok(())
}
