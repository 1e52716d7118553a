//! Operations on caches whose length is data: writing to a row that is data, and attention over the rows before it.

use rustorch_core::{Attention, CachedAttention, Numerics, Op, SliceUpdate};
use rustorch_tensor::autograd::apply;
use rustorch_tensor::{DType, Generator, Result, Tensor, TensorSpec, capture};

fn bytes(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

fn scalar(x: i64) -> Tensor {
    Tensor::scalar(x).unwrap()
}

#[test]
fn rows_enter_where_the_start_says() {
    let random = Generator::new(1);
    for dtype in [DType::F32, DType::F16, DType::F64, DType::I64] {
        let make = |dims: [usize; 3]| {
            random.randn(dims, DType::F32).unwrap().mul(9).unwrap().to_dtype(dtype).unwrap()
        };
        let x = make([3, 7, 4]);
        for (start, place) in
            [(0, 0), (2, 2), (5, 5), (6, 5), (100, 5), (-3, 0), (i64::MAX, 5), (i64::MIN, 0)]
        {
            let update = make([3, 2, 4]);
            let expected = x.copy().unwrap();
            expected.narrow(1, place, 2).unwrap().copy_(&update).unwrap();
            let op = Op::SliceUpdate(SliceUpdate { axis: 1 });
            let apart = apply(&op, &[&x, &update, &scalar(start)]).unwrap().remove(0);
            assert_eq!(bytes(&apart), bytes(&expected), "{dtype} from {start}");
            let inside = x.copy().unwrap();
            inside.slice_update_(1, &update, &scalar(start)).unwrap();
            assert_eq!(bytes(&inside), bytes(&expected), "{dtype} from {start}, in place");
        }
    }
    // Floats are rounded as they enter.
    for (to, from) in [
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
        (DType::F32, DType::F64),
        (DType::F64, DType::BF16),
    ] {
        let make = |dims: [usize; 2], dtype| random.randn(dims, DType::F32).unwrap().to_dtype(dtype).unwrap();
        let (x, update) = (make([3, 5], to), make([1, 5], from));
        let expected = x.copy().unwrap();
        expected.narrow(0, 1, 1).unwrap().copy_(&update).unwrap();
        x.slice_update_(0, &update, &scalar(1)).unwrap();
        assert_eq!(bytes(&x), bytes(&expected), "{from} to {to}");
    }
    // Through views: columns of a cache, with an update that is transposed, and a start that is one of several.
    let cache = Tensor::zeros([5, 6], DType::F32).unwrap();
    let update = Tensor::new([[1.0f32], [2.0]]).unwrap().t().unwrap();
    let starts = Tensor::new([4i32, 1, 3]).unwrap();
    cache.narrow(1, 2, 2).unwrap().slice_update_(0, &update, &starts.select(0, 2).unwrap()).unwrap();
    let expected = Tensor::zeros([5, 6], DType::F32).unwrap();
    expected.narrow(0, 3, 1).unwrap().narrow(1, 2, 2).unwrap().copy_(&update).unwrap();
    assert_eq!(bytes(&cache), bytes(&expected));
    // A part of the cache itself moves as if it had been copied before.
    let x = Tensor::arange(0, 8, 1).unwrap();
    x.slice_update_(0, &x.narrow(0, 0, 4).unwrap(), &scalar(2)).unwrap();
    assert_eq!(x.to_vec::<i64>().unwrap(), [0, 1, 0, 1, 2, 3, 6, 7]);
    let none = Tensor::zeros([3, 0], DType::F32).unwrap();
    none.slice_update_(1, &none, &scalar(1)).unwrap();
}

#[test]
fn updates_that_do_not_fit_are_refused() {
    let x = Tensor::zeros([3, 4], DType::F32).unwrap();
    let said =
        |update: &Tensor, start: &Tensor, dim| x.slice_update_(dim, update, start).unwrap_err().to_string();
    let row = Tensor::ones([1, 4], DType::F32).unwrap();
    assert!(said(&Tensor::ones([4, 4], DType::F32).unwrap(), &scalar(0), 0).contains("may be shorter"));
    assert!(said(&row, &scalar(0), 1).contains("may be shorter"));
    assert!(said(&row.to_dtype(DType::I64).unwrap(), &scalar(0), 0).contains("i64"));
    assert!(said(&row, &Tensor::new([1i64]).unwrap(), 0).contains("no dimensions"));
    assert!(said(&row, &Tensor::scalar(1.5f32).unwrap(), 0).contains("integers"));
    assert!(x.to_vec::<f32>().unwrap().iter().all(|&x| x == 0.0));
}

#[test]
fn attention_sees_the_keys_up_to_its_position() -> Result<()> {
    let random = Generator::new(2);
    for (queries, keys, numerics) in [
        (DType::F32, DType::F32, Numerics::F32),
        (DType::F32, DType::F16, Numerics::Ggml),
        (DType::F32, DType::F16, Numerics::F32),
        (DType::F64, DType::F64, Numerics::F32),
    ] {
        for (m, position) in [(1, 0), (1, 1), (1, 70), (1, 199), (3, 0), (3, 64), (5, 130)] {
            let make = |dims: [usize; 3], dtype| random.randn(dims, DType::F32)?.to_dtype(dtype);
            let q = make([4, m, 8], queries)?;
            let (k, v) = (make([2, 200, 8], keys)?, make([2, 200, 6], keys)?);
            // What is behind is never read.
            let seen = position + m;
            for x in [&k, &v] {
                x.narrow(1, seen, 200 - seen)?.fill_(f64::NAN)?;
            }
            for (window, softcap, lse) in
                [(None, None, false), (Some(9), None, true), (None, Some(4.0), true)]
            {
                let attention = Attention {
                    causal: Some(position),
                    window,
                    softcap,
                    numerics,
                    lse,
                    ..Attention::new(0.3)
                };
                let narrow = |x: &Tensor| x.narrow(1, 0, seen);
                let expected = apply(&Op::Attention(attention.clone()), &[&q, &narrow(&k)?, &narrow(&v)?])?;
                let op = Op::CachedAttention(CachedAttention {
                    attention: Attention { causal: None, ..attention },
                });
                let position = scalar(position as i64);
                let found = apply(&op, &[&q, &k, &v, &position])?;
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(bytes(found), bytes(expected), "{queries} over {keys}, {m} from {position}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn one_graph_decodes_at_every_position() -> Result<()> {
    let random = Generator::new(3);
    let caches = [(); 2].map(|()| Tensor::zeros([2, 40, 8], DType::F32).unwrap());
    let attention = Attention::new(0.5);
    let spec = |dims: &[usize], dtype| TensorSpec::new(dims, dtype);
    let program = capture(&[spec(&[2, 1, 8], DType::F32)?, spec(&[], DType::I64)?], |args| {
        let (x, at) = (&args[0], &args[1]);
        caches[0].slice_update_(1, x, at)?;
        caches[1].slice_update_(1, &x.neg()?, at)?;
        let op = Op::CachedAttention(CachedAttention { attention: attention.clone() });
        Ok(vec![apply(&op, &[&x.mul(2)?, &caches[0], &caches[1], at])?.remove(0)])
    })?;
    // Caches are written where they are.
    assert_eq!(program.staged_states(), 0);
    let (mut keys, mut values): (Vec<Tensor>, Vec<Tensor>) = Default::default();
    for position in 0..40 {
        let x = random.randn([2, 1, 8], DType::F32)?;
        keys.push(x.clone());
        values.push(x.neg()?);
        let (k, v) = (Tensor::cat(&keys, 1)?, Tensor::cat(&values, 1)?);
        let causal = Attention { causal: Some(position), ..attention.clone() };
        let expected = Tensor::attention(&x.mul(2)?, &k, &v, None, &causal)?;
        assert_eq!(bytes(&program.run(&[&x, &scalar(position as i64)])?[0]), bytes(&expected));
        assert_eq!(bytes(&caches[0].narrow(1, 0, position + 1)?.contiguous()?), bytes(&k));
    }
    Ok(())
}

#[test]
fn what_is_for_decoding_has_no_gradient() -> Result<()> {
    let x = Tensor::ones([2, 1, 4], DType::F32)?;
    x.requires_grad_(true)?;
    let cache = Tensor::zeros([2, 3, 4], DType::F32)?;
    let error = apply(&Op::SliceUpdate(SliceUpdate { axis: 1 }), &[&cache, &x, &scalar(0)]).unwrap_err();
    assert!(error.to_string().contains("is for caches") && error.to_string().contains("detach"), "{error}");
    Ok(())
}
