//! The cost model of a device: launch overhead, transfer rates, arithmetic and memory rates.

use crate::{DType, Op, OpKind, OpType, OutputMeta, TensorMeta};

/// How long a device takes for operations and copies: the start, and then arithmetic or memory, whichever is slower.
///
/// The rates of an operation are those measured for it and its [leading dtype](Op::leading_dtype); where there are none,
/// those of its class; of other dtypes of its kind, the slowest; those in `f32`; and at last the general ones. Of matrix
/// matmuls whose [order is fixed](crate::MatMul::allows_reassociation), which no vendor's library does, the class counts first.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// Time to start an operation, in microseconds.
    pub launch_us: f64,
    /// Arithmetic operations per second, where nothing more is known.
    pub flops: f64,
    /// Bytes of operands per second, where nothing more is known.
    pub bandwidth: f64,
    /// What is known of single operations and classes.
    pub rates: Vec<Rate>,
    /// Copies from the CPU's memory.
    pub upload: Link,
    /// Copies to the CPU's memory.
    pub download: Link,
}

/// The rates of an operation, or a class of operations, in one dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Of what.
    pub of: RateOf,
    /// In which dtype.
    pub dtype: DType,
    /// Arithmetic operations per second; infinite where memory alone decides.
    pub flops: f64,
    /// Bytes of operands per second; infinite where arithmetic alone decides.
    pub bandwidth: f64,
}

/// What a [`Rate`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateOf {
    /// An operation.
    Op(OpKind),
    /// Every operation of a class.
    Class(OpType),
}

/// A way between a device's memory and the CPU's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Time to start a copy, in microseconds.
    pub start_us: f64,
    /// Bytes per second.
    pub bandwidth: f64,
}

impl Link {
    /// No way to go: the memory is the same.
    pub const NONE: Link = Link { start_us: 0.0, bandwidth: f64::INFINITY };

    /// The expected time of a copy, in microseconds; none for no bytes.
    pub fn us(&self, bytes: u64) -> f64 {
        if bytes == 0 { 0.0 } else { self.start_us + 1e6 * bytes as f64 / self.bandwidth }
    }
}

impl CostModel {
    /// Of a device about which nothing could be found out: infinite, so that it is chosen last.
    pub const UNKNOWN: CostModel = CostModel {
        launch_us: f64::INFINITY,
        flops: 1.0,
        bandwidth: 1.0,
        rates: Vec::new(),
        upload: Link::NONE,
        download: Link::NONE,
    };

    /// Arithmetic operations and bytes per second of an operation in a dtype.
    pub fn rates(&self, op: OpKind, class: OpType, dtype: DType) -> (f64, f64) {
        self.rates_by(op, class, dtype, false)
    }

    /// [`rates`](Self::rates), of which those of the class may count first.
    fn rates_by(&self, op: OpKind, class: OpType, dtype: DType, class_first: bool) -> (f64, f64) {
        let of_op = |rate: &&Rate| rate.of == RateOf::Op(op);
        let of_class = |rate: &&Rate| rate.of == RateOf::Class(class);
        // The slowest of the rates that fit.
        let slowest = |fits: &dyn Fn(&&Rate) -> bool, of: &dyn Fn(&&Rate) -> bool| {
            let fitting = self.rates.iter().filter(of).filter(fits);
            fitting.map(|r| (r.flops, r.bandwidth)).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
        };
        let same = |rate: &&Rate| rate.dtype == dtype;
        let kin = |rate: &&Rate| rate.dtype.kind() == dtype.kind();
        let single = |rate: &&Rate| rate.dtype == DType::F32;
        let fits: [&dyn Fn(&&Rate) -> bool; 3] = [&same, &kin, &single];
        let of: [&dyn Fn(&&Rate) -> bool; 2] =
            if class_first { [&of_class, &of_op] } else { [&of_op, &of_class] };
        fits.iter()
            .find_map(|fits| of.iter().find_map(|of| slowest(*fits, *of)))
            .unwrap_or((self.flops, self.bandwidth))
    }

