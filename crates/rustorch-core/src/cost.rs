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
