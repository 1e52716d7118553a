use crate::testing::{Tensor, close, noise, run, run1};
use rustorch_core::{Attention, AttentionBackward, DType, Dropout, Op, PhiloxKey, Shape, bf16, f16};

fn plain() -> Attention {
    Attention { lse: true, ..Attention::new(0.3) }
}

/// Operands, and a mask `[heads, m, n]` of what is added to scores.
struct Example {
    attention: Attention,
    /// `[heads, kv_heads, m, n, d, e]`.
    sizes: [usize; 6],
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    grad: Vec<f32>,
    mask: Vec<f64>,
}

/// The result, the log-sum-exp and the gradients of queries, keys and values.
struct Results {
    out: Vec<f64>,
    lse: Vec<f64>,
    grads: [Vec<f64>; 3],
}

impl Example {
    fn new(sizes: [usize; 6], attention: Attention) -> Example {
        let [heads, kv, m, n, d, e] = sizes;
        Example {
            q: noise(1, heads * m * d),
            k: noise(2, kv * n * d),
            v: noise(3, kv * n * e),
            grad: noise(4, heads * m * e),
            mask: vec![0.0; heads * m * n],
            sizes,
            attention,
        }
    }

    fn seen(&self, i: usize, j: usize) -> bool {
        let offset = self.attention.causal.unwrap_or(0);
        let hidden = self.attention.causal.is_some() && j > i + offset
            || self.attention.window.is_some_and(|w| j + w <= i + offset);
        !hidden
    }

    /// What dropout multiplies weights with: as it does ones.
    fn masks(&self) -> Vec<f64> {
        let [heads, _, m, n, ..] = self.sizes;
        let ones = vec![1.0; heads * m * n];
        match &self.attention.dropout {
            Some(dropout) => run1(&Op::Dropout(dropout.clone()), &[&Tensor::new(&[heads, m, n], &ones)]),
            None => ones,
        }
    }

    /// The definition and its derivative, in f64, with whole rows of weights.
    fn definition(&self) -> Results {
        let [heads, kv, m, n, d, e] = self.sizes;
        let at = |x: &[f32], i: usize| f64::from(x[i]);
        let scale = f64::from(self.attention.scale);
        let masks = self.masks();
        let (mut out, mut lse) = (Vec::new(), Vec::new());
        let mut grads = [vec![0.0; heads * m * d], vec![0.0; kv * n * d], vec![0.0; kv * n * e]];
        for h in 0..heads {
            let g = h / (heads / kv);
            for i in 0..m {
                let row = h * m + i;
                let dot = |j: usize| {
                    (0..d).map(|x| at(&self.q, row * d + x) * at(&self.k, (g * n + j) * d + x)).sum::<f64>()
                };
                // Scores and their derivatives by the products.
                let scores: Vec<(f64, f64)> = (0..n)
                    .map(|j| match self.attention.softcap.map(f64::from) {
                        Some(cap) => {
                            let t = (dot(j) * scale / cap).tanh();
                            (t * cap, (1.0 - t * t) * scale)
                        }
                        None => (dot(j) * scale, scale),
                    })
                    .collect();
                let weight = |j: usize| match self.seen(i, j) {
                    true => (scores[j].0 + self.mask[row * n + j]).exp(),
                    false => 0.0,
                };
                let total: f64 = (0..n).map(weight).sum();
                lse.push(total.ln());
                let weights: Vec<f64> =
                    (0..n).map(|j| if total == 0.0 { 0.0 } else { weight(j) / total }).collect();
                let value = |j: usize, x: usize| at(&self.v, (g * n + j) * e + x);
                let masks = &masks[row * n..][..n];
                let dropped: Vec<f64> = weights.iter().zip(masks).map(|(w, mask)| w * mask).collect();
                out.extend((0..e).map(|x| (0..n).map(|j| dropped[j] * value(j, x)).sum::<f64>()));
                let grad = |x: usize| at(&self.grad, row * e + x);
                let of_weights: Vec<f64> =
                    (0..n).map(|j| masks[j] * (0..e).map(|x| grad(x) * value(j, x)).sum::<f64>()).collect();
                let along: f64 = weights.iter().zip(&of_weights).map(|(w, g)| w * g).sum();
                for j in 0..n {
                    let of_product = weights[j] * (of_weights[j] - along) * scores[j].1;
                    for x in 0..d {
                        grads[0][row * d + x] += of_product * at(&self.k, (g * n + j) * d + x);
                        grads[1][(g * n + j) * d + x] += of_product * at(&self.q, row * d + x);
                    }
                    for x in 0..e {
                        grads[2][(g * n + j) * e + x] += dropped[j] * grad(x);
                    }
                }
            }
        }
        Results { out, lse, grads }
    }

