//! Device capabilities: supported op classes, dtypes, ranks and layouts.

use crate::{DType, DTypeKind, Decline, Device, Op, OpType, QuantType, TensorMeta};

/// A set of dtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DTypeSet {
    dense: u16,
    quant: u64,
}

impl DTypeSet {
    /// No dtype.
    pub const EMPTY: DTypeSet = DTypeSet { dense: 0, quant: 0 };
    /// Every dtype.
    pub const ALL: DTypeSet = DTypeSet { dense: u16::MAX, quant: u64::MAX };

    /// The set of these dtypes.
    pub fn of(dtypes: &[DType]) -> DTypeSet {
        dtypes.iter().fold(DTypeSet::EMPTY, |set, &dtype| set.with(dtype))
    }

    /// The set and one more.
    pub fn with(mut self, dtype: DType) -> DTypeSet {
        let (dense, quant) = Self::bits(dtype);
        self.dense |= dense;
        self.quant |= quant;
        self
    }

    /// The set but one.
    pub fn without(mut self, dtype: DType) -> DTypeSet {
        let (dense, quant) = Self::bits(dtype);
        self.dense &= !dense;
        self.quant &= !quant;
        self
    }

    /// The set without a family.
    pub fn without_kind(self, kind: DTypeKind) -> DTypeSet {
        let quants = QuantType::ALL.iter().map(|&q| DType::Quant(q));
        DType::DENSE.iter().copied().chain(quants).filter(|d| d.kind() == kind).fold(self, DTypeSet::without)
    }

    /// Whether the set has this dtype.
    #[inline]
    pub fn contains(self, dtype: DType) -> bool {
        let (dense, quant) = Self::bits(dtype);
        self.dense & dense != 0 || self.quant & quant != 0
    }

    #[inline]
    fn bits(dtype: DType) -> (u16, u64) {
        match dtype {
            DType::Quant(q) => (0, 1 << q as u8),
            DType::Bool => (1, 0),
            DType::U8 => (1 << 1, 0),
            DType::I8 => (1 << 2, 0),
            DType::I16 => (1 << 3, 0),
            DType::I32 => (1 << 4, 0),
            DType::U32 => (1 << 5, 0),
            DType::I64 => (1 << 6, 0),
            DType::F16 => (1 << 7, 0),
            DType::BF16 => (1 << 8, 0),
            DType::F32 => (1 << 9, 0),
            DType::F64 => (1 << 10, 0),
            DType::C64 => (1 << 11, 0),
            DType::C128 => (1 << 12, 0),
        }
    }
}

/// What a device can do: the declarative part of [`Backend::supports`](crate::Backend::supports), and what
/// `rustorch-cli devices` shows.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCapability {
    /// The device's name as its driver gives it.
    pub name: String,
    /// The version of the driver, as it gives it; empty where there is none. With the name it tells whether measurements
    /// of the device still hold.
    pub driver: String,
    /// A hash of the sources of its kernels, for the same purpose.
    pub kernels: u64,
    /// For each class of operations, the dtypes in which it computes; index by `OpType as usize`.
    pub dtypes: [DTypeSet; OpType::ALL.len()],
    /// The most dimensions that a tensor may have.
    pub max_ndim: usize,
    /// Whether arguments may be strided; if not, the executor makes them contiguous.
    pub strided: bool,
    /// Whether it writes results over arguments wherever [`Op::may_overwrite`] allows that; some devices do in some operations
    /// ([`Backend::overwrites`](crate::Backend::overwrites)).
    pub in_place: bool,
    /// Memory in bytes, if known.
    pub memory: Option<u64>,
    /// The largest single buffer in bytes, if limited.
    pub max_buffer: Option<u64>,
    /// Other devices whose buffers it reads and writes directly, without a copy.
    pub reaches: Vec<Device>,
}

impl DeviceCapability {
    /// A device that computes every operation in every dtype.
    pub fn complete(name: impl Into<String>) -> DeviceCapability {
        DeviceCapability {
            name: name.into(),
            driver: String::new(),
            kernels: 0,
            dtypes: [DTypeSet::ALL; OpType::ALL.len()],
            max_ndim: usize::MAX,
            strided: true,
            in_place: false,
            memory: None,
            max_buffer: None,
            reaches: Vec::new(),
        }
    }

    /// The dtypes in which it computes a class of operations.
    #[inline]
    pub fn dtypes(&self, class: OpType) -> DTypeSet {
        self.dtypes[class as usize]
    }

    /// Whether the table allows this operation on these arguments: class, dtypes, rank and layout.
    pub fn check(&self, op: &Op, args: &[TensorMeta<'_>]) -> Result<(), Decline> {
        let set = self.dtypes(op.class(args));
        if set == DTypeSet::EMPTY {
            return Err(Decline::Op(op.name()));
        }
        if let Some(dtype) =
            args.iter().map(|x| x.dtype).chain(op.dtype_parameter()).find(|&d| !set.contains(d))
        {
            return Err(Decline::DType(dtype));
        }
        for x in args {
            if x.shape().ndim() > self.max_ndim {
                return Err(Decline::Rank { ndim: x.shape().ndim(), limit: self.max_ndim });
            }
            if !self.strided && !x.layout.is_contiguous() {
                return Err(Decline::Layout("arguments must be contiguous"));
            }
        }
        Ok(())
    }
}
