//! Dropout: its mask, its gradient, and where the mask comes from.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::process_generator;
use rustorch_core::{Attention, Dropout, Numerics, Op};
use rustorch_tensor::autograd::{BackwardOptions, GradOptions, apply, checkpoint, grad, no_grad};
use rustorch_tensor::{AttentionOptions, DType, Generator, PhiloxKey, Result, Tensor};

fn kept(x: &Tensor) -> Vec<bool> {
    let values = x.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    values.into_iter().map(|x| x != 0.0).collect()
}

#[test]
fn elements_are_dropped_with_the_probability_and_independently() -> Result<()> {
    const N: usize = 1_000_000;
    let random = Generator::new(11);
    let x = Tensor::ones([N], DType::F32)?;
    for p in [0.001, 0.1, 0.5, 0.75, 0.999] {
        let y = random.dropout(&x, p)?;
        let scale = (1.0 / (1.0 - p)) as f32;
        assert!(y.to_vec::<f32>()?.iter().all(|&y| y == 0.0 || y == scale));
        let kept = kept(&y);
        let within = |count: usize, of: usize, probability: f64| {
            let (mean, sigma) =
                (of as f64 * probability, (of as f64 * probability * (1.0 - probability)).sqrt());
            assert!((count as f64 - mean).abs() < 5.0 * sigma, "p = {p}: {count} of {of}, not about {mean}");
        };
        within(kept.iter().filter(|&&kept| kept).count(), N, 1.0 - p);
        // Pairs of neighbours, of the halves of a word, of the words of a block, of blocks and of groups, without overlap.
        for step in [1, 16, 32, 128, 2048] {
            let pairs = (0..N - step).filter(|i| i / step % 2 == 0);
            let both = pairs.clone().filter(|&i| kept[i] && kept[i + step]).count();
            within(both, pairs.count(), (1.0 - p) * (1.0 - p));
        }
    }
    Ok(())
}

#[test]
fn the_gradient_has_the_mask_and_nothing_is_saved() -> Result<()> {
    let random = Generator::new(12);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = random.uniform(1.0, 2.0, [37, 41], dtype)?;
        x.requires_grad_(true)?;
        let y = random.dropout(&x, 0.4)?;
        assert_eq!(y.graph().unwrap().nodes().iter().map(|node| node.saved_bytes).sum::<usize>(), 0);
        let direction = random.uniform(1.0, 2.0, [37, 41], dtype)?;
        // Twice the same.
        for _ in 0..2 {
            let options = BackwardOptions { retain_graph: true, ..BackwardOptions::default() };
            x.zero_grad();
            y.backward_with(Some(&direction), &options)?;
            let dx = x.grad().unwrap();
            assert_eq!(kept(&dx), kept(&y));
            assert!(kept(&dx).contains(&true) && kept(&dx).contains(&false));
            let ratio = dx.div(&direction)?.max_all()?.item()?.to_f64();
            assert!((ratio - 1.0 / 0.6).abs() < 0.02, "{ratio}");
        }
    }
    // The second gradient with respect to the direction is the mask again.
    let x = random.randn([50], DType::F64)?;
    let direction = Tensor::ones([50], DType::F64)?;
    for x in [&x, &direction] {
        x.requires_grad_(true)?;
    }
    let y = random.dropout(&x, 0.5)?;
    let options = GradOptions { create_graph: true, ..GradOptions::default() };
    let first = grad(&[&y], &[&x], &[Some(&direction)], options)?[0].clone().unwrap();
    let second = grad(&[&first.sum_all()?], &[&direction], &[], GradOptions::default())?[0].clone().unwrap();
    assert_eq!(second.to_vec::<f64>()?, first.detach().to_vec::<f64>()?);
    Ok(())
}

