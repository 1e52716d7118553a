//! Packages are those that the oracle has accepted: `tests/fixtures/accepted.json` holds their digests, which `tools/oracle/coreml/run.sh` writes
//! after coremltools has checked and evaluated them.

use crate::cases;
use rustorch_coreml::Package;
use std::collections::BTreeMap;

#[test]
fn every_case_is_one_that_the_oracle_accepted() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/accepted.json");
    let accepted: BTreeMap<String, String> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut emitted = BTreeMap::new();
    for case in cases::all() {
        let constants = case.program.constants();
        let bytes = cases::bytes(&constants);
        let package = Package::with_options(case.program.graph(), &bytes, &case.options).unwrap();
        emitted.insert(case.name, package.digest().unwrap());
    }
    let differ = |name: &&String| accepted.get(*name) != emitted.get(*name);
    let differ: Vec<&String> = emitted.keys().chain(accepted.keys()).filter(differ).collect();
    assert!(
        differ.is_empty(),
        "packages of {differ:?} are not those that the oracle has accepted; ask it by `tools/oracle/coreml/run.sh`, which writes {path}"
    );
}
