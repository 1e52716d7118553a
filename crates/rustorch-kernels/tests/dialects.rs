//! Every kernel translates to every dialect, on a device with every ability and on one with none. That the text compiles is
//! for the tests of the devices' crates, where there is a compiler.

mod common;

use common::kinds::{self, family};
use rustorch_kernels::{Hardware, Kernel, Language, translate};
use rustorch_testkit::conformance::Extent;
use std::collections::{BTreeMap, HashSet};

const LANGUAGES: [(Language, &str); 3] =
    [(Language::Wgsl, "WGSL"), (Language::OpenClC, "OpenCL C"), (Language::CudaC, "CUDA C")];

/// Translates everything; prints how many kernels of each family each language has.
#[allow(clippy::print_stdout, reason = "the table is for people")]
fn check(hardware: Hardware, kernels: Vec<Kernel>) {
    let mut table: BTreeMap<String, [usize; LANGUAGES.len()]> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut count = 0;
    for kernel in kernels {
        count += 1;
        let row = table.entry(family(&kernel)).or_default();
        for (i, (language, name)) in LANGUAGES.into_iter().enumerate() {
            let hardware = Hardware { language, ..hardware.clone() };
            let wgsl = kernel.wgsl(&hardware);
            match translate(&wgsl, language) {
                Ok(text) if text.source.contains(&text.entry) && text.source.len() > 100 => row[i] += 1,
                Ok(text) => failures.push(format!("{kernel:?} in {name}: {}", text.source)),
                Err(error) => failures.push(format!("{kernel:?} in {name}: {error}")),
            }
        }
    }
    println!("{:24} {:>9} {:>9} {:>9}", hardware.name, LANGUAGES[0].1, LANGUAGES[1].1, LANGUAGES[2].1);
    for (family, [wgsl, opencl, cuda]) in &table {
        println!("{family:24} {wgsl:9} {opencl:9} {cuda:9}");
    }
    assert!(count > 40, "only {count} kernels");
    assert!(failures.is_empty(), "{} of {count} fail, the first: {}", failures.len(), failures[0]);
}

#[test]
fn of_a_device_with_everything() {
    let strong = common::strong();
    let kernels = common::kernels(&strong);
    check(strong, kernels);
}

#[test]
fn of_a_device_with_nothing() {
    let weak = common::weak();
    let kernels = common::kernels(&weak);
    check(weak, kernels);
}

#[test]
fn of_parts() {
    check(common::strong(), common::kernels_of_parts());
}

/// What slow compilers are given has every kind of kernel in every combination of dtypes.
#[test]
#[allow(clippy::print_stdout, reason = "the table is for people")]
fn every_kind_has_a_kernel() {
    for hardware in [common::strong(), common::weak()] {
        let all = common::kernels(&hardware);
        let some = kinds::largest_of_each(all.clone(), &hardware);
        println!("{}\n{}", hardware.name, kinds::table(&[("all", &all), ("kinds", &some)]));
        let of = |kernels: &[Kernel]| kernels.iter().map(kinds::kind).collect::<HashSet<_>>();
        assert_eq!(of(&all), of(&some));
        assert_eq!(of(&all).len(), some.len());
        // Ranks and switches are gone, dtypes are not.
        assert!(some.len() * 2 < all.len() && some.len() > 1000, "{} of {}", some.len(), all.len());
    }
}

/// What is run on slow devices is a part that has some of everything.
#[test]
#[allow(clippy::print_stdout, reason = "the number is for people")]
fn the_sample_has_kernels_of_every_family() {
    for hardware in [common::strong(), common::weak()] {
        let all = common::kernels(&hardware);
        let part = common::kernels_of(&Extent::Sample, &hardware);
        println!("{}: {} of {} kernels are in the sample", hardware.name, part.len(), all.len());
        let families = |kernels: &[Kernel]| kernels.iter().map(family).collect::<HashSet<_>>();
        assert_eq!(families(&all), families(&part));
        assert!(part.len() < all.len());
    }
}
