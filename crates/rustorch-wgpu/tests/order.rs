//! Work is done in the order in which it is given.

mod common;

use common::*;
use rustorch_kernels::Driver;

/// What a sequence of affine maps makes of a value.
fn expected(start: u32, maps: impl IntoIterator<Item = (u32, u32)>) -> u32 {
    maps.into_iter().fold(start, |value, (factor, term)| value.wrapping_mul(factor).wrapping_add(term))
}

#[test]
fn launches_see_writes_and_reads_see_launches() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let values: Vec<u32> = (0..1000).collect();
        let memory = upload(driver, &values);
        affine(driver, &kernel, &memory, 1000, 3, 7);
        let want: Vec<u32> = values.iter().map(|v| v * 3 + 7).collect();
        assert_eq!(download(driver, &memory, 1000), want);
    });
}

#[test]
fn many_launches_run_in_order() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let memory = upload(driver, &[5; 100]);
        let maps: Vec<(u32, u32)> = (0..1000).map(|i| (2 * i + 3, i * i)).collect();
        for &(factor, term) in &maps {
            affine(driver, &kernel, &memory, 100, factor, term);
        }
        assert_eq!(download(driver, &memory, 100), [expected(5, maps); 100]);
    });
}