#[test]
fn edges_and_errors() -> Result<()> {
    let _draws = process_generator();
    let x = Tensor::new([1.0f32, -2.0, f32::INFINITY])?;
    assert_eq!(x.dropout(0.0, true)?.to_vec::<f32>()?, [1.0, -2.0, f32::INFINITY]);
    assert_eq!(x.dropout(0.5, false)?.to_vec::<f32>()?, [1.0, -2.0, f32::INFINITY]);
    let none = x.dropout(1.0, true)?.to_vec::<f32>()?;
    // As in PyTorch, infinity times zero is no number.
    assert!(none[0] == 0.0 && none[1] == 0.0 && none[2].is_nan());
    assert_eq!(Tensor::zeros([0, 3], DType::F32)?.dropout(0.5, true)?.dims(), [0, 3]);
    assert_eq!(Tensor::ones([], DType::F32)?.dropout(1.0, true)?.item()?.to_f64(), 0.0);
    for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        for training in [false, true] {
            let message = x.dropout(p, training).unwrap_err().to_string();
            assert!(message.contains("dropout") && message.contains("from 0 to 1"), "{message}");
        }
    }
    let message = Tensor::ones([3], DType::I64)?.dropout(0.5, true).unwrap_err().to_string();
    assert!(message.contains("dropout") && message.contains("i64"), "{message}");
    Ok(())
}

#[test]
fn a_seed_gives_the_mask_and_each_call_another() -> Result<()> {
    let x = Tensor::ones([3, 5], DType::F32)?;
    let (one, other) = (Generator::new(5), Generator::new(5));
    let first = one.dropout(&x, 0.5)?.to_vec::<f32>()?;
    assert_eq!(first, other.dropout(&x, 0.5)?.to_vec::<f32>()?);
    let more: Vec<f32> =
        (0..20).flat_map(|_| one.dropout(&x, 0.5).unwrap().to_vec::<f32>().unwrap()).collect();
    assert!(more.chunks(15).any(|mask| *mask != first[..]));
    // What is drawn next begins after all blocks of the mask.
    let state = Generator::new(9);
    state.dropout(&Tensor::ones([129], DType::F32)?, 0.5)?;
    assert_eq!(state.state().offset, 32);
    Ok(())
}

