//! How a device rounds, by asking it.

use crate::wgsl::{Module, Wgsl};
use crate::{Arithmetic, Driver, Launch, Window};
use rustorch_core::Fault;

/// 1 + 2⁻¹², and −(1 + 2⁻¹¹): the exact a·a + c is 2⁻²⁴, but 0 where a·a is rounded first.
const A: f32 = 1.000_244_1;
const C: f32 = -1.000_488_3;
/// Half the least normal number.
const TINY: f32 = f32::MIN_POSITIVE / 2.0;

/// Runs the probing kernel. Its numbers come from memory, so that no compiler knows them.
pub(super) fn arithmetic<D: Driver>(driver: &D) -> Result<Arithmetic, Fault> {
    let kernel = super::compile(driver, "probe", wgsl())?;
    let memory = driver.allocate(32)?;
    let mut bytes = [0; 32];
    for (place, value) in bytes.chunks_exact_mut(4).zip([A, C, TINY, 1.0]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    driver.write(&memory, 0, &bytes)?;
    driver.launch(&Launch {
        kernel: &kernel,
        buffers: &[Window { memory: &memory, start: 0, bytes: 32, writes: true }],
        parameters: &[0; 4],
        groups: [1; 3],
        label: "probe",
    })?;
    driver.read(&memory, 0, &mut bytes)?;
    let result =
        |i: usize| f32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);
    Ok(Arithmetic {
        fused: result(4) == f32::EPSILON / 2.0,
        contracts: result(5) != 0.0,
        subnormals: result(6) == TINY,
    })
}

fn wgsl() -> Wgsl {
    let mut module = Module::new();
    module.buffer("x", "array<f32>", true);
    module.finish([1, 1, 1], "x[4] = fma(x[0], x[0], x[1]); x[5] = x[0] * x[0] + x[1]; x[6] = x[2] * x[3];")
}
