//! What a device's kernels can do, as one table: the capability that planning asks, the page `docs/devices.md`, and the
//! cases of the conformance suite all come from it.

use crate::family::{attention, channel_norm, conv, pointwise, pooling, rms_norm, strided, weight};
use crate::{Hardware, wgsl};
use rustorch_core::{DType, DTypeSet, Decline, DeviceCapability, Op, OpType, TensorMeta};

/// What every device can hold and move.
const STORED: &[DType] = &[
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

/// The capability of a device.
pub fn capability(hardware: &Hardware) -> DeviceCapability {
    let computed = STORED
        .iter()
        .copied()
        .filter(|&dtype| wgsl::holds(dtype, hardware).is_ok())
        .fold(DTypeSet::EMPTY, DTypeSet::with);
    let mut dtypes = [DTypeSet::EMPTY; OpType::ALL.len()];
    for class in [
        OpType::Elementwise,
        OpType::Activation,
        OpType::Comparison,
        OpType::Normalization,
        OpType::Attention,
        OpType::Convolution,
        OpType::Pooling,
    ] {
        dtypes[class as usize] = computed;
    }
    let weights = weight::types().fold(DTypeSet::of(&[DType::F32, DType::I32, DType::I64]), DTypeSet::with);
    dtypes[OpType::LinearAlgebra as usize] = weights;
    dtypes[OpType::DataMovement as usize] = DTypeSet::ALL;
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
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Where | Op::Gate(_) | Op::Cast(_) => {
            pointwise::supports(op, args, hardware)
        }
        Op::Copy if !args[0].dtype.is_quant() || args[0].layout.is_contiguous() => Ok(()),
        Op::Copy => Err(Decline::Layout("block types are copied where they are contiguous")),
        Op::RmsNorm(_) => {
            rms_norm::supports(args[0].dtype)?;
            let len = args[0].dims()[args[0].dims().len() - 1];
            match len.is_multiple_of(wgsl::per_word(args[0].dtype)) {
                true => Ok(()),
                false => Err(Decline::Layout("rows of 16-bit numbers must be of even length")),
            }
        }
        Op::Rope(_) => rms_norm::supports(args[0].dtype),
        Op::Attention(_) => attention::supports(args),
        Op::MatMul(_) | Op::ExpertMatMul { .. } if args[1].dtype.is_quant() => {
            weight::supports(op, args, hardware)
        }
        Op::Conv(_) | Op::ConvBackwardData(_) | Op::ConvBackwardWeight(_) => {
            conv::supports(op, args, hardware)
        }
        Op::BatchNorm(_) | Op::GroupNorm(_) => channel_norm::supports(op, args),
        Op::MaxPool(_)
        | Op::AvgPool(_)
        | Op::AdaptiveMaxPool(_)
        | Op::AdaptiveAvgPool(_)
        | Op::MaxPoolBackward { .. }
        | Op::AvgPoolBackward { .. }
        | Op::AdaptiveAvgPoolBackward { .. }
        | Op::Interpolate(_) => pooling::supports(op, args, hardware),
        op => Err(Decline::Op(op.name())),
    }
}