/// The mask is that of the positions in the view.
#[test]
fn layouts_and_writes_in_place_have_the_same_mask() -> Result<()> {
    let op = Op::Dropout(Dropout { p: 0.3, key: PhiloxKey { seed: 8, offset: 100 } });
    let x = Generator::new(1).uniform(1.0, 2.0, [7, 5, 60], DType::F32)?;
    let plain = apply(&op, &[&x])?[0].to_vec::<f32>()?;
    let views = [
        x.permute([2, 0, 1])?.copy()?.permute([1, 2, 0])?,
        Tensor::stack(&[&x, &x], -1)?.select(-1, 1)?,
        Tensor::cat(&[&x, &x], 0)?.narrow(0, 7, 7)?,
    ];
    for view in views {
        assert_eq!(apply(&op, &[&view])?[0].to_vec::<f32>()?, plain);
    }
    let expanded = Tensor::ones([1, 1, 60], DType::F32)?.expand([7, 5, 60])?;
    let mask = apply(&op, &[&expanded])?[0].clone();
    assert_eq!(kept(&mask), plain.iter().map(|&x| x != 0.0).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn checkpoints_draw_the_mask_again() -> Result<()> {
    let _draws = process_generator();
    let x = Generator::new(2).uniform(1.0, 2.0, [1000], DType::F64)?;
    x.requires_grad_(true)?;
    let y = checkpoint(|x| Ok(vec![x[0].exp()?.dropout(0.5, true)?.square()?]), &[&x])?;
    y[0].sum_all()?.backward()?;
    // y is (m·eˣ)², whose derivative is 2y.
    let want = no_grad(|| y[0].detach().mul(2))?.to_vec::<f64>()?;
    for (got, want) in x.grad().unwrap().to_vec::<f64>()?.iter().zip(&want) {
        assert!((got - want).abs() <= 1e-12 * want.abs(), "{got} instead of {want}");
    }
    assert!(want.contains(&0.0));
    Ok(())
}

#[test]
fn attention_drops_weights() -> Result<()> {
    let _draws = process_generator();
    // Values are the unit vectors, so that results are the weights: as many as queries, heads and batches say.
    let (q, k) = (Tensor::zeros([3, 2, 40, 4], DType::F32)?, Tensor::zeros([3, 1, 60, 4], DType::F32)?);
    let v = Tensor::eye(60, 60, DType::F32)?;
    let options = AttentionOptions { dropout_p: 0.25, ..Default::default() };
    let run = || Tensor::scaled_dot_product_attention_with(&q, &k, &v, &options)?.to_vec::<f32>();
    let (weights, other) = (run()?, run()?);
    assert_eq!(weights.len(), 3 * 2 * 40 * 60);
    let scale = 1.0 / 60.0 / 0.75;
    assert!(weights.iter().all(|&w| w == 0.0 || (w - scale).abs() < 1e-7));
    let kept = weights.iter().filter(|&&w| w != 0.0).count() as f64;
    let (mean, sigma) = (14400.0 * 0.75, (14400.0f64 * 0.75 * 0.25).sqrt());
    assert!((kept - mean).abs() < 5.0 * sigma, "{kept} of 14400 are kept");
    assert_ne!(weights, other, "two calls have one mask");
    Ok(())
}

#[test]
fn attention_takes_its_mask_from_the_stream() -> Result<()> {
    let generator = Generator::new(9);
    let x = generator.randn([2, 5, 4], DType::F64)?;
    let (q, before) = (generator.randn([2, 3, 4], DType::F64)?, generator.state());
    // Of 2 · 3 · 5 weights: one group of 16 blocks.
    let dropout = generator.dropout_mask(0.5, 30);
    assert_eq!((dropout.key, generator.state().offset), (before, before.offset + 16));
    let op = Attention {
        scale: 0.5,
        causal: None,
        window: None,
        softcap: None,
        numerics: Numerics::F32,
        batch_invariant: false,
        lse: false,
        dropout: Some(dropout),
    };
    let got = Tensor::attention(&q, &x, &x, None, &op)?;
    generator.set_state(before);
    let weights = q.matmul(&x.transpose(-2, -1)?)?.mul(0.5)?.softmax(-1)?;
    let want = generator.dropout(&weights, 0.5)?.matmul(&x)?;
    assert!(got.allclose(&want, 1e-12, 1e-12, false)?);
    Ok(())
}

#[test]
fn attention_in_checkpoints_draws_the_mask_again() -> Result<()> {
    let _draws = process_generator();
    let random = Generator::new(3);
    let (q, k) = (random.randn([2, 9, 4], DType::F64)?, random.randn([2, 9, 4], DType::F64)?);
    // Values are the unit vectors, so that the result is the dropped weights.
    let v = Tensor::eye(9, 9, DType::F64)?.expand([2, 9, 9])?;
    let direction = random.randn([2, 9, 9], DType::F64)?;
    q.requires_grad_(true)?;
    k.requires_grad_(true)?;
    let function = |x: &[Tensor]| {
        let options = AttentionOptions { dropout_p: 0.5, scale: Some(0.7), ..Default::default() };
        Ok(vec![Tensor::scaled_dot_product_attention_with(&x[0], &x[1], &x[2], &options)?])
    };
    let y = checkpoint(function, &[&q, &k, &v])?.remove(0);
    let got = grad(&[&y.mul(&direction)?.sum_all()?], &[&q, &k], &[], GradOptions::default())?;
    let weights = q.matmul(&k.transpose(-2, -1)?)?.mul(0.7)?.softmax(-1)?;
    let mask = y.detach().div(&weights.detach())?;
    assert!(kept(&mask).contains(&true) && kept(&mask).contains(&false));
    let want = weights.mul(&mask)?.mul(&direction)?.sum_all()?;
    let want = grad(&[&want], &[&q, &k], &[], GradOptions::default())?;
    for (got, want) in got.iter().zip(&want) {
        let (got, want) = (got.as_ref().unwrap(), want.as_ref().unwrap());
        assert!(got.allclose(want, 1e-10, 1e-10, false)?, "{got} instead of {want}");
    }
    Ok(())
}

#[test]
fn attention_says_what_is_wrong_with_its_dropout() -> Result<()> {
    let _draws = process_generator();
    let x = Tensor::zeros([1, 3, 4], DType::F32)?;
    for dropout_p in [-0.1, 1.1, f64::NAN] {
        let options = AttentionOptions { dropout_p, ..Default::default() };
        let error = Tensor::scaled_dot_product_attention_with(&x, &x, &x, &options).unwrap_err().to_string();
        assert!(error.contains("attention: p of dropout must be from 0 to 1"), "{error}");
    }
    let op = Attention {
        scale: 0.5,
        causal: None,
        window: None,
        softcap: None,
        numerics: Numerics::Ggml,
        batch_invariant: false,
        lse: false,
        dropout: Some(Generator::new(0).dropout_mask(0.5, 9)),
    };
    let cache = x.to_dtype(DType::F16)?;
    let error = Tensor::attention(&x, &cache, &cache, None, &op).unwrap_err().to_string();
    assert!(error.contains("rounds to f16 has no dropout; take Numerics::F32"), "{error}");
    Ok(())
}
