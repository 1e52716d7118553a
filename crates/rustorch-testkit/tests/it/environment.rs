//! The environment chooses how much tests run.

use rustorch_testkit::child;
use rustorch_testkit::conformance::{Extent, Fuzz};

/// Run by the others, each in an environment of its own.
#[test]
#[ignore = "prints, as other tests want it"]
fn prints_what_it_chooses() {
    println!("{:?}", Extent::from_env(Extent::Sample));
    println!("{:?}", Fuzz::from_env(10));
}

/// What a process with these variables prints; `None` if it fails.
fn chosen(variables: &[(&str, &str)]) -> Option<String> {
    let mut command = child("environment::prints_what_it_chooses");
    for name in
        ["CONFORMANCE_OF", "RUSTORCH_CONFORMANCE", "FUZZ_SEED", "FUZZ_CASES", "FUZZ_SECONDS", "FUZZ_CASE"]
    {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() || said.contains("1 passed"), "{said}");
    output.status.success().then_some(said)
}

#[test]
fn of_the_suite() {
    let extent = |variables: &[(&str, &str)], extent: Extent| {
        let said = chosen(variables).unwrap();
        assert!(said.contains(&format!("{extent:?}\n")), "{said}");
    };
    extent(&[], Extent::Sample);
    extent(&[("RUSTORCH_CONFORMANCE", "all")], Extent::All);
    extent(&[("CONFORMANCE_OF", "add"), ("RUSTORCH_CONFORMANCE", "all")], Extent::Of("add".into()));
    assert_eq!(chosen(&[("RUSTORCH_CONFORMANCE", "some")]), None);
}

#[test]
fn of_random_cases() {
    let fuzz = |variables: &[(&str, &str)], expected: &[&str]| {
        let said = chosen(variables).unwrap();
        assert!(expected.iter().all(|expected| said.contains(expected)), "{said}");
    };
    let unlimited = format!("time: {:?}", std::time::Duration::MAX);
    fuzz(&[], &["seed: 1,", "cases: 10,", &unlimited, "only: None"]);
    fuzz(&[("FUZZ_CASES", "5000"), ("FUZZ_SEED", "7")], &["seed: 7,", "cases: 5000,", &unlimited]);
    fuzz(&[("FUZZ_SECONDS", "9")], &[&format!("cases: {},", usize::MAX), "time: 9s,"]);
    fuzz(&[("FUZZ_CASE", "1a:ff")], &["only: Some((26, 255))"]);
    assert_eq!(chosen(&[("FUZZ_CASES", "many")]), None);
}
