use crate::testing::{Tensor, close, noise, run, run1};
use rustorch_core::{Attention, DType, Element, Op, bf16, f16};

fn plain() -> Attention {
    Attention::new(0.3)
}

/// The definition, in f64. `q: [heads, m, d], k: [kv, n, d], v: [kv, n, e]`.
fn reference(
    a: &Attention,
    (q, k, v): (&[f32], &[f32], &[f32]),
    [heads, kv, m, n, d, e]: [usize; 6],
    keep: &dyn Fn(usize, usize, usize) -> f64,
) -> Vec<f64> {
    let mut out = Vec::new();
    for h in 0..heads {
        let g = h / (heads / kv);
        for i in 0..m {
            let offset = a.causal.unwrap_or(0);
            let weights: Vec<f64> = (0..n)
                .map(|j| {
                    let hidden =
                        a.causal.is_some() && j > i + offset || a.window.is_some_and(|w| j + w <= i + offset);
                    if hidden {
                        return 0.0;
                    }
                    let dot: f64 = (0..d)
                        .map(|x| f64::from(q[(h * m + i) * d + x]) * f64::from(k[(g * n + j) * d + x]))
                        .sum();
                    let score = dot * f64::from(a.scale);
                    let score = a.softcap.map_or(score, |c| (score / f64::from(c)).tanh() * f64::from(c));
                    (score + keep(h, i, j)).exp()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            for x in 0..e {
                let sum: f64 = (0..n).map(|j| weights[j] * f64::from(v[(g * n + j) * e + x])).sum();
                out.push(if total == 0.0 { 0.0 } else { sum / total });
            }
        }
    }
    out
}

#[test]
fn agrees_with_the_definition() {
    let cases = [
        ([2, 2, 3, 5, 8, 8], plain()),
        ([4, 2, 7, 70, 20, 12], Attention { causal: Some(63), ..plain() }),
        ([6, 2, 33, 33, 64, 64], Attention { causal: Some(0), ..plain() }),
        (
            [4, 1, 40, 100, 16, 80],
            Attention { causal: Some(60), window: Some(37), softcap: Some(1.5), ..plain() },
        ),
        ([8, 1, 1, 129, 128, 128], Attention { causal: Some(128), ..plain() }),
        ([4, 2, 70, 300, 33, 65], Attention { causal: Some(230), window: Some(150), ..plain() }),
        ([1, 1, 400, 16, 2, 3], plain()),
        ([2, 1, 9, 4, 3, 1], Attention { causal: Some(0), window: Some(2), ..plain() }),
    ];
    for (sizes, attention) in cases {
        let [heads, kv, m, n, d, e] = sizes;
        let (q, k, v) = (noise(1, heads * m * d), noise(2, kv * n * d), noise(3, kv * n * e));
        let want = reference(&attention, (&q, &k, &v), sizes, &|_, _, _| 0.0);
        let tensors =
            [Tensor::new(&[heads, m, d], &q), Tensor::new(&[kv, n, d], &k), Tensor::new(&[kv, n, e], &v)];
        let got: Vec<f32> = run1(&Op::Attention(attention), &tensors.each_ref());
        close(&got, &want, 2e-6);
    }
}

#[test]
fn masks_hide_or_add() {
    let sizes = [4, 2, 6, 50, 16, 16];
    let [heads, kv, m, n, d, e] = sizes;
    let (q, k, v) = (noise(1, heads * m * d), noise(2, kv * n * d), noise(3, kv * n * e));
    let keep: Vec<bool> = (0..m * n).map(|i| i % 3 != 1 && i / n != 4).collect();
    let add: Vec<f32> = noise(4, heads * m);
    let tensors =
        [Tensor::new(&[heads, m, d], &q), Tensor::new(&[kv, n, d], &k), Tensor::new(&[kv, n, e], &v)];
    let mask = Tensor::new(&[m, n], &keep);
    let got: Vec<f32> = run1(&Op::Attention(plain()), &[&tensors[0], &tensors[1], &tensors[2], &mask]);
    let hidden = |_: usize, i: usize, j: usize| if keep[i * n + j] { 0.0 } else { f64::NEG_INFINITY };
    close(&got, &reference(&plain(), (&q, &k, &v), sizes, &hidden), 2e-6);
    assert!(got[4 * e..5 * e].iter().all(|&x| x == 0.0), "a query without keys gives zeros");
    // The same for many queries: four times as many, of which the others repeat.
    let repeat =
        |x: &[f32], row: usize| x.chunks(m * row).flat_map(|head| head.repeat(4)).collect::<Vec<_>>();
    let many = Tensor::new(&[heads, 4 * m, d], &repeat(&q, d));
    let mask = Tensor::new(&[4 * m, n], &keep.repeat(4));
    let got: Vec<f32> = run1(&Op::Attention(plain()), &[&many, &tensors[1], &tensors[2], &mask]);
    let want = reference(&plain(), (&q, &k, &v), sizes, &hidden);
    let want: Vec<f64> = want.chunks(m * e).flat_map(|head| head.repeat(4)).collect();
    close(&got, &want, 2e-6);
    // One number per query is added to all its scores alike: no change.
    let mask = Tensor::new(&[heads, m, 1], &add);
    let got: Vec<f32> = run1(&Op::Attention(plain()), &[&tensors[0], &tensors[1], &tensors[2], &mask]);
    close(&got, &reference(&plain(), (&q, &k, &v), sizes, &|_, _, _| 0.0), 2e-6);
}

#[test]
fn half_caches_and_double_precision() {
    let sizes = [4, 2, 3, 45, 24, 24];
    let [heads, kv, m, n, d, e] = sizes;
    let round = |x: Vec<f32>| x.into_iter().map(|x| f16::from_f32(x).to_f32()).collect::<Vec<_>>();
    let (q, k, v) = (noise(1, heads * m * d), round(noise(2, kv * n * d)), round(noise(3, kv * n * e)));
    let want = reference(&plain(), (&q, &k, &v), sizes, &|_, _, _| 0.0);
    let half = |x: &[f32]| x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
    // A cache laid out [n, kv, d], seen as [kv, n, d].
    let cache = |x: &[f32], width: usize| {
        let mut rows = Vec::new();
        for j in 0..n {
            for g in 0..kv {
                rows.extend_from_slice(&x[(g * n + j) * width..][..width]);
            }
        }
        Tensor::new(&[n, kv, width], &half(&rows)).with(|l| l.transpose(0, 1).unwrap())
    };
    let got: Vec<f32> =
        run1(&Op::Attention(plain()), &[&Tensor::new(&[heads, m, d], &q), &cache(&k, d), &cache(&v, e)]);
    close(&got, &want, 2e-6);
    let double =
        |dims: &[usize], x: &[f32]| Tensor::new(dims, &x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let got = run(
        &Op::Attention(plain()),
        &[&double(&[heads, m, d], &q), &double(&[kv, n, d], &k), &double(&[kv, n, e], &v)],
    )
    .unwrap();
    for (got, want) in got[0].values::<f64>().iter().zip(&want) {
        assert!((got - want).abs() < 1e-6 * want.abs().max(1e-3), "{got} {want}");
    }
    assert_eq!(got[0].view().dtype(), DType::F64);
}

/// Queries, keys and values in 16 bits against the definition, on this process's instruction set.
pub(crate) fn check_16_bits() {
    let cases = [
        ([2, 2, 16, 16, 32, 32], plain()),
        ([6, 2, 45, 150, 20, 33], Attention { causal: Some(100), ..plain() }),
        ([2, 1, 100, 300, 64, 80], Attention { causal: Some(0), window: Some(50), ..plain() }),
        ([2, 2, 33, 129, 7, 1], Attention { softcap: Some(1.5), ..plain() }),
    ];
    for (sizes, attention) in cases {
        // Weights are rounded to `bf16`, results to either: by a half of the last bit.
        check_dtype(sizes, &attention, bf16::from_f32, bf16::to_f32, 2.0f64.powi(-7));
        check_dtype(sizes, &attention, f16::from_f32, f16::to_f32, 2.0f64.powi(-10));
    }
}

fn check_dtype<T: Element>(
    sizes: [usize; 6],
    attention: &Attention,
    narrow: fn(f32) -> T,
    wide: fn(T) -> f32,
    tolerance: f64,
) {
    let [heads, kv, m, n, d, e] = sizes;
    let lists = [noise(1, heads * m * d), noise(2, kv * n * d), noise(3, kv * n * e)];
    let lists = lists.map(|x| x.into_iter().map(narrow).collect::<Vec<_>>());
    let [q, k, v] = lists.each_ref().map(|x| x.iter().map(|&x| wide(x)).collect::<Vec<_>>());
    let mask: Vec<T> = (0..m * n).map(|i| narrow(if i % 5 == 1 { -1.5 } else { 0.25 })).collect();
    let added = |_: usize, i: usize, j: usize| f64::from(wide(mask[i * n + j]));
    let tensors = [[heads, m, d], [kv, n, d], [kv, n, e]];
    let tensors: [_; 3] = std::array::from_fn(|i| Tensor::new(&tensors[i], &lists[i]));
    let mask = Tensor::new(&[m, n], &mask);
    let attention = Attention { lse: true, ..attention.clone() };
    let [q_view, k_view, v_view] = tensors.each_ref();
    let got = run(&Op::Attention(attention.clone()), &[q_view, k_view, v_view, &mask]).unwrap();
    let values: Vec<f32> = got[0].values::<T>().into_iter().map(wide).collect();
    close(&values, &reference(&attention, (&q, &k, &v), sizes, &added), tolerance);
    // Beside the sums of the kernel for few queries.
    let lse = got[1].values::<f32>();
    assert_eq!(lse.len(), heads * m);
    let same = Attention { batch_invariant: true, ..attention };
    let alone = run(&Op::Attention(same), &[q_view, k_view, v_view, &mask]).unwrap();
    let want: Vec<f64> = alone[1].values::<f32>().into_iter().map(f64::from).collect();
    close(&lse, &want, 2e-6);
}

#[test]
fn in_16_bits() {
    check_16_bits();
}

#[test]
fn a_query_does_not_see_the_others() {
    let [heads, kv, m, n, d] = [4, 2, 70, 90, 64];
    let (q, k, v) = (noise(1, heads * m * d), noise(2, kv * n * d), noise(3, kv * n * d));
    let (k, v) = (Tensor::new(&[kv, n, d], &k), Tensor::new(&[kv, n, d], &v));
    let all = Attention { causal: Some(20), batch_invariant: true, ..plain() };
    let together: Vec<f32> = run1(&Op::Attention(all.clone()), &[&Tensor::new(&[heads, m, d], &q), &k, &v]);
    for i in [0, 1, 31, 50, 69] {
        let alone: Vec<f32> = (0..heads).flat_map(|h| q[(h * m + i) * d..][..d].to_vec()).collect();
        // As in decoding: the cache ends with the query's own key.
        let seen = i + 20 + 1;
        let op = Op::Attention(Attention { causal: Some(20 + i), ..all.clone() });
        let cut = |t: &Tensor| t.layout.slice(1, 0, seen, 1).unwrap();
        let (cut_k, cut_v) = (cut(&k), cut(&v));
        let k = Tensor::new(&[kv, seen, d], &gather(&k, &cut_k));
        let v = Tensor::new(&[kv, seen, d], &gather(&v, &cut_v));
        let single: Vec<f32> = run1(&op, &[&Tensor::new(&[heads, 1, d], &alone), &k, &v]);
        for h in 0..heads {
            assert_eq!(single[h * d..][..d], together[(h * m + i) * d..][..d], "query {i} of head {h}");
        }
    }
}

fn gather(t: &Tensor, layout: &rustorch_core::Layout) -> Vec<f32> {
    let all = t.values::<f32>();
    layout.indices().map(|i| all[i]).collect()
}

#[test]
fn nan_scores_stay() {
    let q = Tensor::new(&[1, 2, 2], &[f32::NAN, 0.0, 1.0, 1.0]);
    let k = Tensor::new(&[1, 3, 2], &[1.0f32; 6]);
    let got: Vec<f32> = run1(&Op::Attention(plain()), &[&q, &k, &k]);
    assert!(got[..2].iter().all(|x| x.is_nan()) && got[2..] == [1.0, 1.0], "{got:?}");
}
