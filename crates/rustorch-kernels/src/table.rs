//! What a device's kernels can do, as one table: the capability that planning asks, the page `docs/devices.md`, and the
//! choice of what the conformance suite runs all come from it.
//!
//! Each family keeps its rows beside its kernels, in a constant `ROWS`. A row says in which dtypes a few operations are
//! computed: on every device, and with 64-bit floats or integers in addition. What a row cannot say in dtypes, it checks.

mod dtypes;
mod markdown;
pub mod sets;

pub use dtypes::{Blocks, DTypes};
pub use markdown::markdown;

use crate::family::{
    attention, border, channel_norm, conv, copy, create, layer_norm, matmul, pointwise, pooling, random,
    reduce, rms_norm, rope, scan, scatter, select, softmax, sort, strided, weight,
};
use crate::{Hardware, pieces};
use rustorch_core::{DType, DTypeSet, Decline, DeviceCapability, Op, OpType, TensorMeta};

/// Decides what dtypes alone do not: shapes, layouts, parameters.
pub type Check = fn(&Op, &[TensorMeta<'_>], &Hardware) -> Result<(), Decline>;

/// Operations that are computed in the same dtypes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    class: OpType,
    ops: &'static [&'static str],
    dtypes: DTypes,
    subject: usize,
    beside: &'static [DType],
    check: Option<Check>,
    remark: &'static str,
}

/// A row: operations by name, their class, their dtypes.
pub const fn row(class: OpType, ops: &'static [&'static str], dtypes: DTypes) -> Row {
    Row { class, ops, dtypes, subject: 0, beside: &[], check: None, remark: "" }
}

impl Row {
    /// Argument `i` is of the row's dtypes, not the first one. (Operations without arguments: the result is.)
    pub const fn subject(self, i: usize) -> Row {
        Row { subject: i, ..self }
    }

    /// Other arguments are of these dtypes: indices, conditions.
    pub const fn beside(self, dtypes: &'static [DType]) -> Row {
        Row { beside: dtypes, ..self }
    }

    /// Whether an operation is computed depends on more.
    pub const fn check(self, check: Check) -> Row {
        Row { check: Some(check), ..self }
    }

    /// What people should know of it, in a few words of Markdown.
    pub const fn remark(self, remark: &'static str) -> Row {
        Row { remark, ..self }
    }

    fn supports(&self, op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
        let dtype = match op {
            Op::Fill(fill) => fill.dtype,
            Op::Arange(arange) => arange.dtype,
            Op::Random(random) => random.dtype,
            _ => args[self.subject].dtype,
        };
        if !self.dtypes.on(hardware).contains(dtype) {
            return Err(Decline::DType(dtype));
        }
        self.check.map_or(Ok(()), |check| check(op, args, hardware))
    }
}

/// The table, by families.
const FAMILIES: &[&[Row]] = &[
    pointwise::ROWS,
    create::ROWS,
    random::ROWS,
    copy::ROWS,
    reduce::ROWS,
    scan::ROWS,
    matmul::ROWS,
    conv::ROWS,
    weight::ROWS,
    softmax::ROWS,
    layer_norm::ROWS,
    rms_norm::ROWS,
    channel_norm::ROWS,
    attention::ROWS,
    rope::ROWS,
    select::ROWS,
    scatter::ROWS,
    border::ROWS,
    sort::ROWS,
    pooling::ROWS,
];

fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().copied().flatten()
}

/// The capability of a device.
pub fn capability(hardware: &Hardware) -> DeviceCapability {
    let mut dtypes = [DTypeSet::EMPTY; OpType::ALL.len()];
    for row in rows() {
        let class = &mut dtypes[row.class as usize];
        *class = row.dtypes.list(hardware).chain(row.beside.iter().copied()).fold(*class, DTypeSet::with);
    }
    DeviceCapability {
        name: hardware.name.clone(),
        driver: hardware.driver.clone(),
        dtypes,
        max_rank: usize::MAX,
        strided: true,
        memory: hardware.memory,
        max_buffer: Some(hardware.max_buffer),
        reaches: Vec::new(),
    }
}

/// Whether there are kernels for an operation on these arguments, beyond what [`capability`] says.
pub fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    for x in args {
        let merged = strided::Grid::new(&[x.layout]).rank();
        if merged > strided::MAX_RANK {
            return Err(Decline::Rank { rank: merged, limit: strided::MAX_RANK });
        }
    }
    let (name, class) = (op.name(), op.class(args));
    let mut why = Decline::Op(name);
    for row in rows().filter(|row| row.class == class && row.ops.contains(&name)) {
        match row.supports(op, args, hardware) {
            Ok(()) => return pieces::foresee(op, args, hardware),
            Err(decline) => why = decline,
        }
    }
    Err(why)
}
