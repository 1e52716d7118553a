//! The cases: every operation with the dtypes and layouts that it takes.

use super::values;
use rustorch_core::{
    AddRmsNorm, Arange, Attention, BinaryOp, Cast, Clamp, CompareOp, Concat, CopyOp, DType, DTypeKind,
    Device, Dims, Distribution, Embedding, Fill, Gather, GatherSum, GatherSumBackward, GluOp, IndexSelect,
    IntMm, LayerNorm, Layout, MatMul, Numerics, Op, Pad, PhiloxKey, Random, Reduce, ReduceOp, RmsNorm,
    RopeParams, RopeStyle, Scalar, Scan, ScanOp, Scatter, ScatterMode, ScatterReduce, ScatterReduction,
    Shape, Softmax, Sort, TensorMeta, TopK, Tri, UnaryOp, Where,
};
use std::fmt;
use std::sync::LazyLock;

/// An argument: all bytes of its memory, and how to see them.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The dtype; of [`cases`] a dense one.
    pub dtype: DType,
    /// The view.
    pub layout: Layout,
    /// The memory.
    pub bytes: Vec<u8>,
}

impl Argument {
    /// The same elements in row-major order; of block types, whose arrangement operations prescribe, as they are.
    pub fn packed(&self) -> Argument {
        if self.dtype.is_quant() {
            return self.clone();
        }
        let size = self.dtype.block_bytes();
        let bytes =
            self.layout.indices().flat_map(|i| &self.bytes[i * size..(i + 1) * size]).copied().collect();
        Argument { dtype: self.dtype, layout: Layout::contiguous(self.layout.shape().clone()), bytes }
    }
}

/// An operation and its arguments.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operation.
    pub op: Op,
    /// Its arguments.
    pub args: Vec<Argument>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of", self.op)?;
        for arg in &self.args {
            write!(f, " {}{} (strides {:?}", arg.dtype, arg.layout.shape(), arg.layout.strides())?;
            if arg.layout.offset() != 0 {
                write!(f, " from {}", arg.layout.offset())?;
            }
            write!(f, ")")?;
        }
        Ok(())
    }
}

/// How the dimensions of an argument lie in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrangement {
    Packed,
    /// The last two dimensions swapped.
    Transposed,
    /// Every second element of a larger tensor, not from its start.
    Stepped,
    /// The first dimension repeated without being there.
    Repeated,
}

pub(super) const ARRANGEMENTS: [Arrangement; 4] =
    [Arrangement::Packed, Arrangement::Transposed, Arrangement::Stepped, Arrangement::Repeated];

/// Empty, single, odd, and with more dimensions than two.
pub(super) const SHAPES: &[&[usize]] = &[&[], &[0], &[1], &[7], &[3, 5], &[2, 0, 3], &[67, 3], &[2, 3, 4, 5]];

pub(super) const FLOATS: &[DType] = &[DType::F16, DType::BF16, DType::F32, DType::F64];

/// The same argument with an eighth of each float.
fn eighth(x: &Argument) -> Argument {
    let values = values::decode(x.dtype, &x.bytes);
    let bytes = values.into_iter().flat_map(|value| values::encode(x.dtype, value.re / 8.0, 0.0)).collect();
    Argument { bytes, ..x.clone() }
}

pub(super) struct Cases {
    list: Vec<Case>,
    seed: u64,
}

/// Every case of the suite. They are made once in a process.
pub fn cases() -> Vec<Case> {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(make);
    CASES.clone()
}

fn make() -> Vec<Case> {
    let mut cases = Cases::new(1);
    cases.pointwise();
    cases.branches();
    cases.fused_pointwise();
    cases.reductions();
    cases.normalisations();
    cases.matmuls();
    cases.weights();
    cases.convolutions();
    cases.indexing();
    cases.creation();
    cases.pooling();
    cases.channel_norms();
    cases.interpolation();
    cases.long_lines();
    cases.decompositions();
    cases.fourier();
    cases.normalised_sums();
    cases.softmax_gradients();
    cases.norm_gradients();
    cases.channel_norm_gradients();
    cases.attention_gradients();
    cases.cross_entropies();
    cases.dropouts();
    cases.recurrences();
    cases.optimizer_steps();
    cases.foreach();
    cases.rnn_gates();
    cases.gather_sums();
    cases.list
}

