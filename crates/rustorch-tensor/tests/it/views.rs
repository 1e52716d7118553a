//! Views: which elements they show, that they share memory, and writing through them.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_core::Buffer;
use rustorch_tensor::{C64, DType, QuantType, Tensor, f16};
use std::sync::Arc;

fn count(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::arange(0, n as i64, 1).unwrap().reshape(dims).unwrap()
}

fn ints(x: &Tensor) -> Vec<i64> {
    x.to_vec::<i64>().unwrap()
}

#[test]
fn views_show_the_right_elements_of_the_same_memory() {
    let x = count(&[2, 3]);
    let cases: Vec<(Tensor, Vec<usize>, Vec<i64>)> = vec![
        (x.t().unwrap(), vec![3, 2], vec![0, 3, 1, 4, 2, 5]),
        (x.transpose(-1, 0).unwrap(), vec![3, 2], vec![0, 3, 1, 4, 2, 5]),
        (x.permute([1, 0]).unwrap(), vec![3, 2], vec![0, 3, 1, 4, 2, 5]),
        (x.view([3, -1]).unwrap(), vec![3, 2], vec![0, 1, 2, 3, 4, 5]),
        (x.flatten(0, -1).unwrap(), vec![6], vec![0, 1, 2, 3, 4, 5]),
        (x.unflatten(1, [3, 1]).unwrap(), vec![2, 3, 1], vec![0, 1, 2, 3, 4, 5]),
        (x.unsqueeze(-1).unwrap(), vec![2, 3, 1], vec![0, 1, 2, 3, 4, 5]),
        (x.unsqueeze(0).unwrap().squeeze(0).unwrap(), vec![2, 3], vec![0, 1, 2, 3, 4, 5]),
        (x.squeeze(0).unwrap(), vec![2, 3], vec![0, 1, 2, 3, 4, 5]),
        (x.narrow(1, 1, 2).unwrap(), vec![2, 2], vec![1, 2, 4, 5]),
        (x.slice(1, .., 2).unwrap(), vec![2, 2], vec![0, 2, 3, 5]),
        (x.slice(1, -2..-1, 1).unwrap(), vec![2, 1], vec![1, 4]),
        (x.slice(1, -2..=-1, 1).unwrap(), vec![2, 2], vec![1, 2, 4, 5]),
        (x.slice(0, 5.., 1).unwrap(), vec![0, 3], vec![]),
        (x.slice(0, -9..9, 1).unwrap(), vec![2, 3], vec![0, 1, 2, 3, 4, 5]),
        (x.select(0, -1).unwrap(), vec![3], vec![3, 4, 5]),
        (x.select(1, 1).unwrap(), vec![2], vec![1, 4]),
        (x.diagonal(0, 0, 1).unwrap(), vec![2], vec![0, 4]),
        (x.diagonal(1, 0, 1).unwrap(), vec![2], vec![1, 5]),
        (x.diagonal(-1, 0, 1).unwrap(), vec![1], vec![3]),
        (x.diagonal(7, 0, 1).unwrap(), vec![0], vec![]),
        (x.unfold(1, 2, 1).unwrap(), vec![2, 2, 2], vec![0, 1, 1, 2, 3, 4, 4, 5]),
        (x.narrow(0, 1, 1).unwrap().expand([2, -1]).unwrap(), vec![2, 3], vec![3, 4, 5, 3, 4, 5]),
        (
            x.narrow(1, 0, 1).unwrap().broadcast_to([2, 2, 2]).unwrap(),
            vec![2, 2, 2],
            vec![0, 0, 3, 3, 0, 0, 3, 3],
        ),
    ];
    for (i, (view, dims, elements)) in cases.iter().enumerate() {
        assert_eq!((view.dims(), &ints(view)), (&dims[..], elements), "case {i}");
        assert!(view.shares_memory(&x), "case {i}");
        assert_eq!(ints(&view.contiguous().unwrap()), *elements, "case {i}");
    }
}

#[test]
fn one_length_of_a_shape_is_found_out() {
    let dims = |x: &Tensor, to: [i64; 2]| x.reshape(to).map(|x| x.dims().to_vec()).ok();
    let x = count(&[2, 6]);
    assert_eq!(dims(&x, [3, -1]), Some(vec![3, 4]));
    for wrong in [[5, -1], [-1, -1], [-2, 6]] {
        assert_eq!(dims(&x, wrong), None, "{wrong:?}");
    }
    let empty = count(&[0, 3]);
    assert_eq!(dims(&empty, [0, -1]), None);
    assert_eq!(dims(&empty, [-1, 3]), Some(vec![0, 3]));
}

