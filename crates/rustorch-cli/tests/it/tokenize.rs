//! `tokenize`: text to ids and back.

use crate::common::{MODEL, fail, fail_with, ids, reference, run_with, succeed};

#[test]
fn texts_become_the_ids_of_llama_cpp_and_come_back() {
    let reference = reference();
    let cases = reference["tokenize"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let run = run_with(&["tokenize", "--stdin", "--ids", "--no-bos"], text.as_bytes());
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{text:?}");
        let found: Vec<u32> = serde_json::from_str(&run.out).unwrap();
        assert_eq!(found, ids(&case["ids"]), "{text:?}");
        if !found.is_empty() {
            assert_eq!(succeed(&["tokenize", "--decode", &run.out]), format!("{text}\n"));
        }
    }
}

#[test]
fn each_token_is_shown_with_its_text() {
    assert_eq!(
        succeed(&["tokenize", "ROMEO:\nHail!"]),
        "     0 -> \"<|begin_of_text|>\"\n   839 -> \"ROMEO\"\n    30 -> \":\"\n   203 -> \"\\n\"\n    44 -> \"H\"\n  1087 -> \"ail\"\n     5 -> \"!\"\n"
    );
}

#[test]
fn options_leave_special_tokens_out() {
    assert_eq!(succeed(&["tokenize", "--ids", "<|end|>"]), "[0, 1]\n");
    assert_eq!(succeed(&["tokenize", "--ids", "--no-bos", "<|end|>"]), "[1]\n");
    let plain = succeed(&["tokenize", "--ids", "--no-bos", "--no-special", "<|end|>"]);
    let plain: Vec<u32> = serde_json::from_str(&plain).unwrap();
    assert!(plain.len() > 1 && !plain.contains(&1), "{plain:?}");
    assert_eq!(succeed(&["tokenize", "--decode", "0 839 1"]), "<|begin_of_text|>ROMEO<|end|>\n");
    assert_eq!(succeed(&["tokenize", "--decode", "--no-special", "0 839 1"]), "ROMEO\n");
}

#[test]
fn words_may_be_given_one_by_one_and_from_any_model() {
    let expected = succeed(&["tokenize", "--ids", "Was it he"]);
    assert_eq!(succeed(&["tokenize", "--ids", "Was", "it", "he"]), expected);
    assert_eq!(succeed(&["tokenize", "-m", MODEL, "--ids", "Was it he"]), expected);
    assert_eq!(succeed(&["tokenize", "--decode", "--no-special", "0", "839,", "30"]), "ROMEO:\n");
}

#[test]
fn mistakes_are_named() {
    fail(&["tokenize", "--decode", "5 x"], 2, &["`x` is not a token id"]);
    fail(&["tokenize", "--decode", "5 2048"], 2, &["2048", "out of range", "2048 tokens"]);
    fail(&["tokenize", "--decode", "99999999999"], 2, &["`99999999999` is not a token id"]);
    fail(&["tokenize", "--decode", ""], 2, &["no token ids"]);
    fail(&["tokenize", "--stdin", "text"], 2, &["--stdin"]);
    fail_with(&["tokenize", "--stdin"], b"ab\xff\xfe", 2, &["standard input is not UTF-8"]);
}