/// Cases of operations that no GPU has kernels for, which programs on the CPU use: of conditions, of caches of keys and values, and of draws by rejection sampling.
pub fn cpu_cases() -> Vec<Case> {
    let mut cases = Cases::new(3);
    cases.assert();
    cases.kv_cache();
    cases.draws();
    cases.list
}

impl Cases {
    /// None yet; another seed makes other numbers.
    pub(super) fn new(seed: u64) -> Cases {
        Cases { list: Vec::new(), seed }
    }

    pub(super) fn into_list(self) -> Vec<Case> {
        self.list
    }

    /// Adds a case if the operation accepts its arguments.
    pub(super) fn add(&mut self, op: Op, args: Vec<Argument>) {
        let metas: Vec<TensorMeta<'_>> = args
            .iter()
            .map(|arg| TensorMeta { dtype: arg.dtype, layout: &arg.layout, device: Device::CPU })
            .collect();
        if op.infer(&metas).is_ok() {
            self.list.push(Case { op, args });
        }
    }

    pub(super) fn argument(&mut self, dtype: DType, dims: &[usize], how: Arrangement) -> Argument {
        self.within(dtype, dims, how, -3.0, 3.0)
    }

    pub(super) fn within(
        &mut self,
        dtype: DType,
        dims: &[usize],
        how: Arrangement,
        least: f64,
        most: f64,
    ) -> Argument {
        self.seed += 1;
        let (layout, elements) = arrange(dims, how);
        Argument { dtype, bytes: values::bytes(dtype, elements, self.seed, least, most), layout }
    }

    pub(super) fn indices(&mut self, dtype: DType, dims: &[usize], below: usize) -> Argument {
        self.within(dtype, dims, Arrangement::Packed, 0.0, below as f64 - 0.01)
    }

