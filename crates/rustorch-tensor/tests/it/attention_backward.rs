//! Gradients of attention, and their own gradients, against the formula written as tensor operations; and how attention is recorded.

use crate::norm_backward::same_gradients;
use rustorch_core::{AttentionBackward, Dropout, Op, PhiloxKey};
use rustorch_tensor::autograd::{GradOptions, apply, autocast, checkpoint, grad, no_grad};
use rustorch_tensor::{Attention, DType, Generator, Numerics, Result, Tensor};

fn plain() -> Attention {
    Attention::new(0.4)
}

fn leaf(random: &Generator, dims: &[usize], dtype: DType) -> Result<Tensor> {
    let x = random.uniform(-1.5, 1.5, dims, dtype)?;
    x.requires_grad_(true)?;
    Ok(x)
}

/// Attention by its definition, for heads of queries `group` of which share keys, with what is added to scores.
fn definition(attention: &Attention, x: &[Tensor], added: Option<&Tensor>) -> Result<Tensor> {
    let group = x[0].dims()[0] / x[1].dims()[0];
    let [k, v] = [&x[1], &x[2]].map(|x| x.repeat_interleave(group, 0));
    let mut scores = x[0].matmul(&k?.transpose(-2, -1)?)?.mul(attention.scale)?;
    if let Some(cap) = attention.softcap {
        scores = scores.div(cap)?.tanh()?.mul(cap)?;
    }
    if let Some(added) = added {
        scores = scores.add(added)?;
    }
    let weights = scores.softmax(-1)?;
    match &attention.dropout {
        Some(dropout) => apply(&Op::Dropout(dropout.clone()), &[&weights])?[0].matmul(&v?),
        None => weights.matmul(&v?),
    }
}

#[test]
fn first_and_second_gradients() -> Result<()> {
    let random = Generator::new(5);
    let capped = Attention { softcap: Some(1.5), ..plain() };
    for (attention, heads, kv_heads) in [(plain(), 1, 1), (plain(), 4, 2), (capped, 2, 1)] {
        let args = [
            leaf(&random, &[heads, 3, 4], DType::F64)?,
            leaf(&random, &[kv_heads, 5, 4], DType::F64)?,
            leaf(&random, &[kv_heads, 5, 2], DType::F64)?,
            leaf(&random, &[3, 5], DType::F64)?,
        ];
        let run =
            |x: &[Tensor], mask: Option<&Tensor>| Tensor::attention(&x[0], &x[1], &x[2], mask, &attention);
        same_gradients(&args[..3], |x| run(x, None), |x| definition(&attention, x, None))?;
        // A mask that needs a gradient, and one that does not.
        same_gradients(&args, |x| run(x, Some(&x[3])), |x| definition(&attention, x, Some(&x[3])))?;
        let mask = args[3].detach();
        same_gradients(&args[..3], |x| run(x, Some(&mask)), |x| definition(&attention, x, Some(&mask)))?;
        // Query 0 sees keys 0 to 2, query 1 one more.
        let causal = Attention { causal: Some(2), ..attention.clone() };
        let hidden = Tensor::new([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])?.ne(0)?;
        let hidden = Tensor::zeros([3, 5], DType::F64)?.masked_fill(&hidden, f64::NEG_INFINITY)?;
        same_gradients(
            &args[..3],
            |x| Tensor::attention(&x[0], &x[1], &x[2], None, &causal),
            |x| definition(&attention, x, Some(&hidden)),
        )?;
    }
    Ok(())
}

/// Weights are dropped as by the operation itself, behind every kind of mask.
#[test]
fn dropout_is_that_of_the_weights() -> Result<()> {
    let random = Generator::new(10);
    for (heads, kv_heads, m, n) in [(1, 1, 3, 5), (4, 2, 7, 9), (2, 1, 40, 150)] {
        let args = [
            leaf(&random, &[heads, m, 4], DType::F64)?,
            leaf(&random, &[kv_heads, n, 4], DType::F64)?,
            leaf(&random, &[kv_heads, n, 2], DType::F64)?,
            leaf(&random, &[m, n], DType::F64)?,
        ];
        let dropout = Dropout { p: 0.3, key: PhiloxKey { seed: 21, offset: 7 } };
        let dropped = Attention { dropout: Some(dropout), ..plain() };
        let capped = Attention { softcap: Some(1.5), ..dropped.clone() };
        for attention in [dropped, capped] {
            let run = |x: &[Tensor], mask: Option<&Tensor>, attention: &Attention| {
                Tensor::attention(&x[0], &x[1], &x[2], mask, attention)
            };
            let plain = |x: &[Tensor]| run(x, None, &attention);
            same_gradients(&args[..3], plain, |x| definition(&attention, x, None))?;
            // A mask that needs a gradient, one that does not, and one of booleans.
            let with_mask = |x: &[Tensor]| run(x, Some(&x[3]), &attention);
            same_gradients(&args, with_mask, |x| definition(&attention, x, Some(&x[3])))?;
            let mask = args[3].detach();
            let with_mask = |x: &[Tensor]| run(x, Some(&mask), &attention);
            same_gradients(&args[..3], with_mask, |x| definition(&attention, x, Some(&mask)))?;
            let keep = mask.gt(-1.0)?;
            let hidden = Tensor::zeros([m, n], DType::F64)?;
            let hidden = hidden.masked_fill(&keep.logical_not()?, f64::NEG_INFINITY)?;
            let with_mask = |x: &[Tensor]| run(x, Some(&keep), &attention);
            same_gradients(&args[..3], with_mask, |x| definition(&attention, x, Some(&hidden)))?;
            // Query i sees keys up to i + 2, and two before that.
            let limited = Attention { causal: Some(2), window: Some(3), ..attention.clone() };
            let last = Tensor::arange(2, 2 + m as i64, 1)?.unsqueeze(-1)?;
            let key = Tensor::arange(0, n as i64, 1)?;
            let outside = key.gt(&last)?.logical_or(&key.le(&last.sub(3)?)?)?;
            let hidden = Tensor::zeros([m, n], DType::F64)?.masked_fill(&outside, f64::NEG_INFINITY)?;
            let with_limits = |x: &[Tensor]| run(x, None, &limited);
            same_gradients(&args[..3], with_limits, |x| definition(&limited, x, Some(&hidden)))?;
        }
    }
    Ok(())
}