#[test]
fn reshape_copies_only_where_it_must() {
    let x = count(&[2, 3]);
    let turned = x.t().unwrap();
    let flat = turned.reshape([6]).unwrap();
    assert_eq!(ints(&flat), [0, 3, 1, 4, 2, 5]);
    assert!(!flat.shares_memory(&x));
    assert!(turned.view([6]).unwrap_err().to_string().contains("[1, 3]"));
    assert!(turned.reshape([3, 1, 2]).unwrap().shares_memory(&x));
    assert!(!x.copy().unwrap().shares_memory(&x));
    assert!(x.contiguous().unwrap().shares_memory(&x));
}

#[test]
fn parts_cover_the_whole() {
    let x = count(&[5, 2]);
    let lengths = |parts: Vec<Tensor>| parts.iter().map(|p| p.dims()[0]).collect::<Vec<_>>();
    assert_eq!(lengths(x.chunk(2, 0).unwrap()), [3, 2]);
    assert_eq!(lengths(x.chunk(4, 0).unwrap()), [2, 2, 1]);
    assert_eq!(lengths(x.split(2, 0).unwrap()), [2, 2, 1]);
    assert_eq!(lengths(x.split_sizes(&[1, 0, 4], 0).unwrap()), [1, 0, 4]);
    assert!(x.split_sizes(&[1, 3], 0).is_err());
    let columns = x.unbind(1).unwrap();
    assert_eq!(columns.len(), 2);
    assert_eq!(ints(&columns[1]), [1, 3, 5, 7, 9]);
    let whole = Tensor::cat(&x.split(2, 0).unwrap(), 0).unwrap();
    assert_eq!(ints(&whole), ints(&x));
}

#[test]
fn complex_parts_are_views() {
    let z = Tensor::new([C64::new(1.0, 2.0), C64::new(3.0, 4.0)]).unwrap();
    z.imag().unwrap().fill_(-1).unwrap();
    assert_eq!(z.to_vec::<C64>().unwrap(), [C64::new(1.0, -1.0), C64::new(3.0, -1.0)]);
    assert_eq!(z.select(0, 1).unwrap().real().unwrap().item().unwrap().to_f64(), 3.0);
    let pairs = z.view_as_real().unwrap();
    assert_eq!(pairs.to_vec::<f32>().unwrap(), [1.0, -1.0, 3.0, -1.0]);
    assert!(pairs.view_as_complex().unwrap().shares_memory(&z));
    let odd = Tensor::new([0f32, 1.0, 2.0]).unwrap().narrow(0, 1, 2).unwrap();
    assert!(odd.view_as_complex().unwrap_err().to_string().contains("pairs"));
    assert!(pairs.t().unwrap().view_as_complex().is_err());
}

#[test]
fn writing_through_a_view_reaches_the_memory() {
    let cache = Tensor::zeros([2, 4, 3], DType::F16).unwrap();
    // A key-value cache: f32 rows go into the middle of f16 memory, transposed on the way.
    let rows = Tensor::arange_with(0, 12, 1, DType::F32).unwrap().reshape([2, 2, 3]).unwrap();
    cache.narrow(1, 1, 2).unwrap().copy_(&rows.transpose(0, 1).unwrap()).unwrap();
    let got: Vec<f32> = cache.to_vec::<f16>().unwrap().iter().map(|x| x.to_f32()).collect();
    assert_eq!(got[..12], [0., 0., 0., 0., 1., 2., 6., 7., 8., 0., 0., 0.]);
    assert_eq!(got[12..], [0., 0., 0., 3., 4., 5., 9., 10., 11., 0., 0., 0.]);

    let x = count(&[2, 3]);
    x.select(0, 0).unwrap().zero_().unwrap();
    x.t().unwrap().narrow(0, 2, 1).unwrap().add_(10).unwrap();
    assert_eq!(ints(&x), [0, 0, 10, 3, 4, 15]);
    x.narrow(1, 0, 2).unwrap().mul_(&Tensor::new([2i64, 3]).unwrap()).unwrap();
    assert_eq!(ints(&x), [0, 0, 10, 6, 12, 15]);
    x.masked_fill_(&x.eq(0).unwrap(), -1).unwrap();
    assert_eq!(ints(&x), [-1, -1, 10, 6, 12, 15]);
    x.index_copy_(1, &Tensor::new([2i64, 0]).unwrap(), &Tensor::new([[7i64, 8], [9, 5]]).unwrap()).unwrap();
    assert_eq!(ints(&x), [8, -1, 7, 5, 12, 9]);
}