    fn pointwise(&mut self) {
        for &dtype in DType::DENSE {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    for &op in UnaryOp::ALL {
                        let (least, most) = match dtype.kind() {
                            DTypeKind::Float | DTypeKind::Complex if positive(op) => (1.0, 1.99),
                            DTypeKind::Float | DTypeKind::Complex => (-0.99, 0.99),
                            _ => (-3.0, 3.0),
                        };
                        let x = self.within(dtype, dims, how, least, most);
                        self.add(Op::Unary(op), vec![x]);
                    }
                    let x = self.argument(dtype, dims, how);
                    for to in DType::DENSE {
                        self.add(Op::Cast(Cast { to: *to }), vec![x.clone()]);
                    }
                    self.add(
                        Op::Clamp(Clamp { min: Some(Scalar::Int(-1)), max: Some(Scalar::Int(2)) }),
                        vec![x.clone()],
                    );
                    self.add(Op::Copy(CopyOp), vec![x]);
                }
            }
            for (left, right) in broadcasts() {
                for how in ARRANGEMENTS {
                    for &op in BinaryOp::ALL {
                        // Powers and shifts keep to numbers that have a value; no integer is divided by zero.
                        let a = self.within(dtype, left, how, 0.5, 5.0);
                        let b = self.within(dtype, right, Arrangement::Packed, 1.0, 4.0);
                        self.add(Op::Binary(op), vec![a, b]);
                    }
                    let (a, b) = (self.argument(dtype, left, how), self.argument(dtype, right, how));
                    for &op in CompareOp::ALL {
                        self.add(Op::Compare(op), vec![a.clone(), b.clone()]);
                    }
                    for &op in GluOp::ALL {
                        self.add(Op::Glu(op), vec![a.clone(), b.clone()]);
                    }
                    let condition = self.argument(DType::Bool, left, how);
                    self.add(Op::Where(Where), vec![condition, a, b]);
                }
            }
        }
    }

    fn reductions(&mut self) {
        const OPS: &[ReduceOp] = &[
            ReduceOp::Sum,
            ReduceOp::Mean,
            ReduceOp::Prod,
            ReduceOp::Max,
            ReduceOp::Min,
            ReduceOp::ArgMax,
            ReduceOp::ArgMin,
            ReduceOp::Any,
            ReduceOp::All,
            ReduceOp::LogSumExp,
            ReduceOp::Norm,
            ReduceOp::Var { correction: 1.0 },
            ReduceOp::Std { correction: 0.0 },
        ];
        for &dtype in DType::DENSE {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    // Near one, so that a product of many has a size; several of one element have no variance.
                    let x = self.within(dtype, dims, how, 0.75, 1.3);
                    for axes in
                        [vec![], vec![0], vec![dims.len().saturating_sub(1)], (0..dims.len()).collect()]
                    {
                        let reduced: usize =
                            axes.iter().map(|&a| dims.get(a).copied().unwrap_or(1)).product();
                        for &op in OPS {
                            if reduced < 2 && matches!(op, ReduceOp::Var { .. } | ReduceOp::Std { .. }) {
                                continue;
                            }
                            let axes = Dims::from_slice(&axes);
                            self.add(Op::Reduce(Reduce { op, axes, keepdim: false }), vec![x.clone()]);
                        }
                    }
                    for (axis, &len) in dims.iter().enumerate() {
                        for op in [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min] {
                            self.add(Op::Scan(Scan { op, axis }), vec![x.clone()]);
                        }
                        for flag in [false, true] {
                            self.add(Op::Sort(Sort { axis, descending: flag }), vec![x.clone()]);
                            let k = len.min(2);
                            self.add(Op::TopK(TopK { k, axis, largest: flag }), vec![x.clone()]);
                        }
                    }
                }
            }
        }
    }

    fn normalisations(&mut self) {
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    let x = self.argument(dtype, dims, how);
                    for axis in 0..dims.len() {
                        for log in [false, true] {
                            self.add(Op::Softmax(Softmax { axis, log }), vec![x.clone()]);
                        }
                    }
                    for n in 1..=dims.len().min(2) {
                        let affine = &dims[dims.len() - n..];
                        let weight = self.argument(dtype, affine, how);
                        let bias = self.argument(dtype, affine, Arrangement::Packed);
                        let norm = Op::LayerNorm(LayerNorm { dims: n, eps: 1e-5 });
                        self.add(norm.clone(), vec![x.clone()]);
                        self.add(norm, vec![x.clone(), weight.clone(), bias]);
                        let norm = Op::RmsNorm(RmsNorm { eps: 1e-6 });
                        self.add(norm.clone(), vec![x.clone()]);
                        self.add(norm, vec![x.clone(), weight]);
                    }
                    if let [.., seq, dim] = *dims {
                        let positions = self.indices(DType::I32, &[seq], 50);
                        for style in [RopeStyle::Adjacent, RopeStyle::Halves] {
                            let rotated = dim / 2 * 2;
                            let rope = RopeParams { style, rotated, base: 10_000.0, scale: 1.0, yarn: None };
                            self.add(Op::Rope(rope), vec![x.clone(), positions.clone()]);
                        }
                    }
                }
            }
        }
    }

    /// What is added lies as the first does, or packed.
    fn normalised_sums(&mut self) {
        for &dtype in FLOATS {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    let [x, y] = [how, Arrangement::Packed].map(|how| self.argument(dtype, dims, how));
                    let beside = self.argument(dtype, dims, how);
                    let weight = self.argument(dtype, dims.last().map_or(&[], std::slice::from_ref), how);
                    let norm = Op::AddRmsNorm(AddRmsNorm { eps: 1e-6 });
                    self.add(norm.clone(), vec![x.clone(), beside]);
                    self.add(norm, vec![x, y, weight]);
                }
            }
        }
    }

    fn matmuls(&mut self) {
        type Sizes<'a> = (&'a [usize], &'a [usize]);
        const SIZES: &[Sizes<'_>] = &[
            (&[1, 1], &[1, 1]),
            (&[3, 5], &[5, 7]),
            (&[0, 5], &[5, 7]),
            (&[3, 0], &[0, 2]),
            (&[17, 33], &[33, 19]),
            (&[2, 1, 3, 4], &[5, 4, 6]),
        ];
        for &dtype in DType::DENSE {
            for (left, right) in SIZES {
                for how in ARRANGEMENTS {
                    let (a, b) = (self.argument(dtype, left, how), self.argument(dtype, right, how));
                    let bias = self.argument(dtype, &[right[right.len() - 1]], how);
                    // Where no order of sums is promised, numbers below one have the same ones up to the tolerance.
                    for batch_invariant in [true, false] {
                        if !batch_invariant && !FLOATS.contains(&dtype) {
                            continue;
                        }
                        let [a, b, bias] =
                            [&a, &b, &bias].map(|x| if batch_invariant { x.clone() } else { eighth(x) });
                        let plain = MatMul { batch_invariant, ..MatMul::default() };
                        let activated = MatMul { activation: Some(UnaryOp::Relu), ..plain.clone() };
                        if dtype == DType::I8 {
                            self.add(Op::IntMm(IntMm), vec![a.clone(), b.clone()]);
                        }
                        self.add(Op::MatMul(plain), vec![a.clone(), b.clone()]);
                        self.add(Op::MatMul(activated), vec![a, b, bias]);
                    }
                }
            }
            for (heads, kv_heads, m, n) in [(1, 1, 1, 1), (4, 2, 3, 5), (2, 2, 5, 5)] {
                for how in [Arrangement::Packed, Arrangement::Transposed, Arrangement::Stepped] {
                    let q = self.argument(dtype, &[2, heads, m, 6], how);
                    let k = self.argument(dtype, &[2, kv_heads, n, 6], how);
                    let v = self.argument(dtype, &[2, kv_heads, n, 4], how);
                    for causal in [None, Some(n - m)] {
                        let attention = Attention { causal, ..Attention::new(0.4) };
                        self.add(Op::Attention(attention), vec![q.clone(), k.clone(), v.clone()]);
                    }
                }
            }
        }
    }

    /// Activations times weights of another dtype. Block types are tested where their bytes are known.
    fn weights(&mut self) {
        for weight in [DType::F16, DType::BF16] {
            for (m, n, k) in [(1, 1, 1), (1, 19, 33), (17, 7, 40)] {
                for how in [Arrangement::Packed, Arrangement::Transposed, Arrangement::Stepped] {
                    // No order of sums is promised: see `matmuls`.
                    let a = eighth(&self.argument(DType::F32, &[m, k], how));
                    let b = eighth(&self.argument(weight, &[k, n], Arrangement::Transposed));
                    let bias = eighth(&self.argument(DType::F32, &[n], how));
                    for numerics in [Numerics::Ggml, Numerics::F32] {
                        let product = Op::MatMul(MatMul { numerics, ..MatMul::default() });
                        self.add(product.clone(), vec![a.clone(), b.clone()]);
                        self.add(product, vec![a.clone(), b.clone(), bias.clone()]);
                    }
                }
            }
        }
    }

    fn indexing(&mut self) {
        for &dtype in DType::DENSE {
            for &dims in SHAPES {
                for how in ARRANGEMENTS {
                    let x = self.argument(dtype, dims, how);
                    for (axis, &len) in dims.iter().enumerate() {
                        self.add(Op::Concat(Concat { axis }), vec![x.clone(), x.clone(), x.packed()]);
                        if len == 0 {
                            continue;
                        }
                        for index in [DType::I32, DType::I64] {
                            let ids = self.indices(index, &[4], len);
                            self.add(Op::IndexSelect(IndexSelect { axis }), vec![x.clone(), ids]);
                            let ids = self.indices(index, dims, len);
                            self.add(Op::Gather(Gather { axis }), vec![x.clone(), ids.clone()]);
                            for mode in [ScatterMode::Replace, ScatterMode::Add] {
                                self.add(
                                    Op::Scatter(Scatter { axis, mode }),
                                    vec![x.clone(), ids.clone(), x.packed()],
                                );
                            }
                            for (i, &reduction) in ScatterReduction::ALL.iter().enumerate() {
                                let op = ScatterReduce { axis, reduction, include_self: i % 2 == 0 };
                                self.add(Op::ScatterReduce(op), vec![x.clone(), ids.clone(), x.packed()]);
                            }
                        }
                    }
                    if let [rows, _] = *dims {
                        let ids = self.indices(DType::I64, &[2, 3], rows);
                        self.add(Op::Embedding(Embedding), vec![x.clone(), ids]);
                    }
                    let pad = Pad { widths: dims.iter().map(|_| (1, 2)).collect(), value: Scalar::Int(1) };
                    self.add(Op::Pad(pad), vec![x.clone()]);
                    for (upper, diagonal) in [(true, 0), (false, 1), (true, -1)] {
                        self.add(Op::Tri(Tri { upper, diagonal }), vec![x.clone()]);
                    }
                }
            }
        }
    }

    /// Weighted sums of elements at indices, of which some are −1.
    fn gather_sums(&mut self) {
        for dtype in [DType::F32, DType::F64] {
            for (batch, channels, n, terms, points) in [
                (2, 5, 7, 4, 33),
                (1, 4, 30, 5, 17),
                (1, 1, 3, 1, 600),
                (2, 3, 4, 0, 5),
                (2, 0, 4, 2, 5),
                (1, 2, 3, 2, 0),
            ] {
                for how in [Arrangement::Packed, Arrangement::Transposed, Arrangement::Stepped] {
                    let x = eighth(&self.argument(dtype, &[batch, channels, n], how));
                    let grad = eighth(&self.argument(dtype, &[batch, channels, points], how));
                    let weight = eighth(&self.argument(dtype, &[batch, terms, points], how));
                    for index in [DType::I32, DType::I64] {
                        let mut ids = self.indices(index, &[batch, terms, points], n);
                        let size = index.size().unwrap_or(1);
                        ids.bytes.chunks_exact_mut(size).step_by(3).for_each(|id| id.fill(0xFF));
                        self.add(Op::GatherSum(GatherSum), vec![x.clone(), ids.clone(), weight.clone()]);
                        for (of_x, of_weight) in [(true, true), (true, false), (false, true)] {
                            let op = GatherSumBackward { x: of_x, weight: of_weight };
                            let args = vec![grad.clone(), x.clone(), ids.clone(), weight.clone()];
                            self.add(Op::GatherSumBackward(op), args);
                        }
                    }
                }
            }
        }
    }

    fn creation(&mut self) {
        for &dtype in DType::DENSE {
            for &dims in SHAPES {
                let Ok(shape) = Shape::new(dims) else { continue };
                self.add(Op::Fill(Fill { shape: shape.clone(), dtype, value: Scalar::Float(1.5) }), vec![]);
                for distribution in [
                    Distribution::Uniform { low: -1.0, high: 3.0 },
                    Distribution::Normal { mean: 1.0, std: 2.0 },
                    Distribution::Integer { low: -5, high: 9 },
                    Distribution::Bernoulli { p: 0.3 },
                    Distribution::Permutation {},
                ] {
                    let key = PhiloxKey { seed: 42, offset: 5 };
                    self.add(Op::Random(Random { distribution, shape: shape.clone(), dtype, key }), vec![]);
                }
            }
            for len in [0, 1, 100] {
                let arange = Arange { start: Scalar::Int(3), step: Scalar::Int(1), len, dtype };
                self.add(Op::Arange(arange), vec![]);
            }
        }
    }
}

