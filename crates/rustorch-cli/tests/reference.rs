//! The same tokens as llama.cpp, for the model that the program carries (see `assets/README.md`).

mod common;

use common::{ids, reference, succeed_json};

#[test]
fn greedy_answers_are_those_of_llama_cpp() {
    let reference = reference();
    let cases = reference["greedy"].as_array().unwrap();
    assert_eq!(cases.len(), 6);
    let mut wrong = Vec::new();
    for case in cases {
        let mut args = vec!["--json", "--temp", "0", "-n", "64"];
        match case["messages"].as_array() {
            Some(messages) => {
                for message in messages {
                    let option = if message["role"] == "system" { "--system" } else { "-p" };
                    args.extend([option, message["content"].as_str().unwrap()]);
                }
            }
            None => args.extend(["--raw", "-p", case["prompt"].as_str().unwrap()]),
        }
        let report = succeed_json(&args);
        assert_eq!(report["prompt_ids"], case["prompt_ids"], "{}", case["prompt"]);
        // llama.cpp's list has the token that ends the answer, if one did.
        let mut expected = ids(&case["ids"]);
        let ended = expected.pop_if(|id| *id == 1).is_some();
        let found = ids(&report["ids"]);
        if found != expected || (report["finish"] == "end") != ended {
            let same = found.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            wrong.push(format!(
                "{}: differs at {same}, smallest margin {}",
                case["prompt"], case["smallest_margin"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
