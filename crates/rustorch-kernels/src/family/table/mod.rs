//! What a device's kernels can do, as one table: the capability that planning asks, the page `docs/devices.md`, and the
//! choice of what the conformance suite runs all come from it.

mod markdown;

pub use markdown::markdown;

use super::{
    attention, attention_backward, border, causal_conv1d, channel_norm, channel_norm_backward, conv, create,
    cross_entropy, dropout, foreach, gather_sum, layer_norm, matmul, norm_backward, optimizer_step,
    pointwise, pooling, random, recurrence, reduce, rms_norm, rnn_gates, rope, scan, scatter, select,
    slice_update, softmax, softmax_backward, sort, weight,
};
use crate::Hardware;
use crate::library::strided;
use crate::plan::Request;
use crate::splitting::copy;
use crate::table::Row;
use rustorch_core::{DTypeSet, Decline, DeviceCapability, Layout, Op, OpType, OutputMeta, TensorMeta};
use smallvec::SmallVec;

/// The table, by families.
const FAMILIES: &[&[Row]] = &[
    pointwise::ROWS,
    create::ROWS,
    random::ROWS,
    dropout::ROWS,
    foreach::ROWS,
    optimizer_step::ROWS,
    copy::ROWS,
    reduce::ROWS,
    scan::ROWS,
    matmul::ROWS,
    conv::ROWS,
    weight::ROWS,
    softmax::ROWS,
    softmax_backward::ROWS,
    cross_entropy::ROWS,
    layer_norm::ROWS,
    rms_norm::ROWS,
    norm_backward::ROWS,
    channel_norm::ROWS,
    channel_norm_backward::ROWS,
    attention::ROWS,
    attention_backward::ROWS,
    rnn_gates::ROWS,
    causal_conv1d::ROWS,
    recurrence::ROWS,
    rope::ROWS,
    select::ROWS,
    gather_sum::ROWS,
    scatter::ROWS,
    slice_update::ROWS,
    border::ROWS,
    sort::ROWS,
    pooling::ROWS,
];

fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().copied().flatten()
}

/// A hash of this crate's sources, by its build script.
const SOURCES: u64 = match u64::from_str_radix(env!("KERNEL_SOURCES"), 10) {
    Ok(hash) => hash,
    Err(_) => panic!("the build script writes a decimal number"),
};

/// The capability of a device.
pub fn capability(hardware: &Hardware) -> DeviceCapability {
    let mut dtypes = [DTypeSet::EMPTY; OpType::ALL.len()];
    for row in rows() {
        let class = &mut dtypes[row.class as usize];
        *class = row.dtypes.list(hardware).chain(row.beside.iter().copied()).fold(*class, DTypeSet::with);
    }
    // Of a custom op its kernel decides.
    dtypes[OpType::Custom as usize] = DTypeSet::ALL;
    DeviceCapability {
        name: hardware.name.clone(),
        driver: hardware.driver.clone(),
        kernels: SOURCES,
        dtypes,
        max_ndim: usize::MAX,
        strided: true,
        // Kernels bind arguments for reading and outputs for writing, which WebGPU does not allow of one buffer; but for those that
        // update outputs (`Kernels::overwrites`).
        in_place: false,
        memory: hardware.memory,
        max_buffer: Some(hardware.max_buffer),
        reaches: Vec::new(),
    }
}

/// Whether an operation on large operands, or one with a kernel of the user's, will find a plan; others do.
fn foresee(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    // Temporary memory takes less than four times what an operand does.
    let near = |elements: usize, len: usize, size: usize| {
        (elements as u64).div_ceil(len as u64).saturating_mul(4 * size as u64) > hardware.max_binding
    };
    let outs = op.infer(args).map_err(|_| Decline::Attr("arguments that do not fit the operation"))?;
    let large = matches!(op, Op::Custom(_))
        || args.iter().any(|x| near(x.layout.end(), x.dtype.block_len(), x.dtype.block_bytes()))
        || outs.iter().any(|x| near(x.shape.numel(), x.dtype.block_len(), x.dtype.block_bytes()));
    if !large || outs.iter().all(|out| out.shape.numel() == 0) {
        return Ok(());
    }
    let fresh = |out: &OutputMeta| Layout::contiguous(out.shape.clone());
    let layouts: SmallVec<[Layout; 2]> = outs.iter().map(fresh).collect();
    let metas: SmallVec<[TensorMeta<'_>; 2]> = outs
        .iter()
        .zip(&layouts)
        .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device: hardware.device })
        .collect();
    super::plan(&Request::new(op, args, &metas, hardware)).map(|_| ())
}

/// Whether there are kernels for an operation on these arguments, beyond what [`capability`] says.
pub fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    for x in args {
        let merged = strided::Grid::new(&[x.layout]).ndim();
        if merged > strided::MAX_RANK {
            return Err(Decline::Rank { ndim: merged, limit: strided::MAX_RANK });
        }
    }
    if let Op::Custom(_) = op {
        return foresee(op, args, hardware);
    }
    let (kind, class) = (op.kind(), op.class(args));
    let mut why = Decline::Op(kind.name());
    for row in rows().filter(|row| row.class == class && row.ops.contains(&kind)) {
        match row.supports(op, args, hardware) {
            Ok(()) => return foresee(op, args, hardware),
            Err(decline) => why = decline,
        }
    }
    Err(why)
}