/// Functions that grow or end towards −1, whose arguments are drawn from 1 up.
pub(super) fn positive(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Log | Log2 | Log10 | Log1p | Sqrt | Rsqrt | Reciprocal | Acosh)
}

/// Pairs of shapes that broadcast.
pub(super) fn broadcasts() -> [(&'static [usize], &'static [usize]); 6] {
    [
        (&[], &[]),
        (&[7], &[7]),
        (&[3, 5], &[5]),
        (&[3, 1], &[1, 4]),
        (&[0, 4], &[1]),
        (&[2, 3, 4, 5], &[3, 1, 5]),
    ]
}

/// The layout of a view of this shape, and how many elements the memory behind it has.
fn arrange(dims: &[usize], how: Arrangement) -> (Layout, usize) {
    let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("shapes of cases are small"));
    let ndim = dims.len();
    let view = match how {
        Arrangement::Transposed if ndim >= 2 => {
            let mut swapped = dims.to_vec();
            swapped.swap(ndim - 1, ndim - 2);
            layout(&swapped).transpose(ndim - 1, ndim - 2)
        }
        Arrangement::Stepped if ndim >= 1 => {
            let mut larger = dims.to_vec();
            larger[ndim - 1] = 2 * larger[ndim - 1] + 1;
            let elements = larger.iter().product();
            let view = layout(&larger).slice(ndim - 1, 1, dims[ndim - 1], 2);
            return (view.expect("twice as many and one more leave room"), elements);
        }
        Arrangement::Repeated if ndim >= 2 => {
            let mut one = dims.to_vec();
            one[0] = 1;
            let elements = one.iter().product();
            let shape = Shape::new(dims).expect("shapes of cases are small");
            let view = layout(&one).broadcast_to(&shape, "case");
            return (view.expect("a dimension of length 1 repeats"), elements);
        }
        _ => Ok(layout(dims)),
    };
    (view.expect("two dimensions swap"), dims.iter().product())
}
