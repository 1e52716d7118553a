//! Semantics that the recorded cases do not reach: operators, composed operations, 0-d and empty tensors, random
//! numbers, threads. Numbers that are not obvious were computed by PyTorch, by the line above them.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::process_generator;
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::{
    Attention, C64, DType, Device, Generator, Numerics, QuantType, Result, Scalar, Tensor, bf16, f16,
    manual_seed,
};

fn floats(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

fn close(x: &Tensor, want: &[f32]) {
    let want = Tensor::from_slice(want, x.shape()).unwrap();
    assert!(x.allclose(&want, 1e-5, 1e-6, true).unwrap(), "{x}\nnot\n{want}");
}

#[test]
fn operators_take_tensors_and_numbers_on_either_side() {
    let (a, b) = (Tensor::new([1f32, 2.0]).unwrap(), Tensor::new([3f32, 5.0]).unwrap());
    assert_eq!(floats(&(&a + &b)), [4.0, 7.0]);
    assert_eq!(floats(&(a.clone() - &b)), [-2.0, -3.0]);
    assert_eq!(floats(&(&a * b.clone())), [3.0, 10.0]);
    assert_eq!(floats(&(b.clone() / a.clone())), [3.0, 2.5]);
    assert_eq!(floats(&(1 - &a)), [0.0, -1.0]);
    assert_eq!(floats(&(2.0 / a.clone())), [2.0, 1.0]);
    assert_eq!(floats(&(&a * 2 + 1.5)), [3.5, 5.5]);
    // Literals need no annotation before a method.
    assert_eq!((2.0 * &a).add(1).unwrap().item_at(&[0]).unwrap().to_f64() + (&a * 2).numel() as f64, 5.0);
    assert_eq!(floats(&-&a), [-1.0, -2.0]);
    assert_eq!((!a.gt(1).unwrap()).to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!((Scalar::Int(1) + &a).dtype(), DType::F32);
}

#[test]
fn numbers_are_not_rounded_to_16_bits_before_use() {
    // torch.tensor([1000.], dtype=torch.bfloat16) * 0.001 -> 1.0; with bfloat16(0.001) it would be 0.9961
    let x = Tensor::new([bf16::from_f32(1000.0)]).unwrap();
    assert_eq!(x.mul(0.001).unwrap().item().unwrap().to_f64(), 1.0);
    let y = Tensor::new([f16::from_f32(3.0)]).unwrap();
    assert_eq!(y.mul(2).unwrap().dtype(), DType::F16);
}

#[test]
fn scalars_and_empty_tensors_behave() {
    let s = Tensor::scalar(2.5).unwrap();
    assert_eq!((s.ndim(), s.dtype(), s.numel()), (0, DType::F32, 1));
    assert_eq!(Tensor::scalar(3).unwrap().dtype(), DType::I64);
    assert_eq!(s.sum(0, true).unwrap().ndim(), 0);
    assert_eq!(s.amax(-1, false).unwrap().item().unwrap(), Scalar::Float(2.5));
    assert_eq!(s.argmax(0, false).unwrap().item().unwrap(), Scalar::Int(0));
    assert_eq!(s.flatten(0, -1).unwrap().dims(), [1]);
    assert_eq!(s.unsqueeze(0).unwrap().dims(), [1]);
    assert_eq!(s.softmax(0).unwrap().item().unwrap().to_f64(), 1.0);
    assert!(s.select(0, 0).is_err());
    assert!(s.size(0).is_err());

    let e = Tensor::zeros([0, 3], DType::F32).unwrap();
    assert_eq!(e.add(1).unwrap().dims(), [0, 3]);
    assert_eq!(floats(&e.sum(0, false).unwrap()), [0.0; 3]);
    assert_eq!(e.prod_all().unwrap().item().unwrap().to_f64(), 1.0);
    assert!(e.mean_all().unwrap().item().unwrap().to_f64().is_nan());
    assert_eq!(e.amax(1, false).unwrap().dims(), [0]);
    assert_eq!(e.t().unwrap().matmul(&e).unwrap().sum_all().unwrap().item().unwrap().to_f64(), 0.0);
    assert_eq!(e.reshape([3, 0, 2]).unwrap().dims(), [3, 0, 2]);
    assert_eq!(e.softmax(0).unwrap().dims(), [0, 3]);
    assert_eq!(Tensor::cat(&[&e, &e], 0).unwrap().dims(), [0, 3]);
    assert_eq!(e.to_vec::<f32>().unwrap(), [0f32; 0]);
    e.copy_(&Tensor::zeros([3], DType::F32).unwrap()).unwrap();
}

#[test]
fn norms_are_those_of_torch_linalg() {
    let x = Tensor::new([[3f32, -4.0], [0.0, 12.0]]).unwrap();
    // torch.linalg.vector_norm(x, ord, dim=1)
    close(&x.norm(2.0, 1, false).unwrap(), &[5.0, 12.0]);
    close(&x.norm(1.0, 1, true).unwrap(), &[7.0, 12.0]);
    close(&x.norm(f64::INFINITY, 0, false).unwrap(), &[3.0, 12.0]);
    close(&x.norm(f64::NEG_INFINITY, 0, false).unwrap(), &[0.0, 4.0]);
    close(&x.norm(0.0, .., false).unwrap(), &[3.0]);
    close(&x.norm(3.0, 1, false).unwrap(), &[4.497_941_4, 12.0]);
    // 300² is beyond f16, the norm is not.
    let half = Tensor::new([f16::from_f32(300.0), f16::from_f32(400.0)]).unwrap();
    assert_eq!(half.norm(2.0, .., false).unwrap().item().unwrap().to_f64(), 500.0);
    let z = Tensor::new([C64::new(3.0, 4.0)]).unwrap();
    close(&z.norm(2.0, 0, false).unwrap(), &[5.0]);
}

#[test]
fn composed_operations() -> Result<()> {
    let x = Tensor::new([[1f32, 0.0], [0.0, 4.0]])?;
    close(&x.lerp(&x.zeros_like()?, 0.25)?, &[0.75, 0.0, 0.0, 3.0]);
    assert_eq!(x.nonzero()?.to_vec::<i64>()?, [0, 0, 1, 1]);
    assert_eq!(floats(&x.masked_select(&x.gt(0)?)?), [1.0, 4.0]);
    assert_eq!(floats(&x.masked_select(&Tensor::new([true, false])?)?), [1.0, 0.0]);
    assert_eq!(x.count_nonzero(0)?.to_vec::<i64>()?, [1, 1]);
    assert_eq!(floats(&x.repeat_interleave(2, 1)?), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 4.0, 4.0]);
    assert_eq!(floats(&Tensor::eye(2, 3, DType::F32)?), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    close(&Tensor::polar(&Tensor::new([2f32])?, &Tensor::new([0f32])?)?.view_as_real()?, &[2.0, 0.0]);
    assert_eq!(x.argmax_all()?.item()?, Scalar::Int(3));
    assert_eq!(x.mv(&Tensor::new([1f32, 1.0])?)?.to_vec::<f32>()?, [1.0, 4.0]);
    assert_eq!(x.item_at(&[-1, 1])?, Scalar::Float(4.0));
    assert_eq!(x.size(-1)?, 2);
    let empty = Tensor::zeros([2, 0], DType::F32)?;
    assert_eq!(empty.nonzero()?.dims(), [0, 2]);
    Ok(())
}

#[test]
fn closeness() -> Result<()> {
    let x = Tensor::new([1f32, f32::INFINITY, f32::NAN])?;
    assert!(!x.allclose(&x, 1e-5, 1e-8, false)?);
    assert!(x.allclose(&x, 1e-5, 1e-8, true)?);
    let y = Tensor::new([1f32, 2.0])?;
    assert!(y.allclose(&Tensor::new([1.00001f32, 2.0])?, 1e-4, 0.0, false)?);
    assert!(!y.allclose(&Tensor::new([1.001f32, 2.0])?, 1e-4, 0.0, false)?);
    assert!(!y.allclose(&Tensor::new([1f32, f32::INFINITY])?, 1e-4, 0.0, false)?);
    assert!(Tensor::new([true])?.allclose(&Tensor::new([true])?, 0.0, 0.0, false)?);
    assert!(!Tensor::new([true])?.allclose(&Tensor::new([false])?, 0.0, 0.0, false)?);
    Ok(())
}

#[test]
fn gates_are_an_activation_times_the_other() -> Result<()> {
    let g = Generator::new(1);
    let (gate, up) = (g.randn([3, 5], DType::F32)?, g.randn([3, 5], DType::F32)?);
    assert!(gate.swiglu(&up)?.allclose(&gate.silu()?.mul(&up)?, 1e-5, 1e-6, false)?);
    assert!(gate.geglu(&up)?.allclose(&gate.gelu()?.mul(&up)?, 1e-5, 1e-6, false)?);
    assert!(gate.geglu_tanh(&up)?.allclose(&gate.gelu_tanh()?.mul(&up)?, 1e-5, 1e-6, false)?);
    assert!(gate.reglu(&up)?.allclose(&gate.relu()?.mul(&up)?, 1e-5, 1e-6, false)?);
    Ok(())
}

#[test]
fn linear_takes_weights_of_every_form() -> Result<()> {
    let g = Generator::new(2);
    let (x, w) = (g.randn([2, 3, 64], DType::F32)?, g.randn([5, 64], DType::F32)?);
    let bias = g.randn([5], DType::F32)?;
    let want = x.matmul(&w.t()?)?.add(&bias)?;
    assert!(x.linear(&w, Some(&bias))?.allclose(&want, 1e-5, 1e-5, false)?);
    for dtype in [DType::F16, DType::BF16, DType::Quant(QuantType::Q8_0)] {
        let narrow = w.to_dtype(dtype)?;
        for numerics in [Numerics::Ggml, Numerics::F32] {
            let got = x.linear_with(&narrow, Some(&bias), numerics)?;
            assert_eq!((got.dims(), got.dtype()), (&[2, 3, 5][..], DType::F32));
            let gap = got.sub(&want)?.abs()?.max_all()?.item()?.to_f64();
            assert!(gap < 0.2, "{dtype}: {gap}");
        }
    }
    let packed = w.to_dtype(DType::Quant(QuantType::Q8_0))?;
    let half = x.to_dtype(DType::BF16)?.linear(&packed, Some(&bias))?;
    assert_eq!(half.dtype(), DType::BF16);
    let relu = x.linear_activated(&w, None, Some(rustorch_tensor::UnaryOp::Relu))?;
    assert!(relu.allclose(&x.linear(&w, None)?.relu()?, 1e-5, 1e-6, false)?);
    Ok(())
}

#[test]
fn experts_are_chosen_by_id() -> Result<()> {
    let g = Generator::new(3);
    let (x, w) = (g.randn([2, 1, 8], DType::F32)?, g.randn([4, 3, 8], DType::F32)?);
    let ids = Tensor::new([[3i32, 0], [1, 1]])?;
    let got = x.mul_mat_id(&w, &ids, Numerics::Ggml)?;
    assert_eq!(got.dims(), [2, 2, 3]);
    for (t, k, expert) in [(0, 0, 3), (0, 1, 0), (1, 0, 1), (1, 1, 1)] {
        let want = x.select(0, t)?.select(0, 0)?.linear(&w.select(0, expert)?, None)?;
        assert!(got.select(0, t)?.select(0, k)?.allclose(&want, 1e-5, 1e-6, false)?);
    }
    Ok(())
}

#[test]
fn attention_with_a_cache_continues_where_it_was() -> Result<()> {
    let g = Generator::new(4);
    let [q, k, v] = [(); 3].map(|()| g.randn([1, 2, 6, 8], DType::F32));
    let (q, k, v) = (q?, k?, v?);
    let full = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None)?;
    let attention = Attention { causal: Some(4), ..Attention::new(1.0 / 8f32.sqrt()) };
    let last = Tensor::attention(&q.narrow(2, 4, 2)?, &k, &v, None, &attention)?;
    assert!(last.allclose(&full.narrow(2, 4, 2)?, 1e-5, 1e-6, false)?);
    // Leading dimensions broadcast.
    let shared = Tensor::scaled_dot_product_attention(&q.expand([3, 2, 6, 8])?, &k, &v, None, true, None)?;
    assert!(shared.select(0, 2)?.allclose(&full.select(0, 0)?, 1e-5, 1e-6, false)?);
    Ok(())
}

#[test]
fn random_numbers_repeat_by_seed_and_follow_their_laws() -> Result<()> {
    let _draws = process_generator();
    let g = Generator::new(7);
    let first = g.rand([1000], DType::F32)?;
    let second = g.rand([1000], DType::F32)?;
    assert_ne!(floats(&first), floats(&second));
    g.manual_seed(7);
    assert_eq!(floats(&g.rand([1000], DType::F32)?), floats(&first));
    let state = g.state();
    let next = g.randn([10], DType::F64)?.to_vec::<f64>()?;
    g.set_state(state);
    assert_eq!(g.randn([10], DType::F64)?.to_vec::<f64>()?, next);

    let n = 100_000;
    let uniform = g.uniform(-1.0, 3.0, [n], DType::F32)?;
    assert!(uniform.ge(-1.0)?.all_all()?.item()?.to_bool() && uniform.lt(3.0)?.all_all()?.item()?.to_bool());
    assert!((uniform.mean_all()?.item()?.to_f64() - 1.0).abs() < 0.02);
    assert!((uniform.var(.., 1.0, false)?.item()?.to_f64() - 16.0 / 12.0).abs() < 0.03);
    let normal = g.normal(5.0, 2.0, [n], DType::F32)?;
    assert!((normal.mean_all()?.item()?.to_f64() - 5.0).abs() < 0.03);
    assert!((normal.std(.., 1.0, false)?.item()?.to_f64() - 2.0).abs() < 0.03);
    let dice = g.randint(1, 7, [n], DType::I64)?;
    for face in 1..7 {
        let share = dice.eq(face)?.sum_all()?.item()?.to_f64() / n as f64;
        assert!((share - 1.0 / 6.0).abs() < 0.01, "{face}: {share}");
    }
    let coins = g.bernoulli(0.25, [n], DType::Bool)?;
    assert!((coins.sum_all()?.item()?.to_f64() / n as f64 - 0.25).abs() < 0.01);
    let (order, _) = g.randperm(50)?.sort(0, false)?;
    assert_eq!(order.to_vec::<i64>()?, (0..50).collect::<Vec<i64>>());

    manual_seed(11);
    let a = Tensor::randn([4], DType::F32)?;
    assert_eq!(a.device(), Device::CPU);
    assert_eq!(a.rand_like()?.dims(), [4]);
    Ok(())
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() -> Result<()> {
    let compute = |threads| {
        HybridExecutor::builder().threads(threads).build()?.scope(|| -> Result<[Vec<f32>; 4]> {
            let g = Generator::new(5);
            let x = g.randn([300, 1001], DType::F32)?;
            let total = x.sum_all()?.to_vec()?;
            let product = x.matmul(&x.t()?)?.narrow(0, 0, 3)?.to_vec()?;
            Ok([x.to_vec()?, total, product, x.softmax(1)?.cumsum(0)?.to_vec()?])
        })
    };
    assert_eq!(compute(1)?, compute(2)?);
    assert_eq!(compute(1)?, compute(5)?);
    Ok(())
}

#[test]
fn threads_share_tensors() {
    let x = Tensor::arange_with(0, 1000, 1, DType::F32).unwrap();
    let target = Tensor::zeros([1000], DType::F32).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (x, target) = (&x, &target);
            scope.spawn(move || {
                for i in 0..100 {
                    let y = x.mul(t).unwrap().add(x).unwrap();
                    assert_eq!(y.item_at(&[999]).unwrap().to_f64(), 999.0 * (t as f64 + 1.0));
                    target.fill_(t * 1000 + i).unwrap();
                    // Whoever wrote last, every element is of one write.
                    let seen = target.copy().unwrap();
                    assert_eq!(
                        seen.max_all().unwrap().item().unwrap(),
                        seen.min_all().unwrap().item().unwrap()
                    );
                }
            });
        }
    });
}

#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Tensor>();
    check::<Generator>();
}

#[test]
fn axes_count_from_either_end_in_any_order_and_are_distinct() {
    let x = Tensor::arange(0, 24, 1).unwrap().reshape([2, 3, 4]).unwrap();
    let sum = x.sum([-1, 0], false).unwrap();
    assert_eq!((sum.dims(), sum.to_vec::<i64>().unwrap()), (&[3][..], vec![60, 92, 124]));
    assert_eq!(x.sum(.., false).unwrap().to_vec::<i64>().unwrap(), [276]);
    let scalar = Tensor::arange(0, 1, 1).unwrap().reshape(()).unwrap();
    assert_eq!(scalar.sum(-1, false).unwrap().ndim(), 0);
    assert!(x.sum([1, -2], false).unwrap_err().to_string().contains("twice"));
    assert!(x.sum(3, false).is_err());
}