    /// Queries, keys and values, and the mask.
    fn tensors(&self, mask: Option<Tensor>) -> Vec<Tensor> {
        let [heads, kv, m, n, d, e] = self.sizes;
        let mut tensors = vec![
            Tensor::new(&[heads, m, d], &self.q),
            Tensor::new(&[kv, n, d], &self.k),
            Tensor::new(&[kv, n, e], &self.v),
        ];
        tensors.extend(mask);
        tensors
    }

    /// Checks the result with the log-sum-exp, all gradients, and each alone.
    fn check(&self, mask: Option<Tensor>) {
        let [heads, _, m, _, _, e] = self.sizes;
        let want = self.definition();
        let tensors = self.tensors(mask);
        let forward =
            run(&Op::Attention(self.attention.clone()), &tensors.iter().collect::<Vec<_>>()).unwrap();
        close(&forward[0].values(), &want.out, 2e-6);
        close(&forward[1].values(), &want.lse, 2e-6);
        let grad = Tensor::new(&[heads, m, e], &self.grad);
        let [q, k, v] = [&tensors[0], &tensors[1], &tensors[2]];
        let mut args = vec![&grad, q, k, v, &forward[0], &forward[1]];
        args.extend(tensors.get(3));
        let op = |[q, k, v]: [bool; 3]| {
            Op::AttentionBackward(AttentionBackward { attention: self.attention.clone(), q, k, v })
        };
        let all = run(&op([true; 3]), &args).unwrap();
        for (got, want) in all.iter().zip(&want.grads) {
            close(&got.values(), want, 2e-5);
        }
        for wanted in [[true, false, false], [false, true, false], [false, false, true], [true, false, true]]
        {
            let some = run(&op(wanted), &args).unwrap();
            let same = all.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(x, _)| x);
            for (one, other) in some.iter().zip(same) {
                assert_eq!(
                    one.values::<f32>(),
                    other.values::<f32>(),
                    "other bits where only {wanted:?} are wanted"
                );
            }
        }
    }
}

#[test]
fn agrees_with_the_definition() {
    let cases = [
        ([2, 2, 3, 5, 8, 8], plain()),
        ([4, 2, 7, 70, 20, 12], Attention { causal: Some(63), ..plain() }),
        ([6, 2, 33, 33, 64, 64], Attention { causal: Some(0), ..plain() }),
        ([2, 1, 130, 200, 33, 5], Attention { causal: Some(70), ..plain() }),
        ([1, 1, 400, 130, 4, 9], Attention { scale: -0.2, ..plain() }),
        ([1, 1, 450, 500, 3, 2], Attention { causal: Some(10), window: Some(40), ..plain() }),
        (
            [4, 1, 40, 100, 16, 80],
            Attention { causal: Some(60), window: Some(37), softcap: Some(1.5), ..plain() },
        ),
        ([8, 1, 1, 129, 13, 1], Attention { causal: Some(128), ..plain() }),
        // The last queries see no key.
        ([2, 1, 9, 4, 3, 1], Attention { causal: Some(0), window: Some(2), ..plain() }),
        // The last keys are seen by no query.
        ([1, 1, 5, 150, 3, 2], Attention { causal: Some(1), ..plain() }),
    ];
    for (sizes, attention) in cases {
        Example::new(sizes, attention).check(None);
    }
}

#[test]
fn masks_hide_or_add() {
    let sizes = [4, 2, 6, 150, 16, 16];
    let [heads, _, m, n, ..] = sizes;
    for attention in [plain(), Attention { causal: Some(140), softcap: Some(2.0), ..plain() }] {
        let keep: Vec<bool> = (0..m * n).map(|i| i % 3 != 1 && i / n != 4).collect();
        let mut example = Example::new(sizes, attention);
        example.mask =
            (0..heads * m * n).map(|i| if keep[i % (m * n)] { 0.0 } else { f64::NEG_INFINITY }).collect();
        example.check(Some(Tensor::new(&[m, n], &keep)));
        // Added, with −∞ for whole rows and for single keys.
        let mut add = noise(7, heads * m * n);
        add[3 * n..4 * n].fill(f32::NEG_INFINITY);
        add[5 * n + 7] = f32::NEG_INFINITY;
        example.mask = add.iter().map(|&x| f64::from(x)).collect();
        example.check(Some(Tensor::new(&[heads, m, n], &add)));
        // The same for all keys.
        let add = noise(8, heads * m);
        example.mask = (0..heads * m * n).map(|i| f64::from(add[i / n])).collect();
        example.check(Some(Tensor::new(&[heads, m, 1], &add)));
    }
}

