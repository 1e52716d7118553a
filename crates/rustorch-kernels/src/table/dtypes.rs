//! Sets of dtypes that depend on what the hardware has.

use crate::Hardware;
use rustorch_core::{DType, DTypeSet, QuantType};

/// The dtypes of a row.
#[derive(Clone, Copy, Debug)]
pub struct DTypes {
    /// On every device.
    pub always: &'static [DType],
    /// With 64-bit floats.
    pub f64: &'static [DType],
    /// With 64-bit integers.
    pub i64: &'static [DType],
    /// With 64-bit integers and floats.
    pub both: &'static [DType],
    /// Block types.
    pub blocks: Blocks,
}

/// The block types of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// None.
    None,
    /// These.
    Of(&'static [QuantType]),
    /// All.
    All,
}

impl DTypes {
    /// These on every device.
    pub const fn always(dtypes: &'static [DType]) -> DTypes {
        DTypes { always: dtypes, f64: &[], i64: &[], both: &[], blocks: Blocks::None }
    }

    /// And these with 64-bit floats.
    pub const fn with_f64(self, dtypes: &'static [DType]) -> DTypes {
        DTypes { f64: dtypes, ..self }
    }

    /// And `I64` with 64-bit integers.
    pub const fn with_i64(self) -> DTypes {
        DTypes { i64: &[DType::I64], ..self }
    }

    /// And these with 64-bit integers and floats: functions that take doubles apart.
    pub const fn with_doubles(self, dtypes: &'static [DType]) -> DTypes {
        DTypes { both: dtypes, ..self }
    }

    /// And block types.
    pub const fn with_blocks(self, blocks: Blocks) -> DTypes {
        DTypes { blocks, ..self }
    }

    /// Those of a device.
    pub fn list(self, hardware: &Hardware) -> impl Iterator<Item = DType> {
        let blocks = match self.blocks {
            Blocks::None => &[],
            Blocks::Of(types) => types,
            Blocks::All => QuantType::ALL,
        };
        let when = |has: bool, dtypes: &'static [DType]| if has { dtypes } else { &[] };
        let both = when(hardware.i64 && hardware.f64, self.both);
        [self.always, when(hardware.i64, self.i64), when(hardware.f64, self.f64), both]
            .into_iter()
            .flatten()
            .copied()
            .chain(blocks.iter().map(|&quant| DType::Quant(quant)))
    }

    /// Those of a device, as a set.
    pub fn on(self, hardware: &Hardware) -> DTypeSet {
        self.list(hardware).fold(DTypeSet::EMPTY, DTypeSet::with)
    }
}
