//! Probes of a device: floating-point behaviour and subgroup order, measured by running kernels.

mod answers;

use crate::library::{KEPT, WIDE_F32};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use crate::{Arithmetic, BufferBinding, Driver, Launch, Subgroups};
use answers::{ANSWERS, FIRST, GIVEN, SAMPLES, TOLD, WORDS, in_order, judge, sample};
use rustorch_core::Fault;

/// As many doubles as half of the samples: with their answers no more bytes than those.
const DOUBLES: usize = SAMPLES / 2;

/// Runs the probing kernels. Their numbers come from memory, so that no compiler knows them.
pub(super) fn arithmetic<D: Driver>(driver: &D) -> Result<Arithmetic, Fault> {
    let kernel = super::compile(driver, "probe", wgsl())?;
    let len = (4 * WORDS).next_multiple_of(16);
    let memory = driver.allocate(len)?;
    let mut numbers = vec![0.0f32; len / 4];
    numbers[..ANSWERS].copy_from_slice(&GIVEN);
    for i in 0..SAMPLES {
        numbers[FIRST + i] = sample(i);
    }
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    driver.write(&memory, 0, &bytes)?;
    // SAFETY: the kernel works on the whole of the one memory, for so many elements as it is told.
    unsafe {
        driver.launch(&Launch {
            kernel: &kernel,
            buffers: &[BufferBinding { memory: &memory, start: 0, bytes: len as u64, writes: true }],
            parameters: &[SAMPLES as u32, 0, 0, 0],
            groups: [1; 3],
            label: "probe",
            cache: None,
        })
    }?;
    driver.read(&memory, 0, &mut bytes)?;
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = f32::from_le_bytes(*bytes);
    }
    Ok(judge(&numbers))
}