#[test]
fn dropout_has_the_masks_of_its_own_operation() {
    let dropout = |p| Some(Dropout { p, key: PhiloxKey { seed: 77, offset: 5 } });
    let cases = [
        ([2, 2, 3, 5, 8, 8], Attention { dropout: dropout(0.5), ..plain() }),
        ([1, 1, 2, 128, 4, 4], Attention { dropout: dropout(0.1), ..plain() }),
        ([4, 2, 37, 333, 20, 12], Attention { causal: Some(163), dropout: dropout(0.3), ..plain() }),
        (
            [4, 1, 40, 300, 16, 80],
            Attention {
                causal: Some(260),
                window: Some(37),
                softcap: Some(1.5),
                dropout: dropout(0.25),
                ..plain()
            },
        ),
        ([1, 1, 450, 130, 3, 2], Attention { dropout: dropout(0.6), ..plain() }),
        (
            [2, 1, 9, 4, 3, 1],
            Attention { causal: Some(0), window: Some(2), dropout: dropout(0.2), ..plain() },
        ),
        ([2, 1, 9, 40, 3, 1], Attention { dropout: dropout(1.0), ..plain() }),
    ];
    for (sizes, attention) in cases {
        let mut example = Example::new(sizes, attention);
        example.check(None);
        let [_, _, m, n, ..] = sizes;
        let keep: Vec<bool> = (0..m * n).map(|i| i % 3 != 1 && i / n != 4).collect();
        let hidden = |i: usize| if keep[i % (m * n)] { 0.0 } else { f64::NEG_INFINITY };
        example.mask = (0..example.mask.len()).map(hidden).collect();
        example.check(Some(Tensor::new(&[m, n], &keep)));
    }
}

#[test]
fn no_queries_keys_or_columns() {
    for sizes in [[2, 1, 0, 3, 4, 5], [2, 2, 3, 0, 4, 5], [2, 1, 3, 4, 0, 5], [2, 1, 3, 4, 5, 0]] {
        Example::new(sizes, plain()).check(None);
    }
    let none = [Tensor::new::<f32>(&[0, 2, 3], &[]), Tensor::new::<f32>(&[0, 2], &[])];
    let [x, lse] = &none;
    let op = AttentionBackward { attention: plain(), q: true, k: true, v: true };
    for got in run(&Op::AttentionBackward(op), &[x, x, x, x, x, lse]).unwrap() {
        assert!(got.values::<f32>().is_empty());
    }
}

/// In 16 bits, and for a cache of 16 bits, gradients are those of the rounded operands, rounded once.
#[test]
fn sixteen_bits_are_summed_in_f32() {
    let sizes = [4, 2, 37, 45, 24, 20];
    let [heads, kv, m, n, d, e] = sizes;
    let attention = Attention { causal: Some(8), ..plain() };
    let mut example = Example::new(sizes, attention.clone());
    let round = |x: &mut Vec<f32>, to: DType| {
        for x in x {
            *x = if to == DType::F16 { f16::from_f32(*x).to_f32() } else { bf16::from_f32(*x).to_f32() };
        }
    };
    let tensor = |dims: &[usize], x: &[f32], to: DType| match to {
        DType::F16 => Tensor::new(dims, &x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>()),
        DType::BF16 => Tensor::new(dims, &x.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>()),
        _ => Tensor::new(dims, x),
    };
    let values = |x: &Tensor| -> Vec<f32> {
        match x.dtype() {
            DType::F16 => x.values::<f16>().iter().map(|x| x.to_f32()).collect(),
            DType::BF16 => x.values::<bf16>().iter().map(|x| x.to_f32()).collect(),
            _ => x.values(),
        }
    };
    for (queries, keys) in [
        (DType::F32, DType::F16),
        (DType::F32, DType::BF16),
        (DType::F16, DType::F16),
        (DType::BF16, DType::BF16),
    ] {
        example.q = noise(1, heads * m * d);
        example.grad = noise(4, heads * m * e);
        for (x, to) in [
            (&mut example.q, queries),
            (&mut example.k, keys),
            (&mut example.v, keys),
            (&mut example.grad, queries),
        ] {
            if to != DType::F32 {
                round(x, to);
            }
        }
        let want = example.definition();
        let q = tensor(&[heads, m, d], &example.q, queries);
        let k = tensor(&[kv, n, d], &example.k, keys);
        let v = tensor(&[kv, n, e], &example.v, keys);
        let grad = tensor(&[heads, m, e], &example.grad, queries);
        let forward = run(&Op::Attention(attention.clone()), &[&q, &k, &v]).unwrap();
        close(&forward[1].values(), &want.lse, 2e-6);
        let op = AttentionBackward { attention: attention.clone(), q: true, k: true, v: true };
        let got = run(&Op::AttentionBackward(op), &[&grad, &q, &k, &v, &forward[0], &forward[1]]).unwrap();
        for (i, (got, want)) in got.iter().zip(&want.grads).enumerate() {
            assert_eq!(got.dtype(), if i == 0 { queries } else { keys });
            // Half a unit of the last place; and what the result's own rounding does to Σ grad · out, which up to 20 products and
            // 37 rows of magnitude 2 and weights of 1 enter.
            let unit = match (got.dtype(), queries) {
                (DType::F32, DType::F32) => 2e-5,
                (_, DType::BF16) | (DType::BF16, _) => 2f64.powi(-8),
                _ => 2f64.powi(-11),
            };
            close(&values(got), want, if queries == DType::F32 { unit } else { 4.0 * unit });
        }
    }
}

