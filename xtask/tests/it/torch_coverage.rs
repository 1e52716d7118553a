//! `docs/pytorch.md` says what the sources do, and rows of what does not exist are noticed.

#[path = "../../src/torch_coverage/mod.rs"]
mod coverage;

use coverage::{COMPILED, COMPOSED, Coverage, PAGE, Surface};
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn the_page_is_what_the_sources_say() {
    let coverage = Coverage::read(root()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    assert!(page == coverage.page(), "{PAGE} is out of date: cargo xtask torch-coverage");
    let compiled = std::fs::read_to_string(root().join(COMPILED)).unwrap();
    assert!(compiled == coverage::compiled(), "{COMPILED} is out of date: cargo xtask torch-coverage");
    assert!(compiled.matches("let _ =").count() > 120, "few expressions are compiled");
    let (all, covered) = coverage.counts();
    assert!(all > 600 && covered * 100 >= all * 85, "{covered} of {all}");
}

#[test]
fn names_are_found_where_they_are_defined() {
    let surface = Surface::read(root()).unwrap();
    // By `fn`, by macros of one and of several names a line, in folders, in traits.
    for name in ["matmul", "exp", "add", "sum", "amax", "max_pool2d", "conv_transpose3d", "eq"] {
        assert!(surface.methods.contains(name), "{name}");
    }
    for name in ["linalg::svd", "fft::rfft", "functional::elu", "signal::windows::hann"] {
        assert!(surface.functions.contains(name), "{name}");
    }
    assert!(surface.any.contains("log_prob") && surface.types.contains("Normal"));
    // Neither what is private, nor methods of others.
    for name in ["expect_spatial", "max_windows", "manual_seed", "numel_of"] {
        assert!(!surface.methods.contains(name), "{name}");
    }
}

#[test]
fn wrong_rows_are_noticed() {
    let surface = Surface::read(root()).unwrap();
    let wrong = |row: (&'static str, &'static str)| {
        let rows: Vec<_> = COMPOSED.iter().copied().chain([row]).collect();
        Coverage::of(&surface, &rows).err().unwrap_or_default()
    };
    assert_eq!(wrong(("no_such_op", "x.add(1)?")), "PyTorch has no no_such_op");
    assert!(wrong(("abs", "x.neg()?")).contains("abs is Tensor::abs, and has a row"));
    assert!(wrong(("T", "x.t()?")).contains("T is composed twice"));
    assert!(wrong(("gcd", "x.no_such_method(2)?")).contains("gcd: there is no method no_such_method"));
    assert!(
        wrong(("gcd", "linalg::no_such_function(&x)?")).contains("there is no function no_such_function")
    );
    assert!(wrong(("gcd", "NoSuchType::new(1)?")).contains("there is no type NoSuchType"));
    assert!(wrong(("gcd", "nn::NoSuchLayer")).contains("there is no module NoSuchLayer"));
    assert!(wrong(("gcd", "x.add(1)?")).contains("gcd is composed and left out"));
    let without: Vec<_> = COMPOSED.iter().copied().filter(|(name, _)| *name != "mT").collect();
    let error = Coverage::of(&surface, &without).err().unwrap();
    assert_eq!(error, "mT is neither ours, nor composed, nor left out");
}
