//! The same tokens as llama.cpp, for the model that the program carries (see `assets/README.md`).
//!
//! One test for each prompt. A prompt that fails may do so by a near tie: the reference names the smallest difference
//! between the best logit and the second.

use crate::common::{ids, reference, succeed_json};

/// The token that ends an answer.
const END: u32 = 1;

/// Answers a prompt of the reference and compares.
fn compare(prompt: &str) {
    let reference = reference();
    let cases = reference["greedy"].as_array().expect("a list");
    let case = cases.iter().find(|case| case["prompt"] == prompt).expect("the reference has the prompt");
    let mut args = vec!["--json", "--temp", "0", "-n", "64"];
    match case["messages"].as_array() {
        Some(messages) => {
            for message in messages {
                let option = if message["role"] == "system" { "--system" } else { "-p" };
                args.extend([option, message["content"].as_str().expect("text")]);
            }
        }
        None => args.extend(["--raw", "--ignore-eos", "-p", prompt]),
    }
    let report = succeed_json(&args);
    assert_eq!(report["prompt_ids"], case["prompt_ids"]);
    let mut expected = ids(&case["ids"]);
    // llama.cpp's list has the token that ended the answer, ours says that one did.
    let finish = if expected.pop_if(|id| *id == END).is_some() { "end" } else { "length" };
    let found = ids(&report["ids"]);
    let same = found.iter().zip(&expected).take_while(|(a, b)| a == b).count();
    assert_eq!(found, expected, "differs at token {same}; smallest margin {}", case["smallest_margin"]);
    assert_eq!(report["finish"], finish);
}

#[test]
fn a_speaker_goes_on_as_in_llama_cpp() {
    compare("First Citizen:\n");
}

#[test]
fn a_text_begins_as_in_llama_cpp() {
    compare("");
}

#[test]
fn half_a_line_goes_on_as_in_llama_cpp() {
    compare("ROMEO:\nWhat light");
}

#[test]
fn a_line_without_a_speaker_goes_on_as_in_llama_cpp() {
    compare("To be, or not to be");
}

#[test]
fn a_turn_is_answered_as_in_llama_cpp() {
    compare("<|user|>\nWhat news, my lord?<|end|>\n<|assistant|>\n");
}

#[test]
fn a_turn_after_a_system_prompt_is_answered_as_in_llama_cpp() {
    compare("<|system|>\nKING HENRY VI:\nLeave us.<|end|>\n<|user|>\nWho are you?<|end|>\n<|assistant|>\n");
}

#[test]
fn every_prompt_of_the_reference_has_a_test() {
    assert_eq!(reference()["greedy"].as_array().expect("a list").len(), 6);
}