/// Whether quotients and square roots of doubles are the CPU's, on a device that states to have doubles; `None` where it
/// turns out to have none.
///
/// # Errors
/// If the device is lost or out of memory.
pub(super) fn doubles<D: Driver>(driver: &D) -> Result<Option<bool>, Fault> {
    if !driver.hardware().f64 {
        return Ok(None);
    }
    match divides_doubles(driver) {
        Ok(divides) => Ok(Some(divides)),
        Err(Fault::Backend { message, .. }) => {
            let device = driver.hardware().device;
            tracing::warn!(%device, message, "doubles are not used: their kernel fails");
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

fn divides_doubles<D: Driver>(driver: &D) -> Result<bool, Fault> {
    let kernel = super::compile(driver, "probe doubles", double_wgsl())?;
    let third = 1.0 / 3.0;
    // The second half lies beyond the range of singles, by turns on either side.
    let far = |i: usize| if i.is_multiple_of(2) { 2f64.powi(400) } else { 2f64.powi(-400) };
    let size = |i: usize| if i < DOUBLES / 2 { 1.0 } else { far(i) };
    let number = |i: usize| f64::from(sample(i)) * (1.0 + third * i as f64) * size(i);
    let mut bytes: Vec<u8> = (0..DOUBLES).flat_map(|i| number(i).to_le_bytes()).collect();
    bytes.resize(3 * 8 * DOUBLES, 0);
    let memory = driver.allocate(bytes.len())?;
    driver.write(&memory, 0, &bytes)?;
    // SAFETY: the kernel works on the whole of the one memory, for so many elements as it is told.
    unsafe {
        driver.launch(&Launch {
            kernel: &kernel,
            buffers: &[BufferBinding { memory: &memory, start: 0, bytes: bytes.len() as u64, writes: true }],
            parameters: &[DOUBLES as u32, 0, 0, 0],
            groups: [1; 3],
            label: "probe",
            cache: None,
        })
    }?;
    driver.read(&memory, 0, &mut bytes)?;
    let got: Vec<f64> = bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    Ok((0..DOUBLES).all(|i| {
        let (a, b) = (number(i), number((i + 1) % DOUBLES));
        got[DOUBLES + i] == a / b && got[2 * DOUBLES + i] == a.sqrt()
    }))
}

fn double_wgsl() -> Wgsl {
    let mut module = Module::new();
    module.buffer("x", "array<f64>", true);
    let samples = module.member("samples", "u32");
    let body = format!(
        "for (var i = 0u; i < {samples}; i++) {{
            x[{DOUBLES}u + i] = x[i] / x[(i + 1u) % {DOUBLES}u];
            x[{}u + i] = sqrt(x[i]);
        }}",
        2 * DOUBLES
    );
    module.finish([1, 1, 1], &body)
}

fn wgsl() -> Wgsl {
    let mut module = Module::new();
    module.buffer("x", "array<f32>", true);
    let samples = module.member("samples", "u32");
    module.add(KEPT);
    module.add("fn fused(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }");
    module.add(WIDE_F32);
    let answer = |i| format!("x[{}u]", ANSWERS + i);
    let [fma, sum, tiny, lost, nan] = [0, 1, 2, 3, 4].map(answer);
    let body = format!(
        "{fma} = fma(x[0], x[0], x[1]); {sum} = x[0] * x[0] + x[1]; {tiny} = x[2] * x[3];
        {lost} = wide_add(wide(x[3]), wide(x[4])).y;
        {nan} = select(0.0, 1.0, (bitcast<u32>(x[5] * x[3]) & 0x7fffffffu) > 0x7f800000u);
        for (var i = 0u; i < {samples}; i++) {{
            x[{}u + i] = x[{FIRST}u + i] / x[{FIRST}u + (i + 1u) % {SAMPLES}u];
            x[{}u + i] = sqrt(x[{FIRST}u + i]);
        }}",
        FIRST + SAMPLES,
        FIRST + 2 * SAMPLES
    );
    module.finish([1, 1, 1], &body)
}

/// Workgroups that are looked at.
const GROUPS: usize = 3;
/// The subgroups that a driver states, if kernels may rely on them: invocations are dealt out to subgroups in order, and the
/// next invocation's value is what an exchange gives. No interface promises the first, though devices do it.
///
/// # Errors
/// If the device is lost or out of memory. If it cannot compile the kernel, it has no subgroups for our purposes.
pub(super) fn subgroups<D: Driver>(driver: &D, stated: Subgroups) -> Result<Option<Subgroups>, Fault> {
    let device = driver.hardware().device;
    let kernel = match super::compile(driver, "probe subgroups", subgroup_wgsl()) {
        Ok(kernel) => kernel,
        Err(Fault::Backend { message, .. }) => {
            tracing::warn!(%device, message, "subgroups are not used: their kernel does not compile");
            return Ok(None);
        }
        Err(fault) => return Err(fault),
    };
    let mut bytes = vec![0; 4 * TOLD * GROUPS * WORKGROUP as usize];
    let memory = driver.allocate(bytes.len())?;
    driver.write(&memory, 0, &bytes)?;
    // SAFETY: the kernel works on the whole of the one memory, for so many elements as it is told.
    unsafe {
        driver.launch(&Launch {
            kernel: &kernel,
            buffers: &[BufferBinding { memory: &memory, start: 0, bytes: bytes.len() as u64, writes: true }],
            parameters: &[7, 0, 0, 0],
            groups: [GROUPS as u32, 1, 1],
            label: "probe",
            cache: None,
        })
    }?;
    driver.read(&memory, 0, &mut bytes)?;
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    match words.chunks_exact(TOLD * WORKGROUP as usize).all(|group| in_order(group, stated)) {
        true => Ok(Some(stated)),
        false => {
            tracing::warn!(%device, ?stated, "subgroups are not used: their invocations are not in order");
            Ok(None)
        }
    }
}

fn subgroup_wgsl() -> Wgsl {
    let mut module = Module::new();
    module.buffer("told", "array<u32>", true);
    let factor = module.member("factor", "u32");
    module.use_subgroups();
    let body = format!(
        "let at = (group.x * {WORKGROUP}u + local) * {TOLD}u;
        let value = local * {factor};
        let next = subgroupShuffleDown(value, 1u);
        let before = subgroupShuffleUp(value, 1u);
        told[at] = sub_lane; told[at + 1u] = sub_size; told[at + 2u] = sub_group; told[at + 3u] = sub_groups;
        told[at + 4u] = next; told[at + 5u] = before;"
    );
    module.finish([WORKGROUP, 1, 1], &body)
}