#[test]
fn writing_from_the_same_memory_is_as_if_from_a_copy() {
    let x = count(&[5]);
    x.narrow(0, 1, 4).unwrap().copy_(&x.narrow(0, 0, 4).unwrap()).unwrap();
    assert_eq!(ints(&x), [0, 0, 1, 2, 3]);
    let m = count(&[3, 3]);
    m.copy_(&m.t().unwrap()).unwrap();
    assert_eq!(ints(&m), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    m.add_(&m.t().unwrap()).unwrap();
    assert_eq!(ints(&m), [0, 4, 8, 4, 8, 12, 8, 12, 16]);
}

#[test]
fn what_cannot_be_written_is_refused_and_left_alone() {
    let x = count(&[1, 3]);
    let wide = x.expand([2, 3]).unwrap();
    assert!(wide.zero_().unwrap_err().to_string().contains("twice"));
    assert!(x.add_(0.5).unwrap_err().to_string().contains("i64, f32"));
    assert!(x.add_(&count(&[2, 3])).unwrap_err().to_string().contains("[2, 3]"));
    assert!(x.copy_(&count(&[2, 3])).is_err());
    assert!(Tensor::zeros(2, DType::U8).unwrap().fill_(256).unwrap_err().to_string().contains("u8"));
    assert_eq!(ints(&x), [0, 1, 2]);
}

#[test]
fn mapped_memory_is_read_in_place_and_never_written() {
    let bytes: Arc<Vec<u8>> = Arc::new((0..64u8).collect());
    // SAFETY: the vector is neither moved nor changed while the test holds it.
    let buffer = || unsafe { Buffer::shared(Arc::clone(&bytes)) };
    let x = Tensor::from_buffer(buffer(), DType::U8, [2, 4], 8).unwrap();
    assert_eq!(x.to_vec::<u8>().unwrap(), [8, 9, 10, 11, 12, 13, 14, 15]);
    assert!(x.zero_().unwrap_err().to_string().contains("read-only"));
    assert_eq!(x.copy().unwrap().add(1).unwrap().to_vec::<u8>().unwrap()[0], 9);
    // Any place will do, aligned or not.
    for at in 0..4 {
        let y = Tensor::from_buffer(buffer(), DType::U32, 2, at).unwrap();
        let first = u32::from_ne_bytes([0, 1, 2, 3].map(|i| i + at as u8));
        assert_eq!(y.to_vec::<u32>().unwrap()[0], first);
    }
    assert!(
        Tensor::from_buffer(buffer(), DType::F32, [4, 4], 4).unwrap_err().to_string().contains("64 bytes")
    );
    assert!(Tensor::from_buffer(buffer(), DType::F32, 4, usize::MAX).is_err());
    assert!(Tensor::from_buffer(buffer(), DType::Bool, 4, 0).unwrap_err().to_string().contains("bool"));
    assert!(
        Tensor::from_buffer(buffer(), DType::Quant(QuantType::Q8_0), 16, 0)
            .unwrap_err()
            .to_string()
            .contains("blocks of 32")
    );
    let owned = Buffer::host(64).unwrap();
    assert!(Tensor::from_buffer(owned, DType::U8, 4, 0).unwrap_err().to_string().contains("read-only"));
}

#[test]
fn a_block_type_in_mapped_memory_starts_anywhere() {
    let weights = Tensor::arange_with(0, 64, 1, DType::F32).unwrap().reshape([2, 32]).unwrap();
    let packed = weights.to_dtype(DType::Quant(QuantType::Q8_0)).unwrap();
    let mut bytes = vec![0xff; 3];
    bytes.extend(packed.to_bytes().unwrap());
    // SAFETY: the vector is owned by the buffer alone.
    let buffer = unsafe { Buffer::shared(Arc::new(bytes)) };
    let x = Tensor::from_buffer(buffer, packed.dtype(), [2, 32], 3).unwrap();
    assert_eq!(x.to_bytes().unwrap(), packed.to_bytes().unwrap());
    let row = x.select(0, 1).unwrap().to_dtype(DType::F32).unwrap();
    assert!(row.allclose(&weights.select(0, 1).unwrap(), 0.0, 0.3, false).unwrap());
}
