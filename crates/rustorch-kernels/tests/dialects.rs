//! Every kernel translates to every dialect, on a device with every ability and on one with none. That the text compiles is
//! for the tests of the devices' crates, where there is a compiler.

mod common;

use common::kinds::{self, family};
use rustorch_kernels::{Hardware, Kernel, Language, SUBGROUP_EXTENSIONS, translate};
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
    // What the driver for OpenCL has asked the device for before it states the abilities.
    let mut had = Vec::new();
    had.extend(hardware.f64.then_some("cl_khr_fp64"));
    had.extend(hardware.f16.then_some("cl_khr_fp16"));
    had.extend(SUBGROUP_EXTENSIONS.into_iter().filter(|_| hardware.subgroups.is_some()));
    for kernel in kernels {
        count += 1;
        let row = table.entry(family(&kernel)).or_default();
        for (i, (language, name)) in LANGUAGES.into_iter().enumerate() {
            let hardware = Hardware { language, ..hardware.clone() };
            let wgsl = kernel.wgsl(&hardware);
            match translate(&wgsl, language) {
                Ok(text) if text.extensions.iter().any(|needed| !had.contains(needed)) => {
                    failures.push(format!("{kernel:?} in {name} needs {:?}", text.extensions));
                }
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
fn of_parts_and_rows() {
    let strong = common::strong();
    let kernels = [common::kernels_of_parts(), common::kernels_of_rows(&strong)].concat();
    check(strong, kernels);
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

#[test]
fn of_a_device_with_nothing_but_subgroups() {
    let hardware = Hardware { subgroups: common::strong().subgroups, ..common::weak() };
    let kernels = common::kernels(&hardware);
    check(hardware, kernels);
}

/// Families that put values together do so by subgroups where there are any, and nothing else changes.
#[test]
fn subgroups_are_used_where_a_workgroup_puts_values_together() {
    let without = Hardware { subgroups: None, ..common::strong() };
    let mut families = BTreeMap::new();
    for kernel in common::kernels(&common::strong()) {
        let [with, without] = [&common::strong(), &without].map(|hardware| kernel.wgsl(hardware).code);
        assert!(!without.contains("subgroup"), "{kernel:?}");
        let uses = with.contains("subgroup");
        assert!(uses || with == without, "{kernel:?}");
        *families.entry(family(&kernel)).or_insert(false) |= uses;
    }
    let using: Vec<&str> = families.iter().filter(|(_, uses)| **uses).map(|(name, _)| &**name).collect();
    let expected =
        ["ChannelNorm", "ConvDirect", "LayerNorm", "Reduce", "RmsNorm", "Scan", "Softmax", "WeightProduct"];
    assert_eq!(using, expected);
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
