//! How a device rounds, by asking it.

use crate::wgsl::{Module, Wgsl};
use crate::{Arithmetic, Driver, Launch, Window};
use rustorch_core::Fault;

/// 1 + 2⁻¹², and −(1 + 2⁻¹¹): the exact a·a + c is 2⁻²⁴, but 0 where a·a is rounded first.
const A: f32 = 1.000_244_1;
const C: f32 = -1.000_488_3;
/// Half the least normal number.
const TINY: f32 = f32::MIN_POSITIVE / 2.0;
/// Quotients of neighbours and square roots of these are compared with the processor's.
const SAMPLES: usize = 64;
const WORDS: usize = 4 + 3 + 3 * SAMPLES;

fn sample(i: usize) -> f32 {
    // Any numbers will do whose quotients and roots are irregular.
    (1.0 + i as f32 * 0.731).powi(1 + i as i32 % 5) * 0.013
}

/// Runs the probing kernel. Its numbers come from memory, so that no compiler knows them.
pub(super) fn arithmetic<D: Driver>(driver: &D) -> Result<Arithmetic, Fault> {
    let kernel = super::compile(driver, "probe", wgsl())?;
    let len = (4 * WORDS).next_multiple_of(16);
    let memory = driver.allocate(len)?;
    let mut numbers = vec![0.0f32; len / 4];
    numbers[..4].copy_from_slice(&[A, C, TINY, 1.0]);
    for i in 0..SAMPLES {
        numbers[7 + i] = sample(i);
    }
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    driver.write(&memory, 0, &bytes)?;
    driver.launch(&Launch {
        kernel: &kernel,
        buffers: &[Window { memory: &memory, start: 0, bytes: len as u64, writes: true }],
        parameters: &[SAMPLES as u32, 0, 0, 0],
        groups: [1; 3],
        label: "probe",
    })?;
    driver.read(&memory, 0, &mut bytes)?;
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = f32::from_le_bytes(*bytes);
    }
    let divides = (0..SAMPLES).all(|i| {
        let (a, b) = (sample(i), sample((i + 1) % SAMPLES));
        numbers[7 + SAMPLES + i] == a / b && numbers[7 + 2 * SAMPLES + i] == a.sqrt()
    });
    Ok(Arithmetic {
        fused: numbers[4] == f32::EPSILON / 2.0,
        contracts: numbers[5] != 0.0,
        divides,
        subnormals: numbers[6] == TINY,
    })
}

fn wgsl() -> Wgsl {
    let mut module = Module::new();
    module.buffer("x", "array<f32>", true);
    let samples = module.word();
    let body = format!(
        "x[4] = fma(x[0], x[0], x[1]); x[5] = x[0] * x[0] + x[1]; x[6] = x[2] * x[3];
        for (var i = 0u; i < {samples}; i++) {{
            x[{}u + i] = x[7u + i] / x[7u + (i + 1u) % {SAMPLES}u];
            x[{}u + i] = sqrt(x[7u + i]);
        }}",
        7 + SAMPLES,
        7 + 2 * SAMPLES
    );
    module.finish([1, 1, 1], &body)
}