    /// The expected time of an operation whose arguments are there, in microseconds.
    pub fn run_us(&self, op: &Op, args: &[TensorMeta<'_>], outs: &[OutputMeta]) -> f64 {
        let work = op.work(args, outs);
        let ordered = matches!(op, Op::MatMul(op) if !op.allows_reassociation(args[0].dtype, args[1].dtype));
        let (class, dtype) = (op.class(args), op.leading_dtype(args, outs));
        let (flops, bandwidth) = self.rates_by(op.kind(), class, dtype, ordered);
        let arithmetic = work.flops as f64 / flops;
        let memory = work.bytes as f64 / bandwidth;
        self.launch_us + 1e6 * arithmetic.max(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Layout, MatMul, QuantType, Shape, UnaryOp};

    const Q4: DType = DType::Quant(QuantType::Q4_0);
    const Q5: DType = DType::Quant(QuantType::Q5_K);
    const Q8: DType = DType::Quant(QuantType::Q8_0);

    fn model() -> CostModel {
        let rate = |of, dtype, flops, bandwidth| Rate { of, dtype, flops, bandwidth };
        let matmul = || RateOf::Op(OpKind::MatMul);
        CostModel {
            launch_us: 2.0,
            flops: 1e9,
            bandwidth: 1e10,
            rates: vec![
                rate(matmul(), DType::F32, 1e12, 2e10),
                rate(matmul(), Q4, 4e11, 8e9),
                rate(matmul(), Q8, 3e11, 9e9),
                rate(RateOf::Class(OpType::LinearAlgebra), DType::F64, 5e11, 1e10),
                rate(RateOf::Class(OpType::Activation), DType::F32, f64::INFINITY, 5e9),
            ],
            upload: Link { start_us: 10.0, bandwidth: 1e9 },
            download: Link::NONE,
        }
    }

    #[test]
    fn the_closest_measurement_counts() {
        let model = model();
        let product = |dtype| model.rates(OpKind::MatMul, OpType::LinearAlgebra, dtype);
        assert_eq!(product(DType::F32), (1e12, 2e10));
        assert_eq!(product(Q4), (4e11, 8e9));
        // An unmeasured block type is as slow as the slowest that was measured, in each respect.
        assert_eq!(product(Q5), (3e11, 8e9));
        // The class in the very dtype counts before the operation in a dtype of the kind.
        assert_eq!(product(DType::F64), (5e11, 1e10));
        assert_eq!(product(DType::C64), (1e12, 2e10));
        assert_eq!(model.rates(UnaryOp::Silu.into(), OpType::Activation, DType::F16), (f64::INFINITY, 5e9));
        assert_eq!(model.rates(OpKind::Sort, OpType::Sorting, DType::F32), (1e9, 1e10));
    }

    #[test]
    fn matmuls_of_a_fixed_order_go_by_their_class() {
        let layout = Layout::contiguous(Shape::new([1000, 1000].as_slice()).unwrap());
        let of_class = |dtype| Rate {
            of: RateOf::Class(OpType::LinearAlgebra),
            dtype,
            flops: 1e11,
            bandwidth: f64::INFINITY,
        };
        let mut model = CostModel { launch_us: 0.0, ..model() };
        let us = |model: &CostModel, op: MatMul, dtypes: [DType; 2]| {
            let args = dtypes.map(|dtype| TensorMeta { dtype, layout: &layout, device: Device::CPU });
            let op = Op::MatMul(op);
            model.run_us(&op, &args, &op.infer(&args).unwrap()).round()
        };
        let plain = || MatMul::default();
        let invariant = || MatMul { batch_invariant: true, ..plain() };
        let single = [DType::F32; 2];
        // Without a rate of the class in the dtype, the operation's.
        assert_eq!([us(&model, plain(), single), us(&model, invariant(), single)], [2000.0; 2]);
        model.rates.push(of_class(DType::F32));
        assert_eq!([us(&model, plain(), single), us(&model, invariant(), single)], [2000.0, 20_000.0]);
        // Weights of 16 bits, whose order is always stated.
        let half = Rate { of: RateOf::Op(OpKind::MatMul), flops: 1e13, ..of_class(DType::F16) };
        model.rates.extend([half, of_class(DType::F16)]);
        assert_eq!(us(&model, plain(), [DType::F16; 2]), 200.0);
        assert_eq!(us(&model, plain(), [DType::F32, DType::F16]), 20_000.0);
    }

    #[test]
    fn time_is_the_start_and_the_slower_of_arithmetic_and_memory() {
        let layout = |dims: &[usize]| Layout::contiguous(Shape::new(dims).unwrap());
        let (a, b) = (layout(&[1000, 1000]), layout(&[1000, 1000]));
        let meta = |layout, dtype| TensorMeta { dtype, layout, device: Device::CPU };
        let op = Op::MatMul(MatMul::default());
        let args = [meta(&a, DType::F32), meta(&b, DType::F32)];
        let us = model().run_us(&op, &args, &op.infer(&args).unwrap());
        assert!((us - 2002.0).abs() < 1e-6, "{us}");
        let op = Op::Unary(UnaryOp::Silu);
        let us = model().run_us(&op, &args[..1], &op.infer(&args[..1]).unwrap());
        assert!((us - 1602.0).abs() < 1e-6, "{us}");
        assert_eq!(CostModel::UNKNOWN.run_us(&op, &args[..1], &[]), f64::INFINITY);
        assert_eq!((model().upload.us(1000), model().upload.us(0), Link::NONE.us(9)), (11.0, 0.0, 0.0));
    }
}
