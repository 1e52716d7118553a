//! What the probing kernels are given and answer, and what the answers mean.

use crate::wgsl::WORKGROUP;
use crate::{Arithmetic, Subgroups};

/// 1 + 2⁻¹², and −(1 + 2⁻¹¹): the exact a·a + c is 2⁻²⁴, but 0 where a·a is rounded first.
const A: f32 = 1.000_244_1;
const C: f32 = -1.000_488_3;
/// Half the least normal number.
const TINY: f32 = f32::MIN_POSITIVE / 2.0;
/// What is lost beside 1.
const DUST: f32 = 1e-9;
/// The numbers that the kernel is given, and where it leaves its five answers.
pub(super) const GIVEN: [f32; 6] = [A, C, TINY, 1.0, DUST, f32::NAN];
pub(super) const ANSWERS: usize = GIVEN.len();
pub(super) const FIRST: usize = ANSWERS + 5;
/// Quotients of neighbours and square roots of these are compared with the CPU's.
pub(super) const SAMPLES: usize = 64;
pub(super) const WORDS: usize = FIRST + 3 * SAMPLES;

pub(super) fn sample(i: usize) -> f32 {
    // Any numbers will do whose quotients and roots are irregular.
    (1.0 + i as f32 * 0.731).powi(1 + i as i32 % 5) * 0.013
}

/// What the kernel's answers mean.
pub(super) fn judge(numbers: &[f32]) -> Arithmetic {
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

/// What each invocation tells: its number, its subgroup's size and number, how many subgroups there are, and what it got
/// from the next and from the one before it.
pub(super) const TOLD: usize = 6;

/// Whether a workgroup's invocations have told what they should: numbers and subgroups in order, every subgroup but the
/// last as full as the range of sizes says, and values of neighbours.
pub(super) fn in_order(told: &[u32], stated: Subgroups) -> bool {
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