#[test]
fn the_log_sum_exp_has_gradients() -> Result<()> {
    let random = Generator::new(6);
    let args = [
        leaf(&random, &[2, 3, 4], DType::F64)?,
        leaf(&random, &[2, 5, 4], DType::F64)?,
        leaf(&random, &[2, 5, 2], DType::F64)?,
    ];
    let op = Op::Attention(Attention { lse: true, ..plain() });
    same_gradients(
        &args,
        |x| {
            let results = apply(&op, &[&x[0], &x[1], &x[2]])?;
            results[0].sum(-1, false)?.add(&results[1].mul(0.7)?)
        },
        |x| {
            let scores = x[0].matmul(&x[1].transpose(-2, -1)?)?.mul(plain().scale)?;
            definition(&plain(), x, None)?.sum(-1, false)?.add(&scores.logsumexp(-1, false)?.mul(0.7)?)
        },
    )?;
    // Alone, without the result.
    let lse = apply(&op, &[&args[0], &args[1], &args[2]])?[1].clone();
    let scores = args[0].matmul(&args[1].transpose(-2, -1)?)?.mul(plain().scale)?;
    let inputs = [&args[0], &args[1]];
    let got = grad(&[&lse.sum_all()?], &inputs, &[], GradOptions::default())?;
    let want = grad(&[&scores.logsumexp(-1, false)?.sum_all()?], &inputs, &[], GradOptions::default())?;
    for (got, want) in got.iter().zip(&want) {
        assert!(got.as_ref().expect("used").allclose(want.as_ref().expect("used"), 1e-10, 1e-12, false)?);
    }
    assert!(
        Tensor::attention(&args[0], &args[1], &args[2], None, &Attention { lse: true, ..plain() }).is_err()
    );
    Ok(())
}

#[test]
fn gradients_are_one_operation() -> Result<()> {
    let random = Generator::new(7);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let (q, k) = (leaf(&random, &[2, 70, 8], dtype)?, leaf(&random, &[1, 70, 8], dtype)?);
        let v = leaf(&random, &[1, 70, 8], dtype)?;
        let causal = Attention { causal: Some(0), ..plain() };
        let run = move |x: &[Tensor]| Tensor::attention(&x[0], &x[1], &x[2], None, &causal);
        let args = [q.clone(), k.clone(), v.clone()];
        let y = run(&args)?;
        assert_eq!(y.grad_fn().expect("recorded").name(), "attention");
        let untracked = no_grad(|| run(&args))?;
        assert_eq!(y.to_bytes()?, untracked.to_bytes()?, "the recorded form has other bits");
        let options = GradOptions { create_graph: true, ..GradOptions::default() };
        let grads = grad(&[&y.sum_all()?], &[&q, &k, &v], &[], options)?;
        for (x, dx) in [&q, &k, &v].into_iter().zip(&grads) {
            let dx = dx.as_ref().expect("used");
            assert_eq!((dx.dtype(), dx.dims()), (dtype, x.dims()));
            assert_eq!(dx.grad_fn().expect("recorded").name(), "attention_backward");
        }
        // Computed again by a checkpoint: the same bits.
        let loss = checkpoint(move |x| Ok(vec![run(x)?.sum_all()?]), &[&q, &k, &v])?;
        let again = grad(&[&loss[0]], &[&q, &k, &v], &[], GradOptions::default())?;
        for (again, one) in again.iter().zip(&grads) {
            let (again, one) = (again.as_ref().expect("used"), one.as_ref().expect("used"));
            assert_eq!(again.to_bytes()?, one.to_bytes()?);
        }
    }
    Ok(())
}

