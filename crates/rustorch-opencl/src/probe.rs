//! How a device rounds, by its own numbers.

use crate::driver::OpenCl;
use rustorch_core::Fault;
use rustorch_kernels::{Arithmetic, Driver, Launch, Text, Window};

/// What numbers the kernel takes and gives.
const SOURCE: &str = "\
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void probe(__global const float* x, __global uint* y) {
    y[0] = as_uint(fma(x[0], x[1], x[2]));
    y[1] = as_uint(x[0] * x[1] + x[2]);
    y[2] = as_uint(x[3] * x[4]);
    y[3] = as_uint(x[5] + x[6]);
}
";

/// Runs a kernel to see whether products and sums are rounded as stated.
pub(crate) fn arithmetic(driver: &OpenCl) -> Result<Arithmetic, Fault> {
    // (1 + 2⁻¹²)² is 1 + 2⁻¹¹ + 2⁻²⁴; the last term is lost if the product is rounded by itself.
    let a = 1.0 + 2.0_f32.powi(-12);
    let subnormal = f32::from_bits(3);
    let input =
        [a, a, -(1.0 + 2.0_f32.powi(-11)), 2.0_f32.powi(-100), 2.0_f32.powi(-40), subnormal, subnormal];
    let kernel = driver.compile(&Text {
        label: "probe",
        source: SOURCE,
        entry: "probe",
        workgroup: [1; 3],
        buffers: 2,
        parameters: 0,
    })?;
    let (x, y) = (driver.allocate(32)?, driver.allocate(16)?);
    let bytes: Vec<u8> = input.iter().flat_map(|value| value.to_ne_bytes()).collect();
    driver.write(&x, 0, &bytes)?;
    driver.launch(&Launch {
        kernel: &kernel,
        buffers: &[
            Window { memory: &x, start: 0, bytes: 32, writes: false },
            Window { memory: &y, start: 0, bytes: 16, writes: true },
        ],
        parameters: &[],
        groups: [1; 3],
        label: "probe",
    })?;
    let mut bytes = [0_u8; 16];
    driver.read(&y, 0, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<4>();
    let result: Vec<f32> = words.iter().map(|word| f32::from_ne_bytes(*word)).collect();
    let once = 2.0_f32.powi(-24);
    Ok(Arithmetic {
        fused: result[0] == once,
        contracts: result[1] != 0.0,
        subnormals: result[2] == 2.0_f32.powi(-140) && result[3] == f32::from_bits(6),
    })
}
