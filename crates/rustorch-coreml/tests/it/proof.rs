//! What is run on a Mac, run here with fakes in the place of Core ML.

use crate::cases;
use crate::prove::{BY_TURNS, CaseOnCpu, Outcome, Proof, Row, prove};
use rustorch_coreml::PackageInfo;
use std::sync::Arc;

#[test]
fn cases_run_with_each_compute_unit_and_wrong_results_show() {
    let mut outcomes = Vec::new();
    let is_asked = |(i, case): &(usize, cases::Case)| i % 23 == 0 || case.name == "decoder_steps";
    for (_, case) in cases::all().into_iter().enumerate().filter(is_asked) {
        let case = Arc::new(case);
        let rows = [false, true].map(|lies| {
            let folder = tempfile::tempdir().unwrap();
            prove(&CaseOnCpu { case: Arc::clone(&case), lies }, &case.name, &case, folder.path())
        });
        let [right, wrong] = rows;
        let units: Vec<&str> = right.iter().map(|row| &*row.units).collect();
        assert_eq!(units, ["all", "cpu", "cpu-and-gpu", "cpu-and-neural-engine"]);
        for (right, wrong) in right.iter().zip(&wrong) {
            let expected = [Outcome::Right, Outcome::Wrong];
            assert_eq!([right.outcome, wrong.outcome], expected, "{right:?} {wrong:?}");
            outcomes.push(right.outcome);
        }
        // What is sent in reads as it was written.
        let proof = Proof { schema: 1, system: "a fake".to_owned(), fake: true, rows: right };
        let read: Proof = serde_json::from_str(&serde_json::to_string(&proof).unwrap()).unwrap();
        assert_eq!(read.rows, proof.rows);
    }
    assert!(outcomes.iter().filter(|outcome| **outcome == Outcome::Right).count() > 40);
}

#[test]
fn runs_of_a_case_are_two_functions_by_turns() {
    let case = cases::all().into_iter().find(|case| case.name == "decoder_steps").unwrap();
    let case = Arc::new(case);
    let name = format!("decoder_steps{BY_TURNS}");
    for (lies, expected) in [(false, Outcome::Right), (true, Outcome::Wrong)] {
        let folder = tempfile::tempdir().unwrap();
        let rows = prove(&CaseOnCpu { case: Arc::clone(&case), lies }, &name, &case, folder.path());
        assert!(rows.iter().all(|row| row.case == name && row.outcome == expected), "{rows:?}");
        let info = PackageInfo::read(folder.path().join("program.mlpackage")).unwrap();
        let functions: Vec<&str> = info.functions.iter().map(|function| &*function.name).collect();
        assert_eq!(functions, ["even", "odd"]);
    }
}

#[test]
fn a_row_names_what_failed() {
    let row = Row::unfinished("relu", "cpu", Outcome::Failed, Some("compiling: no".to_owned()));
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!((&json["outcome"], &json["message"]), (&"failed".into(), &"compiling: no".into()));
}