#[test]
fn doubles_have_double_precision() {
    let attention = Attention { causal: Some(40), softcap: Some(3.0), ..plain() };
    let dropout = Some(Dropout { p: 0.3, key: PhiloxKey { seed: 6, offset: 0 } });
    for attention in [Attention { dropout, ..attention.clone() }, attention] {
        expect_double_precision(&Example::new([4, 2, 30, 70, 12, 9], attention));
    }
}

fn expect_double_precision(example: &Example) {
    let [heads, kv, m, n, d, e] = example.sizes;
    let want = example.definition();
    let double =
        |dims: &[usize], x: &[f32]| Tensor::new(dims, &x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let (q, k) = (double(&[heads, m, d], &example.q), double(&[kv, n, d], &example.k));
    let (v, grad) = (double(&[kv, n, e], &example.v), double(&[heads, m, e], &example.grad));
    let forward = run(&Op::Attention(example.attention.clone()), &[&q, &k, &v]).unwrap();
    let op = AttentionBackward { attention: example.attention.clone(), q: true, k: true, v: true };
    let got = run(&Op::AttentionBackward(op), &[&grad, &q, &k, &v, &forward[0], &forward[1]]).unwrap();
    let wants = [&want.out, &want.lse, &want.grads[0], &want.grads[1], &want.grads[2]];
    for (got, want) in forward.iter().chain(&got).zip(wants) {
        for (got, want) in got.values::<f64>().iter().zip(want) {
            assert!((got - want).abs() < 1e-12 * want.abs().max(1.0), "{got} {want}");
        }
    }
}

/// Operands with any strides: heads that lie inside of rows, and one key for all.
#[test]
fn layouts_do_not_matter() {
    let example = Example::new([2, 1, 5, 7, 6, 6], plain());
    let tensors = example.tensors(None);
    let [heads, _, m, n, d, e] = example.sizes;
    let args = [
        Tensor::new(&[heads, m, e], &example.grad),
        Tensor::new(&[heads, m, e], &noise(9, heads * m * e)),
        Tensor::new(&[heads, m], &noise(10, heads * m).iter().map(|x| x.abs() + 3.0).collect::<Vec<_>>()),
    ];
    let [grad, out, lse] = &args;
    let op = Op::AttentionBackward(AttentionBackward { attention: plain(), q: true, k: true, v: true });
    let want = run(&op, &[grad, &tensors[0], &tensors[1], &tensors[2], out, lse]).unwrap();
    // Each with its last two dimensions swapped in memory.
    let swapped = |x: &Tensor, dims: [usize; 3]| {
        let values = x.values::<f32>();
        let turned: Vec<f32> = (0..values.len())
            .map(|i| {
                let (h, rest) = (i / (dims[1] * dims[2]), i % (dims[1] * dims[2]));
                values[h * dims[1] * dims[2] + rest % dims[1] * dims[2] + rest / dims[1]]
            })
            .collect();
        Tensor::new(&[dims[0], dims[2], dims[1]], &turned).with(|l| l.transpose(1, 2).unwrap())
    };
    let others = [
        swapped(grad, [heads, m, e]),
        swapped(&tensors[0], [heads, m, d]),
        swapped(&tensors[1], [1, n, d]),
        swapped(&tensors[2], [1, n, e]),
        swapped(out, [heads, m, e]),
    ];
    let [a, b, c, f, g] = others.each_ref();
    let got = run(&op, &[a, b, c, f, g, lse]).unwrap();
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got.values::<f32>(), want.values::<f32>());
    }
    // All keys are one: weights are equal, and so are the keys' gradients but for their own values.
    let key = noise(11, d);
    let one = Tensor::new(&[1, 1, d], &key)
        .with(|l| l.broadcast_to(&Shape::new(&[1, n, d][..]).unwrap(), "test").unwrap());
    let many = Tensor::new(&[1, n, d], &key.repeat(n));
    let [got, want] = [one, many].map(|k| {
        run1::<f32>(
            &Op::AttentionBackward(AttentionBackward { attention: plain(), q: false, k: true, v: false }),
            &[grad, &tensors[0], &k, &tensors[2], out, lse],
        )
    });
    assert_eq!(got, want);
}
