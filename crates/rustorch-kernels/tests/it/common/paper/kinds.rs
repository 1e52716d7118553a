//! One kernel for each kind and combination of dtypes: what slow compilers are given.

use rustorch_kernels::{Hardware, Kernel};
use rustorch_testkit::conformance::Extent;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

/// What a kernel is, without the numbers of dimensions and the switches that it is specialised for. Sizes of elements stay:
/// they are dtypes to kernels that move bits.
pub fn kind(kernel: &Kernel) -> String {
    let label = kernel.label();
    let mut kind = String::new();
    let mut rest = label.as_str();
    while let Some(c) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (own, after) = rest.split_at(word.max(c.len_utf8()));
        rest = after;
        let number = own.bytes().all(|b| b.is_ascii_digit());
        if (number && !kind.ends_with("size: ")) || own == "true" || own == "false" {
            kind.push('_');
        } else {
            kind.push_str(own);
        }
    }
    while kind.contains("_, _") {
        kind = kind.replace("_, _", "_");
    }
    kind
}

/// The family of a kernel: what its label begins with.
pub fn family(kernel: &Kernel) -> String {
    kernel.label().split(['(', ' ']).next().unwrap_or_default().to_owned()
}

/// The largest kernel of one kind in so many; all kernels, where `RUSTORCH_CONFORMANCE` asks for more than a sample.
pub fn asked_for(share: usize, kernels: Vec<Kernel>, hardware: &Hardware) -> Vec<Kernel> {
    match Extent::from_env(Extent::Sample) {
        Extent::Sample => largest_of_one_in(share, kernels, hardware),
        _ => kernels,
    }
}

/// The largest kernel of one kind in so many, and of the first kind of each family.
pub fn largest_of_one_in(share: usize, kernels: Vec<Kernel>, hardware: &Hardware) -> Vec<Kernel> {
    let mut seen = HashSet::new();
    let kinds = largest_of_each(kernels, hardware).into_iter().enumerate();
    kinds
        .filter(|(i, kernel)| seen.insert(family(kernel)) || i % share == 0)
        .map(|(_, kernel)| kernel)
        .collect()
}

/// The largest kernel of each kind.
pub fn largest_of_each(kernels: Vec<Kernel>, hardware: &Hardware) -> Vec<Kernel> {
    let mut place: HashMap<String, usize> = HashMap::new();
    let mut list: Vec<(usize, Kernel)> = Vec::new();
    for kernel in kernels {
        let size = kernel.wgsl(hardware).code.len();
        let kind = kind(&kernel);
        match place.get(&kind) {
            Some(&i) if list[i].0 >= size => {}
            Some(&i) => list[i] = (size, kernel),
            None => {
                place.insert(kind, list.len());
                list.push((size, kernel));
            }
        }
    }
    list.into_iter().map(|(_, kernel)| kernel).collect()
}

/// How many kernels of each family there are: a table for people, a column for each list.
pub fn table(columns: &[(&str, &[Kernel])]) -> String {
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, (_, kernels)) in columns.iter().enumerate() {
        for kernel in *kernels {
            rows.entry(family(kernel)).or_insert_with(|| vec![0; columns.len()])[i] += 1;
        }
    }
    rows.insert("in all".into(), columns.iter().map(|(_, kernels)| kernels.len()).collect());
    let mut text = format!("{:20}", "");
    columns.iter().for_each(|(name, _)| {
        let _ = write!(text, " {name:>12}");
    });
    for (family, counts) in rows {
        let _ = write!(text, "\n{family:20}");
        counts.iter().for_each(|count| {
            let _ = write!(text, " {count:12}");
        });
    }
    text
}