#[test]
fn autocast_computes_attention_in_16_bits() -> Result<()> {
    let random = Generator::new(8);
    let x = leaf(&random, &[2, 9, 8], DType::F32)?;
    let y = autocast(DType::BF16, || Tensor::scaled_dot_product_attention(&x, &x, &x, None, true, None))??;
    assert_eq!(y.dtype(), DType::BF16);
    y.sum_all()?.backward()?;
    let got = x.grad().expect("used");
    x.zero_grad();
    Tensor::scaled_dot_product_attention(&x, &x, &x, None, true, None)?.sum_all()?.backward()?;
    let want = x.grad().expect("used");
    assert_eq!(got.dtype(), DType::F32);
    // Seventeen queries' worth of products, each of which is off by half a unit of 2⁻⁸.
    assert!(got.allclose(&want, 0.05, 0.1, false)?);
    Ok(())
}

/// A result that was written in place is what the gradient needs, and found out.
#[test]
fn writes_to_the_result_are_found() -> Result<()> {
    let random = Generator::new(9);
    let x = leaf(&random, &[1, 3, 4], DType::F32)?;
    let y = Tensor::attention(&x, &x, &x, None, &plain())?;
    no_grad(|| y.detach().fill_(0))?;
    let error = y.sum_all()?.backward().expect_err("the result was written").to_string();
    assert!(error.contains("result 0 of attention was written in place"), "{error}");
    Ok(())
}

#[test]
fn arguments_that_do_not_fit_are_named() -> Result<()> {
    let zeros = |dims: &[usize], dtype| Tensor::zeros(dims, dtype);
    let f32 = DType::F32;
    let (q, k, v) = (zeros(&[4, 3, 8], f32)?, zeros(&[2, 5, 8], f32)?, zeros(&[2, 5, 6], f32)?);
    let (out, lse) = (zeros(&[4, 3, 6], f32)?, zeros(&[4, 3], f32)?);
    let all = AttentionBackward { attention: plain(), q: true, k: true, v: true };
    let fails = |op: &AttentionBackward, args: &[&Tensor], part: &str| {
        let error = apply(&Op::AttentionBackward(op.clone()), args).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("attention_backward") && error.contains(part),
            "`{error}` does not say `{part}`"
        );
    };
    let wide = zeros(&[4, 3, 8], f32)?;
    fails(&all, &[&wide, &q, &k, &v, &out, &lse], "the gradient does not have the shape");
    fails(&all, &[&out, &q, &k, &v, &wide, &lse], "the result does not have the shape");
    fails(&all, &[&out, &q, &k, &v, &out, &out], "the log-sum-exp does not have the shape");
    let double = lse.to_dtype(DType::F64)?;
    fails(&all, &[&out, &q, &k, &v, &out, &double], "the log-sum-exp must be f32");
    let half = out.to_dtype(DType::F16)?;
    fails(&all, &[&half, &q, &k, &v, &out, &lse], "the gradient must be f32");
    fails(&all, &[&out, &q, &k, &v, &out], "argument");
    let none = AttentionBackward { q: false, k: false, v: false, ..all.clone() };
    fails(&none, &[&out, &q, &k, &v, &out, &lse], "at least one of the gradients must be wanted");
    let (k, v) = (k.to_dtype(DType::F16)?, v.to_dtype(DType::F16)?);
    let rounded = AttentionBackward { attention: Attention { numerics: Numerics::Ggml, ..plain() }, ..all };
    fails(&rounded, &[&out, &q, &k, &v, &out, &lse], "take Numerics::F32");
    // Such attention is differentiated as if it did not round.
    let x = q.detach();
    x.requires_grad_(true)?;
    let y = Tensor::attention(&x, &k, &v, None, &rounded.attention)?;
    y.sum_all()?.backward()?;
    assert_eq!(x.grad().expect("used").to_vec::<f32>()?, vec![0.0; 96]);
    Ok(())
}

/// Merging the heads of a result is a view where those of the queries were columns of a matrix.
#[test]
fn heads_are_merged_without_a_copy() -> Result<()> {
    for dtype in [DType::F32, DType::BF16] {
        let x = Generator::new(7).randn([2, 5, 3 * 4], DType::F32)?.to_dtype(dtype)?;
        let q = x.reshape([2, 5, 3, 4])?.transpose(1, 2)?;
        let attend = |q: &Tensor| Tensor::scaled_dot_product_attention(q, q, q, None, true, None);
        let (result, packed) = (attend(&q)?, attend(&q.contiguous()?)?);
        assert_eq!(
            result.to_dtype(DType::F64)?.to_vec::<f64>()?,
            packed.to_dtype(DType::F64)?.to_vec::<f64>()?
        );
        let merged = result.transpose(1, 2)?.reshape([2, 5, 12])?;
        assert_eq!(merged.storage().identity(), result.storage().identity());
    }
    Ok(())
}
