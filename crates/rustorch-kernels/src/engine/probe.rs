//! Probes of a device: floating-point behaviour and subgroup order, measured by running kernels.

use crate::library::{KEPT, WIDE_F32};
use crate::wgsl::{Module, WORKGROUP, Wgsl};
use crate::{Arithmetic, BufferBinding, Driver, Launch, Subgroups};
use rustorch_core::Fault;

/// 1 + 2⁻¹², and −(1 + 2⁻¹¹): the exact a·a + c is 2⁻²⁴, but 0 where a·a is rounded first.
const A: f32 = 1.000_244_1;
const C: f32 = -1.000_488_3;
/// Half the least normal number.
const TINY: f32 = f32::MIN_POSITIVE / 2.0;
/// What is lost beside 1.
const DUST: f32 = 1e-9;
/// The numbers that the kernel is given, and where it leaves its five answers.
const GIVEN: [f32; 6] = [A, C, TINY, 1.0, DUST, f32::NAN];
const ANSWERS: usize = GIVEN.len();
const FIRST: usize = ANSWERS + 5;
/// Quotients of neighbours and square roots of these are compared with the CPU's.
const SAMPLES: usize = 64;
/// As many of doubles: with their answers no more bytes than those.
const DOUBLES: usize = SAMPLES / 2;
const WORDS: usize = FIRST + 3 * SAMPLES;

fn sample(i: usize) -> f32 {
    // Any numbers will do whose quotients and roots are irregular.
    (1.0 + i as f32 * 0.731).powi(1 + i as i32 % 5) * 0.013
}

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
        })
    }?;
    driver.read(&memory, 0, &mut bytes)?;
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = f32::from_le_bytes(*bytes);
    }
    Ok(judge(&numbers))
}

/// What the kernel's answers mean.
fn judge(numbers: &[f32]) -> Arithmetic {
    let divides = (0..SAMPLES).all(|i| {
        let (a, b) = (sample(i), sample((i + 1) % SAMPLES));
        numbers[FIRST + SAMPLES + i] == a / b && numbers[FIRST + 2 * SAMPLES + i] == a.sqrt()
    });
    let answers = &numbers[ANSWERS..];
    Arithmetic {
        fused: answers[0] == f32::EPSILON / 2.0,
        contracts: answers[1] != 0.0,
        divides,
        // For `doubles` to say.
        divides_doubles: false,
        subnormals: answers[2] == TINY,
        faithful: answers[3] == DUST && answers[4] == 1.0,
    }
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
/// What each invocation tells: its number, its subgroup's size and number, how many subgroups there are, and what it got
/// from the next and from the one before it.
const TOLD: usize = 6;

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

/// Whether a workgroup's invocations have told what they should: numbers and subgroups in order, every subgroup but the
/// last as full as the range of sizes says, and values of neighbours.
fn in_order(told: &[u32], stated: Subgroups) -> bool {
    let (mut first, mut number) = (0, 0);
    let at = |local: u32, what: usize| told[local as usize * TOLD + what];
    while first < WORKGROUP {
        let size = at(first, 1);
        let left = WORKGROUP - first;
        let full = size.is_power_of_two() && size >= stated.least;
        if size == 0 || size > left.min(stated.most) || !(full || size == left) {
            return false;
        }
        let right = (0..size).all(|lane| {
            let local = first + lane;
            [at(local, 0), at(local, 1), at(local, 2)] == [lane, size, number]
                && (lane + 1 == size || at(local, 4) == 7 * (local + 1))
                && (lane == 0 || at(local, 5) == 7 * (local - 1))
        });
        if !right {
            return false;
        }
        (first, number) = (first + size, number + 1);
    }
    (0..WORKGROUP).all(|local| at(local, 3) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a workgroup tells whose subgroups have so many invocations.
    fn told(sizes: &[u32]) -> Vec<u32> {
        let mut told = Vec::new();
        for (number, &size) in sizes.iter().enumerate() {
            for lane in 0..size {
                let local = told.len() as u32 / TOLD as u32;
                let neighbours = [7 * (local + 1), (7 * local).wrapping_sub(7)];
                told.extend([lane, size, number as u32, sizes.len() as u32]);
                told.extend(neighbours);
            }
        }
        told
    }

    #[test]
    fn answers_are_understood() {
        let mut numbers = vec![0.0; WORDS];
        for i in 0..SAMPLES {
            let (a, b) = (sample(i), sample((i + 1) % SAMPLES));
            (numbers[FIRST + SAMPLES + i], numbers[FIRST + 2 * SAMPLES + i]) = (a / b, a.sqrt());
        }
        numbers[ANSWERS..FIRST].copy_from_slice(&[A.mul_add(A, C), A * A + C, TINY, DUST, 1.0]);
        let exact = judge(&numbers);
        let all = Arithmetic {
            fused: true,
            contracts: false,
            divides: true,
            divides_doubles: false,
            subnormals: true,
            faithful: true,
        };
        assert_eq!(exact, all);
        let changed = |at: usize, number| {
            let mut numbers = numbers.clone();
            numbers[at] = number;
            judge(&numbers)
        };
        // As compilers are allowed to by fast mathematics: sums lose nothing, there is no NaN, quotients are products.
        assert!(!changed(ANSWERS + 3, 0.0).faithful && !changed(ANSWERS + 4, 0.0).faithful);
        assert!(!changed(FIRST + SAMPLES + 5, numbers[FIRST + SAMPLES + 5] * (1.0 + f32::EPSILON)).divides);
        assert!(changed(ANSWERS + 1, A.mul_add(A, C)).contracts);
        assert!(!changed(ANSWERS + 2, 0.0).subnormals && !changed(ANSWERS, 0.0).fused);
    }

    #[test]
    fn subgroups_in_order_are_used() {
        let range = |least, most| Subgroups { least, most };
        assert!(in_order(&told(&[32, 32]), range(32, 32)));
        assert!(in_order(&told(&[16; 4]), range(8, 32)));
        assert!(in_order(&told(&[1; 64]), range(1, 128)));
        // A partial one: 64 of 128.
        assert!(in_order(&told(&[64]), range(128, 128)));
        // Other sizes than stated, or partial ones before the last.
        assert!(!in_order(&told(&[16; 4]), range(32, 32)));
        assert!(!in_order(&told(&[64]), range(32, 32)));
        assert!(!in_order(&told(&[24, 40]), range(8, 64)));
    }

    #[test]
    fn subgroups_out_of_order_are_not() {
        let stated = Subgroups { least: 32, most: 32 };
        for (what, local) in [(0, 5), (2, 31), (3, 63), (4, 0), (5, 40)] {
            let mut told = told(&[32, 32]);
            told[local * TOLD + what] ^= 1;
            assert!(!in_order(&told, stated), "{what} of {local}");
        }
        // Every second invocation.
        let mut odd = told(&[32, 32]);
        for local in 0..64 {
            odd[local * TOLD] = local as u32 / 2;
            odd[local * TOLD + 2] = local as u32 % 2;
        }
        assert!(!in_order(&odd, stated));
    }
}
