//! Attention with a cache gives position after position what it gives for a whole sequence. That one is compared with PyTorch's in `modules`.

use rustorch_nn::{
    GroupedQueryAttention, GroupedQueryAttentionOptions, KeyValueCache, Layer, RotaryEmbedding,
    RotaryEmbeddingOptions,
};
use rustorch_tensor::{DType, Result, RopeStyle, Tensor};

fn attention(dtype: DType) -> Result<GroupedQueryAttention> {
    let rotary = RotaryEmbeddingOptions { style: RopeStyle::Halves, ..Default::default() };
    let options = GroupedQueryAttentionOptions::default()
        .rotary(RotaryEmbedding::with(4, rotary)?)
        .bias(true)
        .tensor(dtype);
    GroupedQueryAttention::with(16, 4, 2, options)
}

/// The largest difference.
fn gap(a: &Tensor, b: &Tensor) -> Result<f64> {
    assert_eq!(a.dims(), b.dims());
    Ok(a.sub(b)?.detach().abs()?.amax(.., false)?.item()?.to_f64())
}

#[test]
fn parts_of_a_sequence_give_what_the_whole_gives() -> Result<()> {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
        let attention = attention(dtype)?;
        for dims in [&[2, 12, 16][..], &[12, 16]] {
            let x = Tensor::randn(dims, dtype)?;
            let whole = attention.forward(&x)?;
            for lengths in [&[1; 12][..], &[5, 1, 1, 5], &[12], &[3, 9], &[1, 4, 7]] {
                let mut cache = KeyValueCache::new();
                let mut start = 0;
                for &len in lengths {
                    let y = attention.forward_cached(&x.narrow(-2, start, len)?, &mut cache)?;
                    let gap = gap(&y, &whole.narrow(-2, start, len)?)?;
                    assert!(gap <= tolerance, "{dtype} {dims:?} {lengths:?} at {start}: {gap}");
                    start += len;
                }
                assert_eq!(cache.len(), 12);
            }
        }
    }
    Ok(())
}

#[test]
fn a_truncated_cache_goes_on_from_there() -> Result<()> {
    let attention = attention(DType::F64)?;
    let x = Tensor::randn([1, 6, 16], DType::F64)?;
    let mut cache = KeyValueCache::new();
    attention.forward_cached(&Tensor::cat(&[x.narrow(1, 0, 4)?, x.narrow(1, 0, 2)?], 1)?, &mut cache)?;
    cache.truncate(4);
    let y = attention.forward_cached(&x.narrow(1, 4, 2)?, &mut cache)?;
    assert!(gap(&y, &attention.forward(&x)?.narrow(1, 4, 2)?)? <= 1e-12);
    // Empty, it takes another batch.
    cache.truncate(0);
    assert!(cache.is_empty());
    attention.forward_cached(&Tensor::zeros([3, 1, 16], DType::F64)?, &mut cache)?;
    assert_eq!(cache.len(), 1);
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
    let zeros = |dims: &[usize]| Tensor::zeros(dims, DType::F32).unwrap();
    let attention = attention(DType::F32)?;
    let mut cache = KeyValueCache::new();
    attention.forward_cached(&zeros(&[2, 3, 16]), &mut cache)?;
    let other = attention.forward_cached(&zeros(&[1, 1, 16]), &mut cache);
    refused(other, &["GroupedQueryAttention", "cache", "[2, 2, 3, 4]", "[1, 2, 1, 4]"]);
    // Nothing was lost.
    assert_eq!(cache.len(), 3);
    attention.forward_cached(&zeros(&[2, 1, 16]), &mut cache)?;
    refused(attention.forward(&zeros(&[2, 3, 8])), &["GroupedQueryAttention", "[n, l, 16]", "[2, 3, 8]"]);
    refused(
        GroupedQueryAttention::new(16, 4, 3),
        &["GroupedQueryAttention", "num_heads 4", "num_kv_heads 3"],
    );
    refused(GroupedQueryAttention::new(15, 4, 2), &["embed_dim 15", "num_heads 4"]);
    let everywhere = GroupedQueryAttentionOptions::default().is_causal(false);
    let attention = GroupedQueryAttention::with(16, 4, 2, everywhere)?;
    refused(attention.forward_cached(&zeros(&[1, 1, 16]), &mut KeyValueCache::new()), &["causal"]);
    refused(RotaryEmbedding::new(3), &["RotaryEmbedding", "even", "3"]);
    let base = RotaryEmbeddingOptions { base: -1.0, ..Default::default() };
    refused(RotaryEmbedding::with(4, base), &["RotaryEmbedding", "base", "-1"]);
    refused(RotaryEmbedding::new(4)?.forward(&zeros(&[4])), &["RotaryEmbedding", "[.., l, head_dim]", "[4]"]);
    refused(RotaryEmbedding::new(4)?.forward(&zeros(&[2, 2])), &["RotaryEmbedding", "[2, 2]"]);
    Ok(())
}
