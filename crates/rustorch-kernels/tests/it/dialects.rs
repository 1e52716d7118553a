//! Kernels translate to every dialect, one of one kind in six, in each combination of dtypes, or all with `RUSTORCH_CONFORMANCE=all`: on a
//! device with every ability, on one with none, and a part of them on those of Apple and DirectX. That the source compiles is for the tests of the devices' crates, where there is a compiler, and for
//! `compilers.rs`.

use crate::common::paper as common;
use crate::common::paper::kinds::{self, family};
use crate::common::wgpu;
use crate::common::wgpu::{Target, Written};
use naga::back::hlsl::ShaderModel;
use rustorch_kernels::{Hardware, Kernel, Language, SUBGROUP_EXTENSIONS, translate};
use rustorch_testkit::conformance::Extent;
use std::collections::{BTreeMap, HashSet};

const LANGUAGES: [(Language, &str); 3] =
    [(Language::Wgsl, "WGSL"), (Language::OpenClC, "OpenCL C"), (Language::CudaC, "CUDA C")];

/// Translates everything to `languages`, and as wgpu does for `targets`; prints how many kernels of each family each has.
#[allow(clippy::print_stdout, reason = "the table is for people")]
fn check(hardware: &Hardware, languages: &[(Language, &str)], targets: &[Target], kernels: &[Kernel]) {
    let columns = languages.len() + targets.len();
    let mut table: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut failures = Vec::new();
    // What the driver for OpenCL has asked the device for before it states the abilities.
    let mut had = Vec::new();
    had.extend(hardware.f64.then_some("cl_khr_fp64"));
    had.extend(SUBGROUP_EXTENSIONS.into_iter().filter(|_| hardware.subgroups.is_some()));
    for kernel in kernels {
        let row = table.entry(family(kernel)).or_insert_with(|| vec![0; columns]);
        let mut count = |column: usize, name: &str, result: Result<(), String>| match result {
            Ok(()) => row[column] += 1,
            Err(why) => failures.push(format!("{kernel:?} in {name}: {why}")),
        };
        for (i, &(language, name)) in languages.iter().enumerate() {
            let hardware = Hardware { language, ..hardware.clone() };
            let translated = translate(&kernel.wgsl(&hardware), language).and_then(|text| {
                if text.extensions.iter().any(|needed| !had.contains(needed)) {
                    return Err(format!("needs {:?}", text.extensions));
                }
                whole(&text.source, &text.entry)
            });
            count(i, name, translated);
        }
        let wgsl = kernel.wgsl(hardware);
        let parsed = wgpu::parse(&wgsl);
        for (i, target) in targets.iter().enumerate() {
            let written = parsed.clone().and_then(|parsed| match target.write(&wgsl, &parsed, hardware)? {
                Written::Words(words) if words.len() > 100 => Ok(()),
                Written::Words(words) => Err(format!("{words:x?}")),
                Written::Text(text, entry) => whole(&text, &entry),
            });
            count(languages.len() + i, target.language(), written);
        }
    }
    let names = languages.iter().map(|(_, name)| *name).chain(targets.iter().map(|t| t.language()));
    println!("{:24}{}", hardware.name, names.map(|name| format!(" {name:>9}")).collect::<String>());
    for (family, counts) in &table {
        println!("{family:24}{}", counts.iter().map(|count| format!(" {count:9}")).collect::<String>());
    }
    let count = kernels.len();
    assert!(count > 20, "only {count} kernels");
    assert!(failures.is_empty(), "{} of {count} fail, the first: {}", failures.len(), failures[0]);
}

/// That a source is a kernel's, with its entry point.
fn whole(text: &str, entry: &str) -> Result<(), String> {
    match text.contains(entry) && text.len() > 100 {
        true => Ok(()),
        false => Err(text.to_owned()),
    }
}

fn asked_for(hardware: &Hardware) -> Vec<Kernel> {
    kinds::asked_for(6, common::kernels(hardware), hardware)
}

/// Fewer, of devices between those with everything and with nothing.
fn some_of(hardware: &Hardware) -> Vec<Kernel> {
    kinds::asked_for(24, common::kernels(hardware), hardware)
}

#[test]
fn of_a_device_with_everything() {
    let strong = common::strong();
    check(&strong, &LANGUAGES, &[Target::SpirV(1, 6)], &asked_for(&strong));
}

#[test]
fn of_a_device_with_nothing() {
    let weak = common::weak();
    let targets = [Target::SpirV(1, 0), Target::Msl(2, 2), Target::Hlsl(ShaderModel::V5_1)];
    check(&weak, &LANGUAGES, &targets, &asked_for(&weak));
}

#[test]
fn of_a_device_that_divides_doubles_badly() {
    let hardware = common::divides_doubles_badly();
    // All others have the same source as on a device with everything.
    let mut kernels = asked_for(&hardware);
    kernels.retain(|kernel| kernel.wgsl(&hardware).code != kernel.wgsl(&common::strong()).code);
    check(&hardware, &LANGUAGES, &[Target::SpirV(1, 6)], &kernels);
}

#[test]
fn of_parts_and_rows() {
    let strong = common::strong();
    let kernels = [common::kernels_of_parts(), common::kernels_of_rows(&strong)].concat();
    check(&strong, &LANGUAGES, &[Target::SpirV(1, 6)], &kernels);
}

#[test]
fn of_an_apple_gpu() {
    let apple = common::apple();
    check(&apple, &[], &[Target::Msl(3, 2)], &some_of(&apple));
}

#[test]
fn of_directx() {
    let directx = common::directx();
    check(&directx, &[], &[Target::Hlsl(ShaderModel::V6_2)], &some_of(&directx));
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
    let targets = [Target::SpirV(1, 3), Target::Msl(2, 3), Target::Hlsl(ShaderModel::V6_0)];
    check(&hardware, &LANGUAGES, &targets, &some_of(&hardware));
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
    let expected = [
        "ChannelNorm",
        "ChannelNormBackward",
        "ConvDirect",
        "CrossEntropy",
        "Foreach",
        "LayerNorm",
        "MatVec",
        "NormBackward",
        "Reduce",
        "RmsNorm",
        "Scan",
        "Softmax",
        "SoftmaxBackward",
        "WeightMatMul",
        "WeightMatVec",
    ];
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
